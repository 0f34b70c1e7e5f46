// Responses that are kept, so that they can be asked for again, gone on from, and ended while they are generated.
//
// In memory only, within a bound of number, bytes and age; the one that was used least recently goes first. One store for the
// process (ApiContext), used by all HTTP threads at once.
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
  std::string previous_id;                      // the response that it goes on from; empty: none
  std::shared_ptr<const Json> input;            // its own items, each with an id; not null
  std::shared_ptr<const Json> response;         // the response as its client gets it; not null
  std::shared_ptr<AnswerControl> control = {};  // ends it; null: it has ended
};

/// Bounds of a store. Both bytes and number are far above what one household's conversations need in a day.
struct ResponseStoreLimits {
  size_t max_responses = 1024;
  size_t max_bytes = size_t{64} << 20;  // as json_bytes() counts, of inputs and responses together
  std::chrono::seconds max_age = std::chrono::hours(24);  // since the last use
};

class ResponseStore {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;
  explicit ResponseStore(Clock now, ResponseStoreLimits limits = {});

  /// Keeps a response under a new id. One that is larger than the whole store is not kept.
  void put(const std::string& id, KeptResponse response);

  /// The response as it has ended; its control goes. Nothing happens if it is not kept any more.
  void end(const std::string& id, std::shared_ptr<const Json> response);

  /// False: it is not kept.
  bool erase(const std::string& id);

  std::optional<KeptResponse> find(const std::string& id);

  /// The response and all that it goes on from, the oldest first. If one of them is not kept: empty, and its id is in
  /// `missing`. A use of all of them.
  std::vector<KeptResponse> conversation(const std::string& id, std::string& missing);

  /// Those of the items with these ids, of inputs and outputs, that are kept.
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
  Entries entries_ HEARTH_GUARDED_BY(mutex_);  // the last used one first
  std::unordered_map<std::string, Entries::iterator> by_id_ HEARTH_GUARDED_BY(mutex_);
  size_t bytes_ HEARTH_GUARDED_BY(mutex_) = 0;
};

/// About how much memory a value takes.
size_t json_bytes(const Json& json);

}  // namespace hearth
