// Stores responses, so that clients can retrieve and continue them, and cancel them while they are generated.
//
// Responses are stored in memory only. Their number, bytes and age are limited, and the least recently used
// response is dropped first. Each ApiContext has one ResponseStore. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/base/mutex.h"
#include "server/api/answer/answer_control.h"
#include "server/json/json.h"

namespace hearth {

struct KeptResponse {
  std::string previous_id;                      // id of the response that this response continues, or empty
  std::shared_ptr<const Json> input;            // the input items of this response, with ids; not null
  std::shared_ptr<const Json> response;         // the response object; not null
  std::shared_ptr<AnswerControl> control = {};  // cancels the response; null after the response has ended
};

/// Limits of a store. They are far above what the conversations of one household need in a day.
struct ResponseStoreLimits {
  size_t max_responses = 1024;
  size_t max_bytes = size_t{64} << 20;                    // sum of json_bytes() over inputs and responses
  std::chrono::seconds max_age = std::chrono::hours(24);  // since the last use
};

class ResponseStore {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  explicit ResponseStore(Clock now, ResponseStoreLimits limits = {});

  /// Stores a response under a new id. Does nothing if this response alone is larger than max_bytes.
  void put(const std::string& id, KeptResponse response);

  /// Replaces a stored response by its final state and removes `control`. Does nothing if the response is no
  /// longer stored.
  void end(const std::string& id, std::shared_ptr<const Json> response);

  /// Returns false if the response is not stored.
  bool erase(const std::string& id);

  std::optional<KeptResponse> find(const std::string& id);

  /// Returns the response and all responses that precede it, oldest first, and marks them as used. If one of
  /// them is not stored, returns an empty vector and sets `missing` to its id.
  std::vector<KeptResponse> conversation(const std::string& id, std::string& missing);

  /// Searches the stored inputs and outputs, and returns the items that have one of these ids.
  std::map<std::string, Json> items(const std::set<std::string>& ids);

  size_t size() const;
  size_t bytes() const;

 private:
  struct Entry {
    std::string id;
    KeptResponse kept;
    size_t bytes = 0;
    std::chrono::steady_clock::time_point used;
  };
  using Entries = std::list<Entry>;

  void make_room() HEARTH_REQUIRES(mutex_);
  Entry* use(const std::string& id) HEARTH_REQUIRES(mutex_);
  void remove(Entries::iterator entry) HEARTH_REQUIRES(mutex_);

  const Clock now_;
  const ResponseStoreLimits limits_;
  mutable Mutex mutex_;
  Entries entries_ HEARTH_GUARDED_BY(mutex_);  // most recently used first
  std::unordered_map<std::string, Entries::iterator> by_id_ HEARTH_GUARDED_BY(mutex_);
  size_t bytes_ HEARTH_GUARDED_BY(mutex_) = 0;
};

/// Returns the approximate memory of a value in bytes.
size_t json_bytes(const Json& json);

}  // namespace hearth
