// Recurrent layers on a CUDA device: every array and all memory have the CPU's bits after every step, with
// prompts in any pieces, drafts, several sequences, copies and NaNs; and decoding steps can be recorded.
#include "kernels/recurrent.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/ops/recurrent_ops.h"
#include "tests/kernels/cuda/bits.h"
#include "tests/kernels/recurrent_inputs.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"

namespace hearth::test {
namespace {

/// The convolution's outputs.
std::array<const char*, 3> parts_of(const RecurrentShape& shape) {
  if (scans(shape)) return {"v", "k", "q"};
  return {"q", "k", "v"};
}

constexpr float kUnwritten = 77.0f;  // fills rows that no run has
constexpr int kMaxRows = 120;

/// The shapes of the CPU's tests, and heads whose state is in registers or too large for them.
std::vector<RecurrentShape> shapes() {
  std::vector<RecurrentShape> all = all_kinds();
  all.push_back({2, 4, 64, 3, true});
  all.push_back({1, 1, 256, 5, false});
  all.push_back(scan_shape(2, 4, 40, 64));
  all.push_back({.n_k_heads = 2, .n_v_heads = 2, .head_dim = 64, .n_taps = 4, .row_decays = true});
  return all;
}

/// Memory of a backend that the host writes and reads.
class Access {
 public:
  virtual ~Access() = default;
  virtual Backend& backend() = 0;
  virtual void write(float* to, const std::vector<float>& values) = 0;
  virtual std::vector<float> read(const float* from, size_t n) = 0;
};

class CpuAccess final : public Access {
 public:
  explicit CpuAccess(const StepBounds& bounds) : backend_(1, fused_isa().value_or(Isa::kScalar)) {
    backend_.reserve(bounds);
  }
  Backend& backend() override { return backend_; }
  void write(float* to, const std::vector<float>& values) override { std::ranges::copy(values, to); }
  std::vector<float> read(const float* from, size_t n) override { return {from, from + n}; }

 private:
  CpuBackend backend_;
};

class DeviceAccess final : public Access {
 public:
  explicit DeviceAccess(const StepBounds& bounds)
      : cpu_(1, supported_isas().front()),
        device_(cuda::make_device(cpu_, {.budget_bytes = cuda::scratch_bytes(bounds) + (80 << 20)})) {
    device_->reserve(bounds);
  }
  ComputeDevice& device() { return *device_; }
  Backend& backend() override { return device_->backend(); }
  void write(float* to, const std::vector<float>& values) override {
    device_->copy_in(reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(values.data()),
                     values.size() * sizeof(float));
  }
  std::vector<float> read(const float* from, size_t n) override {
    const float* const host = device_->backend().to_host(from, n);
    return {host, host + n};
  }

 private:
  CpuBackend cpu_;
  std::unique_ptr<ComputeDevice> device_;
};

/// The rows that a step reads, [n_rows] each.
struct Rows {
  Rows(const RecurrentShape& shape, int n_rows)
      : raw(static_cast<size_t>(n_rows * shape.conv_dim()), NAN),
        alpha(static_cast<size_t>(n_rows * shape.decay_dim()), NAN),
        beta(static_cast<size_t>(n_rows) * static_cast<size_t>(shape.n_v_heads), NAN) {}

  int n(const RecurrentShape& shape) const {
    return static_cast<int>(raw.size()) / static_cast<int>(shape.conv_dim());
  }
  /// Copies a token of a sequence to a row.
  void put(const RecurrentShape& shape, int row, const Inputs& sequence, int position) {
    const auto copy = [&](const std::vector<float>& from, std::vector<float>& to, int64_t n) {
      std::copy_n(from.begin() + position * n, n, to.begin() + row * n);
    };
    copy(sequence.raw, raw, shape.conv_dim());
    copy(sequence.alpha, alpha, shape.decay_dim());
    copy(sequence.beta, beta, shape.n_v_heads);
  }

  std::vector<float> raw, alpha, beta;
};

/// The arrays that a step writes, by name.
using Results = std::map<std::string, std::vector<float>>;

/// A layer on one backend. Its memory holds NaNs at first, as previous sequences may leave.
class Layer {
 public:
  Layer(Access& access, const RecurrentShape& shape, int n_slots, int max_drafts)
      : access_(access), shape_(shape) {
    const Weights weights(shape);
    taps_ = resident(weights.taps);
    if (!weights.bias.empty()) bias_ = resident(weights.bias);
    dt_ = resident(weights.dt);
    a_ = resident(weights.a);
    skip_ = resident(weights.skip);
    const auto head_dim = static_cast<size_t>(shape.head_dim);
    q_weights_ = resident(std::vector<float>(head_dim, 1.0f / static_cast<float>(shape.head_dim)));
    k_weights_ = resident(std::vector<float>(head_dim, 1.0f / std::sqrt(static_cast<float>(shape.head_dim))));
    memory_ = {array("states", n_slots * shape.state_floats(), NAN),
               array("tails", n_slots * shape.tail_floats(), NAN), nullptr, max_drafts};
    if (max_drafts > 0) memory_.log = array("log", n_slots * max_drafts * shape.log_floats(), NAN);
    raw_ = array("raw", kMaxRows * shape.conv_dim(), NAN);
    const std::array<const char*, 3> parts = parts_of(shape);
    for (size_t i = 0; i < parts.size(); ++i) array(parts[i], kMaxRows * shape.conv_parts()[i], kUnwritten);
    array("out", kMaxRows * shape.value_dim(), kUnwritten);
    array("decay", kMaxRows * shape.decay_dim(), kUnwritten);
    if (shape.row_decays) array("steps", kMaxRows * shape.decay_dim(), kUnwritten);
    array("beta", int64_t{kMaxRows} * shape.n_v_heads, kUnwritten);
    for (int i = 0; i < kCopies; ++i) {
      array("copied state " + std::to_string(i), shape.state_floats(), kUnwritten);
      array("copied tail " + std::to_string(i), shape.tail_floats(), kUnwritten);
    }
  }
  static constexpr int kCopies = 3;

  /// Writes the inputs of a step, and clears its outputs.
  void prepare(const Rows& rows) {
    for (auto& [name, array] : arrays_) {
      if (name == "states" || name == "tails" || name == "log" || name == "raw") continue;
      access_.write(array.buffer.floats(), std::vector<float>(array.n, kUnwritten));
    }
    access_.write(raw_, rows.raw);
    if (!has_states(shape_)) return;
    access_.write(at("decay"), rows.alpha);
    access_.write(at("beta"), rows.beta);
  }
  /// Computes a step. copied: at most kCopies rows after which the state and the tail are copied.
  void compute(const std::vector<RecurrentRun>& runs, int n_rows, const std::vector<int>& copied = {}) {
    std::vector<RecurrentCopy> states, tails;
    for (const int row : copied) {
      const std::string number = std::to_string(tails.size());
      if (has_states(shape_)) states.push_back({row, at("copied state " + number)});
      tails.push_back({row, at("copied tail " + number)});
    }
    RecurrentOps& ops = *access_.backend().recurrent();
    ops.causal_conv({.shape = shape_,
                     .runs = runs,
                     .copies = tails,
                     .raw = raw_,
                     .taps = taps_,
                     .memory = memory_,
                     .out = {at(parts_of(shape_)[0]), at(parts_of(shape_)[1]), at(parts_of(shape_)[2])},
                     .bias = bias_,
                     .silu = has_states(shape_)});
    if (!has_states(shape_)) return;
    const float eps = static_cast<float>(kEps / shape_.head_dim);
    const auto scale = [&](float* x, const float* weights) {
      access_.backend().rms_norm(x, weights, eps, int64_t{n_rows} * shape_.n_k_heads, shape_.head_dim, x);
    };
    if (!scans(shape_)) {
      scale(at("q"), q_weights_);
      scale(at("k"), k_weights_);
    }
    if (shape_.row_decays) {
      ops.delta_gates({n_rows, static_cast<int>(shape_.decay_dim()), at("decay"), nullptr, dt_, a_,
                       at("decay"), at("steps")});
      access_.backend().gated_activation({Activation::kSigmoid}, at("beta"), nullptr,
                                         int64_t{n_rows} * shape_.n_v_heads, at("beta"));
    } else {
      ops.delta_gates({n_rows, shape_.n_v_heads, at("decay"), scans(shape_) ? nullptr : at("beta"), dt_, a_,
                       at("decay"), at("beta")});
    }
    const GatedDelta call{shape_,  runs,        states,     at("q"), at("k"),
                          at("v"), at("decay"), at("beta"), memory_, at("out")};
    if (scans(shape_)) {
      ops.selective_scan({call, skip_});
    } else {
      ops.gated_delta(call);
    }
  }
  Results results() {
    Results all;
    for (auto& [name, array] : arrays_) all[name] = access_.read(array.buffer.floats(), array.n);
    return all;
  }
  /// Null if the shape has no such array.
  float* at(const std::string& name) {
    const auto array = arrays_.find(name);
    return array == arrays_.end() ? nullptr : array->second.buffer.floats();
  }
  const RecurrentMemory& memory() const { return memory_; }

 private:
  struct Array {
    Buffer buffer;
    size_t n = 0;  // floats
  };
  float* array(const std::string& name, int64_t n_floats, float value) {
    if (n_floats == 0) return nullptr;
    const auto n = static_cast<size_t>(n_floats);
    arrays_[name] = {access_.backend().allocate(n * sizeof(float)), n};
    access_.write(at(name), std::vector<float>(n, value));
    return at(name);
  }
  const float* resident(const std::vector<float>& values) {
    weights_.push_back(access_.backend().allocate(values.size() * sizeof(float)));
    access_.write(weights_.back().floats(), values);
    return weights_.back().floats();
  }

  Access& access_;
  const RecurrentShape shape_;
  std::map<std::string, Array> arrays_;
  std::vector<Buffer> weights_;
  const float *taps_, *dt_, *a_, *skip_, *q_weights_, *k_weights_;
  const float* bias_ = nullptr;
  float* raw_;
  RecurrentMemory memory_;
};

/// The same layer on a device and on the CPU.
class Both {
 public:
  explicit Both(const RecurrentShape& shape, int n_slots = 1, int max_drafts = 4)
      : shape_(shape),
        bounds_({.max_tokens = kMaxRows,
                 .max_cols = 4096,
                 .max_context = 64,
                 .max_outputs = std::max({n_slots * shape.state_floats(), kMaxRows * shape.conv_dim(),
                                          n_slots * max_drafts * shape.log_floats()}),
                 .recurrent = shape}),
        device_(bounds_),
        cpu_(bounds_),
        there_(device_, shape, n_slots, max_drafts),
        here_(cpu_, shape, n_slots, max_drafts) {}

  /// Computes a step on both and compares everything. Returns the device's arrays.
  Results step(const std::vector<RecurrentRun>& runs, const Rows& rows, const std::vector<int>& copied = {},
               const StepShape& shape = {}) {
    return calls({runs}, rows, copied, shape);
  }
  /// A step with several calls of every operation.
  Results calls(const std::vector<std::vector<RecurrentRun>>& runs, const Rows& rows,
                const std::vector<int>& copied = {}, const StepShape& shape = {}) {
    for (Layer* layer : {&there_, &here_}) layer->prepare(rows);
    device_.device().begin_step(shape);
    for (const std::vector<RecurrentRun>& of_call : runs) {
      for (Layer* layer : {&there_, &here_}) layer->compute(of_call, rows.n(shape_), copied);
    }
    device_.device().backend().finish();
    device_.device().begin_step({});
    Results there = there_.results();
    if (!fused_isa()) return there;
    const Results here = here_.results();
    for (const auto& [name, values] : there) {
      INFO(text(shape_) << ", " << runs.front().size() << " runs: " << name);
      REQUIRE(different(values, here.at(name)) == 0);
    }
    return there;
  }
  /// Tokens [begin, end) of a sequence in slot 0.
  Results piece(const Inputs& sequence, int begin, int end, int n_uncertain = 0, int n_replayed = 0) {
    Rows rows(shape_, end - begin + 1);  // row 0 belongs to no run
    for (int p = begin; p < end; ++p) rows.put(shape_, p - begin + 1, sequence, p);
    return step({{.slot = 0,
                  .first_token = 1,
                  .n_tokens = end - begin,
                  .n_replayed = n_replayed,
                  .n_uncertain = n_uncertain,
                  .fresh = begin == 0}},
                rows);
  }

  ComputeDevice& device() { return device_.device(); }
  Layer& there() { return there_; }

 private:
  RecurrentShape shape_;
  StepBounds bounds_;
  DeviceAccess device_;
  CpuAccess cpu_;
  Layer there_, here_;
};

/// Row `row` of q, k, v and out, as expected() has them.
void append(const RecurrentShape& shape, const Results& results, int row, std::vector<float>& to) {
  const auto add = [&](const char* name, int64_t n) {
    if (n == 0) return;
    const std::vector<float>& from = results.at(name);
    to.insert(to.end(), from.begin() + row * n, from.begin() + (row + 1) * n);
  };
  const std::array<const char*, 3> parts = parts_of(shape);
  for (size_t i = 0; i < parts.size(); ++i) add(parts[i], shape.conv_parts()[i]);
  add("out", shape.value_dim());
}

}  // namespace

TEST_CASE("CUDA: recurrent layers follow their formulas, in pieces of any size") {
  // The tolerances of the CPU's test.
  constexpr double kConvTolerance = 1e-6, kOutTolerance = 1e-5;
  constexpr int kTokens = 37;
  for (const RecurrentShape& shape : shapes()) {
    const Inputs sequence(shape, kTokens, 1);
    testing::ReferenceRecurrent reference(shape);
    const std::vector<std::vector<double>> rows = expected(shape, sequence, kTokens, reference);
    std::vector<float> whole;
    for (const std::vector<int>& sizes :
         {std::vector<int>{kTokens}, {1, 36}, {1, 1, 1, 2, 3, 4, 5, 20}, {17, 16, 4}}) {
      Both both(shape);
      std::vector<float> ours;
      int begin = 0;
      for (const int size : sizes) {
        const Results results = both.piece(sequence, begin, begin + size);
        for (int row = 1; row <= size; ++row) append(shape, results, row, ours);
        begin += size;
      }
      INFO(text(shape) << ", first piece " << sizes.front());
      if (whole.empty()) whole = ours;
      CHECK(different(ours, whole) == 0);
      const int64_t keys = shape.key_dim(), convolved = shape.conv_dim();
      if (!has_states(shape)) {
        CHECK(worst_error(ours, rows, 0, convolved) < kConvTolerance);
        continue;
      }
      CHECK(worst_error(ours, rows, 0, keys) < kConvTolerance);
      CHECK(worst_error(ours, rows, keys, 2 * keys) < kConvTolerance);
      CHECK(worst_error(ours, rows, 2 * keys, convolved) < kConvTolerance);
      CHECK(worst_error(ours, rows, convolved, convolved + shape.value_dim()) < kOutTolerance);
    }
  }
}

TEST_CASE("CUDA: accepted drafts are replayed, and rejected ones leave no trace") {
  for (const RecurrentShape& shape : shapes()) {
    const Inputs sequence(shape, 24, 1), wrong(shape, 24, 50);
    Both both(shape), plain(shape);
    std::vector<float> ours, all;
    const Results whole = plain.piece(sequence, 0, 20);
    for (int row = 1; row <= 20; ++row) append(shape, whole, row, all);
    // Tokens, and how many of them are drafts, of which some are right.
    struct Step {
      int n_certain, n_drafts, n_right;
    };
    int done = 0, n_replayed = 0;
    for (const Step& step : {Step{3, 4, 4}, Step{1, 4, 2}, Step{1, 3, 0}, Step{2, 1, 1}, Step{6, 0, 0}}) {
      const int n = step.n_certain + step.n_drafts;
      Rows rows(shape, n);
      for (int i = 0; i < n; ++i)
        rows.put(shape, i, i < step.n_certain + step.n_right ? sequence : wrong, done + i);
      const Results results = both.step({{.slot = 0,
                                          .n_tokens = n,
                                          .n_replayed = n_replayed,
                                          .n_uncertain = step.n_drafts,
                                          .fresh = done == 0}},
                                        rows);
      for (int row = 0; row < step.n_certain + step.n_right; ++row) append(shape, results, row, ours);
      done += step.n_certain + step.n_right;
      n_replayed = step.n_right;
    }
    REQUIRE(done == 20);
    INFO(text(shape));
    CHECK(different(ours, all) == 0);
    const Results now = both.step({{.slot = 0}}, Rows(shape, 1));  // nothing to do
    if (has_states(shape)) CHECK(different(now.at("states"), whole.at("states")) == 0);
    CHECK(different(now.at("tails"), whole.at("tails")) == 0);
  }
}

TEST_CASE("CUDA: random steps of several sequences have the CPU's bits") {
  constexpr int kSlots = 5, kMaxDrafts = 4, kSteps = 14;
  struct Slot {
    int position = -1;  // -1: no sequence
    int n_drafted = 0;  // of the last step
  };
  test::for_each_schedule([&] {
    for (const RecurrentShape& shape : shapes()) {
      if (shape.head_dim > 128) continue;  // the other tests have it
      const std::array<Inputs, kSlots> sequences = {Inputs(shape, 300, 1), Inputs(shape, 300, 2),
                                                    Inputs(shape, 300, 3), Inputs(shape, 300, 4),
                                                    Inputs(shape, 300, 5)};
      Both both(shape, kSlots, kMaxDrafts);
      std::array<Slot, kSlots> slots;
      std::mt19937 random(7);
      const auto pick = [&](int from, int to) { return std::uniform_int_distribution(from, to)(random); };
      for (int step = 0; step < kSteps; ++step) {
        std::vector<int> order = {0, 1, 2, 3, 4};
        std::ranges::shuffle(order, random);
        order.resize(static_cast<size_t>(pick(1, kSlots)));
        std::vector<RecurrentRun> runs;
        std::vector<int> copied;
        int n_rows = 0;
        for (const int s : order) {
          Slot& slot = slots[static_cast<size_t>(s)];
          n_rows += pick(0, 1);  // a row that no run has
          RecurrentRun run{.slot = s, .first_token = n_rows};
          run.fresh = slot.position < 0 || pick(1, 6) == 1;
          if (run.fresh) slot.position = 0;
          run.n_replayed = run.fresh ? 0 : pick(0, slot.n_drafted);
          if (pick(1, 5) > 1) {
            const int n_certain = pick(1, 4) == 1 ? pick(15, 19) : pick(0, 3);
            run.n_uncertain = pick(0, 1) * pick(0, kMaxDrafts);
            run.n_tokens = n_certain + run.n_uncertain;
            if (n_certain > 0 && copied.size() < Layer::kCopies && pick(0, 1) == 1)
              copied.push_back(n_rows + pick(0, n_certain - 1));
          }
          slot.position += run.n_replayed;
          n_rows += run.n_tokens;
          runs.push_back(run);
        }
        Rows rows(shape, std::max(n_rows, 1));
        for (const RecurrentRun& run : runs) {
          Slot& slot = slots[static_cast<size_t>(run.slot)];
          for (int i = 0; i < run.n_tokens; ++i)
            rows.put(shape, run.first_token + i, sequences[static_cast<size_t>(run.slot)], slot.position + i);
          slot.position += run.n_tokens - run.n_uncertain;
          slot.n_drafted = run.n_uncertain;
        }
        INFO("step " << step);
        both.step(runs, rows, copied);
      }
    }
  });
}

TEST_CASE("CUDA: a fresh run ignores what its slot holds, and an empty one clears it") {
  for (const RecurrentShape& shape : shapes()) {
    const Inputs sequence(shape, 6, 1);
    Both both(shape, 1, 0);  // without a log
    both.piece(sequence, 0, 6);
    const Results cleared = both.step({{.slot = 0, .fresh = true}}, Rows(shape, 1));
    INFO(text(shape));
    for (const char* name : {"states", "tails"}) {
      if (!cleared.contains(name)) continue;
      CHECK(std::ranges::all_of(cleared.at(name), [](float x) { return x == 0.0f; }));
    }
    Rows rows(shape, 6);
    for (int i = 0; i < 6; ++i) rows.put(shape, i, sequence, i);
    const Results later = both.step({{.slot = 0, .n_tokens = 6}}, rows);
    const Results fresh = both.step({{.slot = 0, .n_tokens = 6, .fresh = true}}, rows);
    const char* const out = has_states(shape) ? "out" : "q";
    CHECK(different(later.at(out), fresh.at(out)) == 0);
    both.step({}, rows);  // no runs
  }
}

TEST_CASE("CUDA: a sequence of drafts alone begins with a cleared state") {
  const RecurrentShape shape = kShapes[2];
  const Inputs sequence(shape, 3, 1);
  Both both(shape);
  const Results drafted = both.piece(sequence, 0, 3, /*n_uncertain=*/3);
  CHECK(std::ranges::all_of(drafted.at("states"), [](float x) { return x == 0.0f; }));
  const Results replayed = both.step({{.slot = 0, .n_replayed = 3}}, Rows(shape, 1));
  Both plain(shape);
  CHECK(different(replayed.at("states"), plain.piece(sequence, 0, 3).at("states")) == 0);
}

TEST_CASE("CUDA: sequences are brought up to date one by one, in one step") {
  const RecurrentShape shape = kShapes[1];
  const Inputs a(shape, 6, 1), b(shape, 6, 2);
  Both both(shape, 2);
  Rows rows(shape, 12);
  for (int i = 0; i < 6; ++i) {
    rows.put(shape, i, a, i);
    rows.put(shape, 6 + i, b, i);
  }
  both.step({{.slot = 0, .n_tokens = 6, .n_uncertain = 4, .fresh = true},
             {.slot = 1, .first_token = 6, .n_tokens = 6, .n_uncertain = 4, .fresh = true}},
            rows);
  both.calls({{{.slot = 0, .n_replayed = 1}}, {{.slot = 1, .n_replayed = 4}}}, Rows(shape, 1));
}

TEST_CASE("CUDA: NaNs and infinities spread as on the CPU") {
  for (const RecurrentShape& shape : shapes()) {
    if (!has_states(shape)) continue;
    const Inputs clean(shape, 9, 1);
    const int last = shape.n_v_heads - 1;
    const int64_t key = first_channel(shape, 'k') + shape.key_head(last) * shape.n_rows() + 3;
    const int64_t value = first_channel(shape, 'v') + shape.value_dim() - 2;
    const int64_t gate = int64_t{4} * shape.n_v_heads + last;
    for (const float bad : {NAN, INFINITY, -INFINITY, 3e38f}) {
      for (const int kind : {0, 1, 2, 3}) {
        if (kind == 3 && scans(shape)) continue;  // it has no beta
        Inputs spoiled = clean;
        if (kind == 0) spoiled.raw[static_cast<size_t>(4 * shape.conv_dim() + key)] = bad;
        if (kind == 1) spoiled.raw[static_cast<size_t>(4 * shape.conv_dim() + value)] = bad;
        if (kind == 2) spoiled.alpha[static_cast<size_t>(5 * shape.decay_dim() - 1)] = bad;
        if (kind == 3) spoiled.beta[static_cast<size_t>(gate)] = bad;
        INFO("kind " << kind << ", " << bad);
        Both both(shape);
        const Results first = both.piece(spoiled, 0, 6, /*n_uncertain=*/1);
        both.piece(spoiled, 6, 9, 0, /*n_replayed=*/1);
        if (!std::isnan(bad)) continue;
        const std::vector<float>& out = first.at("out");
        CHECK(std::isnan(out[static_cast<size_t>(6 * shape.value_dim() - 2)]));  // row 5: token 4
        CHECK_FALSE(std::isnan(out[static_cast<size_t>(5 * shape.value_dim() - 2)]));
      }
    }
  }
}

TEST_CASE("CUDA: gates have the CPU's bits over the whole range of floats") {
  const RecurrentShape shape{1, 1, 16, 2, false};
  std::vector<float> alpha = {0.0f, -0.0f, INFINITY, -INFINITY, NAN};
  for (float x = -100.0f; x <= 100.0f; x += 0.0917f) alpha.push_back(x);
  for (float x = 1e-38f; x < 1e38f; x *= 3.0f) alpha.insert(alpha.end(), {x, -x});
  const auto n = static_cast<int>(alpha.size());
  const StepBounds bounds{.max_tokens = 1, .max_cols = 64, .recurrent = shape};
  DeviceAccess device(bounds);
  CpuAccess cpu(bounds);
  for (const float rate : {0.0f, -1e-4f, -0.3f, -16.0f, 0.5f}) {
    std::vector<std::vector<float>> found;
    for (Access* access : {static_cast<Access*>(&device), static_cast<Access*>(&cpu)}) {
      const auto put = [&](const std::vector<float>& values) {
        Buffer buffer = access->backend().allocate(values.size() * sizeof(float));
        access->write(buffer.floats(), values);
        return buffer;
      };
      const Buffer from = put(alpha), dt = put(std::vector<float>(alpha.size(), 0.25f)),
                   a = put(std::vector<float>(alpha.size(), rate)), decay = put(alpha), beta = put(alpha);
      access->backend().recurrent()->delta_gates(
          {1, n, from.floats(), from.floats(), dt.floats(), a.floats(), decay.floats(), beta.floats()});
      for (const Buffer* buffer : {&decay, &beta})
        found.push_back(access->read(buffer->floats(), alpha.size()));
    }
    INFO("a = " << rate);
    CHECK(std::isnan(found[0][4]));
    CHECK(std::isnan(found[1][4]));
    if (!fused_isa()) continue;
    CHECK(different(found[0], found[2]) == 0);
    CHECK(different(found[1], found[3]) == 0);
  }
}

TEST_CASE("CUDA: the largest heads, and more key heads than counters") {
  for (const RecurrentShape& shape :
       {RecurrentShape{1, 1, cuda::kMaxDeltaHeadDim, 4, true}, RecurrentShape{40, 40, 4, 4, false},
        scan_shape(1, 2, 1, cuda::kMaxDeltaHeadDim), scan_shape(40, 80, 20, 4),
        RecurrentShape{.n_k_heads = 1,
        .n_v_heads = 1,
        .head_dim = cuda::kMaxDeltaHeadDim,
        .n_taps = 4,
        .row_decays = true},
        RecurrentShape{.n_k_heads = 40, .n_v_heads = 40, .head_dim = 4, .n_taps = 4, .row_decays = true}}) {
    const Inputs sequence(shape, 4, 1);
    Both both(shape, 1, 2);
    both.piece(sequence, 0, 3, /*n_uncertain=*/2);
    both.piece(sequence, 2, 4, 1, /*n_replayed=*/1);
    both.step({{.slot = 0, .n_replayed = 1}}, Rows(shape, 1));
  }
}

TEST_CASE("CUDA: decoding steps are played back with other runs") {
  constexpr int kSlots = 4;
  const RecurrentShape shape = GENERATE(RecurrentShape{1, 2, 64, 4, true}, RecurrentShape{2, 6, 20, 4, false},
                                        scan_shape(1, 2, 24, 128), kRowDecays[2]);
  const StepShape decoding{
      .n_tokens = 4, .n_logit_rows = 4, .n_tables = kSlots, .longest = 9, .decoding = true};
  const std::vector<Inputs> sequences = {Inputs(shape, 60, 1), Inputs(shape, 60, 2), Inputs(shape, 60, 3),
                                         Inputs(shape, 60, 4)};
  Both both(shape, kSlots);
  std::array<int, kSlots> position = {};
  const auto run = [&](std::vector<RecurrentRun> runs) {
    Rows rows(shape, 4);
    int row = 0;
    for (RecurrentRun& each : runs) {
      auto& at = position[static_cast<size_t>(each.slot)];
      each.fresh = at == 0;
      at += each.n_replayed;
      each.first_token = row;
      for (int i = 0; i < each.n_tokens; ++i)
        rows.put(shape, row++, sequences[static_cast<size_t>(each.slot)], at + i);
      at += each.n_tokens - each.n_uncertain;
    }
    both.step(runs, rows, {}, decoding);
  };
  cudaemu::reset_stats();
  for (int repeat = 0; repeat < 3; ++repeat) {
    run({{.slot = 0, .n_tokens = 1},
         {.slot = 1, .n_tokens = 1},
         {.slot = 2, .n_tokens = 1},
         {.slot = 3, .n_tokens = 1}});
    run({{.slot = 2, .n_tokens = 4, .n_uncertain = 3}});
    run({{.slot = 3, .n_tokens = 2, .n_uncertain = 1},
         {.slot = 2, .n_tokens = 2, .n_replayed = 2, .n_uncertain = 1}});
    run({{.slot = 3, .n_tokens = 1, .n_replayed = 1}, {.slot = 0, .n_tokens = 3}});
  }
  if (cudaemu::is_emulated()) CHECK(cudaemu::stats().graph_launches == 11);
}

TEST_CASE("CUDA: what a recorded step or a call cannot have is refused") {
  const RecurrentShape shape{1, 1, 16, 2, false};
  Both both(shape, 3);
  Rows rows(shape, 2);
  const StepShape decoding{.n_tokens = 2, .n_logit_rows = 2, .n_tables = 3, .longest = 9, .decoding = true};
  const auto compute = [&](const StepShape& step, const std::vector<RecurrentRun>& runs,
                           const std::vector<int>& copied) {
    both.device().begin_step(step);
    both.there().compute(runs, 2, copied);
  };
  const RecurrentRun run{.slot = 0, .n_tokens = 2, .fresh = true};
  CHECK_THROWS_WITH(compute(decoding, {run}, {1}),
                    "A decoding step of 2 tokens has 1 runs with up to 2 tokens and 1 copies in a recurrent "
                    "layer, expected at most 2 runs and no copies; this is a mistake in Hearth.");
  CHECK_THROWS_AS(compute(decoding, {{.slot = 0}, {.slot = 1}, {.slot = 2}}, {}), std::logic_error);
  both.device().begin_step({});
  const std::vector<RecurrentCopy> copies(65, {1, both.there().at("copied state 0")});
  Layer& layer = both.there();
  CHECK_THROWS_WITH(
      both.device().backend().recurrent()->gated_delta({shape, std::array{run}, copies, layer.at("q"),
                                                        layer.at("k"), layer.at("v"), layer.at("decay"),
                                                        layer.at("beta"), layer.memory(), layer.at("out")}),
      "A call for a recurrent layer requests 65 copies, at most 64 are possible; this is a mistake "
      "in Hearth.");
  RecurrentShape large = shape;
  large.head_dim = 1025;
  CHECK_THROWS_WITH(
      both.device().backend().recurrent()->gated_delta({large,
                                                        std::array{run},
                                                        {},
                                                        layer.at("q"),
                                                        layer.at("k"),
                                                        layer.at("v"),
                                                        layer.at("decay"),
                                                        layer.at("beta"),
                                                        layer.memory(),
                                                        layer.at("out")}),
      "A recurrent layer on a CUDA device: a head has 1025 dimensions, the kernels take up to 1024. "
      "Keep this model's layers on the CPU.");
}

}  // namespace hearth::test
