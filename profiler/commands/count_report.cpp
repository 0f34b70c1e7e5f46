// Formats the report about counted activity.
#include "profiler/commands/count_report.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>

#include "kernels/base/file_error.h"
#include "profiler/activity/expert_use.h"

namespace hearth {
namespace {

constexpr size_t kPerLine = 10;

/// Returns lines with one percentage per layer, ten to a line.
template <class OfLayer>
std::string layer_lines(std::string_view title, int n_layers, const OfLayer& of_layer) {
  std::string text;
  for (int layer = 0; layer < n_layers; ++layer) {
    if (static_cast<size_t>(layer) % kPerLine == 0) {
      text += fmt::format("{}{:<14}", layer == 0 ? "" : "\n", layer == 0 ? title : "");
    }
    text += fmt::format("{:6.1f}", 100 * of_layer(layer));
  }
  return text + "\n";
}

/// Returns lines about the counts of experts.
std::string experts_text(const ActivityCounts& total) {
  std::string text =
      layer_lines("used again, %", total.n_layers, [&](int layer) { return total.kept_share(layer); });
  text += layer_lines("hottest 1/4, %", total.n_layers,
                      [&](int layer) { return hottest_share(total, layer, 0.25); });
  text += fmt::format("{:<14}{:.1f} % of a token's experts were also used by the previous token\n", "reuse",
                      100 * mean_kept_share(total));
  text += fmt::format("{:<14}", "caught");
  for (const double share : kCacheShares) {
    const int n = cached_experts(total, share);
    text += fmt::format("{}{:.0f} % by the hottest {}", share == kCacheShares[0] ? "" : ", ",
                        100 * choices_caught(total, n), n);
  }
  text += fmt::format(" of each layer's {}\n{:<14}", total.d_ff, "read, a layer");
  text += fmt::format("{:.1f} experts by 1 token", mean_experts_read(total, 1));
  for (const int size : ActivityCounts::kWindowTokens) {
    text += fmt::format("; by {}: ", size);
    const double read = mean_experts_read(total, size);
    if (read > 0) text += fmt::format("{:.1f} of one text, ", read);
    text += fmt::format("{:.1f} of different texts", mean_experts_read_by_others(total, size));
  }
  return text + "\n";
}

}  // namespace

double hottest_share(const ActivityCounts& counts, int layer, double share) {
  const auto begin = counts.active.begin() + static_cast<ptrdiff_t>(counts.index(layer, 0));
  std::vector<uint32_t> sorted(begin, begin + counts.d_ff);
  std::ranges::sort(sorted, std::greater());
  const auto n = static_cast<ptrdiff_t>(share * static_cast<double>(sorted.size()) + 0.5);
  const uint64_t hottest = std::accumulate(sorted.begin(), sorted.begin() + n, uint64_t{0});
  const uint64_t all = std::accumulate(sorted.begin() + n, sorted.end(), hottest);
  return all == 0 ? 0 : static_cast<double>(hottest) / static_cast<double>(all);
}

std::string count_text(const CountResult& result, const std::filesystem::path& file) {
  using file_error::with_commas;
  std::string text = fmt::format(
      "{:<14}{} prompt tokens, {} generated, of {} texts\n", result.stopped ? "interrupted" : "counted",
      with_commas(result.n_prompt_tokens), with_commas(result.n_generated_tokens), result.n_texts);
  if (result.n_known > 0) {
    text += fmt::format("{:<14}{} texts, counted before\n", "passed over", result.n_known);
  }
  text += activity_text(result.activity, file);
  if (result.stopped) text += "Run it again to continue.\n";
  return text;
}

std::string activity_text(const Activity& activity, const std::filesystem::path& file) {
  std::string text = fmt::format("{:<14}", "in all");
  for (size_t i = 0; i < kActivitySources; ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", file_error::with_commas(activity.counts[i].n_tokens),
                        source_name(static_cast<ActivitySource>(i)));
  }
  text += " (tokens)\n";
  const ActivityCounts total = activity.total();
  if (total.of_experts()) {
    text += experts_text(total);
  } else if (!total.empty()) {
    const int n = total.n_layers;
    text += layer_lines("active, %", n, [&](int layer) { return total.active_share(layer); });
    text += layer_lines("stay so, %", n, [&](int layer) { return total.kept_share(layer); });
    text += layer_lines("hottest 1/4, %", n, [&](int layer) { return hottest_share(total, layer, 0.25); });
  }
  text += fmt::format("{:<14}{}\n", "written", file.string());
  return text;
}

}  // namespace hearth
