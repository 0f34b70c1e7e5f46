// Counting single neurons: compared with counts by hand and with the values themselves, and equal for any
// number of threads and any chunk size.
#include "engine/activity/activity_counter.h"

#include <cmath>
#include <memory>

#include "engine/activity/activity_file.h"
#include "engine/model_runtime.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"
#include "tests/support/mixed_steps.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

namespace fs = std::filesystem;
using testing::logits_of;

/// A step of one layer with three neurons. active: each token's active neurons, as bits; all have value 2.
void run_step(ActivityCounter& counter, const Batch& batch, const std::vector<uint64_t>& active) {
  const ActivityCounter::StepScope step(&counter, batch);
  const ActiveNeurons* found = counter.found();
  if (found == nullptr) return;
  for (size_t t = 0; t < active.size(); ++t) {
    found->bits[t] = active[t];
    for (size_t j = 0; j < 3; ++j) found->values[t * 3 + j] = -2.0f;
  }
  counter.add(0);
}

Batch batch_of(std::vector<int32_t> slots, std::vector<int32_t> positions, bool all_logits = true) {
  Batch batch;
  batch.tokens.assign(slots.size(), 0);
  for (size_t t = all_logits ? 0 : slots.size() - 1; t < slots.size(); ++t) {
    batch.logit_rows.push_back(static_cast<int32_t>(t));
  }
  batch.slots = std::move(slots);
  batch.positions = std::move(positions);
  return batch;
}

constexpr ActivityCounter::Shape kSmall{.n_layers = 1, .d_ff = 3, .n_slots = 2, .max_tokens = 4};

fs::path relu_data() { return fs::path(hearth::testing::source_dir()) / "tests/data/relu"; }

std::unique_ptr<ModelRuntime> load(const char* name, const char* mode, int n_threads = 1, int chunk = 64) {
  LoadOptions options;
  options.path = relu_data() / name;
  options.n_threads = n_threads;
  options.n_slots = 1;
  options.context_tokens = 512;
  options.prefill_chunk = chunk;
  options.sparsity.mode = mode;
  return ModelRuntime::load(options);
}

std::vector<int32_t> some_text() { return testing::read_texts(relu_data() / "relu-texts.json")[2].tokens; }

ActivityCounts counts_of(ModelRuntime& model, int chunk) {
  model.observation().count_activity();
  logits_of(model, some_text(), chunk);
  return model.observation().take_activity();
}

}  // namespace

TEST_CASE("activity counter: experts and the reads of token windows do not depend on how a sequence is cut") {
  // Token t of the sequence chooses the experts t / 2 and 9.
  constexpr int kTokens = 37;
  constexpr ActivityCounter::Shape kExperts{
      .n_layers = 2, .d_ff = 70, .experts = true, .n_slots = 2, .max_tokens = 64};
  const auto counted = [&](int chunk) {
    ActivityCounter counter(kExperts, {});
    for (int begin = 0; begin < kTokens; begin += chunk) {
      std::vector<int32_t> slots, positions, experts;
      std::vector<float> weights;
      for (int t = begin; t < std::min(kTokens, begin + chunk); ++t) {
        slots.push_back(1);
        positions.push_back(t);
        experts.insert(experts.end(), {69 - t / 2, 9});
        weights.insert(weights.end(), {0.75f, 0.25f});
      }
      const int n = static_cast<int>(slots.size());
      const Batch batch = batch_of(std::move(slots), std::move(positions));
      const ActivityCounter::StepScope step(&counter, batch);
      counter.add(1, {.n_tokens = n, .n_used = 2, .experts = experts.data(), .weights = weights.data()});
    }
    return counter.take();
  };
  const ActivityCounts counts = counted(kTokens);
  CHECK(counts.of_experts());
  CHECK(counts.n_tokens == kTokens);
  CHECK(counts.n_pairs == kTokens - 1);
  CHECK(counts.active[counts.index(1, 9)] == kTokens);
  CHECK(counts.active[counts.index(1, 69)] == 2);
  CHECK(counts.again[counts.index(1, 69)] == 1);
  CHECK(counts.value_sums[counts.index(1, 9)] == kTokens * uint64_t{65536} / 4);
  CHECK(counts.active_share(0) == 0);  // a layer without experts
  CHECK(counts.windows[0].n == 9);
  CHECK(counts.windows[1].n == 2);
  CHECK(counts.experts_read(1, 1) == Approx(2));
  CHECK(counts.experts_read(1, 4) == Approx(3));  // two pairs, and expert 9
  CHECK(counts.experts_read(1, 16) == Approx(9));
  CHECK(counts.experts_read(0, 4) == 0);
  CHECK(counts.experts_read(1, 5) == 0);  // no such window
  CHECK(counts.experts_read_by_others(1, 1) == Approx(2));
  CHECK(counts.experts_read_by_others(1, 4) > 4);
  for (const int chunk : {1, 3, 16}) CHECK(counted(chunk) == counts);

  // After a gap, windows begin again.
  ActivityCounter counter(kExperts, {});
  const std::vector<int32_t> experts = {1, 2};
  const std::vector<float> weights = {1, 0};
  for (const int position : {0, 1, 2, 4, 5, 6}) {
    const Batch batch = batch_of({0}, {position});
    const ActivityCounter::StepScope step(&counter, batch);
    counter.add(0, {.n_tokens = 1, .n_used = 2, .experts = experts.data(), .weights = weights.data()});
  }
  CHECK(counter.take().windows[0].n == 0);
}

TEST_CASE("activity counter: tokens are paired within a step and across steps, but not across sequences") {
  ActivityCounter counter(kSmall, {});
  // Slot 0: 011, 001 | 101; slot 1: 111 beside slot 0's first two tokens, then another sequence.
  run_step(counter, batch_of({0, 0, 1}, {0, 1, 4}), {0b011, 0b001, 0b111});
  run_step(counter, batch_of({0, 1}, {2, 0}), {0b101, 0b111});
  const ActivityCounts counts = counter.take();
  CHECK(counts.n_tokens == 5);
  CHECK(counts.n_pairs == 2);
  CHECK(counts.active == std::vector<uint32_t>{5, 3, 3});
  CHECK(counts.again == std::vector<uint32_t>{2, 0, 0});
  CHECK(counts.value_sums == std::vector<uint64_t>{5 * 131072, 3 * 131072, 3 * 131072});
  // take() removes the counts; the tokens that are remembered for "again" stay.
  CHECK(counter.take().empty());
  run_step(counter, batch_of({0}, {3}), {0b100});
  CHECK(counter.take().again == std::vector<uint32_t>{0, 0, 1});
}

TEST_CASE("activity counter: with a sampling interval, two consecutive decode steps are counted each time") {
  ActivityCounter counter({.n_layers = 1, .d_ff = 3, .n_slots = 2, .max_tokens = 2},
                          {.decode_only = true, .one_of = 4});
  run_step(counter, batch_of({0, 0}, {0, 1}, false), {7, 7});  // a prompt
  run_step(counter, batch_of({0, 0, 0}, {2, 3, 4}), {7, 7, 7});
  for (int i = 0; i < 17; ++i) run_step(counter, batch_of({0, 1}, {5 + i, 9 + i}), {7, 1});
  const ActivityCounts counts = counter.take();
  CHECK(counts.n_tokens == 2 * 5);  // steps 0, 1, 8, 9, 16
  CHECK(counts.n_pairs == 2 * 2);
  CHECK(counts.active == std::vector<uint32_t>{10, 5, 5});
  CHECK(counts.again == std::vector<uint32_t>{4, 2, 2});
}

TEST_CASE("activity counter: values beyond the bounds are clamped") {
  ActivityCounter counter({.n_layers = 1, .d_ff = 3, .n_slots = 1, .max_tokens = 1}, {});
  {
    const Batch batch = batch_of({0}, {0});
    const ActivityCounter::StepScope step(&counter, batch);
    const float values[3] = {NAN, -INFINITY, 1e-30f};
    counter.found()->bits[0] = 7;
    std::copy_n(values, 3, counter.found()->values);
    counter.add(0);
  }
  CHECK(counter.take().value_sums == std::vector<uint64_t>{uint64_t{1} << 31, uint64_t{1} << 31, 0});
}

TEST_CASE("a model's neuron counts do not depend on threads or chunks") {
  const char* mode = GENERATE("exact", "predicted");
  const char* file = "relu-5m-q4_0.powerinfer.gguf";
  const ActivityCounts one = counts_of(*load(file, mode), 64);
  CHECK(one.n_tokens == some_text().size());
  CHECK(one.n_pairs == some_text().size() - 1);
  CHECK(one == counts_of(*load(file, mode, 3), 64));
  for (const int chunk : {1, 7, 48}) {
    INFO(mode << ", " << chunk);
    CHECK(one == counts_of(*load(file, mode, 2), chunk));
  }
}

TEST_CASE("counts agree with the share of active neurons and with values of their size") {
  const auto model = load("relu-5m-q8_0.gguf", "exact");
  model->observation().reset_activity();
  const ActivityCounts counts = counts_of(*model, 64);
  double active = 0;
  for (int layer = 0; layer < 4; ++layer) active += counts.active_share(layer) / 4;
  CHECK(active == Approx(model->observation().activity().active));
  uint64_t n_values = 0;
  for (size_t i = 0; i < counts.active.size(); ++i) {
    n_values += counts.value_sums[i] > 0 ? 1 : 0;
    CHECK((counts.active[i] > 0 || counts.value_sums[i] == 0));
    CHECK(counts.again[i] <= counts.active[i]);
  }
  CHECK(n_values > 1000);
  // Neurons stay active more often than by chance.
  for (int layer = 0; layer < 4; ++layer) CHECK(counts.kept_share(layer) > counts.active_share(layer));
}

TEST_CASE("contributions are reported under the file's neuron numbers, whatever the order in memory") {
  // relu-5m has PowerInfer's counts beside it, so its neurons are laid out in another order.
  const auto ordered = load("relu-5m-q4_0.powerinfer.gguf", "exact");
  const TempFolder folder;
  fs::create_symlink(relu_data() / "relu-5m-q4_0.powerinfer.gguf", folder / "m.gguf");
  LoadOptions options;
  options.path = folder / "m.gguf";
  options.n_threads = 1;
  options.n_slots = 1;
  options.context_tokens = 512;
  options.sparsity.mode = "exact";
  const auto plain = ModelRuntime::load(options);
  const ActivityCounts a = counts_of(*ordered, 64), b = counts_of(*plain, 64);
  double difference = 0, sum = 0;
  for (size_t i = 0; i < a.active.size(); ++i) {
    difference += std::abs(static_cast<double>(a.value_sums[i]) - static_cast<double>(b.value_sums[i]));
    sum += static_cast<double>(b.value_sums[i]);
  }
  CHECK(difference < 0.001 * sum);  // another order of sums, so other rounding
  CHECK(plain->observation().down_sizes() == ordered->observation().down_sizes());
}

TEST_CASE("norms of down columns are the same from rows and from columns") {
  const std::vector<float> plain = load("relu-5m-q8_0.gguf", "exact")->observation().down_sizes();
  const std::vector<float> rows =
      load("relu-5m-q4_0.powerinfer.gguf", "exact", 2)->observation().down_sizes();
  REQUIRE(plain.size() == rows.size());
  double difference = 0, sum = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    difference += std::abs(plain[i] - rows[i]);
    sum += plain[i];
  }
  CHECK(sum > 0);
  CHECK(difference < 0.05 * sum);  // the same weights rounded to 4 and to 8 bits
}

TEST_CASE("an activity file beside the model, or named by an option, groups the hot neurons") {
  const TempFolder folder;
  const fs::path path = folder / "m.gguf";
  fs::create_symlink(relu_data() / "relu-5m-q4_0.powerinfer.gguf", path);
  LoadOptions options;
  options.path = path;
  options.n_threads = 1;
  options.n_slots = 1;
  options.context_tokens = 512;
  options.sparsity.mode = "exact";
  const auto note = [&] {
    const auto model = ModelRuntime::load(options);
    std::string all;
    for (const std::string& one : model->placed().sparsity.notes) all += one + "\n";
    return all;
  };
  CHECK(note().empty());

  // A plain run's counts belong to the model, and the next load lays out its neurons by them.
  const auto model = ModelRuntime::load(options);
  Activity activity{.model = identify(model->facts().file, model->facts().spec),
                    .texts = {},
                    .down_sizes = {},
                    .counts = {}};
  activity.of(ActivitySource::kPrompt) = counts_of(*model, 64);
  const std::vector<std::byte> bytes = activity_bytes(activity);
  write_bytes(activity_path_beside(path), bytes);
  CHECK_THAT(note(), ContainsSubstring("activity of 4 layers from ") && ContainsSubstring("m.gguf.activity"));
  options.activity = folder / "given.activity";
  CHECK_THAT(note(), ContainsSubstring("m.gguf.activity"));  // a file that does not exist is not reported
  write_bytes(options.activity, bytes);
  CHECK_THAT(note(), ContainsSubstring("given.activity"));

  // Damaged, foreign and empty files are reported, and the next source is used.
  write_bytes(options.activity, std::span(bytes).first(1000));
  CHECK_THAT(note(), ContainsSubstring("cut short") && ContainsSubstring("m.gguf.activity"));
  Activity other = activity;
  other.model.content[5] ^= 1;
  write_bytes(options.activity, activity_bytes(other));
  CHECK_THAT(note(), ContainsSubstring("of another model"));
  other = activity;
  other.counts = {};
  write_bytes(options.activity, activity_bytes(other));
  CHECK_THAT(note(), ContainsSubstring("no token was counted"));
  fs::remove(activity_path_beside(path));
  CHECK_THAT(note(), ContainsSubstring("neurons keep the file's order"));
}

TEST_CASE("counting starts over each time it is requested") {
  const auto model = load("relu-5m-q8_0.gguf", "exact");
  const ActivityCounts once = counts_of(*model, 64);
  model->observation().count_activity();
  logits_of(*model, some_text(), 64);
  CHECK(counts_of(*model, 64) == once);
}

TEST_CASE("counting goes on when a model is placed again, in another order") {
  LoadOptions options;
  options.path = relu_data() / "relu-5m-q4_0.powerinfer.gguf";
  options.n_threads = 1;
  options.n_slots = 1;
  options.context_tokens = 512;
  options.prefill_chunk = 64;
  options.sparsity.mode = "exact";
  const auto model = ModelRuntime::load(options);
  const ActivityCounts once = counts_of(*model, 64);
  model->observation().count_activity();
  logits_of(*model, some_text(), 64);
  options.sparsity.mode = "predicted";
  model->place_again(options);
  logits_of(*model, some_text(), 64);
  const ActivityCounts both = model->observation().take_activity();
  CHECK(both.n_tokens == 2 * once.n_tokens);
  // It contains what was counted before, under the same neuron numbers.
  for (size_t i = 0; i < once.active.size(); ++i) REQUIRE(both.active[i] >= once.active[i]);
  // A placement that cannot count single neurons keeps what was counted.
  options.path = relu_data() / "relu-5m-q8_0.gguf";
  options.sparsity.mode = "exact";
  const auto plain = ModelRuntime::load(options);
  plain->observation().count_activity();
  logits_of(*plain, some_text(), 64);
  options.sparsity.mode = "dense";
  plain->place_again(options);
  logits_of(*plain, some_text(), 64);
  CHECK(plain->observation().take_activity().n_tokens == once.n_tokens);
  CHECK(plain->observation().take_activity().empty());
}

TEST_CASE("a dense run counts no neurons and says so") {
  CHECK_THROWS_WITH(load("relu-5m-q8_0.gguf", "dense")->observation().count_activity(),
                    ContainsSubstring("A dense run computes all neurons"));
}

}  // namespace hearth::test
