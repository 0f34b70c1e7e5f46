// Counts answered requests by endpoint and status, refused requests by reason, and durations.
//
// HTTP threads add each access-log record, and /metrics reads the totals. Thread-safe: one mutex, held for
// some tens of nanoseconds.
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
  /// Histogram bounds in seconds: those that OpenTelemetry recommends for generative servers, and two more
  /// for long answers.
  static constexpr std::array<double, 16> kSeconds = {0.01, 0.02, 0.04,  0.08,  0.16,  0.32,  0.64, 1.28,
                                                      2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 300,  1200};

  /// Totals of all requests so far. All strings have static storage.
  struct Totals {
    /// Requests by endpoint and status. The endpoint is a path from endpoints(), without /v1, or "other" for
    /// unknown paths.
    std::map<std::pair<std::string_view, int>, uint64_t> by_status;
    /// Refused requests by reason.
    std::map<std::string_view, uint64_t> refused;
    uint64_t n_cancelled = 0;  // the client disconnected before the answer was complete
    uint64_t bytes_sent = 0;
    /// Durations of generations and embeddings. The key is OpenTelemetry's name of the operation and the
    /// error status, which is empty if the status is below 400.
    std::map<std::pair<std::string_view, std::string_view>, Histogram> seconds;
  };

  void add(const AccessRecord& record);
  Totals totals() const;

 private:
  mutable Mutex mutex_;
  Totals totals_ HEARTH_GUARDED_BY(mutex_);
};

/// Returns the reason for which a request with this status was refused, or an empty text if the status does
/// not mean a refusal.
std::string_view refusal_reason(int status);

/// Returns "chat", "text_completion" or "embeddings" for the endpoints that run the model, and an empty text
/// for others.
std::string_view operation_name(std::string_view endpoint);

}  // namespace hearth
