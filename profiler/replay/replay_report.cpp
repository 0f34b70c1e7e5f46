// See the header.
#include "profiler/replay/replay_report.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/residency/memory_limit.h"
#include "kernels/base/file_error.h"
#include "profiler/machine/rate_text.h"

namespace hearth {
namespace {

double share_of_experts(const ReplayedTrace& replayed) {
  return replayed.budget_bytes / all_expert_bytes(replayed.trace);
}

/// Returns by how many bytes the budget and the rest of the model exceed the GPU's usable memory; 0 if they
/// fit.
double missing_vram(const ReplayedTrace& replayed) {
  const auto usable = static_cast<double>(usable_vram(replayed.question.machine.gpu->vram_bytes));
  return std::max(0.0, replayed.budget_bytes + replayed.other_bytes - usable);
}

uint64_t replayed_tokens(std::span<const PolicyResult> results) {
  return results.empty() ? 0 : results.front().n_tokens;
}

std::string head_text(const ReplayedTrace& replayed, std::span<const PolicyResult> results) {
  const ExpertTrace& trace = replayed.trace;
  std::string text =
      fmt::format("{} on {}: predicted, not measured\n\n", trace.model.name, replayed.question.machine.name);
  text += fmt::format("{:<10}{} decoded tokens; {} of {} experts in each of {} layers\n", "trace",
                      file_error::with_commas(replayed_tokens(results)), trace.n_used, trace.model.n_experts,
                      trace.layers.size());
  text += fmt::format("{:<10}{:.1f} % of the experts, {} of {}\n", "budget", 100 * share_of_experts(replayed),
                      bytes_text(replayed.budget_bytes), bytes_text(all_expert_bytes(trace)));
  text += fmt::format("{:<10}with the most used experts of {}\n", "begins", replayed.trained_on);
  if (const double missing = missing_vram(replayed); missing > 0) {
    text += fmt::format("{:<10}with {} for the rest of the model, {} more than such a GPU has free\n", "",
                        bytes_text(replayed.other_bytes), bytes_text(missing));
  }
  return text;
}

}  // namespace

std::string replay_text(const ReplayedTrace& replayed, std::span<const PolicyResult> results) {
  std::string text = head_text(replayed, results);
  text += fmt::format("\n{:<10}{:>9}{:>17}{:>12}{:>12}\n", "policy", "hits, %", "MB copied/token", "ms/token",
                      "tokens/s");
  bool optimum = false, prefetch = false;
  for (const PolicyResult& result : results) {
    const auto n = static_cast<double>(result.n_tokens);
    text += fmt::format("{:<10}{:>9.1f}{:>17.2f}{:>12.2f}{:>12}\n", policy_name(result.policy),
                        100 * result.hit_rate(), static_cast<double>(result.copied_bytes) / n / 1e6,
                        1e3 * result.token_s(), rate_text(1 / result.token_s()));
    optimum = optimum || result.policy == ReplayPolicy::kOptimum;
    prefetch = prefetch || result.policy == ReplayPolicy::kPrefetch;
  }
  if (prefetch) {
    text += fmt::format("\nThe policy prefetch predicts {:.0f} % of a layer's experts correctly.\n",
                        100 * replayed.prefetch_accuracy);
  }
  if (optimum) {
    text += fmt::format(
        "\nThe optimum knows the future, and its copies take no time{}.\n",
        replayed.exact_optimum ? "" : "; layers' experts differ in size, so it is an upper bound");
  }
  return text;
}

std::string replay_json(const ReplayedTrace& replayed, std::span<const PolicyResult> results) {
  using Json = nlohmann::ordered_json;
  const ExpertTrace& trace = replayed.trace;
  Json policies = Json::array();
  for (const PolicyResult& result : results) {
    const auto n = static_cast<double>(result.n_tokens);
    policies.push_back({{"policy", policy_name(result.policy)},
                        {"hit_rate", result.hit_rate()},
                        {"copies_per_token", static_cast<double>(result.n_copied) / n},
                        {"copied_bytes_per_token", static_cast<double>(result.copied_bytes) / n},
                        {"seconds_per_token", result.token_s()},
                        {"tokens_per_s", 1 / result.token_s()}});
  }
  const Json json = {{"model", trace.model.name},
                     {"machine", replayed.question.machine.name},
                     {"tokens", replayed_tokens(results)},
                     {"layers", trace.layers.size()},
                     {"experts_of_a_layer", trace.model.n_experts},
                     {"experts_of_a_token", trace.n_used},
                     {"trained_on", replayed.trained_on},
                     {"budget_bytes", replayed.budget_bytes},
                     {"budget_share", share_of_experts(replayed)},
                     {"other_vram_bytes", replayed.other_bytes},
                     {"missing_vram_bytes", missing_vram(replayed)},
                     {"exact_optimum", replayed.exact_optimum},
                     {"prefetch_accuracy", replayed.prefetch_accuracy},
                     {"policies", policies}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hearth
