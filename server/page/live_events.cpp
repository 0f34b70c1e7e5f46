// See the header.
#include "server/page/live_events.h"

#include <memory>
#include <utility>

#include "server/http/error_response.h"
#include "server/json/api_error.h"
#include "server/page/live_json.h"

namespace hearth {
namespace {

std::string event_text(const char* type, const Json& data) {
  return std::string("event: ") + type + "\ndata: " + json_text(data) + "\n\n";
}

}  // namespace

/// One open stream. enter() has added it to n_streams_, and the destructor subtracts it.
class LiveEvents::Place {
 public:
  explicit Place(LiveEvents& events) : events_(events), watch_(events.source_.live) {}
  ~Place() {
    const MutexLock lock(events_.mutex_);
    --events_.n_streams_;
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  LiveEvents& events_;
  LiveActivity::Watch watch_;
};

void LiveEvents::stream(ResponseWriter& writer) {
  if (std::optional<HttpResponse> refusal = enter()) return writer.send(std::move(*refusal));
  const Place place(*this);
  if (writer.begin("text/event-stream", {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}}))
    send_events(writer);
  writer.finish();
}

/// Counts a new stream. Returns nullopt, or the response if the stream is refused.
std::optional<HttpResponse> LiveEvents::enter() {
  const MutexLock lock(mutex_);
  if (closed_)
    return error_response({503, "the server is stopping; try again when it is back", "", "server_stopping"},
                          ErrorStyle::kOpenAi);
  if (n_streams_ == kMaxStreams) {
    HttpResponse refusal =
        error_response({503,
                        "there are " + std::to_string(kMaxStreams) +
                            " streams of events already, and no more at a time; close a page "
                            "that shows its live panel",
                        "", "too_many_streams"},
                       ErrorStyle::kOpenAi);
    refusal.headers.emplace_back("Retry-After", "5");
    return refusal;
  }
  ++n_streams_;
  return std::nullopt;
}

void LiveEvents::close() {
  {
    const MutexLock lock(mutex_);
    closed_ = true;
  }
  closes_.notify_all();
}

/// Waits until it is time for the next frame. Returns false if the streams must end.
bool LiveEvents::wait() {
  MutexLock lock(mutex_);
  closes_.wait_for(lock.for_wait(), frame_interval_, [this]() HEARTH_REQUIRES(mutex_) { return closed_; });
  return !closed_;
}

/// Sends events until the client disconnects, close() is called, or the engine fails.
void LiveEvents::send_events(ResponseWriter& writer) {
  using TimePoint = std::chrono::steady_clock::time_point;
  const TimePoint begin = now_();
  TimePoint sent;
  LivePlacement placement;
  LiveStep step;
  Levels cached;
  TokenRate rate;
  Json before;
  source_.live.latest(step);  // discards a step that was sampled before the stream began
  do {
    if (!writer.client_alive()) return;
    const TimePoint now = now_();
    const double seconds = std::chrono::duration<double>(now - begin).count();
    if (source_.live.placement_number() != placement.number) {
      placement = source_.live.placement();
      cached.clear();
      if (!writer.write(event_text("model", model_event(source_.model, source_.device, placement)))) return;
    }
    const EngineStatus status = source_.engine.status();
    if (status.failed) return;
    Json frame = frame_event(seconds, status, source_.engine.figures(),
                             rate.add(seconds, status.n_generated_tokens), placement);
    const bool fired = source_.live.latest(step);
    if (fired) frame["fired"] = fired_json(step);
    if (Levels now_cached = source_.live.cached(); placement.has_cache && now_cached != cached) {
      cached = std::move(now_cached);
      frame["cached"] = level_digits(cached);
    }
    const Json seconds_of_frame = std::exchange(frame["seconds"], 0);
    if (frame == before && now - sent < kSilence) continue;
    before = frame;
    frame["seconds"] = seconds_of_frame;
    if (!writer.write(event_text("frame", frame))) return;
    sent = now;
  } while (wait());
}

void page_events(const ApiContext& api, const HttpRequest& /*request*/, std::string_view /*argument*/,
                 ResponseWriter& writer) {
  api.model().live_events->stream(writer);
}

}  // namespace hearth
