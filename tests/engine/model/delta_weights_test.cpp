// Binding the tensors of recurrent layers: every form that files have gives the same roles, and each tensor
// that is missing, misshapen or without a role is refused by name.
#include "engine/model/delta_weights.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "kernels/memory.h"
#include "tests/support/catch.h"
#include "tests/support/delta_model.h"
#include "tests/support/source_dir.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

using D = TinyDelta;

/// A model's weights and the objects that they point into.
struct BoundDelta {
  explicit BoundDelta(const TinyModel& model) {
    model.write(folder / "model.gguf");
    file.emplace(ModelFile::open(folder / "model.gguf"));
    spec = read_model_spec(*file);
    weights = bind_weights(*file, spec);
  }
  const DeltaWeights& layer(size_t i) const { return weights.layers[i].delta; }
  const float* stored(const std::string& name) const {
    return reinterpret_cast<const float*>(file->find_tensor(name)->data);
  }
  TempFolder folder;
  std::optional<ModelFile> file;
  ModelSpec spec;
  Weights weights;
};

std::string refusal(const TinyModel& model) {
  try {
    const BoundDelta bound(model);
  } catch (const ModelFileError& error) {
    const std::string text = error.what();
    CHECK(text.find('\n') == std::string::npos);
    return text;
  }
  return {};
}

bool same_floats(const float* a, const float* b, int64_t n) {
  return std::memcmp(a, b, static_cast<size_t>(n) * sizeof(float)) == 0;
}

/// Whether the n rows of `matrix` from row `first` on equal rows of `all` from row `other` on.
bool same_rows(const Linear& matrix, int64_t first, const float* all, int64_t other, int64_t n) {
  const auto* data = reinterpret_cast<const float*>(matrix.weight.data);
  const int64_t n_cols = matrix.weight.n_cols;
  return same_floats(data + first * n_cols, all + other * n_cols, n * n_cols);
}

void check_shape(const Linear& linear, int64_t n_rows, int64_t n_cols) {
  CHECK(linear.weight.dtype == DType::kF32);
  CHECK(linear.weight.n_rows == n_rows);
  CHECK(linear.weight.n_cols == n_cols);
  CHECK(linear.bias == nullptr);
}

/// A model of tests/data/arch.
struct ArchModel {
  ModelFile file;
  ModelSpec spec;
  Weights weights;
};

bool same_bytes(const Matrix& a, const Matrix& b) {
  return a.dtype == b.dtype && a.n_rows == b.n_rows && a.n_cols == b.n_cols &&
         (!a || std::memcmp(a.data, b.data, a.bytes()) == 0);
}

void check_same(const RecurrentShape& delta, const DeltaWeights& a, const DeltaWeights& b) {
  REQUIRE((a.taps == nullptr) == (b.taps == nullptr));
  if (a.taps == nullptr) return;
  CHECK(same_bytes(a.qkv.weight, b.qkv.weight));
  CHECK(same_bytes(a.z.weight, b.z.weight));
  CHECK(same_bytes(a.beta.weight, b.beta.weight));
  CHECK(same_bytes(a.alpha.weight, b.alpha.weight));
  CHECK(same_bytes(a.out.weight, b.out.weight));
  CHECK(same_floats(a.taps, b.taps, int64_t{delta.n_taps} * delta.conv_dim()));
  CHECK(same_floats(a.dt, b.dt, delta.n_v_heads));
  CHECK(same_floats(a.a, b.a, delta.n_v_heads));
  CHECK(same_floats(a.norm, b.norm, delta.head_dim));
}

/// The bytes of attention in a recurrent layer, and in the full layer.
constexpr size_t kRecurrentBytes =
    sizeof(float) * D::kModel * (D::kConvDim + 2 * D::kValueDim + 2 * D::kValueHeads);
constexpr size_t kFullBytes = sizeof(float) * D::kModel * (3 * D::kHeads + 2 * D::kKvHeads) * D::kHeadDim;

}  // namespace

TEST_CASE("delta weights: every tensor of a qwen35 file gets its role") {
  const BoundDelta bound(tiny_delta("qwen35"));
  const DeltaWeights& w = bound.layer(4);
  const auto is = [&](const Linear& linear, const char* name, int64_t n_rows, int64_t n_cols) {
    INFO(name);
    CHECK(linear.weight.data == bound.file->find_tensor(name)->data);
    check_shape(linear, n_rows, n_cols);
  };
  is(w.qkv, "blk.4.attn_qkv.weight", 80, 32);
  is(w.z, "blk.4.attn_gate.weight", 48, 32);
  is(w.beta, "blk.4.ssm_beta.weight", 6, 32);
  is(w.alpha, "blk.4.ssm_alpha.weight", 6, 32);
  is(w.out, "blk.4.ssm_out.weight", 32, 48);
  CHECK(same_floats(w.dt, bound.stored("blk.4.ssm_dt.bias"), 6));
  CHECK(same_floats(w.a, bound.stored("blk.4.ssm_a"), 6));
  CHECK(same_floats(w.norm, bound.stored("blk.4.ssm_norm.weight"), 8));
  const float* taps = bound.stored("blk.4.ssm_conv1d.weight");
  for (int tap = 0; tap < D::kTaps; ++tap) {
    for (int channel = 0; channel < D::kConvDim; ++channel)
      REQUIRE(w.taps[tap * D::kConvDim + channel] == taps[channel * D::kTaps + tap]);
  }
  // All vectors fit: those bound last are whole too.
  CHECK(same_floats(bound.weights.output_norm.scale, bound.stored("output_norm.weight"), 32));
  const LayerWeights& layer = bound.weights.layers[4];
  CHECK(same_floats(layer.ffn_norm.scale, bound.stored("blk.4.post_attention_norm.weight"), 32));
  CHECK_FALSE(layer.q.weight);
  CHECK_FALSE(layer.attention_out.weight);
  CHECK(layer.q_norm == nullptr);
  CHECK(bound.weights.copied_bytes() == 0);
}

TEST_CASE("delta weights: the queries of a full layer have gates, also in a fused tensor") {
  const BoundDelta bound(tiny_delta("qwen35"));
  const LayerWeights& layer = bound.weights.layers[3];
  CHECK(layer.q.weight.data == bound.file->find_tensor("blk.3.attn_q.weight")->data);
  check_shape(layer.q, 128, 32);
  CHECK_FALSE(layer.delta.qkv.weight);
  CHECK(layer.delta.taps == nullptr);
  TinyModel model = tiny_delta("qwen35");
  for (const char* name : {"attn_q", "attn_k", "attn_v"})
    model.without_tensor(std::string("blk.3.") + name + ".weight");
  model.random_tensor("blk.3.attn_qkv.weight", {32, 128 + 2 * 32}, 0, 1);
  const BoundDelta fused(model);
  const LayerWeights& parts = fused.weights.layers[3];
  const float* all = fused.stored("blk.3.attn_qkv.weight");
  check_shape(parts.q, 128, 32);
  CHECK(same_rows(parts.q, 0, all, 0, 128));
  CHECK(same_rows(parts.k, 0, all, 128, 32));
  CHECK(same_rows(parts.v, 0, all, 160, 32));
}

TEST_CASE("delta weights: a mixture's layers have experts and a gated shared expert") {
  for (const char* name : {"qwen35moe", "qwen3next"}) {
    INFO(name);
    const BoundDelta bound(tiny_delta(name));
    for (const LayerWeights& layer : bound.weights.layers) {
      CHECK(layer.mixture.experts.size() == 4);
      CHECK(layer.mixture.shared.size() == 1);
      CHECK(layer.mixture.shared_gate.weight.n_rows == 1);
    }
    TinyModel with_row = tiny_delta(name);  // converters write [d_model, 1]; quantizers drop the 1
    with_row.random_tensor("blk.1.ffn_gate_inp_shexp.weight", {32, 1}, 0, 1);
    CHECK(refusal(with_row).empty());
  }
}

TEST_CASE("delta weights: beta and alpha are packed by key head in ssm_ba, beta first") {
  const BoundDelta bound(tiny_delta("qwen3next"));
  for (const size_t i : {0, 4}) {
    const DeltaWeights& w = bound.layer(i);
    const float* all = bound.stored("blk." + std::to_string(i) + ".ssm_ba.weight");
    check_shape(w.beta, 6, 32);
    check_shape(w.alpha, 6, 32);
    CHECK(same_rows(w.beta, 0, all, 0, 3));
    CHECK(same_rows(w.alpha, 0, all, 3, 3));
    CHECK(same_rows(w.beta, 3, all, 6, 3));
    CHECK(same_rows(w.alpha, 3, all, 9, 3));
  }
  // 12 rows in each of 4 layers.
  CHECK(bound.weights.copied_bytes() == 4 * 12 * 32 * sizeof(float));
}

TEST_CASE("delta weights: q, k, v and z are packed by key head in ssm_in of old files") {
  TinyModel model = tiny_delta("qwen3next");
  pack_inputs(model, 1);
  const BoundDelta bound(model);
  const DeltaWeights& w = bound.layer(1);
  const float* all = bound.stored("blk.1.ssm_in.weight");
  check_shape(w.qkv, 80, 32);
  check_shape(w.z, 48, 32);
  const int64_t of_head = 8 + 8 + 24 + 24;
  for (const int64_t head : {0, 1}) {
    INFO("key head " << head);
    CHECK(same_rows(w.qkv, head * 8, all, head * of_head, 8));
    CHECK(same_rows(w.qkv, 16 + head * 8, all, head * of_head + 8, 8));
    CHECK(same_rows(w.qkv, 32 + head * 24, all, head * of_head + 16, 24));
    CHECK(same_rows(w.z, head * 24, all, head * of_head + 40, 24));
  }
  CHECK(bound.weights.copied_bytes() == (4 * 12 + 128) * 32 * sizeof(float));
  // A file with both forms would leave one without effect.
  model.random_tensor("blk.1.attn_gate.weight", {32, 48}, 0, 1);
  CHECK_THAT(refusal(model), ContainsSubstring("\"blk.1.attn_gate.weight\" is not a part"));
}

TEST_CASE("delta weights: packed rows may be quantized") {
  Bytes data(12 * row_bytes(DType::kQ8_0, 32));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i % 97);
  const BoundDelta bound(tiny_delta("qwen3next").tensor("blk.2.ssm_ba.weight", DType::kQ8_0, {32, 12}, data));
  const DeltaWeights& w = bound.layer(2);
  CHECK(w.alpha.weight.dtype == DType::kQ8_0);
  const size_t n = 3 * row_bytes(DType::kQ8_0, 32);
  CHECK(std::memcmp(w.beta.weight.data, data.data(), n) == 0);
  CHECK(std::memcmp(w.alpha.weight.data, data.data() + n, n) == 0);
  CHECK(std::memcmp(w.alpha.weight.row(3), data.data() + 3 * n, n) == 0);
}

TEST_CASE("delta weights: Ollama's names and further tensors") {
  TinyModel model = tiny_delta("qwen35");
  for (const char* layer : {"blk.0.", "blk.1.", "blk.2.", "blk.4."}) {
    model.without_tensor(std::string(layer) + "ssm_dt.bias")
        .random_tensor(std::string(layer) + "ssm_dt", {6}, -1, 1);
  }
  for (const char* name : {"v.blk.0.attn_q.weight", "mm.0.weight", "mtp.fc.weight"})
    model.random_tensor(name, {8, 4}, 0, 1);
  const BoundDelta bound(model);
  CHECK(same_floats(bound.layer(4).dt, bound.stored("blk.4.ssm_dt"), 6));
  // Other architectures have no role for them, and these models for no others.
  CHECK_THAT(refusal(TinyModel("qwen3").random_tensor("mtp.fc.weight", {8, 4}, 0, 1)),
             ContainsSubstring("\"mtp.fc.weight\" is not a part of architecture qwen3"));
  for (const char* name :
       {"blk.0.prism_hadamard.weight", "blk.3.ssm_norm.weight", "blk.0.attn_q_norm.weight",
        "blk.0.attn_qkv.scale", "vv.0.weight", "blk.5.attn_norm.weight", "blk.0.ssm_conv1d.bias"}) {
    INFO(name);
    CHECK_THAT(refusal(tiny_delta("qwen35").random_tensor(name, {8}, 1, 0)),
               ContainsSubstring(std::string("\"") + name + "\" is not a part of architecture qwen35"));
  }
}

TEST_CASE("delta weights: a file has one name of the time steps' biases, not both") {
  CHECK_THAT(refusal(tiny_delta("qwen35").random_tensor("blk.0.ssm_dt", {6}, -1, 1)),
             ContainsSubstring("\"blk.0.ssm_dt.bias\" is not a part of architecture qwen35"));
}

TEST_CASE("delta weights: the layer that predicts later tokens is skipped") {
  TinyModel model = tiny_delta("qwen35");
  model.key("qwen35.block_count", 6)
      .key("qwen35.nextn_predict_layers", 1)
      .without_key("qwen35.attention.recurrent_layers")
      .random_tensor("blk.5.nextn.eh_proj.weight", {64, 32}, 0, 1)
      .random_tensor("blk.5.attn_norm.weight", {32}, 0, 1);
  CHECK(BoundDelta(model).weights.layers.size() == 5);
}

TEST_CASE("delta weights: missing and misshapen tensors are refused by name") {
  for (const char* name :
       {"attn_qkv.weight", "attn_gate.weight", "ssm_beta.weight", "ssm_alpha.weight", "ssm_out.weight",
        "ssm_conv1d.weight", "ssm_dt.bias", "ssm_a", "ssm_norm.weight", "post_attention_norm.weight"}) {
    INFO(name);
    CHECK_THAT(refusal(tiny_delta("qwen35").without_tensor(std::string("blk.2.") + name)),
               ContainsSubstring(std::string("\"blk.2.") + name + "\" is missing"));
  }
  struct Case {
    const char* architecture;
    const char* name;
    std::vector<int64_t> shape;
    const char* says;
  };
  const std::vector<Case> cases = {
      {"qwen35", "attn_qkv.weight", {32, 128}, "is [32, 128], expected [32, 80]"},
      {"qwen35", "attn_gate.weight", {48, 32}, "is [48, 32], expected [32, 48]"},
      {"qwen35", "ssm_alpha.weight", {32, 12}, "is [32, 12], expected [32, 6]"},
      {"qwen35", "ssm_out.weight", {32, 48}, "is [32, 48], expected [48, 32]"},
      {"qwen35", "ssm_conv1d.weight", {3, 80}, "is [3, 80], expected [4, 80]"},
      {"qwen35", "ssm_conv1d.weight", {80, 4}, "is [80, 4], expected [4, 80]"},
      {"qwen35", "ssm_conv1d.weight", {4, 2, 40}, "is [4, 2, 40], expected [4, 80]"},
      {"qwen35", "ssm_a", {6, 2}, "is [6, 2], expected [6]"},
      {"qwen35", "ssm_norm.weight", {48}, "is [48], expected [8]"},
      {"qwen3next", "ssm_ba.weight", {32, 6}, "is [32, 6], expected [32, 12]"},
      {"qwen3next", "ssm_in.weight", {32, 80}, "is [32, 80], expected [32, 128]"},
  };
  for (const Case& bad : cases) {
    INFO(bad.name << ' ' << bad.says);
    const std::string name = std::string("blk.0.") + bad.name;
    CHECK_THAT(refusal(tiny_delta(bad.architecture).random_tensor(name, bad.shape, -0.5, 0.1)),
               ContainsSubstring("\"" + name + "\" " + bad.says));
  }
  CHECK_THAT(refusal(tiny_delta("qwen35").random_tensor("blk.3.attn_q.weight", {32, 64}, 0, 1)),
             ContainsSubstring("\"blk.3.attn_q.weight\" is [32, 64], expected [32, 128]"));
}

TEST_CASE("delta weights: decays that would let a state grow are refused") {
  const auto with = [](float bad) {
    return tiny_delta("qwen35").tensor("blk.1.ssm_a", {6}, {-1.0f, -0.5f, bad, -1.0f, -2.0f, -3.0f});
  };
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {0.5f, infinity, -infinity, std::nanf("")}) {
    INFO(bad);
    CHECK_THAT(refusal(with(bad)), ContainsSubstring("\"blk.1.ssm_a\" holds a number that is not zero or "
                                                     "negative; the file is damaged"));
  }
  CHECK(refusal(with(0.0f)).empty());
}

TEST_CASE("delta weights: two forms of one model in tests/data/arch give equal weights") {
  const auto bound = [](const std::string& name) {
    ArchModel model{
        ModelFile::open(std::filesystem::path(testing::source_dir()) / "tests/data/arch" / (name + ".gguf")),
        {},
        {}};
    model.spec = read_model_spec(model.file);
    model.weights = bind_weights(model.file, model.spec);
    return model;
  };
  const std::vector<std::pair<const char*, const char*>> pairs = {{"qwen3next", "qwen3next-legacy"},
                                                                  {"qwen35moe", "qwen35moe-ollama"}};
  for (const auto& [name, other_name] : pairs) {
    INFO(other_name);
    const ArchModel model = bound(name), other = bound(other_name);
    REQUIRE(model.spec.n_layers == other.spec.n_layers);
    CHECK(model.spec.n_kv_heads == other.spec.n_kv_heads);
    CHECK(model.spec.recurrent.tiled == other.spec.recurrent.tiled);
    int n_recurrent = 0;
    for (int i = 0; i < model.spec.n_layers; ++i) {
      INFO("layer " << i);
      CHECK(model.spec.layer(i).recurrent == other.spec.layer(i).recurrent);
      n_recurrent += model.spec.layer(i).recurrent ? 1 : 0;
      const auto at = static_cast<size_t>(i);
      check_same(model.spec.recurrent, model.weights.layers[at].delta, other.weights.layers[at].delta);
      CHECK(same_bytes(model.weights.layers[at].q.weight, other.weights.layers[at].q.weight));
    }
    CHECK(n_recurrent == 4);
  }
  for (const char* name : {"qwen35", "qwen35-equal", "qwen35-tied"}) {
    INFO(name);
    const ArchModel model = bound(name);
    CHECK(model.weights.layers[4].delta.qkv.weight.n_rows == model.spec.recurrent.conv_dim());
    CHECK(model.spec.layer(name == std::string("qwen35-equal") ? 2 : 3).recurrent == false);
    CHECK(model.weights.tied() == (name == std::string("qwen35-tied")));
  }
}

TEST_CASE("delta weights: sizes count the matrices of recurrent layers") {
  const BoundDelta bound(tiny_delta("qwen35"));
  CHECK(attention_bytes(bound.weights.layers[0]) == kRecurrentBytes);
  CHECK(attention_bytes(bound.weights.layers[3]) == kFullBytes);
  const size_t ffns = sizeof(float) * 5 * 3 * D::kFf * D::kModel;
  const size_t output = sizeof(float) * 259 * D::kModel;
  CHECK(bound.weights.bytes_per_token(bound.spec) == 4 * kRecurrentBytes + kFullBytes + ffns + output);
  const BoundDelta next(tiny_delta("qwen3next"));
  CHECK(attention_bytes(next.weights.layers[0]) == kRecurrentBytes);
}

TEST_CASE("delta weights: a device gets the matrices and vectors of a recurrent layer") {
  const BoundDelta bound(tiny_delta("qwen35"));
  const auto bytes_of = [](const auto& place) {
    MemoryMeter meter;
    place(meter);
    return meter.bytes();
  };
  // Norms before attention and the FFN, taps, dt, a and the norm of values. The meter rounds up each vector.
  const size_t vectors =
      2 * piece_bytes(D::kModel * sizeof(float)) + piece_bytes(D::kTaps * D::kConvDim * sizeof(float)) +
      2 * piece_bytes(D::kValueHeads * sizeof(float)) + piece_bytes(D::kState * sizeof(float));
  CHECK(bytes_of([&](Memory& memory) { bound.weights.vectors_on(memory, bound.spec, 0); }) == vectors);
  size_t matrices = 0;
  const DeltaWeights& w = bound.layer(0);
  for (const Linear* linear : {&w.qkv, &w.z, &w.beta, &w.alpha, &w.out})
    matrices += piece_bytes(linear->weight.bytes());
  CHECK(bytes_of([&](Memory& memory) { bound.weights.layer_on(memory, bound.spec, 0, false); }) ==
        vectors + matrices);
}

}  // namespace hearth::test
