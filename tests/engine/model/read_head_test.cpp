// Heads of models that rank pairs of texts or change embeddings.
#include "engine/model/read_head.h"

#include "engine/model/model_spec.h"
#include "engine/model/weights.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_spec.h"

namespace hearth::test {
namespace {

using Words = std::vector<std::string>;

/// A cross-encoder, as transformers' BertForSequenceClassification.
TinyModel bert() {
  return TinyModel("bert")
      .random_tensor("cls.weight", {32, 32}, 0.0, 0.5)
      .random_tensor("cls.bias", {32}, 0.0, 0.5)
      .random_tensor("cls.output.weight", {32, 1}, 0.0, 0.5);
}

TinyModel qwen3() {
  return TinyModel("qwen3")
      .key("qwen3.pooling_type", 4)
      .array("qwen3.classifier.output_labels", Words{"yes", "no"})
      .key("tokenizer.chat_template.rerank", "Q {query} D {document}")
      .random_tensor("cls.output.weight", {32, 2}, 0.0, 0.5);
}

/// The error of binding the model's weights; empty if there is none.
std::string bind_complaint(const TinyModel& model) {
  const TempFolder folder;
  model.write(folder / "model.gguf");
  const ModelFile file = ModelFile::open(folder / "model.gguf");
  const ModelSpec spec = read_model_spec(file);
  try {
    bind_weights(file, spec);
  } catch (const ModelFileError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("heads: a file with scores ranks, by the first token of an encoder and the last of other models") {
  const ModelSpec spec = spec_of(bert());
  CHECK(spec.n_scores == 1);
  CHECK(spec.pooling == Pooling::kFirst);
  CHECK(spec.n_separators == 1);
  CHECK(spec.cpu_only_kind() == "an encoder");
  CHECK(spec_of(bert().key("bert.pooling_type", 4)).n_scores == 1);
  CHECK(spec_of(bert().key("bert.classifier.pooling_type", 1)).pooling == Pooling::kMean);
  CHECK(spec_of(bert().random_tensor("token_types.weight", {32, 1}, 0.0, 0.5)).n_separators == 2);
  CHECK(spec_of(TinyModel("bert")).n_scores == 0);

  const ModelSpec judge = spec_of(qwen3());
  CHECK(judge.n_scores == 2);
  CHECK(judge.pooling == Pooling::kLast);
  CHECK_FALSE(judge.arch.has_output);
  CHECK(judge.cpu_only_kind() == "a reranker");
  CHECK(complaint(qwen3().without_tensor("output.weight")).empty());
}

TEST_CASE("heads: a head that is incomplete or does not rank is refused") {
  CHECK_THAT(complaint(bert().without_tensor("cls.weight")),
             ContainsSubstring("also the tensor \"cls.weight\"") && ContainsSubstring("model.gguf"));
  CHECK_THAT(complaint(bert().without_tensor("cls.output.weight").key("bert.pooling_type", 4)),
             ContainsSubstring("cls.output.weight"));
  CHECK_THAT(complaint(bert().random_tensor("cls.output.weight", {32, 3}, 0.0, 0.5)),
             ContainsSubstring("3 classes") && ContainsSubstring("a score that ranks texts is one number"));
  CHECK(bind_complaint(bert()).empty());
  CHECK(bind_complaint(qwen3()).empty());  // it has an output matrix, which no one needs
  CHECK_THAT(bind_complaint(bert().random_tensor("cls.output.weight", {16, 1}, 0.0, 0.5)),
             ContainsSubstring("cls.output.weight") && ContainsSubstring("is [16, 1], expected [32]"));
  CHECK_THAT(complaint(bert().key("bert.classifier.pooling_type", 3)), ContainsSubstring("pooling_type"));
  CHECK_THAT(complaint(bert().array("bert.classifier.output_labels", Words{"a", "b"})),
             ContainsSubstring("2 names"));
  CHECK_THAT(complaint(qwen3().array("qwen3.classifier.output_labels", Words{"no", "yes"})),
             ContainsSubstring("2 classes"));
  CHECK_THAT(complaint(qwen3().without_key("tokenizer.chat_template.rerank")),
             ContainsSubstring("tokenizer.chat_template.rerank") && ContainsSubstring("judges"));
  // An architecture without such a head has no role for the tensor.
  CHECK_THAT(bind_complaint(TinyModel().random_tensor("cls.output.weight", {32, 1}, 0.0, 0.5)),
             ContainsSubstring("cls.output.weight"));
}

}  // namespace hearth::test
