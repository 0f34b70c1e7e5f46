// The rows, and the reader that knows them.
#include "tests/support/delta_architectures.h"

#include <algorithm>
#include <array>

namespace hearth::test {
namespace {

constexpr MixtureFacts kMixture{.possible = true, .renormalize = true, .shared_has_gate = true};

constexpr Architecture row(std::string_view name, bool tiled, MixtureFacts mixture) {
  return {.name = name,
          .ffn_norm = "post_attention_norm",
          .rope = RopeKind::kHalves,
          .qk_norm = QkNorm::kHeads,
          .gated_attention = true,
          .delta = true,
          .tiled_values = tiled,
          .mixture = mixture};
}

constexpr std::array kRows{row("qwen35", true, {}), row("qwen35moe", true, kMixture),
                           row("qwen3next", false, kMixture)};

}  // namespace

const Architecture* delta_architecture(std::string_view name) {
  const auto found = std::ranges::find(kRows, name, &Architecture::name);
  return found == kRows.end() ? nullptr : &*found;
}

ModelSpec read_any_model_spec(const ModelFile& file) {
  const Architecture* row = delta_architecture(file.find_string("general.architecture").value_or(""));
  return row != nullptr ? read_model_spec_as(*row, file) : read_model_spec(file);
}

}  // namespace hearth::test
