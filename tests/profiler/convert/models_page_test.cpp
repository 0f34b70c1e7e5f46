// docs/models.md lists the same architectures, convertible classes and weight types as the tables in the
// code, and tests/data/arch has the models with which each architecture is checked.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/architecture.h"
#include "kernels/cuda/ops/device_types.h"
#include "kernels/cuda/ops/expert_types.h"
#include "kernels/dtype.h"
#include "kernels/quant/decode.h"
#include "profiler/convert/family.h"
#include "tests/support/catch.h"
#include "tests/support/source_dir.h"

namespace hearth::testing {
namespace {

/// The models in tests/data/arch that check each architecture.
const std::map<std::string_view, std::vector<std::string>> kCheckedWith = {
    {"llama",
     {"llama", "llama-gqa-tied", "llama-linear", "llama-llama3", "relu-llama", "mixtral", "mixtral-split"}},
    {"llama4", {"llama4", "llama4-maverick"}},
    {"bamboo", {"bamboo"}},
    {"falcon", {"falcon-7b", "falcon-40b"}},
    {"falcon-h1", {"falcon-h1", "falcon-h1-norm"}},
    {"opt", {"opt"}},
    {"qwen2", {"qwen2", "qwen2-yarn"}},
    {"qwen2moe", {"qwen2moe", "qwen2moe-fused"}},
    {"olmo2", {"olmo2", "olmo3"}},
    {"granitemoe", {"granitemoe", "granitemoe-shared"}},
    {"nemotron_h_moe", {"nemotron_h_moe", "nemotron_h_latent"}},
    {"jina-bert-v2", {"jina-bert-v2", "jina-bert-v2-split"}},
    {"granitehybrid", {"granitehybrid", "granitehybrid-dense"}},
    {"smallthinker", {"smallthinker", "smallthinker-sigmoid"}},
    {"gpt-oss", {"gpt-oss", "gpt-oss-mxfp4"}},
    {"deepseek2", {"deepseek2-lite", "deepseek2-v2", "deepseek2-v3"}},
    {"deepseek32", {"deepseek32", "deepseek32-chooses"}},
    {"glm-dsa", {"glm-dsa", "glm-dsa-chooses"}},
    {"gemma4", {"gemma4", "gemma4-e2b", "gemma4-moe", "gemma4-moe-split"}},
    {"lfm2", {"lfm2", "lfm2-wide"}},
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

/// Returns the page's text about the values of --sparsity that are possible besides "dense". An empty text
/// stands for "calibrated", which mixtures of experts allow only in files without experts.
std::string modes_of(const Architecture& arch) {
  // In models of single blocks, layers without an FFN have no neurons to skip.
  if (arch.looks_ahead || (arch.one_block && !arch.mixture.possible)) return "none";
  if (!arch.powerinfer_activation) return arch.activation.has_zeros() ? "exact" : "";
  return arch.activation.has_zeros() ? "exact; predicted (with a ReLU)"
                                     : "calibrated; exact and predicted (with a ReLU)";
}

/// The classes of Hugging Face's config.json that convert to an architecture.
std::string classes_of(const Architecture& arch) {
  std::vector<std::string> classes;
  for (const convert::Family& family : convert::families()) {
    if (family.architecture != arch.name) continue;
    std::istringstream names{std::string(family.classes)};
    for (std::string name; names >> name;) {
      const std::string quoted = "`" + name + "`";
      if (std::ranges::find(classes, quoted) == classes.end()) classes.push_back(quoted);  // of two families
    }
  }
  return joined(classes);
}

void check_models_are_there(const Architecture& arch) {
  const auto found = kCheckedWith.find(arch.name);
  const std::vector<std::string> models =
      found == kCheckedWith.end() ? std::vector{std::string(arch.name)} : found->second;
  for (const std::string& model : models) {
    INFO(model);
    CHECK(std::filesystem::exists(std::filesystem::path(source_dir()) / "tests/data/arch" /
                                  (model + (arch.has_output ? ".logits" : ".hidden"))));
  }
}

std::string row_of(const Architecture& arch) {
  return "| `" + std::string(arch.name) + "` | " + classes_of(arch) + " | " +
         (arch.mixture.possible ? "yes" : "") + " | " + modes_of(arch) + " |\n";
}

/// Returns the kernels and devices that compute a type, as two cells of the page.
std::string support_of(DType type) {
  bool decoded_first = false;
  if (dtype_info(type).block_elems > 1)
    visit_block_type(type, [&]<class Block>() { decoded_first = kDecodedFirst<Block>; });
  return std::string(decoded_first ? "common path" : "own kernels") + " | " +
         (cuda::device_has(type) ? "yes" : "in experts");
}

std::string name_and_bits_of(DType type) {
  const DTypeInfo& info = dtype_info(type);
  std::ostringstream text;
  text << info.name << " (" << info.block_bytes * 8.0 / info.block_elems << ")";
  return text.str();
}

/// One row for each kind of support, in the order of its first type.
std::string rows_of_types() {
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    const std::string support = support_of(type);
    auto row = std::ranges::find(rows, support, &decltype(rows)::value_type::first);
    if (row == rows.end()) row = rows.insert(row, {support, {}});
    row->second.push_back(name_and_bits_of(type));
  }
  std::string text;
  for (const auto& [support, types] : rows) text += "| " + joined(types) + " | " + support + " |\n";
  return text;
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

TEST_CASE("tests/data/arch has the models that each architecture is tested with") {
  for (const Architecture& arch : architectures()) check_models_are_there(arch);
}

TEST_CASE("docs/models.md has the table of weight types") { check_page_has(rows_of_types()); }

}  // namespace hearth::testing
