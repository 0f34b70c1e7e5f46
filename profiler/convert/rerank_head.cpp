// See the header.
#include "profiler/convert/rerank_head.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>

namespace hearth::convert {
namespace {

constexpr int64_t kRank = 4;  // pooling_type

/// The prompt that the model was trained with.
constexpr const char* kPrompt =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the "
    "Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: "
    "Given "
    "a web search query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: "
    "{document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

bool contains(std::string text, std::string_view part) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text.find(part) != std::string::npos;
}

int64_t id_of(const Checkpoint& checkpoint, const KeyList& keys, const char* token) {
  const auto* const tokens = std::get_if<std::vector<std::string>>(keys.find("tokenizer.ggml.tokens"));
  const auto found =
      tokens == nullptr ? std::vector<std::string>::const_iterator() : std::ranges::find(*tokens, token);
  if (tokens == nullptr || found == tokens->end()) {
    checkpoint.fail("its vocabulary has no token \"" + std::string(token) +
                    "\", expected the two answers of a reranker; download the tokenizer's files again");
  }
  return found - tokens->begin();
}

/// The output matrix, or the embeddings if there is none.
const PlannedTensor* output_of(const std::vector<PlannedTensor>& plan) {
  const PlannedTensor* output = nullptr;
  for (const PlannedTensor& tensor : plan) {
    if (tensor.name == "output.weight" || (tensor.name == "token_embd.weight" && output == nullptr))
      output = &tensor;
  }
  return output;
}

}  // namespace

bool is_qwen3_reranker(const Checkpoint& checkpoint, const Family& family, std::string_view name) {
  if (family.architecture != "qwen3") return false;
  return contains(std::string(name), "qwen3-reranker") ||
         contains(checkpoint.read_file("README.md"), "# qwen3-reranker");
}

void add_rerank_head(const Checkpoint& checkpoint, std::vector<PlannedTensor>& plan, KeyList& keys) {
  const std::array<int64_t, 2> ids{id_of(checkpoint, keys, "yes"), id_of(checkpoint, keys, "no")};
  const PlannedTensor* output = output_of(plan);
  const bool is_whole = output != nullptr && output->parts.size() == 1 && output->shape.size() == 2 &&
                        std::ranges::max(ids) < output->shape[1];
  if (!is_whole)
    checkpoint.fail("its output matrix has no row for yes or no; download all files of the model");
  PlannedTensor head = *output;
  head.name = "cls.output.weight";
  head.shape[1] = static_cast<int64_t>(ids.size());
  RowView& view = head.parts.front();
  view.n_rows = head.shape[1];
  view.first_at = [first_at = view.first_at, ids](int64_t row) {
    return first_at(ids[static_cast<size_t>(row)]);
  };
  plan.push_back(std::move(head));
  keys.count("pooling_type", kRank);
  keys.of_model("classifier.output_labels", std::vector<std::string>{"yes", "no"});
  keys.set("tokenizer.chat_template.rerank", kPrompt);
}

}  // namespace hearth::convert
