// CudaBackend: Backend's calls as sequences of operations on one stream.
#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/rope_table.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cuda/arena.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/step_inputs.h"

namespace hearth::cuda {
namespace {

std::string device_name() {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "asking for the device");
  return properties.name;
}

/// Sets that may be in use at once: FfnPass has one to compute and one to verify.
constexpr size_t kSets = 2;

/// The device's side of a NeuronSet.
struct Set {
  Set() = default;
  Set(Arena& arena, size_t words, size_t max_neurons, int32_t* count)
      : wanted(arena.take<uint64_t>(words)), ids(arena.take<int32_t>(max_neurons)), n(count) {}
  DeviceNeuronSet view() const { return {wanted, {ids, n, n_neurons}, n_tokens, n_neurons}; }

  const NeuronSet* of = nullptr;
  int n_tokens = 0;
  int64_t n_neurons = 0;
  uint64_t* wanted = nullptr;
  int32_t *ids = nullptr, *n = nullptr;
};

/// Device memory that operations work in, sized for the largest step.
struct Scratch {
  Scratch() = default;
  Scratch(Arena& arena, const StepBounds& bounds) {
    const auto rows = static_cast<size_t>(bounds.max_tokens), cols = static_cast<size_t>(bounds.max_cols);
    const auto heads = static_cast<size_t>(bounds.n_heads);
    const size_t head_dim = bounds.head_dim > 0 ? static_cast<size_t>(bounds.head_dim) : cols / heads;
    const size_t sum_cols = bounds.d_model > 0 ? static_cast<size_t>(bounds.d_model) : cols;
    const size_t words = rows * ((cols + 63) / 64);
    inputs = arena.take<int32_t>(StepInputs::size(bounds));
    rope_floats = rows * 2 * head_dim;
    rope_table = arena.take<float>(rope_floats);
    quantized = arena.take<std::byte>(quantized_bytes(bounds.max_tokens, bounds.max_cols / 32 * 32));
    attention = arena.take<std::byte>(attention_scratch_bytes(
        bounds.max_tokens, bounds.n_heads, static_cast<int>(head_dim), bounds.max_context));
    for (float** array : {&gates, &ups, &values}) *array = arena.take<float>(rows * cols);
    sums = {arena.take<int64_t>(rows * sum_cols), arena.take<int32_t>(rows)};
    passed_ids = arena.take<int32_t>(cols);
    list_counts = arena.take<int32_t>(kSets + 2);
    counts = arena.take<DeviceCounts>(1);
    select = arena.take<std::byte>(select_scratch_bytes(bounds.max_cols));
    for (size_t i = 0; i < kSets; ++i) sets[i] = Set(arena, words, cols, list_counts + i);
    if (!bounds.shares) return;
    hot = Set(arena, words, cols, list_counts + kSets);
    cold_wanted = arena.take<uint64_t>(words);
    cold_sums = {arena.take<int64_t>(rows * sum_cols), arena.take<int32_t>(rows)};
  }

  int32_t* inputs = nullptr;
  size_t rope_floats = 0;
  float* rope_table = nullptr;
  std::byte *quantized = nullptr, *attention = nullptr, *select = nullptr;
  float *gates = nullptr, *ups = nullptr, *values = nullptr;  // [max_tokens, max_cols]
  NeuronSums sums;
  int32_t *passed_ids = nullptr, *list_counts = nullptr;
  DeviceCounts* counts = nullptr;
  Set sets[kSets];
  // The CPU's share of a layer.
  Set hot;
  uint64_t* cold_wanted = nullptr;
  NeuronSums cold_sums;
};

class CudaBackend final : public Backend {
 public:
  CudaBackend(CpuBackend& cold, const DeviceOptions& options)
      : cold_backend_(cold), name_(device_name()), one_thread_(1), arena_(options.budget_bytes) {}
  ~CudaBackend() override { cudaStreamSynchronize(stream_); }

  std::string description() const override { return "CUDA " + name_; }

  Buffer allocate(size_t bytes) override {
    if (bytes == 0) return {};
    std::byte* data = arena_.take<std::byte>(bytes);
    check(cudaMemsetAsync(data, 0, bytes, stream_), "clearing device memory");
    stream_.wait();
    return {data, bytes, [](void*, size_t) {}};  // it goes with the arena
  }

  using Backend::resident;
  const std::byte* resident(const std::byte* host, size_t bytes) override {
    std::byte* copy = arena_.take<std::byte>(bytes);
    if (bytes > 0) {
      check(cudaMemcpyAsync(copy, host, bytes, cudaMemcpyHostToDevice, stream_), "copying weights");
      stream_.wait();
    }
    return copy;
  }

  void reserve(const StepBounds& bounds) override {
    scratch_ = Scratch(arena_, bounds);
    const auto rows = static_cast<size_t>(bounds.max_tokens), cols = static_cast<size_t>(bounds.max_cols);
    const size_t words = rows * ((cols + 63) / 64);
    inputs_.reserve(bounds, scratch_.inputs);
    rope_host_.reserve(bounds.max_tokens, static_cast<int>(scratch_.rope_floats / rows / 2));
    rope_pinned_ = PinnedArray<float>(scratch_.rope_floats);
    host_counts_ = PinnedArray<DeviceCounts>(1);
    host_wanted_ = PinnedArray<uint64_t>(words);
    if (bounds.shares) reserve_share(bounds);
    check(cudaMemsetAsync(scratch_.counts, 0, sizeof(DeviceCounts), stream_), "clearing counts");
  }

  void bind_thread() override { cold_backend_.bind_thread(); }

  void begin_step(const StepShape& /*shape*/) override {
    inputs_.begin_step();
    rope_uploaded_ = false;
    longest_ = 0;
  }

  void finish() override {
    if (counts_of_ != nullptr) {
      check(cudaMemcpyAsync(host_counts_.data(), scratch_.counts, sizeof(DeviceCounts),
                            cudaMemcpyDeviceToHost, stream_),
            "reading counts");
      check(cudaMemsetAsync(scratch_.counts, 0, sizeof(DeviceCounts), stream_), "clearing counts");
    }
    stream_.wait();
    if (counts_of_ == nullptr) return;
    const DeviceCounts& found = *host_counts_.data();
    counts_of_->gate_rows += static_cast<int64_t>(found.gate_rows);
    counts_of_->up_rows += static_cast<int64_t>(found.up_rows);
    counts_of_->down_rows += static_cast<int64_t>(found.down_rows);
    counts_of_->proposed += static_cast<int64_t>(found.proposed);
    counts_of_->passed += static_cast<int64_t>(found.passed);
    counts_of_->active += static_cast<int64_t>(found.active);
    counts_of_ = nullptr;
  }

  const float* to_host(const float* x, size_t n) override {
    if (outputs_.size() < n) outputs_ = PinnedArray<float>(n);  // at the first step of that many
    if (n > 0) {
      check(cudaMemcpyAsync(outputs_.data(), x, n * sizeof(float), cudaMemcpyDeviceToHost, stream_),
            "reading results");
    }
    finish();
    return outputs_.data();
  }

  void to_host(NeuronSet& set) override {
    const Set& on_device = set_of(set);
    set.clear(on_device.n_tokens, on_device.n_neurons);
    const size_t n = set.words() * static_cast<size_t>(set.n_tokens());
    check(cudaMemcpyAsync(host_wanted_.data(), on_device.wanted, n * sizeof(uint64_t), cudaMemcpyDeviceToHost,
                          stream_),
          "reading a set of neurons");
    stream_.wait();
    if (n > 0) std::memcpy(set.wanted(0), host_wanted_.data(), n * sizeof(uint64_t));
    set.collect();
  }

  void embed(const Matrix& table, std::span<const int32_t> tokens, float* out) override {
    cuda::embed(table, inputs_.on_device(tokens, stream_), static_cast<int64_t>(tokens.size()), out, stream_);
  }

  void add(const float* x, int64_t n, float* out) override { cuda::add(x, n, out, stream_); }

  void rms_norm(const float* x, const float* weight, float eps, int64_t n_rows, int64_t n_cols,
                float* out) override {
    cuda::rms_norm(x, weight, eps, n_rows, n_cols, out, stream_);
  }

  void layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t n_rows,
                  int64_t n_cols, float* out) override {
    cuda::layer_norm(x, weight, bias, eps, n_rows, n_cols, out, stream_);
  }

  void matmul(const float* x, int n_tokens, std::span<const Product> products) override {
    if (n_tokens == 0 || products.empty()) return;
    bool quantized = false;
    for (const Product& p : products) {
      if (!quantized && uses_quantized_activations(p.weight.dtype)) {
        quantize_input(x, n_tokens, p.weight.n_cols);
        quantized = true;
      }
      MatmulOp op{.weight = p.weight,
                  .bias = p.bias,
                  .rows = {},
                  .x = x,
                  .quantized = quantized_in(scratch_.quantized, n_tokens, p.weight.n_cols),
                  .n_tokens = n_tokens,
                  .out = p.out,
                  .out_stride = p.out_stride,
                  .accumulate = p.accumulate};
      if (p.rows.data() != nullptr) op.rows = inputs_.list(p.rows, stream_);
      cuda::matmul(op, stream_);
    }
  }

  void rope(float* x, int64_t stride, int n_heads, int head_dim, std::span<const int32_t> positions,
            const Rope& rope) override {
    if (rope.kind == RopeKind::kNone || positions.empty()) return;
    const int64_t row_floats = rope_host_.row_floats_of(rope);
    if (!rope_uploaded_) {
      rope_host_.prepare(positions, rope, one_thread_);
      const size_t n = positions.size() * static_cast<size_t>(row_floats);
      std::memcpy(rope_pinned_.data(), rope_host_.row(0), n * sizeof(float));
      check(cudaMemcpyAsync(scratch_.rope_table, rope_pinned_.data(), n * sizeof(float),
                            cudaMemcpyHostToDevice, stream_),
            "copying rotations");
      rope_uploaded_ = true;
    }
    cuda::rope(x, stride, n_heads, head_dim, rope.kind, rope.n_rot, scratch_.rope_table, row_floats,
               static_cast<int>(positions.size()), stream_);
  }

  void kv_append(const float* k, const float* v, int64_t stride, const KvPlaces& places, const KvShape& shape,
                 KvLayer layer) override {
    cuda::kv_append(k, v, stride, inputs_.on_device(places, stream_), shape, layer, stream_);
  }

  void attention(const float* q, int64_t stride, int n_heads, float scale, const KvPlaces& places,
                 const KvShape& shape, KvLayer layer, float* out) override {
    if (longest_ == 0) longest_ = 1 + *std::max_element(places.positions, places.positions + places.n_tokens);
    cuda::attention(q, stride, n_heads, scale, inputs_.on_device(places, stream_), shape, layer, longest_,
                    scratch_.attention, out, stream_);
  }

  void gated_activation(FfnActivation act, const float* gate, const float* up, int64_t n,
                        float* out) override {
    cuda::gated_activation(act, gate, up, n, out, stream_);
  }

  void select_neurons(const float* values, const float* sizes, int n_tokens, int64_t n_neurons,
                      float at_least, NeuronSet& set) override {
    Set& chosen = set_of(set);
    chosen.n_tokens = n_tokens;
    chosen.n_neurons = n_neurons;
    cuda::select_neurons(values, sizes, n_tokens, n_neurons, at_least, chosen.view(), scratch_.select,
                         stream_);
  }

  void ffn_neurons(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                   const float* gates, float* out, NeuronCounts& counts) override {
    const DeviceNeuronSet all = set_of(set).view();
    if (ffn.residency == nullptr) {
      add_on_device(ffn, x, all, gates, counts);
    } else {
      // The device is given its share before the CPU begins on its own, so that they work at the same time.
      scratch_.hot.n_tokens = n_tokens;
      scratch_.hot.n_neurons = all.n_neurons;
      const DeviceNeuronSet hot = scratch_.hot.view();
      split_set(all, ffn.residency->resident, hot, scratch_.cold_wanted, scratch_.select, stream_);
      send_to_cpu(x, gates, all, ffn.down.n_cols);
      add_on_device(ffn, x, hot, gates, counts);
      add_on_cpu(*ffn.residency, n_tokens, all.n_neurons, gates != nullptr, counts);
    }
    add_sums(scratch_.sums, ffn.down.bias, n_tokens, ffn.down.n_cols, out, stream_);
  }

  void down_neurons(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set,
                    float* out, NeuronCounts& counts) override {
    const DeviceNeuronSet wanted = set_of(set).view();
    listed_values(wanted, wanted.any, values, scratch_.values, stream_);
    count({.set = wanted, .passed = wanted.any, .activation = {}, .values = scratch_.values}, counts);
    add_listed(down, wanted.any, n_tokens, nullptr);
    add_sums(scratch_.sums, down.bias, n_tokens, down.n_cols, out, stream_);
  }

  void gather_rows(const float* x, int64_t n_cols, std::span<const int32_t> rows, float* out) override {
    cuda::gather_rows(x, n_cols, inputs_.on_device(rows, stream_), static_cast<int64_t>(rows.size()), out,
                      stream_);
  }

 private:
  void reserve_share(const StepBounds& bounds) {
    const auto rows = static_cast<size_t>(bounds.max_tokens), cols = static_cast<size_t>(bounds.max_cols);
    const size_t sum_cols = bounds.d_model > 0 ? static_cast<size_t>(bounds.d_model) : cols;
    StepBounds of_cpu = bounds;
    of_cpu.max_context = 1;  // its layers' attention is not run here
    cold_backend_.reserve(of_cpu);
    cold_set_.reserve(bounds.max_tokens, bounds.max_cols);
    cold_bits_ = PinnedArray<uint64_t>(rows * ((cols + 63) / 64));
    cold_x_ = PinnedArray<float>(rows * sum_cols);
    cold_gates_ = PinnedArray<float>(rows * cols);
    cold_sums_host_ = PinnedArray<int64_t>(rows * sum_cols);
    cold_poison_host_ = PinnedArray<int32_t>(rows);
  }

  Set& set_of(const NeuronSet& set) {
    for (Set& known : scratch_.sets) {
      if (known.of == nullptr) known.of = &set;
      if (known.of == &set) return known;
    }
    assert(!"more sets than kSets");
    return scratch_.sets[0];
  }

  void quantize_input(const float* x, int n_tokens, int64_t n_cols) {
    cuda::quantize(x, n_tokens, n_cols, quantized_in(scratch_.quantized, n_tokens, n_cols), stream_);
  }

  /// Products of listed rows, by place; the input has been quantised. slots: see MatmulOp.
  void multiply_listed(const Matrix& weight, const float* bias, const float* x, int n_tokens,
                       const DeviceList& rows, const int32_t* slots, float* out) {
    cuda::matmul({.weight = weight,
                  .bias = bias,
                  .rows = rows,
                  .slots = slots,
                  .x = x,
                  .quantized = quantized_in(scratch_.quantized, n_tokens, weight.n_cols),
                  .n_tokens = n_tokens,
                  .out = out,
                  .out_stride = rows.max,
                  .accumulate = false},
                 stream_);
  }

  /// sums_ = what the neurons of `set`, whose rows are on the device, contribute.
  void add_on_device(const FfnNeurons& ffn, const float* x, const DeviceNeuronSet& set, const float* gates,
                     NeuronCounts& counts) {
    const int32_t* slots = ffn.residency == nullptr ? nullptr : ffn.residency->slot_of;
    const bool all_gates = ffn.residency != nullptr && ffn.residency->all_gates;
    const bool by_number = gates != nullptr;
    quantize_input(x, set.n_tokens, ffn.gate.n_cols);
    DeviceList passed = set.any;
    if (!by_number) {
      multiply_listed(ffn.gate, ffn.gate_bias, x, set.n_tokens, set.any, all_gates ? nullptr : slots,
                      scratch_.values);
      passed = {scratch_.passed_ids, scratch_.list_counts + kSets + 1, set.n_neurons};
      keep_passed(ffn.activation, set, set.any, scratch_.values, set.n_neurons, passed, scratch_.gates,
                  scratch_.select, stream_);
      gates = scratch_.gates;
    }
    if (ffn.up) multiply_listed(ffn.up, ffn.up_bias, x, set.n_tokens, passed, slots, scratch_.ups);
    neuron_values(ffn.activation, set, passed, gates, set.n_neurons, by_number,
                  ffn.up ? scratch_.ups : nullptr, scratch_.values, stream_);
    count({.set = set,
           .passed = passed,
           .activation = ffn.activation,
           .gates = gates,
           .gates_stride = set.n_neurons,
           .gates_by_number = by_number,
           .values = scratch_.values,
           .read_gates = !by_number,
           .read_ups = static_cast<bool>(ffn.up)},
          counts);
    add_listed(ffn.down, passed, set.n_tokens, slots);
  }

  void count(const CountOp& op, NeuronCounts& counts) {
    assert(counts_of_ == nullptr || counts_of_ == &counts);
    counts_of_ = &counts;
    count_neurons(op, scratch_.counts, stream_);
  }

  /// sums_ = the contributions of values_, by place in `list`.
  void add_listed(const DownColumns& down, const DeviceList& list, int n_tokens, const int32_t* slots) {
    clear_sums(scratch_.sums, n_tokens, down.n_cols, stream_);
    add_down(down, list, scratch_.values, n_tokens, scratch_.sums, stream_, slots);
  }

  /// What the CPU needs for its share, to pinned memory.
  void send_to_cpu(const float* x, const float* gates, const DeviceNeuronSet& all, int64_t n_cols) {
    const auto copy = [&](auto& to, const auto* from, int64_t n) {
      check(cudaMemcpyAsync(to.data(), from, static_cast<size_t>(n) * sizeof(*from), cudaMemcpyDeviceToHost,
                            stream_),
            "giving the CPU its share of the neurons");
    };
    copy(cold_bits_, scratch_.cold_wanted, all.n_tokens * ((all.n_neurons + 63) / 64));
    copy(cold_x_, x, all.n_tokens * n_cols);
    if (gates != nullptr) copy(cold_gates_, gates, all.n_tokens * all.n_neurons);
    check(cudaEventRecord(cold_ready_, stream_), "marking the CPU's share");
  }

  /// sums_ += what the CPU's neurons contribute. The device goes on with its own meanwhile.
  void add_on_cpu(const NeuronResidency& residency, int n_tokens, int64_t n_neurons, bool gates_given,
                  NeuronCounts& counts) {
    check(cudaEventSynchronize(cold_ready_), "waiting for the CPU's share");
    cold_set_.clear(n_tokens, n_neurons);
    const size_t words = cold_set_.words() * static_cast<size_t>(n_tokens);
    if (words > 0) std::memcpy(cold_set_.wanted(0), cold_bits_.data(), words * sizeof(uint64_t));
    cold_set_.collect();
    if (cold_set_.ids().empty()) return;
    const int64_t n_cols = residency.host.down.n_cols;
    const NeuronSums sums{cold_sums_host_.data(), cold_poison_host_.data()};
    std::fill_n(sums.sums, n_tokens * n_cols, 0);
    std::fill_n(sums.poison, n_tokens, 0);
    cold_backend_.ffn_neuron_sums(residency.host, cold_x_.data(), n_tokens, cold_set_,
                                  gates_given ? cold_gates_.data() : nullptr, sums, counts);
    const NeuronSums& on_device = scratch_.cold_sums;
    check(cudaMemcpyAsync(on_device.sums, sums.sums, static_cast<size_t>(n_tokens * n_cols) * sizeof(int64_t),
                          cudaMemcpyHostToDevice, stream_),
          "taking the CPU's sums");
    check(cudaMemcpyAsync(on_device.poison, sums.poison, static_cast<size_t>(n_tokens) * sizeof(int32_t),
                          cudaMemcpyHostToDevice, stream_),
          "taking the CPU's sums");
    merge_sums(on_device, n_tokens, n_cols, scratch_.sums, stream_);
  }

  CpuBackend& cold_backend_;
  std::string name_;
  Stream stream_;
  ThreadPool one_thread_;  // fills the table of rotations
  Arena arena_;
  Scratch scratch_;

  // Of the step.
  StepInputs inputs_;
  RopeTable rope_host_;
  PinnedArray<float> rope_pinned_;
  bool rope_uploaded_ = false;
  int longest_ = 0;  // keys that a token sees at most; 0: not looked at yet
  PinnedArray<float> outputs_;

  PinnedArray<uint64_t> host_wanted_;
  PinnedArray<DeviceCounts> host_counts_;

  // The CPU's share of a layer.
  NeuronSet cold_set_;
  PinnedArray<uint64_t> cold_bits_;
  PinnedArray<float> cold_x_, cold_gates_;
  PinnedArray<int64_t> cold_sums_host_;
  PinnedArray<int32_t> cold_poison_host_;
  Event cold_ready_;

  NeuronCounts* counts_of_ = nullptr;  // whose counts_ are; null: nothing was counted since finish()
};

}  // namespace

std::unique_ptr<Backend> make_backend(CpuBackend& cold, const DeviceOptions& options) {
  return std::make_unique<CudaBackend>(cold, options);
}

size_t scratch_bytes(const StepBounds& bounds) {
  Arena counting;
  Scratch(counting, bounds);
  return counting.used();
}

}  // namespace hearth::cuda
