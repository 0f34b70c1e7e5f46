// Counts requests by endpoint and status, refused requests by reason, and the durations of requests.
//
// HTTP threads add a record for each answered request; /metrics reads the totals. Thread-safe: one mutex is
// held for some tens of nanoseconds.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "engine/serving/histogram.h"
#include "kernels/base/mutex.h"
#include "server/http/http_types.h"

namespace hearth {

class RequestCounts {
 public:
  /// Histogram bounds in seconds. All but the last two are OpenTelemetry's recommendation for generative AI
  /// servers; the last two are for long answers.
  static constexpr std::array<double, 16> kSeconds = {0.01, 0.02, 0.04,  0.08,  0.16,  0.32,  0.64, 1.28,
                                                      2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 300,  1200};

  /// Totals since the start. All strings have static storage.
  struct Totals {
    /// Requests by endpoint and status. The endpoint is a path from endpoints(), without /v1. Unknown paths
    /// count as "other".
    std::map<std::pair<std::string_view, int>, uint64_t> by_status;
    /// Refused requests by reason.
    std::map<std::string_view, uint64_t> refused;
    uint64_t n_cancelled = 0;  // the client disconnected before the answer was complete
    uint64_t bytes_sent = 0;
    /// Durations of requests that generate, embed or rank. The key is OpenTelemetry's name of the operation
    /// and the error status; the error status is empty if the HTTP status is below 400.
    std::map<std::pair<std::string_view, std::string_view>, Histogram> seconds;
  };

  void add(const AccessRecord& record);
  Totals totals() const;

 private:
  mutable Mutex mutex_;
  Totals totals_ HEARTH_GUARDED_BY(mutex_);
};

/// Returns the reason for a refusal with this status, or an empty text if the status is not a refusal.
std::string_view refusal_reason(int status);

/// Returns OpenTelemetry's name of the operation, "chat", "text_completion" or "embeddings"; "rerank" for
/// ranking, for which OpenTelemetry has no name. Returns an empty text for endpoints that do not run the
/// model.
std::string_view operation_name(std::string_view endpoint);

}  // namespace hearth
