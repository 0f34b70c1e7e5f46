// The modes of sparsity compared with each other, on the small ReLU model as a plain file and as
// PowerInfer's: exact equals dense without loss, predicted is off by its predictors' errors, and in every
// mode a sequence gets the same bits whatever runs beside it.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/forward/forward_pass.h"
#include "engine/forward/kv_memory.h"
#include "engine/model_runtime.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"
#include "tests/support/mixed_steps.h"
#include "tests/support/same_bits.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

namespace fs = std::filesystem;
using testing::logits_of;

fs::path relu_folder() { return fs::path(hearth::testing::source_dir()) / "tests/data/relu"; }

constexpr const char* kPlain = "relu-5m-q8_0.gguf";
constexpr const char* kPowerInfer = "relu-5m-q4_0.powerinfer.gguf";

/// A model of the folder in a folder of its own, without the activity file that is beside it there.
struct Alone {
  explicit Alone(const char* name) : path(folder / name) { fs::create_symlink(relu_folder() / name, path); }
  LoadOptions options(const std::string& mode) const {
    LoadOptions options;
    options.path = path;
    options.n_threads = 1;
    options.n_slots = 1;
    options.context_tokens = 512;
    options.prefill_chunk = 64;
    options.sparsity.mode = mode;
    return options;
  }
  std::unique_ptr<ModelRuntime> load(const std::string& mode) const {
    return ModelRuntime::load(options(mode));
  }
  TempFolder folder;
  fs::path path;
};

std::vector<testing::TokenizedText> texts() { return testing::read_texts(relu_folder() / "relu-texts.json"); }

int64_t n_tokens_of_texts() {
  int64_t n = 0;
  for (const testing::TokenizedText& text : texts()) n += static_cast<int64_t>(text.tokens.size());
  return n;
}

/// Logits of the committed texts, one after the other.
std::vector<float> logits_of_texts(ModelRuntime& model) {
  std::vector<float> all;
  for (const testing::TokenizedText& text : texts()) {
    const std::vector<float> logits = logits_of(model, text.tokens, 64);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

/// The logits of the shortest text, for tests that run on every instruction set.
std::vector<float> logits_of_short_text(ModelRuntime& model) {
  return logits_of(model, texts()[2].tokens, 64);
}

/// Differences as shares of the logits' root mean square.
struct Distance {
  double worst = 0, typical = 0;  // largest; root mean square
};

Distance distance(const std::vector<float>& found, const std::vector<float>& reference) {
  REQUIRE(found.size() == reference.size());
  Distance distance;
  double squares = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double difference = double{found[i]} - double{reference[i]};
    distance.worst = std::max(distance.worst, std::abs(difference));
    distance.typical += difference * difference;
    squares += double{reference[i]} * double{reference[i]};
  }
  distance.typical = std::sqrt(distance.typical / squares);
  distance.worst /= std::sqrt(squares / static_cast<double>(reference.size()));
  return distance;
}

/// log-probabilities [n, n_vocab] of logits.
std::vector<double> log_probabilities(const std::vector<float>& logits, size_t n_vocab) {
  std::vector<double> all;
  for (auto row = logits.begin(); row != logits.end(); row += static_cast<std::ptrdiff_t>(n_vocab)) {
    const auto end = row + static_cast<std::ptrdiff_t>(n_vocab);
    const double peak = *std::max_element(row, end);
    double sum = 0;
    for (auto x = row; x != end; ++x) sum += std::exp(*x - peak);
    for (auto x = row; x != end; ++x) all.push_back(*x - peak - std::log(sum));
  }
  return all;
}

/// The perplexity of the texts with these log-probabilities.
double perplexity(const std::vector<double>& log_p, size_t n_vocab) {
  double nll = 0;
  size_t n_next = 0, row = 0;
  for (const testing::TokenizedText& text : texts()) {
    for (size_t t = 0; t < text.tokens.size(); ++t, ++row) {
      if (t + 1 == text.tokens.size()) continue;
      nll -= log_p[row * n_vocab + static_cast<size_t>(text.tokens[t + 1])];
      ++n_next;
    }
  }
  return std::exp(nll / static_cast<double>(n_next));
}

/// Mean KL(p || q) of the rows, in nats.
double mean_kl(const std::vector<double>& log_p, const std::vector<double>& log_q, size_t n_vocab) {
  double kl = 0;
  for (size_t i = 0; i < log_p.size(); ++i) kl += std::exp(log_p[i]) * (log_p[i] - log_q[i]);
  return kl * static_cast<double>(n_vocab) / static_cast<double>(log_p.size());
}

std::vector<int32_t> greedy(ModelRuntime& model, std::vector<int32_t> tokens, int n) {
  const size_t n_prompt = tokens.size();
  for (int i = 0; i < n; ++i) {
    const std::vector<float> logits = logits_of(model, tokens, 64);
    const auto row = logits.end() - model.limits().n_vocab;
    tokens.push_back(static_cast<int32_t>(std::max_element(row, logits.end()) - row));
  }
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n_prompt));
  return tokens;
}

/// A memory limit with which the model loads but has no memory for bundles of neurons.
uint64_t limit_without_bundles(const LoadOptions& options) {
  const ModelSpec spec = read_model_spec(ModelFile::open(options.path), options.ffn_activation);
  const int blocks_of_slot = (options.context_tokens + kKvBlockTokens - 1) / kKvBlockTokens;
  const double bytes = KvMemory::bytes_needed(spec, {.n_blocks = blocks_of_slot * options.n_slots}) +
                       ForwardPass::bytes_needed(spec, options.prefill_chunk + options.n_slots, 64);
  return static_cast<uint64_t>(bytes) + 1000;
}

/// The note that contains these words; empty if none does.
std::string note_with(const SparsityReport& report, const std::string& words) {
  for (const std::string& note : report.notes) {
    if (note.find(words) != std::string::npos) return note;
  }
  return {};
}

}  // namespace

TEST_CASE("sparse modes: exact gives PowerInfer's file the bits of dense") {
  // Products with listed rows equal those of the whole matrix, a neuron with value zero adds nothing, and the
  // others are added in the same order, so the bits are equal.
  const Alone alone(kPowerInfer);
  for (const Isa isa : testing::model_isas()) {
    INFO(isa_name(isa));
    LoadOptions options = alone.options("dense");
    options.isa = isa;
    const auto dense = ModelRuntime::load(options);
    options.sparsity.mode = "exact";
    const auto exact = ModelRuntime::load(options);
    REQUIRE(exact->placed().sparsity.mode == Sparsity::kExact);
    CHECK(same_bits(logits_of_short_text(*exact), logits_of_short_text(*dense)));
  }
}

TEST_CASE("sparse modes: exact gives a plain file the logits of dense but for rounding") {
  // Dense rounds the values of 32 neurons to 15 bits of their largest before it multiplies, while exact
  // multiplies floats. Each layer's sum changes by about 2^-16 of its size, and keys and values close to a
  // rounding edge of halves by 2^-11. Measured: 0.0015 of the logits' size at worst, 0.0001 typically. One
  // neuron too few or too many changes the logits by 0.02 and more.
  const Alone alone(kPlain);
  for (const Isa isa : testing::model_isas()) {
    LoadOptions options = alone.options("dense");
    options.isa = isa;
    const auto dense = ModelRuntime::load(options);
    options.sparsity.mode = "exact";
    const auto exact = ModelRuntime::load(options);
    REQUIRE(exact->placed().sparsity.mode == Sparsity::kExact);
    const std::vector<float> found = logits_of_short_text(*exact), expected = logits_of_short_text(*dense);
    const Distance off = distance(found, expected);
    INFO(isa_name(isa) << ": worst " << off.worst << ", typical " << off.typical);
    CHECK(off.worst < 1e-2);
    CHECK(off.typical < 5e-4);
  }
}

TEST_CASE("sparse modes: exact is dense with every activation that has zeros, with a gate and without") {
  const auto [architecture, activation] = GENERATE(table<const char*, const char*>({{"llama", "relu"},
                                                                                    {"llama", "fatrelu:0.3"},
                                                                                    {"llama", "drelu"},
                                                                                    {"llama", "relu2"},
                                                                                    {"qwen2", "relu"},
                                                                                    {"opt", ""},
                                                                                    {"falcon", "relu"}}));
  const bool powerinfer = GENERATE(false, true);
  // PowerInfer has no such models.
  const bool possible = std::string_view(activation) != "relu2" && std::string_view(architecture) != "qwen2";
  if (powerinfer && !possible) return;
  INFO(architecture << " " << activation << (powerinfer ? " PowerInfer's" : " plain"));
  TinyModel model(architecture);
  if (powerinfer) model.powerinfer();
  const TempFolder folder;
  model.write(folder / "model.gguf");
  LoadOptions options;
  options.path = folder / "model.gguf";
  options.n_threads = 1;
  options.ffn_activation = activation;
  std::vector<int32_t> tokens;
  for (int i = 0; i < 50; ++i) tokens.push_back((31 * i * i + 7 * i + 5) % 259);
  for (const Isa isa : testing::model_isas()) {
    options.isa = isa;
    options.sparsity.mode = "dense";
    const std::vector<float> expected = logits_of(*ModelRuntime::load(options), tokens, 20);
    options.sparsity.mode = "exact";
    const auto exact = ModelRuntime::load(options);
    REQUIRE(exact->placed().sparsity.mode == Sparsity::kExact);
    const std::vector<float> found = logits_of(*exact, tokens, 20), one_by_one = logits_of(*exact, tokens, 1);
    CHECK(same_bits(one_by_one, found));
    CHECK(exact->observation().activity().active > 0.01);
    CHECK(exact->observation().activity().active < 0.8);
    // Float weights: a plain file's sums differ only in their order, and keys and values as above.
    if (powerinfer) CHECK(same_bits(found, expected));
    CHECK(distance(found, expected).worst < 5e-3);
  }
}

TEST_CASE("sparse modes: greedy text is the same dense and exact, and the reference's") {
  const Alone alone(kPlain);
  const auto dense = alone.load("dense"), exact = alone.load("exact");
  std::ifstream in(relu_folder() / "relu-greedy.json");
  for (const auto& item : nlohmann::json::parse(in)) {
    INFO(item.at("prompt").get<std::string>());
    const std::vector<int32_t> prompt = item.at("prompt_tokens");
    const std::vector<int32_t> expected = item.at("greedy_tokens");
    const std::vector<double> margins = item.at("margins");
    // The reference is another program's float32, whose near ties may be decided differently.
    const auto sure = std::ranges::find_if(margins, [](double margin) { return margin < 0.05; });
    const auto n_sure = sure - margins.begin();
    const std::vector<int32_t> text = greedy(*exact, prompt, static_cast<int>(expected.size()));
    CHECK(std::equal(expected.begin(), expected.begin() + n_sure, text.begin()));
    CHECK(greedy(*dense, prompt, static_cast<int>(expected.size())) == text);
  }
  for (const testing::TokenizedText& text : texts()) {
    const std::vector<int32_t> prompt(text.tokens.begin(), text.tokens.begin() + 60);
    INFO(text.name);
    CHECK(greedy(*dense, prompt, 24) == greedy(*exact, prompt, 24));
  }
}

TEST_CASE("sparse modes: predicted is off by what its predictors miss, and says so") {
  const Alone alone(kPowerInfer);
  LoadOptions options = alone.options("predicted");
  options.sparsity.verify_predictor = true;
  const auto exact = alone.load("exact"), predicted = ModelRuntime::load(options);
  const size_t n_vocab = static_cast<size_t>(exact->limits().n_vocab);
  const std::vector<float> logits = logits_of_texts(*predicted);
  const std::vector<double> log_p = log_probabilities(logits_of_texts(*exact), n_vocab);
  const std::vector<double> log_q = log_probabilities(logits, n_vocab);
  const double exact_perplexity = perplexity(log_p, n_vocab);
  const double change = perplexity(log_q, n_vocab) / exact_perplexity - 1;
  const double kl = mean_kl(log_p, log_q, n_vocab);
  const NeuronActivity activity = predicted->observation().activity(), all = exact->observation().activity();
  INFO("perplexity " << exact_perplexity << ", predicted changes it by " << change << ", mean KL " << kl
                     << "; recall " << activity.recall << ", false positives " << activity.false_positives
                     << ", proposed " << activity.proposed << ", active " << activity.active << " of "
                     << activity.true_active << ", exact " << all.active);
  // Measured: perplexity 0.018 lower (the texts are so unusual for the model that leaving things out helps),
  // mean KL 0.045.
  CHECK(std::abs(change) < 0.04);
  CHECK(kl > 0.0);
  CHECK(kl < 0.1);
  CHECK(activity.n_tokens == n_tokens_of_texts());
  CHECK(all.n_tokens == n_tokens_of_texts());
  CHECK(all.recall < 0);  // no predictor was used
  CHECK(activity.recall > 0.8);
  CHECK(activity.recall < 1.0);
  CHECK(activity.false_positives > 0.0);
  CHECK(activity.false_positives < 0.5);
  // These shares determine each other: what is proposed and passes is what was found of the truly active.
  CHECK(activity.passed == Approx(activity.recall * activity.true_active));
  CHECK(activity.passed == Approx((1 - activity.false_positives) * activity.proposed));
  CHECK(activity.active <= activity.passed);
  // Neurons that earlier layers left out change gates only a little.
  CHECK(activity.true_active == Approx(all.passed).margin(0.01));
  // Verifying all gates changes nothing.
  CHECK(same_bits(logits_of_texts(*alone.load("predicted")), logits));
}

TEST_CASE("sparse modes: predictors that propose all neurons are exact, none leave attention alone") {
  const Alone alone(kPowerInfer);
  for (const Isa isa : testing::model_isas()) {
    INFO(isa_name(isa));
    LoadOptions options = alone.options("exact");
    options.isa = isa;
    const auto exact = ModelRuntime::load(options);
    options.sparsity = {.mode = "predicted", .predictor_threshold = -1000.0};
    const auto predicted = ModelRuntime::load(options);
    // In both, the same neurons pass, with products and sums in the same order.
    CHECK(same_bits(logits_of_short_text(*predicted), logits_of_short_text(*exact)));
    CHECK(predicted->observation().activity().proposed == 1.0);
    CHECK(predicted->observation().activity().passed == exact->observation().activity().passed);
    CHECK(predicted->observation().activity().active == exact->observation().activity().active);
  }

  // If no neuron is proposed, the model equals one whose FFN always adds zeros.
  const TempFolder folder;
  LoadOptions options;
  options.n_threads = 1;
  options.ffn_activation = "relu";
  TinyModel().powerinfer().write(folder / "whole.gguf");
  TinyModel silent;
  silent.powerinfer();
  for (int i = 0; i < 2; ++i) {
    silent.tensor("blk." + std::to_string(i) + ".ffn_down_t.weight", {32, 48},
                  std::vector<float>(32 * 48, 0.0f));
  }
  silent.write(folder / "silent.gguf");
  options.path = folder / "silent.gguf";
  options.sparsity.mode = "dense";
  const auto attention_only = ModelRuntime::load(options);
  options.path = folder / "whole.gguf";
  const auto whole = ModelRuntime::load(options);
  options.sparsity = {.mode = "predicted", .predictor_threshold = 1000.0};
  const auto none = ModelRuntime::load(options);
  const std::vector<int32_t> tokens{1, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160, 170};
  CHECK(same_bits(logits_of(*none, tokens, 64), logits_of(*attention_only, tokens, 64)));
  CHECK_FALSE(same_bits(logits_of(*none, tokens, 64), logits_of(*whole, tokens, 64)));
  CHECK(none->observation().activity().proposed == 0.0);
}

TEST_CASE("sparse modes: bits do not depend on threads, chunks, other sequences or the neurons' places") {
  const auto [name, mode] = GENERATE(table<const char*, const char*>(
      {{kPlain, "exact"}, {kPowerInfer, "exact"}, {kPowerInfer, "predicted"}, {kPowerInfer, "dense"}}));
  const Alone alone(name);
  for (const Isa isa : testing::model_isas()) {
    INFO(name << ", " << mode << ", " << isa_name(isa));
    LoadOptions options = alone.options(mode);
    options.isa = isa;
    const auto one = ModelRuntime::load(options);
    std::vector<int32_t> tokens = texts()[1].tokens;
    tokens.resize(75);
    const std::vector<float> whole = logits_of(*one, tokens, 64);
    options.n_threads = 3;
    const auto three = ModelRuntime::load(options);
    for (const int chunk : {1, 7, 9}) CHECK(same_bits(logits_of(*three, tokens, chunk), whole));

    options.n_slots = 4;
    const auto crowd = ModelRuntime::load(options);
    CHECK(same_bits(logits_of(*crowd, tokens, 64), whole));
    CHECK(rows_changed_by_mixing(*crowd, {1, 17, 33, 40}, 3) == 0);

    if (std::string_view(name) == kPlain || std::string_view(mode) == "dense") continue;
    CHECK(three->placed().neuron_bytes > 0);
    options.memory_limit_bytes = limit_without_bundles(options);
    const auto in_file = ModelRuntime::load(options);
    CHECK(in_file->placed().neuron_bytes == 0);
    CHECK_THAT(note_with(in_file->placed().sparsity, "the file's order"),
               ContainsSubstring("grouping them in memory would take"));
    CHECK(same_bits(logits_of(*in_file, tokens, 64), whole));
    CHECK(in_file->observation().activity().active == one->observation().activity().active);
  }
}

TEST_CASE("sparse modes: another order of the neurons changes sums by rounding only") {
  const auto [name, mode] =
      GENERATE(table<const char*, const char*>({{kPowerInfer, "exact"}, {kPowerInfer, "predicted"}}));
  INFO(mode);
  const Alone alone(name);
  const auto plain = alone.load(mode);
  CHECK(plain->placed().sparsity.notes.empty());
  LoadOptions options = alone.options(mode);
  options.path = relu_folder() / name;
  const auto ordered = ModelRuntime::load(options);
  CHECK_THAT(note_with(ordered->placed().sparsity, "activity of"), ContainsSubstring("of 4 layers from "));
  CHECK(ordered->placed().neuron_bytes >= plain->placed().neuron_bytes);
  plain->observation().count_activity();
  ordered->observation().count_activity();
  const std::vector<float> expected = logits_of_texts(*plain), found = logits_of_texts(*ordered);
  // Float sums of some 200 terms in another order change logits by 0.00004 of their size (measured). Where a
  // predictor's logit is close to the threshold, a few neurons come or go: 0.0011. Confusing neurons would
  // destroy the logits.
  const Distance off = distance(found, expected);
  INFO(mode << ": worst " << off.worst << ", typical " << off.typical);
  CHECK(off.typical < (std::string_view(mode) == "exact" ? 5e-4 : 5e-3));
  CHECK_FALSE(same_bits(found, expected));  // otherwise the order was not used

  // Counts use the file's neuron numbers, whatever the layout.
  const std::vector<uint32_t> hits = plain->observation().take_activity().active;
  const std::vector<uint32_t> others = ordered->observation().take_activity().active;
  REQUIRE(hits.size() == 4 * 1024);
  REQUIRE(others.size() == hits.size());
  int64_t n_hits = 0, n_moved = 0;
  for (size_t i = 0; i < hits.size(); ++i) {
    n_hits += hits[i];
    n_moved += std::abs(static_cast<int64_t>(hits[i]) - static_cast<int64_t>(others[i]));
  }
  INFO(n_hits << " hits, " << n_moved << " moved");
  CHECK(static_cast<double>(n_hits) / static_cast<double>(n_tokens_of_texts() * 4 * 1024) ==
        Approx(plain->observation().activity().active));
  CHECK(n_moved * 1000 < n_hits);  // gates close to zero
}

TEST_CASE("sparse modes: another model's activity is reported and not used") {
  const TempFolder folder;
  TinyModel().powerinfer().write(folder / "model.gguf");
  LoadOptions options;
  options.path = folder / "model.gguf";
  options.n_threads = 1;
  options.ffn_activation = "relu";
  const std::vector<int32_t> tokens{1, 70, 80, 90, 100};
  const std::vector<float> expected = logits_of(*ModelRuntime::load(options), tokens, 64);

  fs::create_symlink(relu_folder() / (std::string(kPowerInfer) + ".activity"),
                     folder / "model.gguf.activity");
  fs::create_symlink(relu_folder() / "relu-5m-q8_0.powerinfer.gguf.generated.gpuidx",
                     folder / "model.gguf.generated.gpuidx");
  const auto model = ModelRuntime::load(options);
  REQUIRE(model->placed().sparsity.notes.size() == 1);
  const std::string note = model->placed().sparsity.notes.front();
  INFO(note);
  CHECK_THAT(note, ContainsSubstring("model.gguf.activity") && ContainsSubstring("generated.gpuidx") &&
                       ContainsSubstring("neurons keep the file's order"));
  CHECK(same_bits(logits_of(*model, tokens, 64), expected));
}

}  // namespace hearth::test
