// See the header.
#include "profiler/bench/sparsity_text.h"

#include <spdlog/fmt/fmt.h>

namespace hearth {

std::string sparsity_text(const SparsityReport& report, const NeuronActivity& activity) {
  std::string text = fmt::format("{} ({})", sparsity_name(report.mode), report.reason);
  if (activity.n_tokens == 0) return text;
  text += fmt::format(", {:.1f} % of neurons active", 100 * activity.active);
  if (report.mode == Sparsity::kPredicted) {
    text += fmt::format(", {:.1f} % proposed at threshold {}", 100 * activity.proposed,
                        report.predictor_threshold);
  }
  if (activity.recall >= 0) {
    text += fmt::format(", recall {:.2f} %, {:.1f} % of the proposed for nothing", 100 * activity.recall,
                        100 * activity.false_positives);
  }
  return text;
}

}  // namespace hearth
