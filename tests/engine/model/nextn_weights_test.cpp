// Binding the layer that predicts later tokens: optional tensors, and files whose layer cannot be used.
#include "engine/model/nextn_weights.h"

#include <optional>

#include "tests/support/catch.h"
#include "tests/support/delta_model.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

using D = TinyDelta;

const std::string kLayer = "blk." + std::to_string(D::kLayers) + ".";

/// A tiny qwen35 with the layer, without optional tensors.
TinyModel with_layer() {
  TinyModel model = tiny_delta("qwen35");
  model.key("qwen35.block_count", D::kLayers + 1)
      .key("qwen35.nextn_predict_layers", 1)
      .without_key("qwen35.attention.recurrent_layers");
  const auto matrix = [&](const char* name, int n_cols, int n_rows) {
    model.random_tensor(kLayer + name + ".weight", {n_cols, n_rows}, 0.0, 0.3);
  };
  matrix("attn_q", D::kModel, 2 * D::kHeads * D::kHeadDim);
  matrix("attn_k", D::kModel, D::kKvHeads * D::kHeadDim);
  matrix("attn_v", D::kModel, D::kKvHeads * D::kHeadDim);
  matrix("attn_output", D::kHeads * D::kHeadDim, D::kModel);
  matrix("ffn_gate", D::kModel, D::kFf);
  matrix("ffn_up", D::kModel, D::kFf);
  matrix("ffn_down", D::kFf, D::kModel);
  matrix("nextn.eh_proj", 2 * D::kModel, D::kModel);
  for (const char* name : {"attn_norm", "post_attention_norm", "nextn.enorm", "nextn.hnorm"})
    model.random_tensor(kLayer + name + ".weight", {D::kModel}, 1.0, 0.3);
  for (const char* name : {"attn_q_norm", "attn_k_norm"})
    model.random_tensor(kLayer + name + ".weight", {D::kHeadDim}, 1.0, 0.3);
  return model;
}

/// A file's weights and those of its layer.
struct Bound {
  explicit Bound(const TinyModel& model) {
    model.write(folder / "model.gguf");
    file.emplace(ModelFile::open(folder / "model.gguf"));
    spec = read_model_spec(*file);
    weights = bind_weights(*file, spec);
    nextn = bind_nextn(*file, spec, weights);
  }
  const NextnWeights* layer() const { return std::get<0>(nextn).get(); }
  std::string why() const { return std::get<1>(nextn); }
  const std::byte* stored(const std::string& name) const { return file->find_tensor(name)->data; }

  TempFolder folder;
  std::optional<ModelFile> file;
  ModelSpec spec;
  Weights weights;
  std::variant<std::unique_ptr<const NextnWeights>, std::string> nextn;
};

}  // namespace

TEST_CASE("next-token layer: it uses the model's embeddings, output and output norm, or its own") {
  {
    const Bound bound(with_layer());
    REQUIRE(bound.layer() != nullptr);
    const NextnWeights& layer = *bound.layer();
    CHECK(layer.spec.n_layers == 1);
    CHECK_FALSE(layer.spec.layer(0).recurrent);
    CHECK_FALSE(layer.spec.recurrent);
    CHECK(layer.n_heads() == 1);
    const NextnHead& head = layer.heads.front();
    CHECK(head.join.weight.data == bound.stored(kLayer + "nextn.eh_proj.weight"));
    CHECK(head.weights.layers.front().q.weight.data == bound.stored(kLayer + "attn_q.weight"));
    CHECK(head.weights.token_embedding.data == bound.weights.token_embedding.data);
    CHECK(head.weights.output.weight.data == bound.weights.output.weight.data);
    CHECK(head.weights.output_norm.scale == bound.weights.output_norm.scale);
  }
  TinyModel model = with_layer();
  const int n_vocab = Bound(model).spec.n_vocab;
  model.random_tensor(kLayer + "nextn.embed_tokens.weight", {D::kModel, n_vocab}, 0.0, 0.3)
      .random_tensor(kLayer + "nextn.shared_head_head.weight", {D::kModel, n_vocab}, 0.0, 0.3)
      .random_tensor(kLayer + "nextn.shared_head_norm.weight", {D::kModel}, 1.0, 0.3);
  const Bound bound(model);
  REQUIRE(bound.layer() != nullptr);
  const Weights& own = bound.layer()->heads.front().weights;
  CHECK(own.token_embedding.data == bound.stored(kLayer + "nextn.embed_tokens.weight"));
  CHECK(own.output.weight.data == bound.stored(kLayer + "nextn.shared_head_head.weight"));
  CHECK(own.output_norm.scale != bound.weights.output_norm.scale);
}

TEST_CASE("next-token layer: a model without a usable layer runs without it") {
  CHECK(Bound(tiny_delta("qwen35")).layer() == nullptr);
  // Quantizers leave the layer out and keep the key.
  TinyModel key_only = tiny_delta("qwen35");
  key_only.key("qwen35.block_count", D::kLayers + 1)
      .key("qwen35.nextn_predict_layers", 1)
      .without_key("qwen35.attention.recurrent_layers");
  CHECK(Bound(key_only).layer() == nullptr);
  for (const char* name : {"nextn.enorm.weight", "nextn.hnorm.weight", "attn_k.weight", "ffn_down.weight"}) {
    CHECK_THAT(Bound(with_layer().without_tensor(kLayer + name)).why(),
               ContainsSubstring("\"" + kLayer + name + "\" is missing"));
  }
  CHECK_THAT(
      Bound(with_layer().random_tensor(kLayer + "nextn.eh_proj.weight", {D::kModel, D::kModel}, 0, 1)).why(),
      ContainsSubstring("nextn.eh_proj.weight\" is [32, 32], expected [64, 32]"));
}

TEST_CASE("next-token layer: layers that are put together in another way are not used") {
  TinyModel model("falcon");
  model.key("falcon.block_count", 3)
      .key("falcon.nextn_predict_layers", 1)
      .random_tensor("blk.2.nextn.eh_proj.weight", {64, 32}, 0, 1);
  CHECK_THAT(Bound(model).why(), ContainsSubstring("architecture falcon"));
}

}  // namespace hearth::test
