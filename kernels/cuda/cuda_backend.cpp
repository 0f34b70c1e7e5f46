// CudaBackend implements each call of Backend as operations on one stream. CudaDevice owns the backend and
// everything it works on. hybrid/cuda_hybrid_ffn.h computes the layers that are split between GPU and CPU.
#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/isa/matmul_kernels.h"
#include "kernels/cpu/rope_table.h"
#include "kernels/cpu/threads/thread_pool.h"
#include "kernels/cuda/hybrid/activation_exchange.h"
#include "kernels/cuda/hybrid/cuda_hybrid_experts.h"
#include "kernels/cuda/hybrid/cuda_hybrid_ffn.h"
#include "kernels/cuda/hybrid/device_work.h"
#include "kernels/cuda/matmul/cublaslt_products.h"
#include "kernels/cuda/neurons/device_share.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/ops/simulated_device.h"
#include "kernels/cuda/recurrent_cuda.h"
#include "kernels/cuda/runtime/arena.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/scratch.h"
#include "kernels/cuda/runtime/step_inputs.h"
#include "kernels/cuda/streaming/streamed_kv.h"

namespace hearth::cuda {
namespace {

std::string device_name() {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "asking for the device");
  return properties.name;
}

class CudaBackend final : public Backend {
 public:
  /// `work` and `cpu` must outlive this object. bind_thread() binds the threads of `cpu`.
  CudaBackend(DeviceWork& work, CpuBackend& cpu)
      : work_(work),
        stream_(work.stream()),
        scratch_(work.scratch()),
        recorder_(work.recorder()),
        cpu_(cpu),
        name_(device_name()),
        one_thread_(1) {}

  std::string description() const override {
    return "CUDA " + name_ + (library_ ? ", prompts by " + library_->name() : "");
  }

  Buffer allocate(size_t bytes) override {
    if (bytes == 0) return {};
    std::byte* data = work_.arena().take<std::byte>(bytes);
    check(cudaMemsetAsync(data, 0, bytes, stream_), "clearing device memory");
    work_.wait_for_stream();
    return {data, bytes, [](void*, size_t) {}};  // the arena frees this memory
  }

  using Backend::resident;
  const std::byte* resident(const std::byte* host, size_t bytes) override {
    std::byte* copy = work_.arena().take<std::byte>(bytes);
    if (bytes > 0 && host != nullptr) {
      check(cudaMemcpyAsync(copy, host, bytes, cudaMemcpyHostToDevice, stream_), "copying weights");
      work_.wait_for_stream();
    }
    return copy;
  }

  /// Returns false for a simulated device, which never reads memory. The weights then need not be in memory,
  /// so callers pass null to resident().
  bool reads() const override { return !device_is_simulated(); }

  void reserve(const StepBounds& bounds) override {
    work_.reserve(bounds);
    const auto rows = static_cast<size_t>(bounds.max_tokens), cols = static_cast<size_t>(bounds.max_cols);
    inputs_.reserve(bounds, scratch_.inputs);
    rope_host_.reserve(bounds.max_tokens, static_cast<int>(scratch_.rope_floats / rows / 2));
    for (PinnedArray<float>& table : rope_pinned_) table = PinnedArray<float>(scratch_.rope_floats);
    host_wanted_ = PinnedArray<uint64_t>(rows * ((cols + 63) / 64));
    outputs_ = PinnedArray<float>(static_cast<size_t>(bounds.max_outputs));
    max_tokens_ = bounds.max_tokens;
    max_cols_ = bounds.max_cols;
    d_model_ = bounds.d_model > 0 ? bounds.d_model : bounds.max_cols;
    max_context_ = bounds.max_context;
    if (bounds.n_experts > 0) exchange_.reserve(bounds, stream_, scratch_);
    if (bounds.library_rows > 0) start_library();
  }

  /// See ComputeDevice.
  std::string prompt_library() const { return library_ ? library_->name() : ""; }
  const std::string& why_no_library() const { return why_no_library_; }
  void set_prompt_rows(std::span<const int32_t> rows) {
    if (library_) prompt_rows_.assign(rows.begin(), rows.end());
  }

  void bind_thread() override { cpu_.bind_thread(); }

  /// See ComputeDevice.
  void begin_step(const StepShape& shape) {
    work_.begin_step(shape);
    inputs_.begin_step();
    recurrent_.begin_step(shape);
    rope_uploaded_ = {};
    prompt_rows_.clear();
    // longest_ determines the attention grid and the copied tables, so it must be the same each time a
    // recorded step is played back.
    longest_ = shape.decoding ? std::min(StepRecorder::rounded(shape).longest, max_context_) : 0;
  }

  void finish() override { work_.finish(); }

  const float* to_host(const float* x, size_t n) override {
    if (outputs_.size() < n) {  // the step needs more than was reserved
      work_.forget_recorded();  // recorded steps write to the old memory
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
    if (inputs_host_.size() < n) {  // the first step that needs this memory
      work_.forget_recorded();      // recorded steps read the old memory
      inputs_host_ = PinnedArray<float>(std::max(n, static_cast<size_t>(max_tokens_ * d_model_)));
    }
    work_.wait_for_all("the layers before");  // the last copy from this memory may still be under way
    work_.writes(out, static_cast<int64_t>(n));
    std::copy_n(x, n, inputs_host_.data());
    enqueue([=, this] {
      check(cudaMemcpyAsync(out, inputs_host_.data(), n * sizeof(float), cudaMemcpyHostToDevice, stream_),
            "giving the device the residual stream");
    });
  }

  HandedOver hand_over(std::span<const float> first, std::span<const float> second) override {
    enqueue([=, this, what = exchange_.begin(first, second)] { cuda::hand_over(what, stream_); });
    work_.mark("attention, router", -1);
    return exchange_.arrived();
  }

  void wait_for_hand_over() override {
    recorder_.end_segment();
    work_.mark("beside the experts", -1);
    {
      const TraceBlock waiting(work_.trace(), "engine", "waiting for the device");
      exchange_.wait(stream_);
    }
    experts_.emplace(work_.trace(), "CPU", "experts");
  }

  void add_from_host(const float* x, int64_t n, float* out) override {
    experts_.reset();
    work_.begin_span();
    work_.writes(out, n);
    enqueue([=, this, given = exchange_.give(x, n)] { cuda::add_from_host(given, n, out, stream_); });
  }

  NeuronSetId make_set() override {
    const NeuronSetId id = work_.make_set();
    NeuronSet& set = host_sets_.emplace_back();
    set.reserve(max_tokens_, max_cols_);
    return id;
  }

  const NeuronSet& to_host(NeuronSetId id) override {
    const DeviceNeuronSet& on_device = work_.set(id);
    NeuronSet& set = host_sets_.at(id.index());
    set.resize(on_device.n_tokens, on_device.n_neurons);
    const size_t n = set.words() * static_cast<size_t>(set.n_tokens());
    enqueue([=, this, from = on_device.wanted] {
      check(cudaMemcpyAsync(host_wanted_.data(), from, n * sizeof(uint64_t), cudaMemcpyDeviceToHost, stream_),
            "reading a set of neurons");
    });
    work_.wait_for_all("selecting neurons");
    if (n > 0) std::memcpy(set.wanted(0), host_wanted_.data(), n * sizeof(uint64_t));
    set.collect();
    return set;
  }

  void embed(const Matrix& table, std::span<const int32_t> tokens, float* out) override {
    work_.writes(out, static_cast<int64_t>(tokens.size()) * table.n_cols);
    enqueue([=, this, n = static_cast<int64_t>(tokens.size()), ids = inputs_.on_device(tokens, recorder_)] {
      cuda::embed(table, ids, n, out, stream_);
    });
  }

  void add(const float* x, int64_t n, float* out) override {
    work_.writes(out, n);
    enqueue([=, this] { cuda::add(x, n, out, stream_); });
  }

  void copy(const float* x, int64_t n, float* out) override {
    work_.writes(out, n);
    enqueue([=, this] { cuda::copy(x, n, out, stream_); });
  }

  void copy_rows(const float* x, int64_t stride, int64_t n_rows, int64_t n_cols, float* out,
                 int64_t out_stride) override {
    work_.writes(out, (n_rows - 1) * out_stride + n_cols);
    enqueue([=, this] { cuda::copy_rows(x, stride, n_rows, n_cols, out, out_stride, stream_); });
  }

  void zero(int64_t n, float* out) override {
    work_.writes(out, n);
    enqueue([=, this] { cuda::zero(n, out, stream_); });
  }

  void scale(float factor, int64_t n, float* out) override {
    work_.writes(out, n);
    enqueue([=, this] { cuda::scale(factor, n, out, stream_); });
  }

  void scale_rows(const float* factors, int64_t n_rows, int64_t n_cols, float* out) override {
    work_.writes(out, n_rows * n_cols);
    enqueue([=, this] { cuda::scale_rows(factors, n_rows, n_cols, out, stream_); });
  }

  void scale_columns(const float* factors, int64_t n_rows, int64_t n_cols, float* out) override {
    work_.writes(out, n_rows * n_cols);
    enqueue([=, this] { cuda::scale_columns(factors, n_rows, n_cols, out, stream_); });
  }

  void mix_rows(const MixedRows& call) override {
    work_.writes(call.out, (call.n_sums - 1) * call.stride + call.n_rows * call.n_cols);
    enqueue([=, this] { cuda::mix_rows(call, stream_); });
  }

  void match_rows(const float* to, float least, int64_t n_rows, int64_t n_cols, float* x) override {
    work_.writes(x, n_rows * n_cols);
    enqueue([=, this] { cuda::match_rows(to, least, n_rows, n_cols, x, stream_); });
  }

  void cut_rows(float n_deviations, int64_t n_rows, int64_t n_cols, float* x) override {
    work_.writes(x, n_rows * n_cols);
    enqueue([=, this] { cuda::cut_rows(n_deviations, n_rows, n_cols, x, stream_); });
  }

  void soft_cap(float cap, int64_t n, float* out) override {
    work_.writes(out, n);
    enqueue([=, this] { cuda::soft_cap(cap, n, out, stream_); });
  }

  void rms_norm(const float* x, const float* weight, float eps, int64_t n_rows, int64_t n_cols, float* out,
                int64_t n_weights = 1) override {
    enqueue([=, this, quantized = writes_normed(out, n_rows, n_cols)] {
      cuda::rms_norm(x, weight, eps, n_rows, n_cols, out, n_weights, stream_, quantized);
    });
  }

  void layer_norm(const float* x, const float* weight, const float* bias, float eps, int64_t n_rows,
                  int64_t n_cols, float* out, int64_t n_weights = 1) override {
    enqueue([=, this, quantized = writes_normed(out, n_rows, n_cols)] {
      cuda::layer_norm(x, weight, bias, eps, n_rows, n_cols, out, n_weights, stream_, quantized);
    });
  }

  /// Splits the rows of x into runs of prompt tokens and runs of other tokens, and multiplies each run
  /// separately.
  void matmul(const float* x, int n_tokens, std::span<const Product> products) override {
    if (n_tokens == 0 || products.empty()) return;
    if (prompt_rows_.empty()) return multiply(x, n_tokens, products);
    assert(prompt_rows_.back() < n_tokens);
    const int64_t n_cols = products.front().weight.n_cols;
    size_t next = 0;  // in prompt_rows_
    for (int begin = 0, end = 0; begin < n_tokens; begin = end) {
      const bool of_prompt = next < prompt_rows_.size() && prompt_rows_[next] == begin;
      if (of_prompt) {
        for (; next < prompt_rows_.size() && prompt_rows_[next] == end; ++next) ++end;
      } else {
        end = next < prompt_rows_.size() ? prompt_rows_[next] : n_tokens;
      }
      multiply_run(x + begin * n_cols, begin, end - begin, of_prompt, products);
    }
  }

  /// Computes the products of matmul() for input rows [first, first + n). `x` points to row `first`.
  void multiply_run(const float* x, int first, int n, bool of_prompt, std::span<const Product> products) {
    by_library_.clear();
    by_kernels_.clear();
    for (Product product : products) {
      product.out += first * product.out_stride;
      const bool taken = of_prompt && product.rows.data() == nullptr &&
                         !in_host_memory(product.weight.data) &&
                         library_->takes(product.weight, scratch_.library);
      (taken ? by_library_ : by_kernels_).push_back(product);
    }
    if (!by_kernels_.empty()) multiply(x, n, by_kernels_);
    if (by_library_.empty()) return;
    assert(recorder_.enqueues_at_once());
    for (const Product& p : by_library_) work_.writes(p.out, (n - 1) * p.out_stride + p.weight.n_rows);
    library_->multiply(x, n, by_library_, scratch_.library, stream_);
  }

  /// Computes products with Hearth's own kernels.
  void multiply(const float* x, int n_tokens, std::span<const Product> products) {
    QuantizedActivations quantized;
    while (!products.empty()) {
      std::array<MatmulOp, kMostProducts> ops;
      const size_t n = std::min(products.size(), ops.size());
      for (size_t i = 0; i < n; ++i) {
        const Product& p = products[i];
        if (quantized.high == nullptr && uses_quantized_activations(p.weight.dtype))
          quantized = work_.quantized(x, n_tokens, p.weight.n_cols);
        work_.writes(p.out, (n_tokens - 1) * p.out_stride + p.weight.n_rows);
        ops[i] = {.weight = p.weight,
                  .bias = p.bias,
                  .rows = {},
                  .x = x,
                  .quantized = quantized,
                  .n_tokens = n_tokens,
                  .out = p.out,
                  .out_stride = p.out_stride,
                  .accumulate = p.accumulate};
        if (p.rows.data() != nullptr) ops[i].rows = inputs_.list(p.rows, recorder_);
      }
      products = products.subspan(n);
      // a layer's matrices are either all in host memory or all on the device
      if (in_host_memory(ops[0].weight.data)) {
        for (const MatmulOp& op : std::span(ops).first(n))
          streamed_->multiply(op, pins_->holds(op.weight.data), scratch_, stream_);
      } else {
        enqueue([=, this] { cuda::matmul(std::span(ops).first(n), stream_); });
      }
    }
  }

  /// Launches one or two kernels: see cuda::multiply_heads(). Multiplies heads one by one if a library
  /// computes some of them, if the weights are in host memory, or if scratch has no room for all heads.
  void multiply_heads(const HeadProducts& products, int n_tokens) override {
    const Matrix& weight = products.weight;
    const bool quantizes = needs_room(products, n_tokens);
    if (!prompt_rows_.empty() || in_host_memory(weight.data) ||
        (quantizes && products.n_heads * weight.n_cols > max_cols_))
      return multiply_each_head(products, n_tokens);
    work_.writes(products.out, (products.n_heads - 1) * products.out_head_stride +
                                   (n_tokens - 1) * products.out_stride + weight.n_rows);
    QuantizedActivations room;
    if (quantizes) room = work_.quantized_room(n_tokens * products.n_heads * weight.n_cols);
    enqueue([=, this] { cuda::multiply_heads(products, n_tokens, room, stream_); });
  }

  void multiply_each_head(const HeadProducts& products, int n_tokens) {
    const int64_t n_cols = products.weight.n_cols;
    float* const packed = scratch_.values;  // [max_tokens, max_cols] the inputs of one head; otherwise only
                                            // sums over neurons use this memory
    assert(n_tokens <= max_tokens_ && n_cols <= max_cols_);
    for (int h = 0; h < products.n_heads; ++h) {
      copy_rows(products.x + h * products.x_head_stride, products.x_stride, n_tokens, n_cols, packed, n_cols);
      Matrix of_head = products.weight;
      of_head.data = products.weight.row(h * products.rows_apart);
      matmul(packed, n_tokens,
             std::array{Product{.weight = of_head,
                                .out = products.out + h * products.out_head_stride,
                                .out_stride = products.out_stride}});
    }
  }

  void rope(float* x, int64_t stride, int n_heads, int head_dim, std::span<const int32_t> positions,
            const Rope& rope) override {
    turn({x, stride, n_heads}, {}, head_dim, positions, rope);
  }

  void rope_append(const QueriesKeysValues& rows, const Rope& rope, const KvPlaces& places,
                   const KvShape& shape, KvLayer layer) override {
    turn({rows.q, rows.q_stride, rows.n_heads}, {rows.k, rows.kv_stride, shape.n_kv_heads}, shape.head_dim,
         {places.positions, static_cast<size_t>(places.n_tokens)}, rope);
    kv_append(rows.k, rows.v, rows.kv_stride, places, shape, layer);
  }

  void kv_append(const float* k, const float* v, int64_t stride, const KvPlaces& places, const KvShape& shape,
                 KvLayer layer) override {
    if (in_host_memory(layer.k)) {
      streamed_kv_.bring(places, shape, layer, scratch_.streamed_kv, streamed_->copies(), stream_);
      kv_append(k, v, stride, places, shape, scratch_.streamed_kv);
      streamed_kv_.write_back(places, shape, layer, scratch_.streamed_kv, stream_);
      return;
    }
    enqueue([=, this, there = inputs_.on_device(places, shape.block_tokens, longest_of(places), recorder_)] {
      cuda::kv_append(k, v, stride, there, shape, layer, stream_);
    });
  }

  void attention(const float* q, int64_t stride, int n_heads, const AttentionScores& scores,
                 const KvPlaces& places, const KvShape& shape, KvLayer layer, float* out) override {
    if (in_host_memory(layer.k)) {
      attention(q, stride, n_heads, scores, places, shape, scratch_.streamed_kv, out);
      streamed_kv_.give_back(stream_);
      return;
    }
    recorder_.note(static_cast<uint64_t>(scores.window));
    recorder_.note(static_cast<uint64_t>(scores.sectioned));
    recorder_.note(std::bit_cast<uint32_t>(scores.soft_cap));
    recorder_.note(static_cast<uint64_t>(places.n_seen != nullptr));
    // In small steps, a warp writes 32 numbers of one head, so the attention kernel can quantize its output.
    QuantizedActivations quantized;
    if (places.n_tokens <= kSplitTokens) {
      quantized = work_.writes_input(out, int64_t{places.n_tokens} * n_heads, shape.head_dim);
    } else {
      work_.writes(out, int64_t{places.n_tokens} * n_heads * shape.head_dim);
    }
    enqueue([=, this, longest = longest_of(places),
             there = inputs_.on_device(places, shape.block_tokens, longest_of(places), recorder_)] {
      cuda::attention(q, stride, n_heads, scores, there, shape, layer, longest, scratch_.attention, out,
                      stream_, quantized);
    });
  }

  void gated_activation(FfnActivation act, const float* gate, const float* up, int64_t n,
                        float* out) override {
    enqueue([=, this, quantized = work_.writes_input(out, 1, n)] {
      cuda::gated_activation(act, gate, up, n, out, stream_, quantized);
    });
  }

  void select_neurons(const float* values, const float* sizes, int n_tokens, int64_t n_neurons,
                      float at_least, NeuronSetId set) override {
    recorder_.note(std::bit_cast<uint32_t>(at_least));  // a new threshold needs forget_recorded()
    enqueue([=, this, chosen = work_.begin_set(set, n_tokens, n_neurons)] {
      cuda::select_neurons(values, sizes, n_tokens, n_neurons, at_least, chosen, stream_);
    });
  }

  void ffn_neurons(const FfnNeurons& ffn, const float* x, int n_tokens, NeuronSetId set, const float* gates,
                   float* out, NeuronCounts& counts) override {
    const DeviceNeuronSet wanted = work_.set(set);
    const NeuronNotes notes = work_.begin_sums(wanted, counts);
    const NeuronInput input{x, work_.quantized(x, n_tokens, ffn.gate.n_cols)};
    enqueue([=, this, rows = NeuronRows{.ffn = ffn}] {
      list_wanted(wanted, stream_);
      add_neurons(rows, input, wanted, gates, scratch_, stream_, notes);
    });
    work_.end_sums(ffn.down, n_tokens, out);
  }

  void down_neurons(const DownColumns& down, const float* values, int n_tokens, NeuronSetId set, float* out,
                    NeuronCounts& counts) override {
    const DeviceNeuronSet wanted = work_.set(set);
    const NeuronNotes notes = work_.begin_sums(wanted, counts);
    enqueue([=, this] {
      list_wanted(wanted, stream_);
      add_values(down, values, wanted, scratch_, stream_, notes);
    });
    work_.end_sums(down, n_tokens, out);
  }

  void gather_rows(const float* x, int64_t n_cols, std::span<const int32_t> rows, float* out) override {
    work_.writes(out, static_cast<int64_t>(rows.size()) * n_cols);
    enqueue([=, this, n = static_cast<int64_t>(rows.size()), ids = inputs_.on_device(rows, recorder_)] {
      cuda::gather_rows(x, n_cols, ids, n, out, stream_);
    });
  }

  RecurrentOps* recurrent() override { return &recurrent_; }

  /// CudaHybridExperts hands over through the same exchange.
  ActivationExchange& exchange() { return exchange_; }

  /// Sets the objects that copy matrices in host memory to the device. Both must outlive this object. Call it
  /// at load.
  void stream_through(StreamedShare& streamed, const HostPins& pins) {
    streamed_ = &streamed;
    pins_ = &pins;
  }

 private:
  template <class Work>
  void enqueue(Work&& work) {
    work_.enqueue(std::forward<Work>(work));
  }
  /// Whether data at this address is in host memory and must first be copied to the device
  /// (ComputeDevice::streams_layers).
  bool in_host_memory(const void* address) const {
    return scratch_.streamed_kv.k != nullptr && !work_.arena().holds(address);
  }

  /// Like DeviceWork::writes_input(), for norms. Only an output with rows of d_model columns is also
  /// quantized, because it is probably the input of products.
  QuantizedActivations writes_normed(const float* out, int64_t n_rows, int64_t n_cols) {
    if (n_cols == d_model_) return work_.writes_input(out, n_rows, n_cols);
    work_.writes(out, n_rows * n_cols);
    return {};
  }

  /// Rotates q, and also k if it has heads.
  void turn(const HeadRows& q, const HeadRows& k, int head_dim, std::span<const int32_t> positions,
            const Rope& rope) {
    if (rope.kind == RopeKind::kNone || positions.empty()) return;
    for (const HeadRows& rows : {q, k}) {
      if (rows.n_heads > 0) {
        work_.writes(rows.x,
                     (static_cast<int64_t>(positions.size()) - 1) * rows.stride + rows.n_heads * head_dim);
      }
    }
    const int64_t row_floats = RopeTable::row_floats_of(rope);
    const auto number = static_cast<size_t>(rope_host_.prepare(positions, rope, one_thread_));
    float* const on_device = scratch_.rope_tables[number];
    if (!rope_uploaded_[number]) {
      const size_t n = positions.size() * static_cast<size_t>(row_floats);
      float* const pinned = rope_pinned_[number].data();
      std::memcpy(pinned, rope_host_.table(static_cast<int>(number)).row(0), n * sizeof(float));
      enqueue([=, this] {
        check(cudaMemcpyAsync(on_device, pinned, n * sizeof(float), cudaMemcpyHostToDevice, stream_),
              "copying rotations");
      });
      rope_uploaded_[number] = true;
    }
    enqueue([=, this, kind = rope.kind, n_rot = rope.n_rot, n = static_cast<int>(positions.size())] {
      cuda::rope(q, k, head_dim, kind, n_rot, on_device, row_floats, n, stream_);
    });
  }

  void start_library() {
    auto started = LibraryProducts::start();
    if (auto* const library = std::get_if<std::unique_ptr<LibraryProducts>>(&started)) {
      library_ = std::move(*library);
    } else {
      why_no_library_ = std::get<std::string>(started);
    }
  }

  /// The maximum number of positions that a token of the step sees. For a recorded step, it is an upper bound
  /// for all steps of the same shape.
  int longest_of(const KvPlaces& places) {
    if (longest_ == 0) {
      for (int t = 0; t < places.n_tokens; ++t) longest_ = std::max(longest_, places.n_keys(t));
    }
    return longest_;
  }

  DeviceWork& work_;
  const cudaStream_t stream_;  // work_ owns this stream and the next two objects
  const Scratch& scratch_;
  StepRecorder& recorder_;
  CpuBackend& cpu_;
  std::string name_;
  ThreadPool one_thread_;  // computes the table of rotations
  int max_tokens_ = 1, max_context_ = 1;
  int64_t max_cols_ = 0, d_model_ = 0;

  // Computes the products of prompt tokens. If null, Hearth's own kernels compute them.
  std::unique_ptr<LibraryProducts> library_;
  std::string why_no_library_;
  // rows of matmul()'s input that are prompt tokens; empty without a library
  std::vector<int32_t> prompt_rows_;
  std::vector<Product> by_library_, by_kernels_;  // of one call

  StreamedShare* streamed_ = nullptr;
  const HostPins* pins_ = nullptr;
  StreamedKv streamed_kv_;

  // For the current step:
  StepInputs inputs_;
  RecurrentCuda recurrent_{work_, inputs_};
  RopeTables rope_host_;
  std::array<PinnedArray<float>, RopeTables::kTables> rope_pinned_;
  std::array<bool, RopeTables::kTables> rope_uploaded_ = {};
  int longest_ = 0;  // the maximum number of keys that a token sees; 0: not yet computed
  PinnedArray<float> outputs_, inputs_host_;
  ActivationExchange exchange_;  // empty without experts
  std::optional<TraceBlock>
      experts_;  // traces the time from the arrival of a hand-over until the host's result is added

  // For to_host(NeuronSetId):
  PinnedArray<uint64_t> host_wanted_;
  std::vector<NeuronSet> host_sets_;  // by id
};

class CudaDevice final : public ComputeDevice {
 public:
  CudaDevice(CpuBackend& cpu, const DeviceOptions& options)
      : work_(options),
        backend_(work_, cpu),
        hybrid_ffn_(work_, cpu, options),
        hybrid_experts_(work_, backend_.exchange(),
                        options.missing_experts != nullptr ? *options.missing_experts : cpu,
                        hybrid_ffn_.streamed()),
        stream_from_tokens_(options.stream_from_tokens) {
    backend_.stream_through(hybrid_ffn_.streamed(), hybrid_ffn_.pins());
  }
  /// Waits for all work, because the work may use memory that the destructor frees.
  ~CudaDevice() override {
    cudaStreamSynchronize(work_.stream());
    hybrid_ffn_.drain();
  }

  Backend& backend() override { return backend_; }
  int long_step() const override { return std::max(kSplitTokens + 1, stream_from_tokens_); }
  bool streams_layers(int n_tokens) const override { return hybrid_ffn_.streamed().long_enough(n_tokens); }
  bool pin_to_copy(const std::byte* host, size_t bytes) override {
    return hybrid_ffn_.pins().add_to_copy(host, bytes);
  }
  void copy_in(std::byte* to, const std::byte* from, size_t bytes) override {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, work_.stream()), "copying weights");
    work_.wait_for_stream();
  }
  HybridFfn& hybrid_ffn() override { return hybrid_ffn_; }
  HybridExperts* hybrid_experts() override { return holds_experts_ ? &hybrid_experts_ : nullptr; }

  void reserve(const StepBounds& bounds) override {
    backend_.reserve(bounds);
    holds_experts_ = bounds.max_expert_tokens > 0;
    if (holds_experts_) hybrid_experts_.reserve(bounds);
    if (bounds.shares) {
      hybrid_ffn_.reserve(bounds);
    } else {
      hybrid_ffn_.streamed().reserve(bounds);
    }
  }
  void begin_step(const StepShape& shape) override { backend_.begin_step(shape); }
  std::string prompt_library() const override { return backend_.prompt_library(); }
  std::string why_no_prompt_library() const override { return backend_.why_no_library(); }
  void set_prompt_rows(std::span<const int32_t> rows) override { backend_.set_prompt_rows(rows); }
  void forget_recorded() override { work_.forget_recorded(); }
  void reserve_found(int n_calls, int max_tokens, int64_t n_neurons) override {
    work_.reserve_found(n_calls, max_tokens, n_neurons);
  }
  void found(int call, const ActiveNeurons& to) override { work_.noted().read(call, to); }

 private:
  DeviceWork work_;
  CudaBackend backend_;
  CudaHybridFfn hybrid_ffn_;  // declared after work_, which owns the arena that its copies write to
  CudaHybridExperts hybrid_experts_;
  bool holds_experts_ = false;
  const int stream_from_tokens_;
};

}  // namespace

std::string why_no_prompt_library() {
  const std::string* const why = std::get_if<std::string>(&find_cublaslt());
  return why == nullptr ? "" : *why;
}

size_t scratch_bytes(const StepBounds& bounds) {
  Arena counting;
  const Scratch scratch(counting, bounds);  // the arena only counts the bytes that the constructor takes
  return counting.used();
}

std::unique_ptr<ComputeDevice> make_device(CpuBackend& cpu, const DeviceOptions& options) {
  return std::make_unique<CudaDevice>(cpu, options);
}

}  // namespace hearth::cuda
