// docs/models.md says what the tables of architectures and of weight types say, and names the models that each architecture
// is checked with.
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "engine/forward/ffn_activation.h"
#include "engine/model/architecture.h"
#include "kernels/cuda/device_types.h"
#include "kernels/dtype.h"
#include "kernels/quant/decode.h"
#include "tests/support/catch.h"
#include "tests/support/source_dir.h"

namespace hearth::testing {
namespace {

/// Models of tests/data/arch, by architecture.
const std::map<std::string_view, std::vector<std::string>> kCheckedWith = {
    {"llama",
     {"llama", "llama-gqa-tied", "llama-linear", "llama-llama3", "relu-llama", "mixtral", "mixtral-split"}},
    {"bamboo", {"bamboo"}},
    {"falcon", {"falcon-7b", "falcon-40b"}},
    {"opt", {"opt"}},
    {"qwen2", {"qwen2", "qwen2-yarn"}},
    {"qwen2moe", {"qwen2moe", "qwen2moe-fused"}},
    {"olmo2", {"olmo2", "olmo3"}},
    {"granitemoe", {"granitemoe", "granitemoe-shared"}},
    {"smallthinker", {"smallthinker", "smallthinker-sigmoid"}},
    {"gpt-oss", {"gpt-oss", "gpt-oss-mxfp4"}},
    {"deepseek2", {"deepseek2-lite", "deepseek2-v2", "deepseek2-v3"}},
    {"phi3", {"phi3", "phi3-long", "phi3-short"}},
    {"gptneox", {"gptneox", "gptneox-sequential"}},
    {"command-r", {"command-r", "command-r-plus"}},
    {"stablelm", {"stablelm", "stablelm-parallel"}},
};

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string norms_of(const Architecture& arch) {
  std::string text = arch.norm == NormKind::kRms ? "RMS" : "layer";
  if (arch.norms == NormPlace::kAfter) text += ", behind";
  if (arch.norms == NormPlace::kBoth) text += ", before and behind";
  if (arch.norms == NormPlace::kSum) text += ", of sums";
  if (arch.qk_norm == QkNorm::kHeads)
    text += arch.qk_norm_optional ? "; heads if the file has them" : "; heads";
  if (arch.qk_norm == QkNorm::kEachHead)
    text += arch.qk_norm_optional ? "; each head if the file has them" : "; each head";
  if (arch.qk_norm == QkNorm::kWhole) text += "; q and k";
  return text;
}

std::string positions_of(const Architecture& arch) {
  std::string text = arch.rope == RopeKind::kNone          ? "learned"
                     : arch.rope == RopeKind::kInterleaved ? "RoPE, pairs"
                                                           : "RoPE, halves";
  if (arch.layers_per_unturned > 0)
    text += ", not in every " + std::to_string(arch.layers_per_unturned) + "th layer";
  if (!arch.window.full_turns) text += ", not in full layers";
  return text;
}

std::string attention_of(const Architecture& arch) {
  std::vector<std::string> parts;
  if (arch.looks_ahead) parts.push_back("looks ahead");
  if (arch.queries_grow) parts.push_back("queries grow if the file says so");
  if (arch.window.period > 0) {
    parts.push_back("windows, 1 layer of " + std::to_string(arch.window.period) + " full");
  }
  if (arch.latent) parts.push_back("latent");
  if (arch.sinks) parts.push_back("sinks");
  if (arch.attention_cap > 0) parts.push_back("soft caps");
  if (arch.parallel_attention) parts.push_back("beside the FFN");
  if (arch.parallel_from != ParallelFrom::kArchitecture)
    parts.push_back("beside the FFN if the file says so");
  return joined(parts);
}

std::string experts_of(const Architecture& arch) {
  if (!arch.mixture.possible) return "";
  std::string text = arch.mixture.score == RouterScore::kSoftmax   ? "softmax"
                     : arch.mixture.score == RouterScore::kSigmoid ? "sigmoid"
                                                                   : "softmax of the chosen";
  if (arch.mixture.renormalise) text += ", renormalised";
  if (arch.mixture.group_by_best) text += ", groups by their best";
  if (arch.mixture.shared_has_gate) text += ", shared with a gate";
  if (arch.mixture.reads_layer_input) text += ", by the layer's input";
  return text;
}

/// What --sparsity may say.
std::string modes_of(const Architecture& arch) {
  std::vector<std::string> parts = {"dense"};
  if (arch.activation.has_zeros()) {
    parts.push_back("exact");
  } else if (!arch.looks_ahead) {
    parts.push_back(arch.mixture.possible ? "calibrated without experts" : "calibrated");
  }
  if (arch.powerinfer_activation) parts.push_back("with a ReLU exact and predicted");
  return joined(parts);
}

std::string row_of(const Architecture& arch) {
  const auto found = kCheckedWith.find(arch.name);
  const std::vector<std::string> models =
      found == kCheckedWith.end() ? std::vector{std::string(arch.name)} : found->second;
  for (const std::string& model : models) {
    INFO(model);
    CHECK(std::filesystem::exists(std::filesystem::path(source_dir()) / "tests/data/arch" /
                                  (model + (arch.has_output ? ".logits" : ".hidden"))));
  }
  const std::string ffn = ffn_activation_name(arch.activation) + (arch.gated ? ", gated" : "");
  return "| `" + std::string(arch.name) + "` | " + norms_of(arch) + " | " + positions_of(arch) + " | " +
         attention_of(arch) + " | " + ffn + " | " + experts_of(arch) + " | " + modes_of(arch) + " | " +
         joined(models) + " |\n";
}

std::string row_of(DType type) {
  const DTypeInfo& info = dtype_info(type);
  bool decoded_first = false;
  if (info.block_elems > 1)
    visit_block_type(type, [&]<class Block>() { decoded_first = kDecodedFirst<Block>; });
  std::ostringstream bits;
  bits << info.block_bytes * 8.0 / info.block_elems;
  return "| " + std::string(info.name) + " | " + bits.str() + " | " +
         (decoded_first ? "common path" : "kernels of its own") + " | " +
         (cuda::device_has(type) ? "yes" : "experts only, which the CPU computes") + " |\n";
}

/// If this fails, replace the rows of the page's table by these.
void check_page_has(const std::string& table) {
  const std::ifstream page(std::filesystem::path(source_dir()) / "docs/models.md");
  std::ostringstream text;
  text << page.rdbuf();
  INFO(table);
  CHECK(text.str().find(table) != std::string::npos);
}

}  // namespace

TEST_CASE("docs/models.md has the table of architectures") {
  std::string table;
  for (const Architecture& arch : architectures()) table += row_of(arch);
  check_page_has(table);
}

TEST_CASE("docs/models.md has the table of weight types") {
  std::string table;
  for (int i = 0; i < kDTypeCount; ++i) table += row_of(static_cast<DType>(i));
  check_page_has(table);
}

}  // namespace hearth::testing
