// Counts answered requests by endpoint and status, refusals by reason, and durations.
//
// HTTP threads add each access-log record; /metrics reads the totals. Thread-safe: one mutex, held for some
// tens of nanoseconds.
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
  /// Histogram bounds in seconds: OpenTelemetry's for generative servers, and two more for long answers.
  static constexpr std::array<double, 16> kSeconds = {0.01, 0.02, 0.04,  0.08,  0.16,  0.32,  0.64, 1.28,
                                                      2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 300,  1200};

  /// Totals of all requests so far. Strings have static storage.
  struct Totals {
    /// By endpoint (a path of endpoints(), so without /v1; "other" for unknown paths) and status.
    std::map<std::pair<std::string_view, int>, uint64_t> by_status;
    /// Refused requests by reason.
    std::map<std::string_view, uint64_t> refused;
    uint64_t n_cancelled = 0;  // the client left before the answer was complete
    uint64_t bytes_sent = 0;
    /// Duration of generations and embeddings, by OpenTelemetry's operation and status ("" below 400).
    std::map<std::pair<std::string_view, std::string_view>, Histogram> seconds;
  };

  void add(const AccessRecord& record);
  Totals totals() const;

 private:
  mutable Mutex mutex_;
  Totals totals_ HEARTH_GUARDED_BY(mutex_);
};

/// Why a request with this status was refused; empty if it was not refused by a rule.
std::string_view refusal_reason(int status);

/// "chat", "text_completion" or "embeddings" for the endpoints that run the model; empty for others.
std::string_view operation_name(std::string_view endpoint);

}  // namespace hearth
