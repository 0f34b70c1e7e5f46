// A layer of experts that a CUDA device and the CPU share: the bits of the CPU alone, wherever experts are.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/ops/expert_types.h"
#include "kernels/quant/coded_columns.h"
#include "tests/kernels/expert_layer.h"
#include "tests/support/catch.h"
#include "tests/support/same_bits.h"

namespace hearth::test {
namespace {

constexpr int kUsed = 4;
constexpr size_t kBudget = size_t{256} << 20;

StepBounds shared_bounds(int max_tokens, int n_used = kUsed) {
  StepBounds bounds = bounds_for(max_tokens, kExperts, n_used);
  bounds.n_sets = 1;
  bounds.max_outputs = max_tokens * kModel;
  bounds.max_expert_tokens = max_tokens;
  return bounds;
}

/// A layer's experts on a CUDA device and the CPU, and the result of a step.
class SharedLayer {
 public:
  /// resident: which experts the device holds, ascending. stream_bytes: the size of each buffer for missing
  /// experts; 0: they are not streamed. from_tokens: see cuda::DeviceOptions; 1: the CPU computes no experts.
  SharedLayer(const Layer& layer, const std::vector<int32_t>& resident, int max_tokens,
              size_t stream_bytes = 0, int from_tokens = 1)
      : layer_(layer), streams_(stream_bytes > 0) {
    StepBounds bounds = shared_bounds(max_tokens);
    bounds.stream_bytes = stream_bytes;
    cpu_.reserve(bounds);
    device_ =
        cuda::make_device(cpu_, {.budget_bytes = kBudget, .stream_from_tokens = streams_ ? from_tokens : 0});
    device_->reserve(bounds);
    Backend& backend = device_->backend();
    const auto rows = [&](int64_t n) { return backend.allocate(static_cast<size_t>(n) * sizeof(float)); };
    x_ = rows(max_tokens * kModel);
    logits_ = rows(max_tokens * kExperts);
    out_ = rows(max_tokens * kModel);
    place(resident);
  }

  /// Returns `before` + the experts' sum, for the router's logits [n_tokens, kExperts]. Steps with the same
  /// number of tokens are recorded and played back.
  std::vector<float> run(const Step& step, const std::vector<float>& logits, const Router& router,
                         ExpertCounts& counts) {
    Backend& backend = device_->backend();
    HybridExperts& both = *device_->hybrid_experts();
    const HybridExpertLayer shared{
        .host = layer_.experts(), .device = &experts_, .activation = layer_.activation()};
    device_->begin_step({.n_tokens = step.n_tokens, .n_logit_rows = step.n_tokens, .decoding = !streams_});
    backend.from_host(step.x.data(), step.x.size(), x_.floats());
    backend.from_host(logits.data(), logits.size(), logits_.floats());
    backend.from_host(step.before.data(), step.before.size(), out_.floats());
    both.begin(shared, {.x = x_.floats(),
                        .logits = logits_.floats(),
                        .router = router,
                        .n_tokens = step.n_tokens,
                        .out = out_.floats(),
                        .wants_choice = wants_choice_});
    choice_ = both.wait();
    both.end({}, counts);
    const float* out = backend.to_host(out_.floats(), step.before.size());
    std::vector<float> result(out, out + step.before.size());
    backend.finish();  // adds the device's counts
    return result;
  }
  const ExpertChoice& choice() const { return choice_; }

  /// Begins to copy experts to slots, or completes the changes under way.
  struct Change {
    int32_t slot, expert;
  };
  void begin(const std::vector<Change>& changes) {
    changes_.clear();
    for (const auto& [slot, expert] : changes) {
      const auto evicted = static_cast<int32_t>(std::ranges::find(slot_of_, slot) - slot_of_.begin());
      changes_.push_back({slot, expert, evicted, &layer_.experts()[static_cast<size_t>(expert)], &experts_});
    }
    REQUIRE(device_->hybrid_experts()->most_changes(layer_.experts().front()) >=
            static_cast<int>(changes_.size()));
    for (const SlotChange& change : changes_) device_->hybrid_experts()->begin_change(change);
  }
  /// Completes the first n changes.
  void end(size_t n) {
    device_->hybrid_experts()->end_changes(static_cast<int>(n));
    for (const SlotChange& change : std::span(changes_).first(n)) {
      slot_of_[static_cast<size_t>(change.evicted)] = -1;
      slot_of_[static_cast<size_t>(change.expert)] = change.slot;
    }
    changes_.erase(changes_.begin(), changes_.begin() + static_cast<ptrdiff_t>(n));
  }
  HybridExperts& experts() { return *device_->hybrid_experts(); }
  void want_choice() { wants_choice_ = true; }

 private:
  /// Copies the resident experts to the device.
  void place(const std::vector<int32_t>& resident) {
    const auto n = static_cast<int64_t>(resident.size());
    slot_of_.assign(kExperts, -1);
    for (size_t s = 0; s < resident.size(); ++s)
      slot_of_[static_cast<size_t>(resident[s])] = static_cast<int32_t>(s);
    experts_.n_slots = static_cast<int>(n);
    experts_.slots = slot_of_;
    experts_.slot_of = reinterpret_cast<int32_t*>(const_cast<float*>(
        device_->backend().resident(reinterpret_cast<const float*>(slot_of_.data()), kExperts)));
    const auto copy = [&](Matrix Expert::*part) {
      const Matrix& any = layer_.experts().front().*part;
      if (!any) return Matrix();
      const size_t bytes = static_cast<size_t>(any.n_rows) * cuda::slot_row_bytes(any.dtype, any.n_cols);
      std::vector<std::byte> rows(bytes * resident.size());
      for (size_t s = 0; s < resident.size(); ++s) {
        const Matrix& from = layer_.experts()[static_cast<size_t>(resident[s])].*part;
        cuda::write_slot_rows(from, 0, from.n_rows, rows.data() + s * bytes);
      }
      const std::byte* there = device_->backend().resident(rows.data(), rows.size());
      return cuda::slot_rows(there, any.dtype, n * any.n_rows, any.n_cols);
    };
    experts_.gate = copy(&Expert::gate);
    experts_.up = copy(&Expert::up);
    if (layer_.experts().front().down_columns) {
      copy_columns(resident);
    } else {
      experts_.down = copy(&Expert::down);
    }
    const auto copy_bias = [&](const float* Expert::*part, int64_t width) -> const float* {
      if (layer_.experts().front().*part == nullptr) return nullptr;
      std::vector<float> all;
      for (const Expert& expert : layer_.experts()) all.insert(all.end(), expert.*part, expert.*part + width);
      return device_->backend().resident(all.data(), static_cast<int64_t>(all.size()));
    };
    experts_.gate_bias = copy_bias(&Expert::gate_bias, kExpert);
    experts_.up_bias = copy_bias(&Expert::up_bias, kExpert);
    experts_.down_bias = copy_bias(&Expert::down_bias, kModel);
  }

  /// Copies the down columns of the resident experts to the device.
  void copy_columns(const std::vector<int32_t>& resident) {
    const Matrix& down = layer_.experts().front().down;
    const size_t bytes = packed_columns_bytes(down);
    std::vector<std::byte> columns(bytes * resident.size());
    for (size_t s = 0; s < resident.size(); ++s) {
      const Expert& from = layer_.experts()[static_cast<size_t>(resident[s])];
      std::copy_n(from.down_columns.begin(), bytes, columns.data() + s * bytes);
    }
    experts_.down_columns = packed_columns(down, device_->backend().resident(columns.data(), columns.size()));
    experts_.down_slot_bytes = bytes;
  }

  const Layer& layer_;
  bool streams_;
  std::vector<int32_t> slot_of_;
  CpuBackend cpu_{2, supported_isas().front()};
  std::unique_ptr<ComputeDevice> device_;
  Buffer x_, logits_, out_;
  DeviceExperts experts_;
  ExpertChoice choice_;
  bool wants_choice_ = false;
  std::vector<SlotChange> changes_;
};

/// The result of the CPU alone.
std::vector<float> run_on_cpu(const Layer& layer, const Step& step, const std::vector<float>& logits,
                              const Router& router, ExpertCounts& counts) {
  CpuBackend cpu(2, supported_isas().front());
  cpu.reserve(shared_bounds(step.n_tokens));
  std::vector<float> out = step.before, sum(out.size());
  const ExpertChoice choice = cpu.route(logits.data(), step.n_tokens, router);
  cpu.experts(layer.experts(), layer.activation(), step.x.data(), choice, sum.data(), counts);
  cpu.add(sum.data(), static_cast<int64_t>(sum.size()), out.data());
  return out;
}

const Router kRouter{.n_experts = kExperts, .n_used = kUsed, .renormalize = true};

/// Returns whether the choice is the one that the CPU makes for logits [n_tokens, kExperts].
bool same_choice(const ExpertChoice& choice, const std::vector<float>& logits) {
  const auto n_tokens = static_cast<int>(logits.size() / kExperts);
  CpuBackend cpu(1, supported_isas().front());
  cpu.reserve(shared_bounds(n_tokens));
  const ExpertChoice expected = cpu.route(logits.data(), n_tokens, kRouter);
  const auto n = static_cast<size_t>(n_tokens) * kUsed;
  return choice.n_tokens == n_tokens && choice.n_used == kUsed &&
         std::equal(choice.experts, choice.experts + n, expected.experts) &&
         std::equal(choice.weights, choice.weights + n, expected.weights);
}

}  // namespace

TEST_CASE("CUDA: shared experts give the CPU's bits wherever experts are") {
  const LayerKind kind = GENERATE(
      LayerKind{DType::kQ4_0, DType::kQ6_K, /*gated=*/true, /*biased=*/false, Activation::kSilu},
      LayerKind{DType::kQ8_0, DType::kQ8_0, /*gated=*/true, /*biased=*/true, Activation::kSwigluOai},
      LayerKind{DType::kMXFP4, DType::kMXFP4, /*gated=*/true, /*biased=*/true, Activation::kSwigluOai},
      LayerKind{DType::kIQ2_S, DType::kIQ3_S, /*gated=*/true, /*biased=*/false, Activation::kSilu},
      LayerKind{DType::kF16, DType::kF32, /*gated=*/false, /*biased=*/true, Activation::kRelu2});
  const Layer layer(kind);
  for (const std::vector<int32_t>& resident : {std::vector<int32_t>{4}, std::vector<int32_t>{0, 2, 3, 5, 8},
                                               std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}}) {
    SharedLayer shared(layer, resident, 32);
    shared.want_choice();
    std::mt19937 rng(11);
    for (const int n_tokens : {1, 1, 1, 1, 2, 5, 32}) {  // one token: enqueued, recorded, played back
      INFO(resident.size() << " resident experts, " << n_tokens << " tokens");
      const Step step(n_tokens, kUsed, rng);
      const std::vector<float> logits = normal_numbers(n_tokens * kExperts, rng, 2.0f);
      ExpertCounts expected_counts, counts;
      const std::vector<float> expected = run_on_cpu(layer, step, logits, kRouter, expected_counts);
      CHECK(same_bits(shared.run(step, logits, kRouter, counts), expected));
      CHECK(counts.chosen == n_tokens * kUsed);
      CHECK(counts.read == expected_counts.read);
      if (resident.size() == kExperts) CHECK(counts.resident == counts.chosen);
      CHECK(counts.streamed == 0);
    }
  }
}

TEST_CASE("CUDA: a layer whose experts are all resident hands nothing over") {
  const Layer layer({DType::kQ4_0, DType::kQ6_K, /*gated=*/true, /*biased=*/false, Activation::kSilu});
  SharedLayer shared(layer, {0, 1, 2, 3, 4, 5, 6, 7, 8}, 32);
  std::mt19937 rng(14);
  for (const int n_tokens : {1, 1, 1, 1, 32}) {
    INFO(n_tokens << " tokens");
    const Step step(n_tokens, kUsed, rng);
    const std::vector<float> logits = normal_numbers(n_tokens * kExperts, rng, 2.0f);
    ExpertCounts expected_counts, counts;
    const std::vector<float> expected = run_on_cpu(layer, step, logits, kRouter, expected_counts);
    CHECK(same_bits(shared.run(step, logits, kRouter, counts), expected));
    CHECK(shared.choice().n_tokens == 0);
    CHECK(counts.chosen == n_tokens * kUsed);
    CHECK(counts.resident == counts.chosen);
    CHECK(counts.read >= expected_counts.read);
  }
}

TEST_CASE("CUDA: prompts share experts too") {
  const Layer layer({DType::kQ4_0, DType::kQ4_0, /*gated=*/true, /*biased=*/false, Activation::kSilu});
  std::mt19937 rng(12);
  const Step step(150, kUsed, rng);
  const std::vector<float> logits = normal_numbers(150 * kExperts, rng, 2.0f);
  ExpertCounts counts;
  const std::vector<float> expected = run_on_cpu(layer, step, logits, kRouter, counts);
  for (const std::vector<int32_t>& resident :
       {std::vector<int32_t>{1, 2}, std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}}) {
    SharedLayer shared(layer, resident, 150);
    CHECK(same_bits(shared.run(step, logits, kRouter, counts), expected));
  }
}

TEST_CASE("CUDA: streamed experts give the CPU's bits for any number of experts in a piece") {
  const LayerKind kind = GENERATE(
      LayerKind{DType::kQ4_0, DType::kQ6_K, /*gated=*/true, /*biased=*/true, Activation::kSwigluOai},
      LayerKind{DType::kMXFP4, DType::kMXFP4, /*gated=*/true, /*biased=*/true, Activation::kSwigluOai},
      LayerKind{DType::kNVFP4, DType::kNVFP4, /*gated=*/true, /*biased=*/false, Activation::kSilu},
      LayerKind{DType::kF16, DType::kF16, /*gated=*/false, /*biased=*/false, Activation::kRelu2});
  const Layer layer(kind);
  const Expert& one = layer.experts().front();
  const size_t file_bytes = one.gate.bytes() + one.up.bytes();
  // In slots, MXFP4 has other rows than in the file, and a buffer holds both.
  const size_t bytes = kind.inputs == DType::kMXFP4 ? 5 * file_bytes / 2 : file_bytes;
  std::mt19937 rng(13);
  const Step step(70, kUsed, rng);
  const std::vector<float> logits = normal_numbers(70 * kExperts, rng, 2.0f);
  ExpertCounts expected_counts;
  const std::vector<float> expected = run_on_cpu(layer, step, logits, kRouter, expected_counts);
  for (const std::vector<int32_t>& resident :
       {std::vector<int32_t>{4}, std::vector<int32_t>{0, 2, 3, 5, 8}}) {
    for (const size_t stream_bytes : {bytes, 3 * bytes, 20 * bytes}) {
      INFO(resident.size() << " resident experts, buffers of " << stream_bytes << " bytes");
      SharedLayer shared(layer, resident, 70, stream_bytes);
      ExpertCounts counts;
      CHECK(same_bits(shared.run(step, logits, kRouter, counts), expected));
      CHECK(shared.choice().n_tokens == 0);  // nothing was handed over
      CHECK(counts.resident == 70 * kUsed);
      CHECK(counts.streamed == 70 * kUsed);
      shared.want_choice();
      CHECK(same_bits(shared.run(step, logits, kRouter, counts), expected));
      CHECK(same_choice(shared.choice(), logits));
    }
  }
}

TEST_CASE("CUDA: prompts divide missing experts between copies and the CPU") {
  const LayerKind kind = GENERATE(
      LayerKind{DType::kQ4_0, DType::kQ6_K, /*gated=*/true, /*biased=*/true, Activation::kSwigluOai},
      LayerKind{DType::kMXFP4, DType::kMXFP4, /*gated=*/true, /*biased=*/true, Activation::kSwigluOai},
      LayerKind{DType::kF16, DType::kF16, /*gated=*/false, /*biased=*/false, Activation::kRelu2});
  const Layer layer(kind);
  const Expert& one = layer.experts().front();
  const size_t bytes = 3 * (one.gate.bytes() + one.up.bytes() + one.down.bytes());
  std::mt19937 rng(16);
  SharedLayer shared(layer, {0, 2, 5}, 70, bytes, /*from_tokens=*/40);
  for (int i = 0; i < 12; ++i) {  // the division follows the last choice and the times
    const Step step(70, kUsed, rng);
    const std::vector<float> logits = normal_numbers(70 * kExperts, rng, 2.0f);
    ExpertCounts expected_counts, counts;
    const std::vector<float> expected = run_on_cpu(layer, step, logits, kRouter, expected_counts);
    CHECK(same_bits(shared.run(step, logits, kRouter, counts), expected));
    CHECK(same_choice(shared.choice(), logits));
    CHECK(counts.chosen == 70 * kUsed);
    CHECK(counts.resident < counts.chosen);  // the CPU has computed some
    CHECK(counts.read == expected_counts.read);
    const auto on_slots =
        std::ranges::count_if(std::span(shared.choice().experts, size_t{70} * kUsed),
                              [](int32_t expert) { return expert == 0 || expert == 2 || expert == 5; });
    CHECK(counts.streamed == counts.resident - on_slots);
    CHECK(counts.streamed > 0);
  }
}

TEST_CASE("CUDA: experts give the CPU's bits before, while and after they change slots", "[sanitizer]") {
  const LayerKind kind = GENERATE(
      LayerKind{DType::kQ4_0, DType::kQ6_K, /*gated=*/true, /*biased=*/true, Activation::kSwigluOai},
      LayerKind{DType::kMXFP4, DType::kMXFP4, /*gated=*/true, /*biased=*/true, Activation::kSwigluOai},
      LayerKind{DType::kF16, DType::kF16, /*gated=*/false, /*biased=*/false, Activation::kRelu2});
  const Layer layer(kind);
  // With steps of 40 tokens, the missing experts are streamed through the buffers that changes use.
  const int n_tokens = GENERATE(1, 40);
  const Expert& one = layer.experts().front();
  const size_t bytes = 4 * ((one.gate ? one.gate.bytes() : 0) + one.up.bytes() + one.down.bytes());
  SharedLayer shared(layer, {0, 2, 3, 5}, 40, bytes);
  std::mt19937 rng(15);
  const auto check = [&] {
    const Step step(n_tokens, kUsed, rng);
    const std::vector<float> logits = normal_numbers(n_tokens * kExperts, rng, 2.0f);
    ExpertCounts expected_counts, counts;
    const std::vector<float> expected = run_on_cpu(layer, step, logits, kRouter, expected_counts);
    CHECK(same_bits(shared.run(step, logits, kRouter, counts), expected));
  };
  check();
  CHECK(shared.experts().changes_arrived() == 0);
  shared.begin({{1, 7}, {3, 8}, {0, 6}});
  if (n_tokens == 1) check();  // the slots still have the old experts
  shared.end(1);
  if (n_tokens == 1) check();
  shared.end(2);
  check();
  CHECK(shared.experts().changes_arrived() == 0);
  CHECK(shared.experts().change_seconds() >= 0);
  // Every place of the buffers is used, and then used again.
  for (int i = 0; i < 3 * shared.experts().most_changes(layer.experts().front()); ++i) {
    shared.begin({{1, i % 2 == 0 ? 2 : 7}});
    shared.end(1);
  }
  check();
  check();
}

namespace {

/// A layer whose zeros are skipped. shift: see Layer.
Layer turned_layer(const LayerKind& kind, float shift) {
  Layer layer(kind, shift);
  layer.turn();
  return layer;
}

/// Checks the counts of neurons, of which the device and the CPU each count their part.
void check_neurons(const ExpertCounts& counts, const ExpertCounts& expected) {
  CHECK(counts.chosen == expected.chosen);
  CHECK(counts.neurons == expected.neurons);
  CHECK(counts.passed == expected.passed);
  CHECK(counts.active == expected.active);
}

}  // namespace

TEST_CASE("CUDA: experts whose zeros are skipped give the CPU's bits and counts wherever they are",
          "[sanitizer]") {
  if (supported_isas().front() == Isa::kScalar) return;  // it rounds products before it adds them
  const LayerKind kind =
      GENERATE(LayerKind{DType::kQ4_0, DType::kQ4_0, /*gated=*/true, /*biased=*/true, Activation::kRelu},
               LayerKind{DType::kQ4_K, DType::kQ6_K, /*gated=*/true, /*biased=*/true, Activation::kRelu},
               LayerKind{DType::kF16, DType::kF16, /*gated=*/false, /*biased=*/true, Activation::kRelu2},
               LayerKind{DType::kMXFP4, DType::kQ4_K, /*gated=*/true, /*biased=*/true, Activation::kDRelu});
  // Nearly all neurons are active, about a tenth of them, or none.
  const float shift = GENERATE(8.0f, -2.0f, -1000.0f);
  const Layer layer = turned_layer(kind, shift);
  for (const std::vector<int32_t>& resident : {std::vector<int32_t>{4}, std::vector<int32_t>{0, 2, 3, 5, 8},
                                               std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}}) {
    SharedLayer shared(layer, resident, 70);
    std::mt19937 rng(21);
    for (const int n_tokens : {1, 1, 1, 1, 2, 5, 70}) {  // one token: enqueued, recorded, played back
      if (n_tokens > 5 && resident.size() != 5) continue;
      INFO(resident.size() << " resident experts, " << n_tokens << " tokens, shift " << shift);
      const Step step(n_tokens, kUsed, rng);
      const std::vector<float> logits = normal_numbers(n_tokens * kExperts, rng, 2.0f);
      ExpertCounts expected_counts, counts;
      const std::vector<float> expected = run_on_cpu(layer, step, logits, kRouter, expected_counts);
      CHECK(same_bits(shared.run(step, logits, kRouter, counts), expected));
      check_neurons(counts, expected_counts);
      CHECK((counts.active == 0) == (shift < -100.0f));
    }
  }
}

TEST_CASE("CUDA: streamed experts whose zeros are skipped give the CPU's bits and counts") {
  if (supported_isas().front() == Isa::kScalar) return;
  const LayerKind kind =
      GENERATE(LayerKind{DType::kQ4_0, DType::kQ6_K, /*gated=*/true, /*biased=*/true, Activation::kRelu},
               LayerKind{DType::kF16, DType::kF32, /*gated=*/false, /*biased=*/true, Activation::kRelu2});
  const Layer layer = turned_layer(kind, -1.0f);
  const Expert& one = layer.experts().front();
  const size_t bytes =
      std::max((one.gate ? one.gate.bytes() : 0) + one.up.bytes(), packed_columns_bytes(one.down));
  std::mt19937 rng(22);
  const Step step(30, kUsed, rng);
  const std::vector<float> logits = normal_numbers(30 * kExperts, rng, 2.0f);
  ExpertCounts expected_counts;
  const std::vector<float> expected = run_on_cpu(layer, step, logits, kRouter, expected_counts);
  for (const std::vector<int32_t>& resident :
       {std::vector<int32_t>{4}, std::vector<int32_t>{0, 2, 3, 5, 8}}) {
    for (const size_t stream_bytes : {bytes, 3 * bytes, 20 * bytes}) {
      INFO(resident.size() << " resident experts, buffers of " << stream_bytes << " bytes");
      SharedLayer shared(layer, resident, 30, stream_bytes);
      ExpertCounts counts;
      CHECK(same_bits(shared.run(step, logits, kRouter, counts), expected));
      check_neurons(counts, expected_counts);
      CHECK(counts.resident == counts.chosen);
    }
  }
}

TEST_CASE("CUDA: experts whose zeros are skipped change slots with the CPU's bits") {
  if (supported_isas().front() == Isa::kScalar) return;
  const LayerKind kind =
      GENERATE(LayerKind{DType::kQ4_0, DType::kQ4_K, /*gated=*/true, /*biased=*/true, Activation::kRelu},
               LayerKind{DType::kMXFP4, DType::kQ6_K, /*gated=*/true, /*biased=*/false, Activation::kRelu},
               LayerKind{DType::kF16, DType::kF16, /*gated=*/false, /*biased=*/false, Activation::kRelu2});
  const Layer layer = turned_layer(kind, -1.0f);
  const Expert& one = layer.experts().front();
  const size_t bytes =
      2 * ((one.gate ? one.gate.bytes() : 0) + one.up.bytes() + packed_columns_bytes(one.down));
  SharedLayer shared(layer, {0, 2, 3, 5}, 4, bytes);
  std::mt19937 rng(23);
  const auto check = [&] {
    const Step step(1, kUsed, rng);
    const std::vector<float> logits = normal_numbers(kExperts, rng, 2.0f);
    ExpertCounts expected_counts, counts;
    const std::vector<float> expected = run_on_cpu(layer, step, logits, kRouter, expected_counts);
    CHECK(same_bits(shared.run(step, logits, kRouter, counts), expected));
    check_neurons(counts, expected_counts);
  };
  check();
  shared.begin({{1, 7}, {3, 8}, {0, 6}});
  check();  // the slots still have the old experts
  shared.end(1);
  check();
  shared.end(2);
  for (int i = 0; i < 4; ++i) check();
}

}  // namespace hearth::test
