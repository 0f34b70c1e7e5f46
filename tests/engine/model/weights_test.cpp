// Binding tensors to their roles: what a correct file gives, and one message for every tensor that is
// missing, has another shape or has no role.
#include "engine/model/weights.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/quant/dequantize.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

/// A model's weights and the objects that they point into.
struct Bound {
  explicit Bound(const TinyModel& model) {
    model.write(folder / "model.gguf");
    file.emplace(ModelFile::open(folder / "model.gguf"));
    spec = read_model_spec(*file);
    weights = bind_weights(*file, spec);
  }
  TempFolder folder;
  CpuBackend backend{1, Isa::kScalar};
  std::optional<ModelFile> file;
  ModelSpec spec;
  Weights weights;
};

std::string weights_complaint(const TinyModel& model) {
  try {
    const Bound bound(model);
  } catch (const ModelFileError& error) {
    const std::string text = error.what();
    CHECK_THAT(text, ContainsSubstring("model.gguf: "));
    CHECK(text.find('\n') == std::string::npos);
    return text;
  }
  return {};
}

const float* stored(const Bound& bound, const char* name) {
  return reinterpret_cast<const float*>(bound.file->find_tensor(name)->data);
}

bool same(const float* a, const float* b, int n) {
  return std::memcmp(a, b, static_cast<size_t>(n) * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("weights: every tensor of a llama file gets its role") {
  const Bound bound{TinyModel()};
  const Weights& w = bound.weights;
  REQUIRE(w.layers.size() == 2);
  const LayerWeights& layer = w.layers[1];
  const auto is = [&](const Matrix& matrix, const char* name, int64_t n_rows, int64_t n_cols) {
    INFO(name);
    CHECK(matrix.data == bound.file->find_tensor(name)->data);
    CHECK(matrix.dtype == DType::kF32);
    CHECK(matrix.n_rows == n_rows);
    CHECK(matrix.n_cols == n_cols);
  };
  is(w.token_embedding, "token_embd.weight", 259, 32);
  is(layer.q.weight, "blk.1.attn_q.weight", 32, 32);
  is(layer.k.weight, "blk.1.attn_k.weight", 16, 32);
  is(layer.v.weight, "blk.1.attn_v.weight", 16, 32);
  is(layer.attention_out.weight, "blk.1.attn_output.weight", 32, 32);
  is(layer.gate.weight, "blk.1.ffn_gate.weight", 48, 32);
  is(layer.up.weight, "blk.1.ffn_up.weight", 48, 32);
  is(layer.down.weight, "blk.1.ffn_down.weight", 32, 48);
  is(w.output.weight, "output.weight", 259, 32);
  CHECK(same(layer.attention_norm.scale, stored(bound, "blk.1.attn_norm.weight"), 32));
  CHECK(same(layer.ffn_norm.scale, stored(bound, "blk.1.ffn_norm.weight"), 32));
  CHECK(same(w.output_norm.scale, stored(bound, "output_norm.weight"), 32));
  CHECK(layer.attention_norm.bias == nullptr);
  CHECK(layer.q.bias == nullptr);
  CHECK(layer.q_norm == nullptr);
  CHECK(w.rope_divisors.empty());
  // 2 layers of (32 + 16 + 16 + 32) * 32 + 3 * 48 * 32 weights, and the output matrix.
  CHECK(w.bytes_per_token(bound.spec) == sizeof(float) * (2 * (96 * 32 + 3 * 48 * 32) + 259 * 32));
}

TEST_CASE("weights: an encoder has norms of sums, token types, positions and no output") {
  const Bound bound{TinyModel("bert")};
  const Weights& w = bound.weights;
  const LayerWeights& layer = w.layers[1];
  CHECK(w.token_types.n_rows == 2);
  CHECK(w.position_embedding.n_rows == 64);
  CHECK(same(w.embedding_norm.bias, stored(bound, "token_embd_norm.bias"), 32));
  CHECK(layer.attention_norm.scale == nullptr);
  CHECK(layer.ffn_norm.scale == nullptr);
  CHECK(same(layer.attention_post_norm.scale, stored(bound, "blk.1.attn_output_norm.weight"), 32));
  CHECK(same(layer.ffn_post_norm.bias, stored(bound, "blk.1.layer_output_norm.bias"), 32));
  CHECK(w.output_norm.scale == nullptr);
  CHECK_FALSE(w.output.weight);
  CHECK_FALSE(w.tied());
  CHECK(w.bytes_per_token(bound.spec) == sizeof(float) * 2 * (96 * 32 + 2 * 48 * 32));
  for (const char* name : {"token_types.weight", "token_embd_norm.weight", "token_embd_norm.bias",
                           "blk.0.attn_output_norm.weight", "blk.1.layer_output_norm.bias"}) {
    CHECK_THAT(weights_complaint(TinyModel("bert").without_tensor(name)),
               ContainsSubstring(name) && ContainsSubstring("is missing"));
  }
  CHECK_THAT(weights_complaint(TinyModel("bert").random_tensor("token_types.weight", {16, 2}, 0, 1)),
             ContainsSubstring("token_types.weight") && ContainsSubstring("[16, 2], expected [32, 2]"));
  CHECK_THAT(weights_complaint(TinyModel("bert").random_tensor("output.weight", {32, 259}, 0, 1)),
             ContainsSubstring("output.weight") && ContainsSubstring("not a part of architecture bert"));
}

TEST_CASE("weights: a norm of each head's own has one row per head, or is absent") {
  const auto model = [] {
    TinyModel command("command-r");
    command.key("command-r.attention.layer_norm_epsilon", 1e-5f);
    for (const char* layer : {"blk.0.", "blk.1."})
      command.without_tensor(std::string(layer) + "ffn_norm.weight");
    return command;
  };
  CHECK(Bound{model()}.weights.layers[0].q_norm == nullptr);
  const auto with = [&](const std::vector<int64_t>& q, const std::vector<int64_t>& k) {
    TinyModel command = model();
    for (const std::string layer : {"blk.0.", "blk.1."}) {
      command.random_tensor(layer + "attn_q_norm.weight", q, 1, 0.3);
      command.random_tensor(layer + "attn_k_norm.weight", k, 1, 0.3);
    }
    return command;
  };
  const Bound bound{with({8, 4}, {8, 2})};
  CHECK(same(bound.weights.layers[1].q_norm, stored(bound, "blk.1.attn_q_norm.weight"), 32));
  CHECK(same(bound.weights.layers[1].k_norm, stored(bound, "blk.1.attn_k_norm.weight"), 16));
  for (const std::vector<int64_t>& wrong : {std::vector<int64_t>{8}, {8, 3}, {32}, {4, 8}, {8, 4, 2}}) {
    CHECK_THAT(weights_complaint(with(wrong, {8, 2})),
               ContainsSubstring("blk.0.attn_q_norm.weight") && ContainsSubstring("expected [8, 4]"));
  }
  CHECK_THAT(weights_complaint(with({8, 4}, {8, 4})), ContainsSubstring("attn_k_norm.weight"));
}

TEST_CASE("weights: queries grow by the logarithm of the stretches before them") {
  const Bound bound{TinyModel("mistral3")
                        .key("mistral3.attention.temperature_scale", 0.5f)
                        .key("mistral3.rope.scaling.original_context_length", uint32_t{16})};
  const std::vector<float>& growth = bound.weights.query_growth;
  REQUIRE(growth.size() == 5);  // for 64 positions and the end
  CHECK(growth[0] == 1.0f);
  CHECK(growth[3] == static_cast<float>(1.0 + 0.5 * std::log(4.0)));
  CHECK(bound.weights.layers[1].query_growth == growth.data());
  CHECK(Bound{TinyModel()}.weights.layers[1].query_growth == nullptr);
}

TEST_CASE("weights: a PowerInfer file has rows of down and a predictor in every layer") {
  const Bound bound{TinyModel().powerinfer()};
  const Weights& w = bound.weights;
  CHECK(w.has_predictors());
  CHECK(w.has_down_rows());
  for (int i = 0; i < 2; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    const LayerWeights& layer = w.layers[static_cast<size_t>(i)];
    const auto is = [&](const Matrix& matrix, const char* name, int64_t n_rows, int64_t n_cols) {
      INFO(prefix << name);
      CHECK(matrix.data == bound.file->find_tensor(prefix + name)->data);
      CHECK(matrix.n_rows == n_rows);
      CHECK(matrix.n_cols == n_cols);
    };
    is(layer.predictor_in, "fc1.weight", 8 + 4 * i, 32);
    is(layer.predictor_out, "fc2.weight", 48, 8 + 4 * i);
    is(layer.down_rows.weight, "ffn_down_t.weight", 48, 32);
    CHECK(layer.down_rows.bias == nullptr);
    CHECK_FALSE(layer.down.weight);
  }
  // A dense pass reads no predictor.
  CHECK(w.bytes_per_token(bound.spec) == sizeof(float) * (2 * (96 * 32 + 3 * 48 * 32) + 259 * 32));

  TinyModel with_bias;
  with_bias.powerinfer().random_tensor("blk.1.ffn_down_t.bias", {32}, 0, 1);
  const Bound biased{with_bias};
  CHECK(same(biased.weights.layers[1].down_rows.bias, stored(biased, "blk.1.ffn_down_t.bias"), 32));
}

TEST_CASE("weights: a plain file has no predictors, and a PowerInfer file may lack them all") {
  const Bound plain{TinyModel()};
  CHECK_FALSE(plain.weights.has_predictors());
  CHECK_FALSE(plain.weights.has_down_rows());
  TinyModel without;
  without.powerinfer();
  for (const char* name : {"blk.0.fc1.weight", "blk.0.fc2.weight", "blk.1.fc1.weight", "blk.1.fc2.weight"}) {
    without.without_tensor(name);
  }
  const Bound bound{without};
  CHECK_FALSE(bound.weights.has_predictors());
  CHECK(bound.weights.has_down_rows());
}

TEST_CASE("weights: predictors that do not fit are refused") {
  const auto said = [](const std::function<void(TinyModel&)>& change) {
    TinyModel model;
    change(model.powerinfer());
    return weights_complaint(model);
  };
  CHECK_THAT(
      said([](TinyModel& m) { m.without_tensor("blk.1.fc1.weight").without_tensor("blk.1.fc2.weight"); }),
      ContainsSubstring("\"blk.1.fc1.weight\" is missing, but layer 0 has a predictor"));
  CHECK_THAT(
      said([](TinyModel& m) { m.without_tensor("blk.0.fc1.weight").without_tensor("blk.0.fc2.weight"); }),
      ContainsSubstring("\"blk.0.fc1.weight\" is missing, but layer 1 has a predictor"));
  CHECK_THAT(said([](TinyModel& m) { m.without_tensor("blk.1.fc2.weight"); }),
             ContainsSubstring("\"blk.1.fc2.weight\" is missing"));
  CHECK_THAT(said([](TinyModel& m) { m.without_tensor("blk.0.fc1.weight"); }),
             ContainsSubstring("\"blk.0.fc1.weight\" is missing"));
  CHECK_THAT(said([](TinyModel& m) {
               m.random_tensor("blk.0.fc2.weight", {12, 48}, 0, 1);
             }),
             ContainsSubstring("\"blk.0.fc2.weight\" is [12, 48], expected [8, 48]"));
  CHECK_THAT(said([](TinyModel& m) {
               m.random_tensor("blk.0.fc1.weight", {48, 8}, 0, 1);
             }),
             ContainsSubstring("\"blk.0.fc1.weight\" is [48, 8], expected [32, 8]"));
  CHECK_THAT(said([](TinyModel& m) { m.random_tensor("blk.0.fc1.weight", {32}, 0, 1); }),
             ContainsSubstring("\"blk.0.fc2.weight\" is [8, 48], expected [1, 48]"));
  CHECK_THAT(said([](TinyModel& m) {
               m.random_tensor("blk.0.fc1.weight", {32, 4, 2}, 0, 1);
             }),
             ContainsSubstring("\"blk.0.fc1.weight\" is [32, 4, 2]"));
  CHECK_THAT(said([](TinyModel& m) {
               m.random_tensor("blk.0.ffn_down_t.weight", {48, 32}, 0, 1);
             }),
             ContainsSubstring("\"blk.0.ffn_down_t.weight\" is [48, 32], expected [32, 48]"));
  CHECK_THAT(said([](TinyModel& m) { m.without_tensor("blk.0.ffn_down_t.weight"); }),
             ContainsSubstring("\"blk.0.ffn_down_t.weight\" is missing"));
  CHECK_THAT(said([](TinyModel& m) {
               m.random_tensor("blk.0.ffn_down.weight", {48, 32}, 0, 1);
             }),
             ContainsSubstring("\"blk.0.ffn_down.weight\" is not a part"));
  const auto of_rank = [](int rank) {
    return [rank](TinyModel& m) {
      m.random_tensor("blk.0.fc1.weight", {32, rank}, 0, 1)
          .random_tensor("blk.0.fc2.weight", {rank, 48}, 0, 1);
    };
  };
  CHECK_THAT(said(of_rank(49)),
             ContainsSubstring("\"blk.0.fc1.weight\" has 49 rows, expected a rank of at most") &&
                 ContainsSubstring("width, 48"));
  CHECK(said(of_rank(48)).empty());
  // In a plain file they have no role.
  CHECK_THAT(weights_complaint(TinyModel().random_tensor("blk.0.fc1.weight", {32, 8}, 0, 1)),
             ContainsSubstring("\"blk.0.fc1.weight\" is not a part"));
}

TEST_CASE("weights: q, k and v may be rows of one tensor, biases too") {
  TinyModel model("falcon");
  model.random_tensor("blk.1.attn_qkv.bias", {64}, 0, 1);
  const Bound bound{model};
  const LayerWeights& layer = bound.weights.layers[1];
  const float* all = stored(bound, "blk.1.attn_qkv.weight");
  const float* bias = stored(bound, "blk.1.attn_qkv.bias");
  const auto is = [&](const Linear& linear, int begin, int n_rows) {
    INFO("rows from " << begin);
    CHECK(reinterpret_cast<const float*>(linear.weight.data) == all + begin * 32);
    CHECK(linear.weight.n_rows == n_rows);
    CHECK(linear.weight.n_cols == 32);
    CHECK(same(linear.bias, bias + begin, n_rows));
  };
  is(layer.q, 0, 32);
  is(layer.k, 32, 16);
  is(layer.v, 48, 16);
  CHECK(bound.weights.layers[0].q.bias == nullptr);
  // If a file had both forms, one of them would have no effect.
  CHECK_THAT(weights_complaint(TinyModel("falcon").random_tensor("blk.0.attn_q.weight", {32, 32}, 0, 1)),
             ContainsSubstring("\"blk.0.attn_q.weight\" is not a part of architecture falcon"));
  CHECK_THAT(weights_complaint(TinyModel("falcon").random_tensor("blk.0.attn_qkv.weight", {32, 96}, 0, 1)),
             ContainsSubstring("is [32, 96], expected [32, 64]"));
}

TEST_CASE("weights: falcon's FFN has no gate and no norm of its own, unless attention has a second") {
  const Bound one{TinyModel("falcon")};
  const LayerWeights& layer = one.weights.layers[0];
  CHECK_FALSE(layer.gate.weight);
  CHECK(layer.ffn_norm.scale == nullptr);
  CHECK(same(layer.attention_norm.scale, stored(one, "blk.0.attn_norm.weight"), 32));
  CHECK(same(layer.attention_norm.bias, stored(one, "blk.0.attn_norm.bias"), 32));

  TinyModel model("falcon");
  for (const char* layer_name : {"blk.0", "blk.1"}) {
    model.random_tensor(std::string(layer_name) + ".attn_norm_2.weight", {32}, 1, 0.3);
    model.random_tensor(std::string(layer_name) + ".attn_norm_2.bias", {32}, 0, 0.3);
  }
  const Bound two{model};
  CHECK(same(two.weights.layers[1].attention_norm.scale, stored(two, "blk.1.attn_norm_2.weight"), 32));
  CHECK(same(two.weights.layers[1].ffn_norm.scale, stored(two, "blk.1.attn_norm.weight"), 32));
  CHECK_THAT(weights_complaint(model.without_tensor("blk.1.attn_norm_2.bias")),
             ContainsSubstring("\"blk.1.attn_norm_2.bias\" is missing"));
  CHECK_THAT(weights_complaint(TinyModel("falcon").without_tensor("blk.0.attn_norm.bias")),
             ContainsSubstring("\"blk.0.attn_norm.bias\" is missing"));
}

TEST_CASE("weights: opt has learned positions, biases and no output matrix") {
  const Bound bound{TinyModel("opt")};
  const Weights& w = bound.weights;
  CHECK(w.position_embedding.n_rows == 66);
  CHECK(w.position_embedding.data == bound.file->find_tensor("position_embd.weight")->data);
  CHECK(w.output.weight.data == w.token_embedding.data);
  CHECK_FALSE(w.layers[0].gate.weight);
  CHECK(same(w.layers[1].up.bias, stored(bound, "blk.1.ffn_up.bias"), 48));
  CHECK(same(w.layers[1].down.bias, stored(bound, "blk.1.ffn_down.bias"), 32));
  const Bound sparse{TinyModel("opt").powerinfer()};
  CHECK(same(sparse.weights.layers[1].down_rows.bias, stored(sparse, "blk.1.ffn_down_t.bias"), 32));
  CHECK_THAT(weights_complaint(TinyModel("opt").random_tensor("position_embd.weight", {48, 66}, 0, 1)),
             ContainsSubstring("\"position_embd.weight\" is [48, 66], expected [32, 66]"));
  CHECK_THAT(weights_complaint(TinyModel().random_tensor("position_embd.weight", {32, 66}, 0, 1)),
             ContainsSubstring("\"position_embd.weight\" is not a part of architecture llama"));
}

TEST_CASE("weights: without an output matrix the embedding is the output") {
  const Bound bound(TinyModel().without_tensor("output.weight"));
  CHECK(bound.weights.output.weight.data == bound.weights.token_embedding.data);
  CHECK(bound.weights.output.weight.n_rows == 259);
  CHECK(bound.weights.bytes_per_token(bound.spec) ==
        sizeof(float) * (2 * (96 * 32 + 3 * 48 * 32) + 259 * 32));
}

TEST_CASE("weights: biases are used where a file has them, and required where its architecture has them") {
  const Bound llama(TinyModel()
                        .random_tensor("blk.0.attn_q.bias", {32}, 0, 1)
                        .random_tensor("blk.0.attn_output.bias", {32}, 0, 1)
                        .random_tensor("blk.0.ffn_down.bias", {32}, 0, 1)
                        .random_tensor("output.bias", {259}, 0, 1));
  CHECK(same(llama.weights.layers[0].q.bias, stored(llama, "blk.0.attn_q.bias"), 32));
  CHECK(same(llama.weights.layers[0].attention_out.bias, stored(llama, "blk.0.attn_output.bias"), 32));
  CHECK(same(llama.weights.layers[0].down.bias, stored(llama, "blk.0.ffn_down.bias"), 32));
  CHECK(same(llama.weights.output.bias, stored(llama, "output.bias"), 259));
  CHECK(llama.weights.layers[0].k.bias == nullptr);
  CHECK(llama.weights.layers[1].q.bias == nullptr);

  const Bound qwen2(TinyModel("qwen2"));
  CHECK(same(qwen2.weights.layers[1].v.bias, stored(qwen2, "blk.1.attn_v.bias"), 16));
  for (const char* name : {"blk.0.attn_q.bias", "blk.1.attn_k.bias", "blk.1.attn_v.bias"}) {
    CHECK_THAT(weights_complaint(TinyModel("qwen2").without_tensor(name)),
               ContainsSubstring(name) && ContainsSubstring("is missing"));
  }
}

TEST_CASE("weights: norms of heads are required in qwen3 and refused in llama") {
  const Bound qwen3(TinyModel("qwen3"));
  CHECK(same(qwen3.weights.layers[1].q_norm, stored(qwen3, "blk.1.attn_q_norm.weight"), 8));
  CHECK(same(qwen3.weights.layers[1].k_norm, stored(qwen3, "blk.1.attn_k_norm.weight"), 8));
  CHECK_THAT(weights_complaint(TinyModel("qwen3").without_tensor("blk.0.attn_k_norm.weight")),
             ContainsSubstring("blk.0.attn_k_norm.weight") && ContainsSubstring("is missing"));
  CHECK_THAT(weights_complaint(TinyModel().random_tensor("blk.0.attn_k_norm.weight", {8}, 1, 0)),
             ContainsSubstring("blk.0.attn_k_norm.weight") && ContainsSubstring("not a part of") &&
                 ContainsSubstring("llama"));
}

TEST_CASE("weights: every missing tensor of a layer is named") {
  for (const char* name :
       {"blk.1.attn_norm.weight", "blk.1.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight",
        "blk.1.attn_output.weight", "blk.1.ffn_norm.weight", "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight",
        "blk.1.ffn_down.weight", "output_norm.weight"}) {
    INFO(name);
    CHECK_THAT(weights_complaint(TinyModel().without_tensor(name)),
               ContainsSubstring("\"" + std::string(name) + "\"") && ContainsSubstring("is missing"));
  }
}

TEST_CASE("weights: a shape that contradicts the keys is reported with both") {
  struct Case {
    const char* name;
    std::vector<int64_t> shape;
    const char* expected;
  };
  const std::vector<Case> cases = {
      {"blk.0.attn_q.weight", {32, 24}, "is [32, 24], expected [32, 32]"},
      {"blk.0.attn_k.weight", {16, 32}, "is [16, 32], expected [32, 16]"},  // transposed
      {"blk.1.ffn_down.weight", {32, 48}, "is [32, 48], expected [48, 32]"},
      {"blk.1.ffn_up.weight", {32, 48, 2}, "is [32, 48, 2], expected [32, 48]"},
      {"blk.1.ffn_gate.weight", {32 * 48}, "is [1536], expected [32, 48]"},  // a vector instead of a matrix
      {"blk.0.attn_norm.weight", {32, 2}, "is [32, 2], expected [32]"},      // and the reverse
      {"blk.0.ffn_norm.weight", {31}, "is [31], expected [32]"},
      {"output_norm.weight", {1, 32}, "is [1, 32], expected [32]"},
      {"output.weight", {32, 258}, "is [32, 258], expected [32, 259]"},
      {"token_embd.weight", {64, 259}, "is [64, 259], expected [32, 259]"},
      {"token_embd.weight", {32, 259, 1, 2}, "is [32, 259, 1, 2], expected [32, 259]"},
      {"blk.0.attn_q.bias", {1, 32}, "is [1, 32], expected [32]"},
      {"rope_freqs.weight", {8}, "is [8], expected [4]"},
  };
  for (const Case& bad : cases) {
    INFO(bad.name);
    CHECK_THAT(weights_complaint(TinyModel().random_tensor(bad.name, bad.shape, 1, 0)),
               ContainsSubstring(bad.name) && ContainsSubstring(bad.expected));
  }
  // Further dimensions of size one do not matter.
  CHECK(weights_complaint(TinyModel().random_tensor("blk.0.attn_norm.weight", {32, 1, 1}, 1, 0)).empty());
}

TEST_CASE("weights: a tensor without a role is refused, since its effect would be lost") {
  for (const char* name : {"blk.2.attn_norm.weight", "blk.0.attn_sinks.weight", "blk.0.ffn_gate_inp.weight",
                           "blk.0.attn_norm.bias", "position_embd.weight"}) {
    CHECK_THAT(weights_complaint(TinyModel().random_tensor(name, {32}, 1, 0)),
               ContainsSubstring(name) && ContainsSubstring("not a part of") &&
                   ContainsSubstring("llama with 2 layers"));
  }
  const std::string hostile = weights_complaint(TinyModel().random_tensor("\x1b[2J", {32}, 1, 0));
  CHECK(hostile.find('\x1b') == std::string::npos);
}

TEST_CASE("weights: RoPE's divisors are copied, and refused where they could not divide") {
  const Bound bound(TinyModel().tensor("rope_freqs.weight", {4}, {1.0f, 2.0f, 4.0f, 8.0f}));
  CHECK(bound.weights.rope_divisors == std::vector<float>{1.0f, 2.0f, 4.0f, 8.0f});
  for (const float bad : {0.0f, -1.0f, INFINITY, NAN, 1e7f}) {
    INFO(bad);
    CHECK_THAT(weights_complaint(TinyModel().tensor("rope_freqs.weight", {4}, {1.0f, bad, 4.0f, 8.0f})),
               ContainsSubstring("rope_freqs.weight") && ContainsSubstring("divisor"));
  }
}

TEST_CASE("weights: vectors of any type become floats") {
  // The bytes are such that every type decodes them to finite numbers. The expected vector is what
  // dequantize_row() returns for them.
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_1}) {
    Bytes data(row_bytes(dtype, 32));
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(0x30 + i % 7);
    std::vector<float> expected(32);
    dequantize_row(dtype, data.data(), 32, expected.data());
    const Bound bound(TinyModel().tensor("blk.1.ffn_norm.weight", dtype, {32}, data));
    INFO(dtype_info(dtype).name);
    CHECK(same(bound.weights.layers[1].ffn_norm.scale, expected.data(), 32));
    // The other vectors have not moved.
    CHECK(same(bound.weights.output_norm.scale, stored(bound, "output_norm.weight"), 32));
    CHECK(same(bound.weights.layers[0].ffn_norm.scale, stored(bound, "blk.0.ffn_norm.weight"), 32));
  }
}

TEST_CASE("weights: layer norms have biases, and parallel attention one norm for both") {
  TinyModel model;
  for (const char* name : {"blk.0.attn_norm.bias", "blk.1.attn_norm.bias", "output_norm.bias"}) {
    model.random_tensor(name, {32}, 0, 0.5);
  }
  model.without_tensor("blk.0.ffn_norm.weight").without_tensor("blk.1.ffn_norm.weight");
  const TempFolder folder;
  model.write(folder / "model.gguf");
  const ModelFile file = ModelFile::open(folder / "model.gguf");
  ModelSpec spec = read_model_spec(file);
  CpuBackend backend(1, Isa::kScalar);
  CHECK_THROWS_WITH(bind_weights(file, spec), ContainsSubstring("blk.0.ffn_norm.weight"));
  spec.arch.norm = NormKind::kLayer;
  spec.arch.parallel_attention = true;
  const Weights weights = bind_weights(file, spec);
  CHECK(weights.layers[1].attention_norm.bias != nullptr);
  CHECK(weights.output_norm.bias != nullptr);
  CHECK(weights.layers[1].ffn_norm.scale == nullptr);
  spec.arch.parallel_attention = false;
  CHECK_THROWS_WITH(bind_weights(file, spec), ContainsSubstring("blk.0.ffn_norm.weight"));
}

}  // namespace hearth::test
