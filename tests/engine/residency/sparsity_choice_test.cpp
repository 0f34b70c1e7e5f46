// The mode in which a model is run, the reads reported for it, and the counts: compared with sums by hand and
// with a pass in doubles.
#include "engine/residency/sparsity_choice.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "engine/model_runtime.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"
#include "tests/support/reference_forward.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

/// A model on disk and the options to load it by.
struct OnDisk {
  explicit OnDisk(const TinyModel& model, const std::string& activation = "relu") {
    options.path = folder / "model.gguf";
    options.n_threads = 1;
    options.ffn_activation = activation;
    model.write(options.path);
  }
  std::unique_ptr<ModelRuntime> load(const std::string& mode) {
    options.sparsity.mode = mode;
    return ModelRuntime::load(options);
  }
  /// The error of loading it in this mode; empty if there is none.
  template <typename Error>
  std::string complaint(const std::string& mode) {
    try {
      load(mode);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }
  TempFolder folder;
  LoadOptions options;
};

TinyModel powerinfer_model() { return TinyModel().powerinfer(); }

TinyModel without_predictors() {
  TinyModel model = powerinfer_model();
  for (const char* name : {"blk.0.fc1.weight", "blk.0.fc2.weight", "blk.1.fc1.weight", "blk.1.fc2.weight"}) {
    model.without_tensor(name);
  }
  return model;
}

/// A file's facts and weights.
struct Bound {
  explicit Bound(const LoadOptions& options)
      : file(ModelFile::open(options.path)),
        spec(read_model_spec(file, options.ffn_activation)),
        weights(bind_weights(file, spec)) {}
  double bytes(Sparsity mode, const NeuronActivity& activity) const {
    return bytes_per_token(spec, weights, mode, activity);
  }
  ModelFile file;
  ModelSpec spec;
  CpuBackend backend{1, Isa::kScalar};
  Weights weights;
};

const NeuronActivity kSomeActivity{.n_tokens = 1, .proposed = 0.5, .passed = 0.25, .active = 0.125};

/// The correct FfnCounts, counted neuron by neuron in doubles.
struct BruteForce {
  int64_t proposed = 0, passed = 0, active = 0, truly_active = 0, found = 0, neurons = 0;

  /// Runs the model on the tokens; in predicted mode with the given threshold.
  BruteForce(const Bound& model, std::span<const int32_t> tokens, std::optional<double> threshold) {
    std::vector<float> inv_freq;
    for (int i = 0; i < 4; ++i) inv_freq.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / 8)));
    const Rope rope{.kind = model.spec.arch.rope,
                    .n_rot = model.spec.arch.rope == RopeKind::kNone ? 0 : 8,
                    .inv_freq = inv_freq.data()};
    testing::reference_forward(model.spec, model.weights, rope, tokens,
                               [&](const testing::ReferenceFfn& ffn) { count(model, ffn, threshold); });
  }

 private:
  void count(const Bound& model, const testing::ReferenceFfn& ffn, std::optional<double> threshold) {
    std::vector<double> logits(ffn.gate.size(), 0.0);
    if (threshold) logits = predict(model, ffn);
    for (size_t j = 0; j < ffn.gate.size(); ++j) {
      const bool passes = ffn.gate[j] > model.spec.activation.threshold;
      const bool proposes = threshold ? logits[j] >= *threshold : passes;
      if (!proposes) ffn.hidden[j] = 0;
      ++neurons;
      proposed += proposes ? 1 : 0;
      passed += proposes && passes ? 1 : 0;
      active += proposes && ffn.hidden[j] != 0 ? 1 : 0;
      truly_active += passes ? 1 : 0;
      found += passes && proposes ? 1 : 0;
    }
  }

  /// fc2 relu(fc1 x) of F32 matrices.
  static std::vector<double> predict(const Bound& model, const testing::ReferenceFfn& ffn) {
    const LayerWeights& layer = model.weights.layers[static_cast<size_t>(ffn.layer)];
    const bool early = model.spec.arch.predictor_input == PredictorInput::kLayerInput;
    const std::vector<float>& x = early ? ffn.layer_input : ffn.residual;
    const std::vector<double> hidden = product(layer.predictor_in, std::vector<double>(x.begin(), x.end()));
    std::vector<double> passed;
    for (const double h : hidden) passed.push_back(std::max(h, 0.0));
    return product(layer.predictor_out, passed);
  }

  static std::vector<double> product(const Matrix& matrix, const std::vector<double>& x) {
    std::vector<double> out;
    for (int64_t r = 0; r < matrix.n_rows; ++r) {
      const float* row = reinterpret_cast<const float*>(matrix.row(r));
      double sum = 0;
      for (size_t i = 0; i < x.size(); ++i) sum += double{row[i]} * x[i];
      out.push_back(sum);
    }
    return out;
  }
};

constexpr int kTokens = 40;

std::vector<int32_t> choice_tokens() {
  std::vector<int32_t> tokens;
  for (int i = 0; i < kTokens; ++i) tokens.push_back((31 * i * i + 7 * i + 5) % 259);
  return tokens;
}

/// Shares that the model counts on some tokens.
NeuronActivity activity_on_tokens(ModelRuntime& model, const std::vector<int32_t>& tokens) {
  model.observation().reset_activity();
  testing::logits_of(model, tokens, 7);
  return model.observation().activity();
}

}  // namespace

TEST_CASE("sparsity choice: each requested mode gives the expected mode and reason") {
  OnDisk plain{TinyModel()}, predictors{powerinfer_model()}, bare{without_predictors()};
  OnDisk silu(TinyModel(), "");
  const auto check = [](OnDisk& disk, const char* asked, Sparsity mode, const char* reason) {
    INFO(asked);
    const auto model = disk.load(asked);
    const SparsityReport& report = model->placed().sparsity;
    CHECK(report.mode == mode);
    CHECK_THAT(report.reason, ContainsSubstring(reason));
    CHECK((report.activity.n_tokens > 0) == (mode != Sparsity::kDense));
  };
  check(plain, "dense", Sparsity::kDense, "asked for");
  check(plain, "exact", Sparsity::kExact, "lossless with relu");
  check(plain, "auto", Sparsity::kExact, "no predictors");
  check(bare, "exact", Sparsity::kExact, "lossless with relu");
  check(bare, "auto", Sparsity::kExact, "no predictors");
  check(predictors, "dense", Sparsity::kDense, "asked for");
  check(predictors, "predicted", Sparsity::kPredicted, "asked for");
  // A fallback to dense is always reported.
  check(silu, "exact", Sparsity::kDense, "its activation, silu, has no zeros to skip");
  check(silu, "auto", Sparsity::kDense, "its activation, silu, has no zeros to skip");
}

TEST_CASE("sparsity choice: auto takes the mode that reads less, and reports both numbers") {
  OnDisk disk{powerinfer_model()};
  const auto bytes_of = [&](const char* mode) { return disk.load(mode)->placed().sparsity.bytes_per_token; };
  for (const double threshold : {-1000.0, 0.0, 1000.0}) {
    disk.options.sparsity.predictor_threshold = threshold;
    const bool predicted_reads_less = bytes_of("predicted") < bytes_of("exact");
    const auto model = disk.load("auto");
    INFO(threshold << ": " << model->placed().sparsity.reason);
    CHECK((model->placed().sparsity.mode == Sparsity::kPredicted) == predicted_reads_less);
    CHECK_THAT(model->placed().sparsity.reason, ContainsSubstring("a token reads ") &&
                                                    ContainsSubstring("B predicted, ") &&
                                                    ContainsSubstring("B exact"));
    // The counts of the comparison do not remain in the model.
    CHECK(model->placed().sparsity.activity.recall < 0);
  }
}

TEST_CASE("sparsity choice: an impossible request is refused in one sentence") {
  OnDisk plain{TinyModel()}, bare{without_predictors()}, predictors{powerinfer_model()};
  OnDisk silu(TinyModel(), "");
  for (OnDisk* disk : {&plain, &bare}) {
    CHECK_THAT(disk->complaint<ModelFileError>("predicted"),
               ContainsSubstring("model.gguf: ") && ContainsSubstring("no predictors") &&
                   ContainsSubstring("blk.N.fc1") && ContainsSubstring("take exact"));
  }
  CHECK_THAT(silu.complaint<ModelFileError>("predicted"),
             ContainsSubstring("no predictors") && ContainsSubstring("take dense"));
  for (OnDisk* disk : {&plain, &predictors}) {
    CHECK_THAT(disk->complaint<ModelFileError>("calibrated"),
               ContainsSubstring("model.gguf: ") && ContainsSubstring("relu") &&
                   ContainsSubstring("exact zeros") && ContainsSubstring("take exact"));
  }
  for (const char* word : {"", "Exact", "sparse", "exact "}) {
    CHECK_THAT(plain.complaint<std::invalid_argument>(word),
               ContainsSubstring("\"" + std::string(word) + "\" is not known") &&
                   ContainsSubstring("auto, exact, predicted, calibrated or dense"));
  }
}

TEST_CASE("sparsity choice: a predictor threshold that is not a number is refused") {
  OnDisk disk{powerinfer_model()};
  for (const double threshold : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    disk.options.sparsity.predictor_threshold = threshold;
    CHECK_THAT(disk.complaint<std::invalid_argument>("predicted"), ContainsSubstring("predictor") &&
                                                                       ContainsSubstring("threshold") &&
                                                                       ContainsSubstring("finite"));
  }
}

TEST_CASE("sparsity choice: bytes per token match a calculation by hand") {
  // Floats: each of 2 layers has q 32 x 32, k and v 16 x 32, output 32 x 32, gate, up and down 48 x 32; the
  // model has 259 x 32 outputs; predictors have 8 and 12 times (32 + 48).
  constexpr double kAttention = 2 * 96 * 32, kOutput = 259 * 32, kMatrix = 2 * 48 * 32;
  constexpr double kPredictors = (8 + 12) * (32 + 48);
  const Bound gated(OnDisk(powerinfer_model()).options);
  CHECK(gated.bytes(Sparsity::kDense, {}) == 4 * (kAttention + kOutput + 3 * kMatrix));
  CHECK(gated.bytes(Sparsity::kDense, {}) == static_cast<double>(gated.weights.bytes_per_token(gated.spec)));
  CHECK(gated.bytes(Sparsity::kExact, kSomeActivity) ==
        4 * (kAttention + kOutput + kMatrix * (1 + 0.25 + 0.125)));
  CHECK(gated.bytes(Sparsity::kPredicted, kSomeActivity) ==
        4 * (kAttention + kOutput + kPredictors + kMatrix * (0.5 + 0.25 + 0.125)));
  CHECK(gated.bytes(Sparsity::kCalibrated, kSomeActivity) ==
        4 * (kAttention + kOutput + kMatrix * (1 + 1 + 0.125)));
  // Without a gate, the up rows replace it. The output is the embedding; positions are a row or two.
  TinyModel opt("opt");
  opt.powerinfer();
  const Bound ungated(OnDisk(opt).options);
  CHECK(ungated.bytes(Sparsity::kDense, {}) == 4 * (kAttention + kOutput + 2 * kMatrix));
  CHECK(ungated.bytes(Sparsity::kExact, kSomeActivity) == 4 * (kAttention + kOutput + kMatrix * (1 + 0.125)));
  CHECK(ungated.bytes(Sparsity::kPredicted, kSomeActivity) ==
        4 * (kAttention + kOutput + kPredictors + kMatrix * (0.5 + 0.125)));
}

TEST_CASE("sparsity choice: bytes per token of a down projection whose neurons share scales") {
  LoadOptions options;
  options.path = std::filesystem::path(hearth::testing::source_dir()) / "tests/data/relu/relu-5m-q8_0.gguf";
  const Bound plain(options);
  // Q8_0: 34 bytes for 32 weights. 4 layers: q and output 256 x 256, k and v 128 x 256, FFN 1024 x 256; 2048
  // outputs. Transposed, down has 256 codes per neuron, and for 32 neurons 256 scales of 2 bytes.
  constexpr double kRow = 256 / 32 * 34;
  constexpr double kRest = 4 * 768 * kRow + 2048 * kRow;
  CHECK(plain.bytes(Sparsity::kDense, {}) == kRest + 4 * 3 * 1024 * kRow);
  const double a_group_is_read = 1 - std::pow(0.875, 32);  // by at least one active neuron of 32
  CHECK(plain.bytes(Sparsity::kExact, kSomeActivity) ==
        Approx(kRest + 4 * (1024 * kRow * (1 + 0.25) + 0.125 * 1024 * 256 + a_group_is_read * 32 * 256 * 2)));
  const NeuronActivity all{.n_tokens = 1, .proposed = 1, .passed = 1, .active = 1};
  CHECK(plain.bytes(Sparsity::kExact, all) == Approx(plain.bytes(Sparsity::kDense, {})));
}

TEST_CASE("sparsity choice: shares of active neurons are those of a count in doubles") {
  const auto [architecture, activation] = GENERATE(table<const char*, const char*>(
      {{"llama", "relu"}, {"llama", "fatrelu:0.4"}, {"llama", "drelu"}, {"opt", ""}, {"falcon", "relu"}}));
  const bool predicted = GENERATE(false, true);
  INFO(architecture << " " << activation << (predicted ? " predicted" : " exact"));
  TinyModel model(architecture);
  model.powerinfer();
  OnDisk disk(model, activation);
  disk.options.sparsity = {.predictor_threshold = 0.1, .verify_predictor = true};
  const auto runtime = disk.load(predicted ? "predicted" : "exact");
  const NeuronActivity found = activity_on_tokens(*runtime, choice_tokens());
  const BruteForce count(Bound(disk.options), choice_tokens(),
                         predicted ? std::optional<double>(0.1) : std::nullopt);
  CHECK(found.n_tokens == kTokens);
  REQUIRE(count.neurons == kTokens * 2 * 48);
  CHECK(count.active > 100);  // otherwise there is nothing to compare
  // A gate or a predictor's logit within rounding of its threshold may be on either side.
  const auto close = [&](double share, int64_t n) {
    return std::abs(share * static_cast<double>(count.neurons) - static_cast<double>(n)) < 2.5;
  };
  CHECK(close(found.proposed, count.proposed));
  CHECK(close(found.passed, count.passed));
  CHECK(close(found.active, count.active));
  if (!predicted) return;
  CHECK(close(found.true_active, count.truly_active));
  CHECK(close(found.recall * found.true_active, count.found));
  CHECK(close((1 - found.false_positives) * found.proposed, count.found));
}

TEST_CASE("sparsity choice: a dense run of a plain file counts nothing, one of rows the down rows it reads") {
  OnDisk plain{TinyModel()}, rows{powerinfer_model()};
  const auto products = plain.load("dense"), sums = rows.load("dense"), exact = rows.load("exact");
  CHECK(activity_on_tokens(*products, choice_tokens()).n_tokens == 0);
  const NeuronActivity dense = activity_on_tokens(*sums, choice_tokens());
  CHECK(dense.active == activity_on_tokens(*exact, choice_tokens()).active);
  CHECK(dense.active < 1.0);
  const double down_bytes = 2.0 * 48 * 32 * sizeof(float);
  CHECK(sums->token_bytes(dense).sum() ==
        Approx(sums->placed().sparsity.dense_bytes_per_token - (1.0 - dense.active) * down_bytes));
}

TEST_CASE("sparsity choice: a model whose neurons are never active") {
  TinyModel dead = powerinfer_model();
  for (int i = 0; i < 2; ++i) {
    dead.tensor("blk." + std::to_string(i) + ".ffn_gate.weight", {32, 48}, std::vector<float>(32 * 48, 0.0f));
  }
  OnDisk disk{dead};
  const auto exact = disk.load("exact");
  CHECK(exact->placed().sparsity.activity.active == 0.0);
  constexpr double kExactBytes = 4 * (2 * 96 * 32 + 259 * 32 + 2 * 48 * 32);
  CHECK(exact->placed().sparsity.bytes_per_token == kExactBytes);
  // "auto" compares what is true of this model: proposing none of the neurons reads less than all gates.
  disk.options.sparsity.predictor_threshold = 1000;
  CHECK(disk.load("auto")->placed().sparsity.mode == Sparsity::kPredicted);
  disk.options.sparsity.predictor_threshold = -1000;
  CHECK(disk.load("auto")->placed().sparsity.mode == Sparsity::kExact);
  disk.options.sparsity.verify_predictor = true;
  const NeuronActivity found = activity_on_tokens(*disk.load("predicted"), choice_tokens());
  CHECK(found.true_active == 0.0);
  CHECK(found.false_positives == 1.0);  // all proposed, none active
  CHECK(found.recall == 1.0);           // none missed
}

TEST_CASE("sparsity choice: a vocabulary that has no token for the probe's text") {
  TinyModel model = powerinfer_model();
  std::vector<std::string> tokens;
  for (int i = 0; i < 259; ++i) tokens.push_back("token" + std::to_string(i));
  model.key("tokenizer.ggml.model", "gpt2").key("tokenizer.ggml.pre", "gpt-2");
  model.array("tokenizer.ggml.tokens", tokens).array("tokenizer.ggml.merges", std::vector<std::string>{});
  OnDisk disk{model};
  for (const char* mode : {"exact", "predicted", "auto"}) {
    INFO(mode);
    const auto runtime = disk.load(mode);
    CHECK(runtime->facts().tokenizer.encode("Some words.", true, false).empty());
    const SparsityReport& report = runtime->placed().sparsity;
    CHECK(report.activity.n_tokens > 0);
    CHECK(report.activity.active > 0.0);
    CHECK(report.bytes_per_token > 4 * (2 * 96 * 32 + 259 * 32));
    CHECK(report.bytes_per_token < report.dense_bytes_per_token);
  }
}

TEST_CASE("sparsity choice: a plain file's neurons that do not fit into memory") {
  OnDisk disk{TinyModel()};
  disk.options.n_slots = 1;
  disk.options.prefill_chunk = 8;
  const ModelSpec spec = read_model_spec(ModelFile::open(disk.options.path), "relu");
  disk.options.memory_limit_bytes = static_cast<uint64_t>(KvMemory::bytes_needed(spec, {.n_blocks = 4}) +
                                                          ForwardPass::bytes_needed(spec, 9, 64)) +
                                    1000;
  // They can only be skipped in a transposed copy: the model runs dense and reports why.
  const auto model = disk.load("exact");
  CHECK(model->placed().sparsity.mode == Sparsity::kDense);
  CHECK_THAT(model->placed().sparsity.reason,
             ContainsSubstring("grouping its neurons in memory, which exact needs") &&
                 ContainsSubstring("are free"));
  CHECK(model->placed().neuron_bytes == 0);
  const std::vector<float> found = testing::logits_of(*model, choice_tokens(), 8);
  const bool same = testing::logits_of(*disk.load("dense"), choice_tokens(), 8) == found;
  CHECK(same);
}

}  // namespace hearth::test
