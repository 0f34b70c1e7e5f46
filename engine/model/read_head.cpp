// See the header.
#include "engine/model/read_head.h"

#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/file_error.h"

namespace hearth {
namespace {

constexpr const char* kScores = "cls.output.weight";
constexpr const char* kPooling = "pooling_type";
constexpr const char* kLabels = "classifier.output_labels";
constexpr const char* kTemplate = "tokenizer.chat_template.rerank";
constexpr int kRank = 4;  // a value of the key pooling_type

/// Returns the pooling of embeddings. The key may be absent, because the model was not trained to embed, or
/// 0, which requests one vector per token. In both cases, the last token is used if attention only looks
/// back, because only that token has seen the whole text. If all tokens have seen the whole text, their mean
/// is used.
Pooling read_pooling(const SpecKeys& keys, const Architecture& arch) {
  switch (keys.integer_or(kPooling, 0, 0, kRank)) {
    case 1:
      return Pooling::kMean;
    case 2:
      return Pooling::kFirst;
    case 3:
      return Pooling::kLast;
    default:
      return arch.looks_ahead ? Pooling::kMean : Pooling::kLast;
  }
}

/// Returns the pooling before the head that ranks.
Pooling read_rank_pooling(const SpecKeys& keys, const Architecture& arch) {
  if (!arch.looks_ahead) return Pooling::kLast;
  const int by_default = arch.ranks_by_mean ? 1 : 2;
  const int found = keys.integer_or("classifier.pooling_type", by_default, 1, 2);
  return found == 1 ? Pooling::kMean : Pooling::kFirst;
}

/// Returns the number of scores. One score ranks; two scores rank if they belong to the answers yes and no.
int read_n_scores(const SpecKeys& keys, const Architecture& arch) {
  const TensorInfo& scores = *keys.file().find_tensor(kScores);
  const auto labels = keys.file()
                          .find_strings(std::string(arch.name) + "." + kLabels)
                          .value_or(std::vector<std::string_view>());
  const int64_t n = scores.shape[1];
  if (!labels.empty() && static_cast<int64_t>(labels.size()) != n) {
    keys.fail(kLabels, std::to_string(labels.size()) + " names",
              "one for each of the " + std::to_string(n) + " rows of " + kScores);
  }
  if (n == 1) return 1;
  if (n == 2 && labels == std::vector<std::string_view>{"yes", "no"}) return 2;
  keys.refuse(kLabels, std::to_string(n) + " classes",
              "a score that ranks texts is one number, or yes and no");
}

void read_rank_head(const SpecKeys& keys, ModelSpec& spec) {
  const Architecture& arch = spec.arch;
  const ModelFile& file = keys.file();
  if (!arch.rank_head)
    keys.refuse(kPooling, "4 (rank)", "Hearth does not know the ranking head of this architecture");
  if (file.find_tensor(kScores) == nullptr) {
    keys.fail(
        kPooling, "4 (rank)",
        std::string("a model with the tensor \"") + kScores + "\", which gives the score; convert it again");
  }
  // In transformers, a dense layer is before the scores in all these classes. A converter that left it out
  // made a file whose scores mean nothing.
  if (*arch.rank_head != HeadActivation::kNone && file.find_tensor("cls.weight") == nullptr) {
    keys.fail(
        kPooling, std::string("a head with \"") + kScores + "\" alone",
        "also the tensor \"cls.weight\", the dense layer before it, without which scores would be wrong; "
        "convert the model again with hearth-profiler convert");
  }
  if (!arch.looks_ahead && !file.find_string(kTemplate)) {
    file_error::fail(keys.file_label(), std::string("key \"") + kTemplate +
                                            "\" is missing, expected the template in which the model "
                                            "judges a query and a document; convert the model again");
  }
  const TensorInfo* const types = file.find_tensor("token_types.weight");
  if (types != nullptr && types->shape[1] == 1) spec.n_separators = 2;
  spec.n_scores = read_n_scores(keys, arch);
  spec.pooling = read_rank_pooling(keys, arch);
  spec.arch.has_output = false;
}

}  // namespace

void read_head(const SpecKeys& keys, ModelSpec& spec) {
  spec.pooling = read_pooling(keys, spec.arch);
  const ModelFile& file = keys.file();
  const bool ranks = keys.integer_or(kPooling, 0, 0, kRank) == kRank;
  if (ranks || (spec.arch.rank_head && file.find_tensor(kScores) != nullptr))
    return read_rank_head(keys, spec);
  const TensorInfo* const dense = file.find_tensor("dense_2.weight");
  if (!spec.arch.dense_head || dense == nullptr) return;
  constexpr const char* kKey = "dense_2_feat_out";
  if (dense->shape[1] > SpecKeys::kMaxWidth) {
    keys.fail(kKey, std::to_string(dense->shape[1]) + " rows in \"dense_2.weight\"",
              "at most " + std::to_string(SpecKeys::kMaxWidth));
  }
  spec.d_head = static_cast<int>(dense->shape[1]);
  keys.integer_or(kKey, spec.d_head, spec.d_head, spec.d_head);
}

}  // namespace hearth
