// GET /page/events: sends the engine's activity as server-sent events to the page's live panel.
//
// There are two kinds of events; docs/clients.md lists their members. `model` is sent first and after each
// change of placement: layers, buckets, placement, memory. `frame` is sent a few times a second: requests,
// slots, KV cache, tokens per second, and the neurons that were active in a sampled step. The number of
// streams is limited, so that streams cannot occupy all threads of the server. The engine samples steps only
// while there is a stream. Thread-safe: HTTP threads call stream(), and any thread may call close().
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "engine/activity/live_activity.h"
#include "engine/engine.h"
#include "kernels/base/mutex.h"
#include "server/api/api_context.h"
#include "server/http/response_writer.h"

namespace hearth {

class LiveEvents {
 public:
  static constexpr int kMaxStreams = 8;
  static constexpr std::chrono::milliseconds kFrameInterval{250};
  /// A frame without changes is skipped unless this much time has passed since the last frame was sent.
  static constexpr std::chrono::milliseconds kSilence{2000};

  struct Source {
    const TokenGenerator& engine;
    LiveActivity& live;
    std::string model, device;  // display names
  };
  using Clock = std::function<std::chrono::steady_clock::time_point()>;  // called by any thread
  /// The objects to which `source` refers must outlive this object. REQUIRES for the destructor: no call of
  /// stream() is running.
  explicit LiveEvents(Source source, std::chrono::milliseconds frame_interval = kFrameInterval,
                      Clock now = std::chrono::steady_clock::now)
      : source_(std::move(source)), frame_interval_(frame_interval), now_(std::move(now)) {}

  /// Writes events until the client disconnects, the engine fails or close() is called. Answers with status
  /// 503 if there are already kMaxStreams streams, or after close().
  void stream(ResponseWriter& writer);
  /// Ends all streams and refuses new ones.
  void close();

 private:
  class Place;
  std::optional<HttpResponse> enter();
  void send_events(ResponseWriter& writer);
  bool wait();

  const Source source_;
  const std::chrono::milliseconds frame_interval_;
  const Clock now_;

  Mutex mutex_;
  std::condition_variable_any closes_;
  int n_streams_ HEARTH_GUARDED_BY(mutex_) = 0;
  bool closed_ HEARTH_GUARDED_BY(mutex_) = false;
};

/// Handles requests for /page/events. REQUIRES: the server has a page.
void page_events(const ApiContext& api, const HttpRequest& request, std::string_view argument,
                 ResponseWriter& writer);

}  // namespace hearth
