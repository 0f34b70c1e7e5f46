// See the header.
#include "server/api/responses/response_store.h"

#include <algorithm>

namespace hearth {
namespace {

size_t bytes_of(const KeptResponse& kept) { return json_bytes(*kept.input) + json_bytes(*kept.response); }

void collect(const Json& items, const std::set<std::string>& ids, std::map<std::string, Json>& found) {
  for (const Json& item : items) {
    const auto id = item.find("id");
    if (id != item.end() && id->is_string() && ids.contains(id->get_ref<const std::string&>()))
      found.emplace(id->get<std::string>(), item);
  }
}

}  // namespace

size_t json_bytes(const Json& json) {
  size_t bytes = sizeof(Json);
  if (json.is_string()) bytes += sizeof(std::string) + json.get_ref<const std::string&>().capacity();
  if (json.is_array()) bytes += sizeof(Json::array_t);
  if (json.is_object()) bytes += sizeof(Json::object_t);
  if (!json.is_structured()) return bytes;
  for (const auto& [key, value] : json.items()) {
    bytes += json_bytes(value);
    if (json.is_object()) bytes += sizeof(std::string) + key.capacity();
  }
  return bytes;
}

ResponseStore::ResponseStore(Clock now, ResponseStoreLimits limits) : now_(std::move(now)), limits_(limits) {}

void ResponseStore::put(const std::string& id, KeptResponse response) {
  const size_t bytes = bytes_of(response);
  if (bytes > limits_.max_bytes) return;
  const MutexLock lock(mutex_);
  if (const auto old = by_id_.find(id); old != by_id_.end()) remove(old->second);
  entries_.push_front({.id = id, .kept = std::move(response), .bytes = bytes, .used = now_()});
  by_id_[id] = entries_.begin();
  bytes_ += bytes;
  make_room();
}

void ResponseStore::end(const std::string& id, std::shared_ptr<const Json> response) {
  const size_t response_bytes = json_bytes(*response);
  const MutexLock lock(mutex_);
  Entry* entry = use(id);
  if (entry == nullptr) return;
  const size_t bytes = json_bytes(*entry->kept.input) + response_bytes;
  bytes_ += bytes - entry->bytes;
  entry->bytes = bytes;
  entry->kept.response = std::move(response);
  entry->kept.control = nullptr;
  make_room();
}

bool ResponseStore::erase(const std::string& id) {
  const MutexLock lock(mutex_);
  if (use(id) == nullptr) return false;
  remove(entries_.begin());
  return true;
}

std::optional<KeptResponse> ResponseStore::find(const std::string& id) {
  const MutexLock lock(mutex_);
  const Entry* entry = use(id);
  if (entry == nullptr) return std::nullopt;
  return entry->kept;
}

// Marks all responses of the conversation as used: the newest first, the oldest last. The store drops the
// least recently used response first. A conversation therefore loses its newest responses first, and the
// others can still be continued.
std::vector<KeptResponse> ResponseStore::conversation(const std::string& id, std::string& missing) {
  const MutexLock lock(mutex_);
  std::vector<KeptResponse> found;
  for (std::string next = id; !next.empty(); next = found.back().previous_id) {
    const Entry* entry = use(next);
    if (entry == nullptr) {
      missing = next;
      return {};
    }
    found.push_back(entry->kept);
  }
  std::ranges::reverse(found);
  return found;
}

std::map<std::string, Json> ResponseStore::items(const std::set<std::string>& ids) {
  std::map<std::string, Json> found;
  const MutexLock lock(mutex_);
  make_room();
  for (const Entry& entry : entries_) {
    collect(*entry.kept.input, ids, found);
    collect((*entry.kept.response)["output"], ids, found);
  }
  return found;
}

size_t ResponseStore::size() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

size_t ResponseStore::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

/// Drops the least recently used entry until the remaining entries are within the limits of age, number and
/// bytes.
void ResponseStore::make_room() {
  const auto oldest = now_() - limits_.max_age;
  while (!entries_.empty() && (entries_.size() > limits_.max_responses || bytes_ > limits_.max_bytes ||
                               entries_.back().used < oldest)) {
    remove(std::prev(entries_.end()));
  }
}

/// Marks the entry as used now and returns it. Returns null if it is not stored.
ResponseStore::Entry* ResponseStore::use(const std::string& id) {
  make_room();
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  found->second->used = now_();
  return &*found->second;
}

void ResponseStore::remove(Entries::iterator entry) {
  bytes_ -= entry->bytes;
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

}  // namespace hearth
