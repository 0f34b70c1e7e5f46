// CudaBackend: Backend's calls as sequences of operations on one stream.
//
// All that goes to the stream in a step goes through enqueue(), so that steps can be recorded and played back
// (step_recorder.h). What is enqueued holds by value what it needs.
#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/rope_table.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/arena.h"
#include "kernels/cuda/runtime/device_trace.h"
#include "kernels/cuda/runtime/error.h"
#include "kernels/cuda/runtime/host_pins.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/scratch.h"
#include "kernels/cuda/runtime/step_inputs.h"
#include "kernels/cuda/runtime/step_recorder.h"
#include "kernels/cuda/sharing/cold_share.h"
#include "kernels/cuda/sharing/device_share.h"
#include "kernels/cuda/sharing/noted_neurons.h"
#include "kernels/cuda/sharing/slot_updates.h"
#include "kernels/cuda/sharing/streamed_share.h"
#include "kernels/neuron_traffic.h"
#include "kernels/trace.h"

namespace hearth::cuda {
namespace {

std::string device_name() {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "asking for the device");
  return properties.name;
}

class CudaBackend final : public Backend {
 public:
  CudaBackend(CpuBackend& cold, const DeviceOptions& options)
      : cpu_(cold),
        cold_share_(cold),
        name_(device_name()),
        one_thread_(1),
        arena_(options.budget_bytes),
        streamed_share_(cold, options.stream_from_tokens),
        recorder_(stream_, options.graphs),
        trace_(options.trace) {
    if (trace_ != nullptr) device_trace_.emplace(*trace_, stream_);
  }
  ~CudaBackend() override {
    cudaStreamSynchronize(stream_);
    streamed_share_.drain();
  }

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
    inputs_.reserve(bounds, scratch_.inputs);
    rope_host_.reserve(bounds.max_tokens, static_cast<int>(scratch_.rope_floats / rows / 2));
    rope_pinned_ = PinnedArray<float>(scratch_.rope_floats);
    host_counts_ = PinnedArray<DeviceCounts>(1);
    host_wanted_ = PinnedArray<uint64_t>(rows * ((cols + 63) / 64));
    if (bounds.shares) {
      cold_share_.reserve(bounds, stream_, scratch_);
      streamed_share_.reserve(bounds);
      slot_updates_.reserve();
    }
    outputs_ = PinnedArray<float>(static_cast<size_t>(bounds.max_outputs));
    max_context_ = bounds.max_context;
    check(cudaMemsetAsync(scratch_.counts, 0, sizeof(DeviceCounts), stream_), "clearing counts");
    check(cudaMemsetAsync(scratch_.note_state, 0, Scratch::kNoteWords * sizeof(uint32_t), stream_),
          "clearing the count of notes");
  }

  void bind_thread() override { cpu_.bind_thread(); }

  void begin_step(const StepShape& shape) override {
    recorder_.begin_step(shape);
    inputs_.begin_step();
    noted_.begin_step();
    rope_uploaded_ = false;
    // Attention's grid follows it, so it must be the same whenever a recorded step is played back.
    longest_ = shape.decoding ? std::min(StepRecorder::rounded(shape).longest, max_context_) : 0;
    if (device_trace_) device_trace_->begin();
  }

  void forget_recorded() override {
    stream_.wait();
    recorder_.forget();
  }

  void set_traffic(NeuronTraffic* traffic) override {
    traffic_ = traffic;
    slot_updates_.set_traffic(traffic);
    forget_recorded();
  }

  void reserve_found(int n_calls, int max_tokens, int64_t n_neurons) override {
    forget_recorded();  // of steps that note to the memory there was
    noted_.reserve(n_calls, max_tokens, n_neurons, scratch_.note_state);
  }
  void found(int call, const ActiveNeurons& to) override { noted_.read(call, to); }

  void finish() override {
    if (counts_of_ != nullptr) {
      enqueue([this] {
        check(cudaMemcpyAsync(host_counts_.data(), scratch_.counts, sizeof(DeviceCounts),
                              cudaMemcpyDeviceToHost, stream_),
              "reading counts");
        check(cudaMemsetAsync(scratch_.counts, 0, sizeof(DeviceCounts), stream_), "clearing counts");
      });
    }
    wait_for_all("the rest of the step");
    if (counts_of_ == nullptr) return;
    host_counts_.data()->add_to(*counts_of_);
    counts_of_ = nullptr;
  }

  const float* to_host(const float* x, size_t n) override {
    if (outputs_.size() < n) {  // at the first step of that many, where none were reserved
      forget_recorded();        // of steps that write to the memory there was
      outputs_ = PinnedArray<float>(n);
    }
    if (n > 0) {
      enqueue([=, this] {
        check(cudaMemcpyAsync(outputs_.data(), x, n * sizeof(float), cudaMemcpyDeviceToHost, stream_),
              "reading results");
      });
    }
    finish();
    return outputs_.data();
  }

  void from_host(const float* x, size_t n, float* out) override {
    if (inputs_host_.size() < n) {  // at the first step of that many
      forget_recorded();            // of steps that read the memory there was
      inputs_host_ = PinnedArray<float>(n);
    }
    wait_for_all("the layers before");  // the last copy from there may still be under way
    std::copy_n(x, n, inputs_host_.data());
    enqueue([=, this] {
      check(cudaMemcpyAsync(out, inputs_host_.data(), n * sizeof(float), cudaMemcpyHostToDevice, stream_),
            "giving the device the residual stream");
    });
  }

  bool pin(const std::byte* host, size_t bytes) override { return pins_.add(host, bytes); }

  void to_host(NeuronSet& set) override {
    const Set& on_device = set_of(set);
    set.clear(on_device.n_tokens, on_device.n_neurons);
    const size_t n = set.words() * static_cast<size_t>(set.n_tokens());
    enqueue([=, this, from = on_device.wanted] {
      check(cudaMemcpyAsync(host_wanted_.data(), from, n * sizeof(uint64_t), cudaMemcpyDeviceToHost, stream_),
            "reading a set of neurons");
    });
    wait_for_all("selecting neurons");
    if (n > 0) std::memcpy(set.wanted(0), host_wanted_.data(), n * sizeof(uint64_t));
    set.collect();
  }

  void embed(const Matrix& table, std::span<const int32_t> tokens, float* out) override {
    enqueue([=, this, n = static_cast<int64_t>(tokens.size()), ids = inputs_.on_device(tokens, recorder_)] {
      cuda::embed(table, ids, n, out, stream_);
    });
  }

  void add(const float* x, int64_t n, float* out) override {
    enqueue([=, this] { cuda::add(x, n, out, stream_); });
  }

  void rms_norm(const float* x, const float* weight, float eps, int64_t n_rows, int64_t n_cols,
                float* out) override {
    enqueue([=, this] { cuda::rms_norm(x, weight, eps, n_rows, n_cols, out, stream_); });
  }

  void layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t n_rows,
                  int64_t n_cols, float* out) override {
    enqueue([=, this] { cuda::layer_norm(x, weight, bias, eps, n_rows, n_cols, out, stream_); });
  }

  void matmul(const float* x, int n_tokens, std::span<const Product> products) override {
    if (n_tokens == 0 || products.empty()) return;
    bool quantized = false;
    for (const Product& p : products) {
      if (!quantized && uses_quantized_activations(p.weight.dtype)) {
        quantize(x, n_tokens, p.weight.n_cols);
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
      if (p.rows.data() != nullptr) op.rows = inputs_.list(p.rows, recorder_);
      enqueue([=, this] { cuda::matmul(op, stream_); });
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
      enqueue([=, this] {
        check(cudaMemcpyAsync(scratch_.rope_table, rope_pinned_.data(), n * sizeof(float),
                              cudaMemcpyHostToDevice, stream_),
              "copying rotations");
      });
      rope_uploaded_ = true;
    }
    enqueue([=, this, kind = rope.kind, n_rot = rope.n_rot, n = static_cast<int>(positions.size())] {
      cuda::rope(x, stride, n_heads, head_dim, kind, n_rot, scratch_.rope_table, row_floats, n, stream_);
    });
  }

  void kv_append(const float* k, const float* v, int64_t stride, const KvPlaces& places, const KvShape& shape,
                 KvLayer layer) override {
    enqueue([=, this, there = inputs_.on_device(places, recorder_)] {
      cuda::kv_append(k, v, stride, there, shape, layer, stream_);
    });
  }

  void attention(const float* q, int64_t stride, int n_heads, float scale, const KvPlaces& places,
                 const KvShape& shape, KvLayer layer, float* out) override {
    if (longest_ == 0) longest_ = 1 + *std::max_element(places.positions, places.positions + places.n_tokens);
    enqueue([=, this, longest = longest_, there = inputs_.on_device(places, recorder_)] {
      cuda::attention(q, stride, n_heads, scale, there, shape, layer, longest, scratch_.attention, out,
                      stream_);
    });
  }

  void gated_activation(FfnActivation act, const float* gate, const float* up, int64_t n,
                        float* out) override {
    enqueue([=, this] { cuda::gated_activation(act, gate, up, n, out, stream_); });
  }

  void select_neurons(const float* values, const float* sizes, int n_tokens, int64_t n_neurons,
                      float at_least, NeuronSet& set) override {
    Set& chosen = set_of(set);
    chosen.n_tokens = n_tokens;
    chosen.n_neurons = n_neurons;
    recorder_.note(std::bit_cast<uint32_t>(at_least));  // who sets another must forget what was recorded
    enqueue([=, this, view = chosen.view()] {
      cuda::select_neurons(values, sizes, n_tokens, n_neurons, at_least, view, scratch_.select, stream_);
    });
  }

  void propose_next(const NeuronSet& set) override {
    enqueue([this, proposed = set_of(set).view()] {
      any_token(proposed, scratch_.any + 2 * ((proposed.n_neurons + 63) / 64), stream_);
    });
    has_proposal_ = true;
  }

  void ffn_neurons(const FfnNeurons& ffn, const float* x, int n_tokens, const NeuronSet& set,
                   const float* gates, float* out, NeuronCounts& counts) override {
    const DeviceNeuronSet all = set_of(set).view();
    begin_sums(n_tokens, ffn.down.n_cols);
    quantize(x, n_tokens, ffn.gate.n_cols);
    const NeuronNotes notes = count_to(counts, all);
    if (ffn.residency == nullptr || ffn.residency->n_hot == all.n_neurons) {
      enqueue([=, this, rows = rows_on_device(ffn)] {
        add_neurons(rows, x, all, gates, scratch_, stream_, notes);
      });
    } else if (streamed_share_.takes(*ffn.residency, n_tokens, gates != nullptr)) {
      add_streamed(ffn, x, all, gates, notes);
    } else {
      add_shared(ffn, x, all, gates, counts, notes);
    }
    end_sums(ffn.down, n_tokens, out);
  }

  void down_neurons(const DownColumns& down, const float* values, int n_tokens, const NeuronSet& set,
                    float* out, NeuronCounts& counts) override {
    const DeviceNeuronSet wanted = set_of(set).view();
    begin_sums(n_tokens, down.n_cols);
    const NeuronNotes notes = count_to(counts, wanted);
    enqueue([=, this] { add_values(down, values, wanted, scratch_, stream_, notes); });
    end_sums(down, n_tokens, out);
  }

  void gather_rows(const float* x, int64_t n_cols, std::span<const int32_t> rows, float* out) override {
    enqueue([=, this, n = static_cast<int64_t>(rows.size()), ids = inputs_.on_device(rows, recorder_)] {
      cuda::gather_rows(x, n_cols, ids, n, out, stream_);
    });
  }

 private:
  template <class Work>
  void enqueue(Work&& work) {
    recorder_.enqueue(std::forward<Work>(work));
  }

  /// Waits for what was enqueued; `last`: what that is, for the trace.
  void wait_for_all(const char* last) {
    mark(last, -1);
    recorder_.end_segment();
    {
      const TraceBlock waiting(trace_, "engine", "waiting for the device");
      stream_.wait();
    }
    if (device_trace_) {
      device_trace_->collect();
      device_trace_->begin();
    }
  }

  /// Where there is a trace: what was enqueued since the last mark becomes a span. Events are not put into
  /// graphs, so a segment ends.
  void mark(const char* name, int layer) {
    if (!device_trace_) return;
    recorder_.end_segment();
    device_trace_->end(name, layer);
  }

  void quantize(const float* x, int n_tokens, int64_t n_cols) {
    enqueue([=, this] { quantize_input(x, n_tokens, n_cols, scratch_, stream_); });
  }

  void begin_sums(int n_tokens, int64_t n_cols) {
    enqueue([=, this] { clear_sums(scratch_.sums, n_tokens, n_cols, stream_); });
  }
  void end_sums(const DownColumns& down, int n_tokens, float* out) {
    enqueue([=, this, bias = down.bias, n_cols = down.n_cols] {
      add_sums(scratch_.sums, bias, n_tokens, n_cols, out, stream_);
    });
  }

  Set& set_of(const NeuronSet& set) {
    for (Set& known : scratch_.sets) {
      if (known.of == nullptr) known.of = &set;
      if (known.of == &set) return known;
    }
    assert(!"more sets than kSets");
    return scratch_.sets[0];
  }

  /// The device's counts of a call for this set are added to these when it has finished. Where single neurons
  /// are to be noted.
  NeuronNotes count_to(NeuronCounts& counts, const DeviceNeuronSet& set) {
    assert(counts_of_ == nullptr || counts_of_ == &counts);
    counts_of_ = &counts;
    return counts.found == nullptr ? NeuronNotes() : noted_.begin(set.n_tokens, set.n_neurons);
  }

  /// scratch_.sums += what the neurons of `all` contribute: the device those it has, the CPU the others. The
  /// device is given its share before the CPU begins on its own, so that they work at the same time.
  void add_shared(const FfnNeurons& ffn, const float* x, const DeviceNeuronSet& all, const float* gates,
                  NeuronCounts& counts, const NeuronNotes& notes) {
    const NeuronResidency& residency = *ffn.residency;
    slot_updates_.apply(residency, recorder_);
    part(residency, all);
    const HandOver given = cold_share_.begin({.x = x,
                                              .gates = gates,
                                              .n_tokens = all.n_tokens,
                                              .n_neurons = all.n_neurons,
                                              .n_cols = ffn.down.n_cols,
                                              .proposes = std::exchange(has_proposal_, false)},
                                             scratch_);
    enqueue([=, this] { hand_over(given, stream_); });
    if (device_trace_) {
      end_segment_of(residency);
      mark("attention, active neurons", residency.layer);
    }
    enqueue([=, this, rows = rows_on_device(ffn), hot = scratch_.hot.view()] {
      add_neurons(rows, x, hot, gates, scratch_, stream_, notes);
    });
    end_segment_of(residency);
    mark("FFN, hot neurons", residency.layer);
    if (traffic_ != nullptr) traffic_->enqueued(residency.layer, static_cast<cudaStream_t>(stream_));
    compute_cold(residency, counts);
    if (device_trace_) device_trace_->begin();
    enqueue([=, this, n_cols = ffn.down.n_cols] {
      merge_sums(cold_share_.sums(), all.n_tokens, n_cols, scratch_.sums, stream_, cold_share_.has_sums());
    });
  }

  /// The same, with the CPU's neurons brought to the device. The host waits for nothing, so slots do not
  /// change in such a step, and who moves neurons is not told of it. Copies go beside graphs, not into them.
  void add_streamed(const FfnNeurons& ffn, const float* x, const DeviceNeuronSet& all, const float* gates,
                    const NeuronNotes& notes) {
    has_proposal_ = false;
    part(*ffn.residency, all);
    mark("attention, active neurons", ffn.residency->layer);
    enqueue([=, this, rows = rows_on_device(ffn), hot = scratch_.hot.view()] {
      add_neurons(rows, x, hot, gates, scratch_, stream_, notes);
    });
    mark("FFN, hot neurons", ffn.residency->layer);
    recorder_.end_segment();
    streamed_share_.add(ffn, x, gates, scratch_, stream_, notes);
    mark("FFN, streamed neurons", ffn.residency->layer);
  }

  /// Parts a layer's set by where its neurons are.
  void part(const NeuronResidency& residency, const DeviceNeuronSet& all) {
    scratch_.hot.n_tokens = all.n_tokens;
    scratch_.hot.n_neurons = all.n_neurons;
    enqueue([=, this, resident = residency.resident, hot = scratch_.hot.view()] {
      split_set(all, resident, hot, scratch_.cold_wanted, scratch_.any, scratch_.select, stream_);
    });
  }

  void end_segment_of(const NeuronResidency& residency) {
    recorder_.end_segment([&] { slot_updates_.before_launch(residency); });
  }

  /// The CPU's share of a layer that was handed over, while the device goes on with its own.
  void compute_cold(const NeuronResidency& residency, NeuronCounts& counts) {
    {
      const TraceBlock waiting(trace_, "engine", "waiting for the device", residency.layer);
      cold_share_.wait(stream_);
    }
    if (traffic_ != nullptr)
      traffic_->wanted(residency.layer, cold_share_.any(), cold_share_.any_cold(), cold_share_.proposed());
    const TraceBlock computing(trace_, "CPU", "FFN, cold neurons", residency.layer);
    const double seconds = cold_share_.compute(residency.host, counts);
    if (traffic_ != nullptr) traffic_->computed(residency.layer, seconds);
    if (counts.found != nullptr && !cold_share_.set().ids().empty())
      noted_.add(cold_share_.set(), *counts.found);
  }

  CpuBackend& cpu_;
  ColdShare cold_share_;
  std::string name_;
  Stream stream_;
  ThreadPool one_thread_;  // fills the table of rotations
  Arena arena_;
  Scratch scratch_;
  HostPins pins_;
  StreamedShare streamed_share_;  // behind the arena, whose memory its copies write
  StepRecorder recorder_;
  Trace* trace_;                             // null: nothing is traced
  std::optional<DeviceTrace> device_trace_;  // where there is a trace

  // Of the step.
  StepInputs inputs_;
  RopeTable rope_host_;
  PinnedArray<float> rope_pinned_;
  bool rope_uploaded_ = false;
  int longest_ = 0;  // keys that a token sees at most; 0: not looked at yet
  int max_context_ = 1;
  PinnedArray<float> outputs_, inputs_host_;

  PinnedArray<uint64_t> host_wanted_;
  PinnedArray<DeviceCounts> host_counts_;

  NeuronTraffic* traffic_ = nullptr;
  SlotUpdates slot_updates_;
  NotedNeurons noted_;
  bool has_proposal_ = false;  // scratch_.any has what the next layer is expected to want

  NeuronCounts* counts_of_ = nullptr;  // whose the device's counts are; null: none since finish()
};

}  // namespace

std::unique_ptr<Backend> make_backend(CpuBackend& cold, const DeviceOptions& options) {
  return std::make_unique<CudaBackend>(cold, options);
}

}  // namespace hearth::cuda
