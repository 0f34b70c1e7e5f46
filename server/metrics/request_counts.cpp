// See the header.
#include "server/metrics/request_counts.h"

#include <algorithm>
#include <string>

#include "server/endpoints/api_path.h"
#include "server/endpoints/endpoints.h"

namespace hearth {
namespace {

/// Returns the endpoint of a path. All unknown paths become "other", so that clients cannot enlarge the
/// table.
std::string_view endpoint_of(const std::string& path) {
  const std::string_view endpoint = table_path(read_api_path(path).endpoint);
  return endpoint.empty() ? "other" : endpoint;
}

std::string_view error_type_of(int status) {
  if (status < 400) return "";
  if (status == 429) return "429";
  return status == 503 ? "503" : status < 500 ? "4xx" : "5xx";
}

}  // namespace

std::string_view refusal_reason(int status) {
  switch (status) {
    case 400:
    case 405:
    case 415:
    case 422:
      return "invalid";
    case 401:
      return "key";
    case 403:
    case 421:
      return "forbidden";
    case 404:
      return "not_found";
    case 408:
      return "too_slow";
    case 413:
    case 431:
      return "too_large";
    case 429:
      return "queue_full";
    case 503:
      return "unavailable";
    default:
      return {};
  }
}

std::string_view operation_name(std::string_view endpoint) {
  struct Operation {
    std::string_view endpoint, name;
  };
  static constexpr Operation kOperations[] = {{"/chat/completions", "chat"},
                                              {"/responses", "chat"},
                                              {"/messages", "chat"},
                                              {"/api/chat", "chat"},
                                              {"/completions", "text_completion"},
                                              {"/completion", "text_completion"},
                                              {"/infill", "text_completion"},
                                              {"/api/generate", "text_completion"},
                                              {"/embeddings", "embeddings"},
                                              {"/api/embed", "embeddings"},
                                              {"/api/embeddings", "embeddings"},
                                              {"/rerank", "rerank"},
                                              {"/v2/rerank", "rerank"}};
  const auto* found = std::ranges::find(kOperations, endpoint, &Operation::endpoint);
  return found == std::end(kOperations) ? std::string_view() : found->name;
}

void RequestCounts::add(const AccessRecord& record) {
  const std::string_view endpoint = endpoint_of(record.path);
  const std::string_view reason = refusal_reason(record.status);
  const std::string_view operation = record.method == "POST" ? operation_name(endpoint) : std::string_view();
  const bool left =
      !record.complete || (record.generation && record.generation->ended == std::string_view("client left"));
  const MutexLock lock(mutex_);
  ++totals_.by_status[{endpoint, record.status}];
  if (!reason.empty()) ++totals_.refused[reason];
  if (left) ++totals_.n_cancelled;
  totals_.bytes_sent += record.bytes;
  if (operation.empty()) return;
  const std::pair key(operation, error_type_of(record.status));
  totals_.seconds.try_emplace(key, kSeconds).first->second.add(record.seconds);
}

RequestCounts::Totals RequestCounts::totals() const {
  const MutexLock lock(mutex_);
  return totals_;
}

}  // namespace hearth
