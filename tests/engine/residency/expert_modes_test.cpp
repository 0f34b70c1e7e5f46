// Exact mode for mixtures whose experts have a ReLU: compared with dense, equal bits whatever runs beside a
// sequence, the counts, and the choice of mode. The models are the tiny ones of tests/data/arch; an option
// gives a ReLU to those without one.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "engine/forward/forward_pass.h"
#include "engine/forward/kv_memory.h"
#include "engine/model_runtime.h"
#include "engine/neurons/expert_layout.h"
#include "engine/residency/sparsity_choice.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"
#include "tests/support/mixed_steps.h"
#include "tests/support/sanitized.h"

namespace hearth::test {
namespace {

using testing::logits_of;

LoadOptions options_for(const std::string& name, const std::string& mode) {
  LoadOptions options;
  options.path = std::filesystem::path(testing::source_dir()) / "tests/data/arch" / (name + ".gguf");
  options.n_threads = 2;
  options.n_slots = 1;
  options.sparsity.mode = mode;
  if (name.find("smallthinker") != 0) options.ffn_activation = "relu";
  return options;
}

std::vector<int32_t> some_tokens(int n = 48) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back((31 * i * i + 7 * i + 5) % 259);
  return tokens;
}

double worst_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0, squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(double{a[i]} - double{b[i]}));
    squares += double{a[i]} * double{a[i]};
  }
  return worst / std::sqrt(squares / static_cast<double>(a.size()));
}

/// A mixture on the CPU, with a pass of its own whose counts can be read.
struct Counted {
  explicit Counted(const std::string& name, bool exact)
      : options(options_for(name, exact ? "exact" : "dense")),
        file(ModelFile::open(options.path)),
        spec(read_model_spec(file, options.ffn_activation)),
        weights(bind_weights(file, spec)),
        kv(spec, {.n_blocks = 4}, devices),
        pass(devices, spec, weights, kv, {.max_tokens = 48, .max_logit_rows = 1, .max_context = 64}),
        in_file(NeuronLayout::in_file(spec, weights)) {
    if (exact) {
      experts = ExpertLayout(weights, cpu);
      experts.fill(2, {});
    }
    pass.ffn().use({.sparsity = exact ? Sparsity::kExact : Sparsity::kDense, .thresholds = {}}, in_file,
                   &experts);
  }
  /// Runs the tokens in steps of `chunk`.
  void run(const std::vector<int32_t>& tokens, int chunk) {
    std::vector<int32_t> table(4);
    std::iota(table.begin(), table.end(), 0);
    for (size_t begin = 0; begin < tokens.size(); begin += static_cast<size_t>(chunk)) {
      Batch batch;
      for (size_t i = begin; i < std::min(tokens.size(), begin + static_cast<size_t>(chunk)); ++i) {
        batch.tokens.push_back(tokens[i]);
        batch.positions.push_back(static_cast<int32_t>(i));
        batch.slots.push_back(0);
      }
      batch.block_tables = table;
      batch.max_blocks = 4;
      pass.run(batch);
    }
  }
  LoadOptions options;
  ModelFile file;
  ModelSpec spec;
  CpuBackend cpu{2, supported_isas().front()};
  Devices devices{cpu};
  Weights weights;
  KvMemory kv;
  ForwardPass pass;
  NeuronLayout in_file;
  ExpertLayout experts;
};

}  // namespace

TEST_CASE("exact mode of a mixture is dense without the zeros") {
  // Experts alone, with a gated shared expert, with an ungated one, and after a layer without experts.
  const std::string name = GENERATE("smallthinker", "qwen2moe", "granitemoe-shared", "deepseek");
  INFO(name);
  for (const Isa isa : testing::model_isas()) {
    LoadOptions options = options_for(name, "dense");
    options.isa = isa;
    const std::vector<float> dense = logits_of(*ModelRuntime::load(options), some_tokens(), 13);
    options.sparsity.mode = "exact";
    const auto model = ModelRuntime::load(options);
    CHECK(model->placed().sparsity.mode == Sparsity::kExact);
    const std::vector<float> exact = logits_of(*model, some_tokens(), 13);
    INFO(isa_name(isa));
    // Both modes add the same numbers in different orders, so rounding differs, and a random model may
    // amplify this. Equal bits would mean that exact mode was not used.
    CHECK(worst_difference(dense, exact) < 1e-3);
    CHECK(dense != exact);
  }
}

TEST_CASE("exact mode of a mixture gives the same bits in any batch, chunk and number of threads") {
  const std::string name = GENERATE("smallthinker", "qwen2moe", "deepseek");
  INFO(name);
  for (const Isa isa : testing::model_isas()) {
    INFO(isa_name(isa));
    LoadOptions options = options_for(name, "exact");
    options.isa = isa;
    options.n_threads = 1;
    const std::vector<float> whole = logits_of(*ModelRuntime::load(options), some_tokens(), 48);
    for (const int n_threads : {2, 3}) {
      options.n_threads = n_threads;
      const auto model = ModelRuntime::load(options);
      for (const int chunk : {1, 5, 16, 48}) CHECK(logits_of(*model, some_tokens(), chunk) == whole);
    }
    options.n_slots = 6;
    CHECK(rows_changed_by_mixing(*ModelRuntime::load(options), {40, 33, 12, 40, 7, 21}, 3) == 0);
  }
}

TEST_CASE("the reported bytes of a mixture are those that it reads") {
  const std::string name = GENERATE("smallthinker", "qwen2moe", "deepseek");
  INFO(name);
  const int n_tokens = 24;
  Counted run(name, true);
  run.run(some_tokens(n_tokens), 1);
  const ExpertCounts counts = run.pass.ffn().counts().experts;

  // Computed by hand: every token reads the gates of its experts. For each neuron that is not zero, it also
  // reads a row of up and a row of down.
  double output = static_cast<double>(run.weights.output.weight.bytes()), read = 0;
  int64_t chosen = 0, neurons = 0;
  const auto row = [](const Matrix& matrix) { return static_cast<double>(matrix.stride_bytes()); };
  double row_bytes = 0;  // of an up row, and of a neuron's down row; these files use one type for both
  for (const LayerWeights& layer : run.weights.layers) {
    read += output;
    output = 0;
    for (const Linear* linear : {&layer.q, &layer.k, &layer.v, &layer.attention_out, &layer.gate, &layer.up,
                                 &layer.down, &layer.mixture.router, &layer.mixture.shared_gate}) {
      // A shared expert with a gate is bound twice.
      const bool twice = !layer.mixture.shared.empty() &&
                         (linear == &layer.gate || linear == &layer.up || linear == &layer.down);
      if (!twice) read += static_cast<double>(linear->weight.bytes());
    }
    const auto add = [&](const Expert& expert, int n) {
      read += n * static_cast<double>(expert.gate.bytes());
      chosen += n;
      neurons += n * expert.up.n_rows;
      row_bytes = row(expert.up);
      CHECK(row_bytes == 2.0 * static_cast<double>(expert.down.n_rows));
    };
    if (!layer.mixture.experts.empty()) add(layer.mixture.experts.front(), run.spec.mixture.n_used);
    for (const Expert& shared : layer.mixture.shared) add(shared, 1);
  }
  read += static_cast<double>(counts.up_rows + counts.down_rows) / n_tokens * row_bytes;

  CHECK(counts.chosen == n_tokens * chosen);
  CHECK(counts.read == n_tokens * chosen);
  CHECK(counts.neurons == n_tokens * neurons);
  CHECK(counts.passed == counts.up_rows);
  CHECK(counts.active == counts.down_rows);
  CHECK(counts.active > counts.neurons / 10);
  CHECK(counts.active < counts.neurons * 9 / 10);
  const NeuronActivity activity = activity_of(run.pass.ffn().counts(), run.spec);
  CHECK(activity.n_tokens == n_tokens);
  CHECK(bytes_per_token(run.spec, run.weights, Sparsity::kExact, activity) == Approx(read));
}

TEST_CASE("tokens of a step share what they read of a mixture's experts") {
  const bool exact = GENERATE(true, false);
  Counted run("smallthinker", exact);
  run.run(some_tokens(24), 1);
  const FfnCounts alone = run.pass.ffn().counts();
  CHECK(activity_of(alone, run.spec).experts_read == 2.0);  // as many as a token uses
  run.pass.ffn().reset_counts();
  run.run(some_tokens(24), 24);
  const FfnCounts together = run.pass.ffn().counts();
  CHECK(together.experts.chosen == alone.experts.chosen);
  CHECK(together.experts.active == alone.experts.active);
  CHECK(together.experts.read <= 4 * run.spec.n_layers);
  CHECK(activity_of(together, run.spec).experts_read <= 4.0 / 24);
  CHECK(together.experts.down_rows <= alone.experts.down_rows);
  CHECK((alone.experts.down_rows > 0) == exact);
  // Dense and exact have the same zero neurons.
  Counted other("smallthinker", !exact);
  other.run(some_tokens(24), 24);
  CHECK(other.pass.ffn().counts().experts.active == together.experts.active);
}

TEST_CASE("a mixture with zeros runs exact, and reports what that costs and saves") {
  const auto model = ModelRuntime::load(options_for("smallthinker", "exact"));
  const SparsityReport& report = model->placed().sparsity;
  CHECK(report.mode == Sparsity::kExact);
  CHECK(report.reason == "lossless with relu");
  CHECK(report.activity.active > 0.1);
  CHECK(report.activity.active < 0.9);
  CHECK(report.bytes_per_token < report.dense_bytes_per_token);
  // Five layers of four experts, whose 32 neurons have 32 halves each.
  CHECK(model->placed().neuron_bytes == 5 * 4 * 32 * 64);
  REQUIRE(report.notes.size() == 1);
  CHECK_THAT(report.notes[0], ContainsSubstring("down projections were copied"));
}

TEST_CASE("auto runs a mixture exact where few of its experts' neurons are active") {
  // About half of a random model's neurons are active.
  const auto model = ModelRuntime::load(options_for("smallthinker", "auto"));
  CHECK(model->placed().sparsity.mode == Sparsity::kDense);
  CHECK_THAT(model->placed().sparsity.reason,
             ContainsSubstring("% are active; a token reads") && ContainsSubstring(" dense"));

  const LoadOptions options = options_for("smallthinker", "auto");
  const ModelFile file = ModelFile::open(options.path);
  const ModelSpec spec = read_model_spec(file);
  const Weights weights = bind_weights(file, spec);
  const SparsityFacts facts{.file = file, .spec = spec, .weights = weights, .free_memory_bytes = 1e9};
  SparsityRequest request;
  request.mode = "auto";
  for (const double active : {0.05, 0.29, 0.31, 0.9}) {
    const auto measured = [&](float) {
      return ReadBytes{.exact = 2e6, .predicted = 0, .dense = 3e6, .experts_active = active};
    };
    const SparsityChoice choice = choose_sparsity(request, facts, measured);
    CHECK(choice.mode == (active < 0.3 ? Sparsity::kExact : Sparsity::kDense));
  }
}

TEST_CASE("a mixture stays dense where exact cannot be, with a reason") {
  LoadOptions options = options_for("mixtral", "exact");
  options.ffn_activation.clear();
  CHECK_THAT(ModelRuntime::load(options)->placed().sparsity.reason,
             ContainsSubstring("silu, has no zeros to skip"));

  options = options_for("smallthinker", "exact");
  options.prefill_chunk = 8;
  const ModelSpec spec = read_model_spec(ModelFile::open(options.path));
  options.memory_limit_bytes =
      static_cast<uint64_t>(KvMemory::bytes_needed(spec, kv_block_counts(spec, 64, 1, 8)) +
                            ForwardPass::bytes_needed(spec, 9, 64)) +
      1000;
  const auto model = ModelRuntime::load(options);
  CHECK(model->placed().sparsity.mode == Sparsity::kDense);
  CHECK_THAT(model->placed().sparsity.reason,
             ContainsSubstring("copying the experts' down projections") && ContainsSubstring("are free"));
  CHECK(model->placed().neuron_bytes == 0);

  for (const std::string mode : {"predicted", "calibrated"}) {
    CHECK_THROWS_WITH(ModelRuntime::load(options_for("smallthinker", mode)),
                      ContainsSubstring("mixtures of experts; take exact"));
  }
}

}  // namespace hearth::test
