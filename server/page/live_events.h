// GET /page/events: what the engine does, as server-sent events, for the page's live panel.
//
// Two kinds: `model` first, and again when the model was placed anew (what there is: layers, buckets, placement, memory),
// and `frame` a few times a second (requests, slots, keys and values, tokens a second, and the neurons that fired in a
// sampled step). docs/clients.md has their members. Streams are few, so that nobody can take the server's threads; while there
// is one the engine samples steps. Thread-safe: HTTP threads call stream(), any thread close().
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <string>
#include <utility>

#include "engine/activity/live_activity.h"
#include "engine/engine.h"
#include "kernels/base/mutex.h"
#include "server/api/api_context.h"
#include "server/http/http_types.h"

namespace hearth {

class LiveEvents {
 public:
  static constexpr int kMaxStreams = 8;
  static constexpr std::chrono::milliseconds kFrameInterval{250};
  /// A frame that says nothing new is left out, but not for longer than this.
  static constexpr std::chrono::milliseconds kSilence{2000};

  struct Source {
    const TokenGenerator& engine;
    LiveActivity& live;
    std::string model, device;  // names, for people
  };
  using Clock = std::function<std::chrono::steady_clock::time_point()>;  // read by any thread
  /// What the source refers to outlives this object, and this object outlives the responses of stream().
  explicit LiveEvents(Source source, std::chrono::milliseconds frame_interval = kFrameInterval,
                      Clock now = std::chrono::steady_clock::now)
      : source_(std::move(source)), frame_interval_(frame_interval), now_(std::move(now)) {}

  /// The stream; 503 with a sentence if there are kMaxStreams already, or after close().
  HttpResponse stream();
  /// Ends all streams, and refuses others.
  void close();

 private:
  class Place;
  bool send(ResponseSink& sink);
  bool wait();

  const Source source_;
  const std::chrono::milliseconds frame_interval_;
  const Clock now_;

  Mutex mutex_;
  std::condition_variable_any closes_;
  int n_streams_ HEARTH_GUARDED_BY(mutex_) = 0;
  bool closed_ HEARTH_GUARDED_BY(mutex_) = false;
};

/// The handler of the endpoint.
HttpResponse page_events(const ApiContext& api, const HttpRequest& request, std::string_view argument);

}  // namespace hearth
