// Implements KernelCases and BenchWeights.
#include "kernels/cuda/bench/kernel_cases.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <new>
#include <numeric>
#include <random>

#include "kernels/cuda/hybrid/gather_bundles.h"
#include "kernels/cuda/ops/device_types.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/ops/recurrent_ops.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kLeastBytes = size_t{1} << 20;
constexpr size_t kPatternBytes = size_t{1} << 20;
// The high byte of a half that is slightly larger than 2^-13. Scales of this size are typical of real models.
// With them, no kernel takes its slow path for products that are too large for integer sums.
constexpr int kHighByte = 0x08;
constexpr int kBlockTokens = 16;
constexpr int kMovedNeurons = 32;  // neurons that the prefetcher moves at once
// Numbers of tokens in decode steps: one sequence, a few sequences, and many. They take different kernels.
constexpr int kDecoding[] = {1, 4, 16};

/// Fills device memory with copies of a pattern.
void fill(std::byte* to, size_t bytes, const std::byte* pattern, size_t pattern_bytes, const Stream& stream) {
  constexpr const char* kDoing = "filling memory for the benchmark";
  size_t done = std::min(bytes, pattern_bytes);
  check(cudaMemcpyAsync(to, pattern, done, cudaMemcpyHostToDevice, stream), kDoing);
  while (done < bytes) {
    const size_t n = std::min(done, bytes - done);
    check(cudaMemcpyAsync(to + done, to, n, cudaMemcpyDeviceToDevice, stream), kDoing);
    done += n;
  }
  stream.wait();
}

/// Values in device memory, and a copy of them in memory that both the host and the device can read.
template <class T>
class Mirrored {
 public:
  Mirrored(const std::vector<T>& values, const Stream& stream)
      : on_device_(values.size()), on_host_(values.size()) {
    std::copy(values.begin(), values.end(), on_host_.data());
    check(cudaMemcpyAsync(on_device_.data(), on_host_.data(), values.size() * sizeof(T),
                          cudaMemcpyHostToDevice, stream),
          "copying the benchmark's inputs");
    stream.wait();
  }
  T* at(bool declared) const { return declared ? on_host_.data() : on_device_.data(); }

 private:
  DeviceArray<T> on_device_;
  PinnedArray<T> on_host_;
};

std::vector<float> normals(size_t n) {
  std::minstd_rand random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

/// Returns n floats on the device: a random pattern, repeated as often as necessary.
DeviceArray<float> random_floats(size_t n, const Stream& stream) {
  const std::vector<float> values = normals(std::min(n, kPatternBytes / sizeof(float)));
  const PinnedArray<float> pattern(values.size());
  std::copy(values.begin(), values.end(), pattern.data());
  DeviceArray<float> array(n);
  fill(reinterpret_cast<std::byte*>(array.data()), array.bytes(),
       reinterpret_cast<const std::byte*>(pattern.data()), values.size() * sizeof(float), stream);
  return array;
}

std::vector<int32_t> every(int64_t n, int64_t of) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(static_cast<int64_t>(i) * of / n);
  }
  return ids;
}

std::vector<uint64_t> bits_of(const std::vector<int32_t>& ids, int64_t of) {
  std::vector<uint64_t> bits(static_cast<size_t>((of + 63) / 64));
  for (const int32_t id : ids) bits[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
  return bits;
}

std::string times(int64_t a, int64_t b) { return std::to_string(a) + " x " + std::to_string(b); }

std::string name_of(DType type) { return std::string(dtype_info(type).name); }

/// Returns n scores, which are above 0 exactly for the neurons in `active`.
std::vector<float> scores_of(int64_t n, const std::vector<int32_t>& active) {
  std::vector<float> scores(static_cast<size_t>(n), -1.0f);
  for (const int32_t id : active) scores[static_cast<size_t>(id)] = 1.0f;
  return scores;
}

}  // namespace

BenchWeights::BenchWeights(size_t bytes, const Stream& stream) {
  for (bytes = std::max(bytes, kLeastBytes);; bytes /= 2) {
    try {
      memory_ = DeviceArray<std::byte>(bytes);
      break;
    } catch (const std::bad_alloc&) {
      if (bytes / 2 < kLeastBytes) throw;
    }
  }
  const PinnedArray<uint16_t> pattern(kPatternBytes / sizeof(uint16_t));
  std::minstd_rand random(1);
  for (size_t i = 0; i < pattern.size(); ++i) {
    pattern.data()[i] = static_cast<uint16_t>(kHighByte << 8 | (random() >> 8 & 0xff));
  }
  fill(memory_.data(), memory_.size(), reinterpret_cast<const std::byte*>(pattern.data()), kPatternBytes,
       stream);
}

std::byte* BenchWeights::at(int turn, size_t n) const {
  const size_t step = (n + kAlignment - 1) / kAlignment * kAlignment;
  const size_t n_places = std::max<size_t>(1, memory_.size() / std::max(step, kAlignment));
  return memory_.data() + static_cast<size_t>(turn) % n_places * step;
}

/// The arrays that the operations read and write, except for weights.
struct KernelCases::Arrays {
  Arrays(const KernelShape& shape, const KernelBenchOptions& options, const Stream& stream)
      : max_tokens(std::max(options.n_prompt, kDecoding[std::size(kDecoding) - 1])),
        width(std::max({shape.d_model, shape.d_ff, int64_t{shape.n_heads} * shape.head_dim})),
        active(every(std::clamp<int64_t>(std::llround(options.active * static_cast<double>(shape.d_ff)), 1,
                                         shape.d_ff),
                     shape.d_ff)),
        x(random_floats(static_cast<size_t>(max_tokens * width), stream)),
        y(random_floats(static_cast<size_t>(max_tokens * width), stream)),
        z(random_floats(static_cast<size_t>(max_tokens * width), stream)),
        quantized_memory(quantized_bytes(max_tokens, width)),
        sums(static_cast<size_t>(max_tokens * shape.d_model)),
        poison(static_cast<size_t>(max_tokens)),
        scores(scores_of(shape.d_ff, active), stream),
        ids(active, stream),
        n_ids({static_cast<int32_t>(active.size())}, stream),
        wanted(bits_of(active, shape.d_ff), stream),
        resident(bits_of(every((shape.d_ff + 1) / 2, shape.d_ff), shape.d_ff), stream),
        found_ids(static_cast<size_t>(shape.d_ff)),
        n_found({0}, stream),
        found_bits(static_cast<size_t>(3 * ((shape.d_ff + 63) / 64))),
        keep_scratch(keep_scratch_bytes(shape.d_ff)),
        counts(1),
        has_host_sums(1),
        host_sums(static_cast<size_t>(shape.d_model)),
        host_poison(1),
        handed(static_cast<size_t>(shape.d_model)),
        hand_over_state(2),
        hand_over_number(1) {
    check(cudaMemsetAsync(sums.data(), 0, sums.bytes(), stream), "clearing sums");
    check(cudaMemsetAsync(poison.data(), 0, poison.bytes(), stream), "clearing sums");
    check(cudaMemsetAsync(hand_over_state.data(), 0, hand_over_state.bytes(), stream),
          "clearing a hand-over");
    check(cudaMemsetAsync(counts.data(), 0, counts.bytes(), stream), "clearing counts");
    std::fill_n(host_sums.data(), host_sums.size(), int64_t{1});
    *host_poison.data() = 0;
    *has_host_sums.data() = 1;
    *hand_over_number.data() = 0;
    quantize(x.data(), max_tokens, shape.d_model,
             quantized_in(quantized_memory.data(), max_tokens, shape.d_model), stream);
    stream.wait();
  }

  DeviceList list(bool declared, int64_t max) const { return {ids.at(false), n_ids.at(declared), max}; }
  NeuronSums device_sums() const { return {sums.data(), poison.data()}; }

  int max_tokens;
  int64_t width;
  std::vector<int32_t> active;  // neurons
  DeviceArray<float> x, y, z;   // [max_tokens, width]
  DeviceArray<std::byte> quantized_memory;
  DeviceArray<int64_t> sums;
  DeviceArray<int32_t> poison;
  Mirrored<float> scores;  // [d_ff]
  Mirrored<int32_t> ids, n_ids;
  Mirrored<uint64_t> wanted, resident;
  DeviceArray<int32_t> found_ids;
  Mirrored<int32_t> n_found;
  DeviceArray<uint64_t> found_bits;
  DeviceArray<std::byte> keep_scratch;
  DeviceArray<DeviceCounts> counts;
  PinnedArray<int32_t> has_host_sums;
  PinnedArray<int64_t> host_sums;
  PinnedArray<int32_t> host_poison;
  PinnedArray<float> handed;
  DeviceArray<uint32_t> hand_over_state;
  PinnedArray<uint32_t> hand_over_number;
  // For attention:
  std::vector<std::unique_ptr<Mirrored<int32_t>>> places;
  std::vector<DeviceArray<std::byte>> attention_scratch;
  // For recurrent layers:
  std::vector<std::unique_ptr<Mirrored<DeviceRun>>> runs;
  std::vector<DeviceArray<float>> recurrent;
  // For moving neurons:
  PinnedArray<std::byte> bundles;
  PinnedArray<RowChange> moves;
};

KernelCases::~KernelCases() = default;

KernelCases::KernelCases(const KernelShape& shape, const KernelBenchOptions& options,
                         const BenchWeights& weights, const Stream& stream)
    : shape_(shape),
      options_(options),
      weights_(weights),
      stream_(stream),
      arrays_(std::make_unique<Arrays>(shape, options, stream)) {
  for (const DType type : options.types) {
    if (device_has(type)) add_products(type);
  }
  add_neurons();
  for (const int n_tokens : {1, options.n_prompt}) {
    add_rows(n_tokens);
    add_attention(n_tokens);
    add_recurrent(n_tokens);
  }
  add_sharing();
}

void KernelCases::add_rows(int n_tokens) {
  const Arrays& a = *arrays_;
  const int64_t d = shape_.d_model, ff = shape_.d_ff;
  const auto add_case = [&](std::string kernel, int64_t n_cols, auto&& call) {
    cases_.push_back({std::move(kernel), std::to_string(n_cols), "", n_tokens,
                      [call](int /*turn*/, bool /*declared*/) { call(); }});
  };
  const QuantizedActivations quantized = quantized_in(a.quantized_memory.data(), n_tokens, d);
  const Stream& stream = stream_;
  add_case("quantize", d, [=, &a, &stream] { quantize(a.x.data(), n_tokens, d, quantized, stream); });
  add_case("rms_norm", d,
           [=, &a, &stream] { rms_norm(a.x.data(), a.z.data(), 1e-5f, n_tokens, d, a.y.data(), 1, stream); });
  add_case("layer_norm", d, [=, &a, &stream] {
    layer_norm(a.x.data(), a.z.data(), a.z.data(), 1e-5f, n_tokens, d, a.y.data(), 1, stream);
  });
  add_case("add", d, [=, &a, &stream] { cuda::add(a.x.data(), n_tokens * d, a.y.data(), stream); });
  add_case("gated_activation", ff, [=, &a, &stream] {
    gated_activation({Activation::kSilu}, a.x.data(), a.z.data(), n_tokens * ff, a.y.data(), stream);
  });
}

void KernelCases::add_products(DType type) {
  const Arrays& a = *arrays_;
  const BenchWeights& weights = weights_;
  const Stream& stream = stream_;
  const int64_t n_cols = shape_.d_model;
  if (n_cols % dtype_info(type).block_elems != 0) return;
  const size_t row = row_bytes(type, n_cols);
  const int64_t n_rows = std::min<int64_t>(shape_.d_ff, static_cast<int64_t>(weights.bytes() / row));
  if (n_rows == 0) return;
  const size_t bytes = static_cast<size_t>(n_rows) * row;
  const auto op = [=, &a](const std::byte* at, int n_tokens) {
    return MatmulOp{.weight = {at, type, n_rows, n_cols},
                    .rows = {},
                    .x = a.x.data(),
                    .quantized = quantized_in(a.quantized_memory.data(), n_tokens, n_cols),
                    .n_tokens = n_tokens,
                    .out = a.y.data(),
                    .out_stride = n_rows};
  };
  const auto product = [=, &weights, &stream](int n_tokens) {
    return [=, &weights, &stream](int turn, bool /*declared*/) {
      matmul(op(weights.at(turn, bytes), n_tokens), stream);
    };
  };
  std::vector<int> token_counts(std::begin(kDecoding), std::end(kDecoding));
  token_counts.push_back(options_.n_prompt);
  for (const int n_tokens : token_counts) {
    cases_.push_back({"matmul", times(n_rows, n_cols), name_of(type), n_tokens, product(n_tokens)});
  }
  add_heads(type);
  // The list contains row numbers up to d_ff, so a matrix with fewer rows has no case of listed rows.
  if (n_rows < shape_.d_ff) return;
  const auto n_listed = static_cast<int64_t>(a.active.size());
  const std::string listed = std::to_string(n_listed) + " of " + times(n_rows, n_cols);
  cases_.push_back({"matmul of listed rows", listed, name_of(type), 1,
                    [=, &a, &weights, &stream](int turn, bool declared) {
                      MatmulOp of_rows = op(weights.at(turn, bytes), 1);
                      of_rows.rows = a.list(declared, n_rows);
                      matmul(of_rows, stream);
                    }});
  for (const int n_tokens : {1, options_.n_prompt}) {
    cases_.push_back(
        {"add_down", listed, name_of(type), n_tokens, [=, &a, &weights, &stream](int turn, bool declared) {
           DownColumns down;
           down.rows = {weights.at(turn, bytes), type, n_rows, n_cols};
           down.n_neurons = n_rows;
           down.n_cols = n_cols;
           add_down(down, a.list(declared, n_rows), a.x.data(), n_tokens, a.device_sums(), stream);
         }});
  }
}

/// Adds the cases of multiply_heads(), where each head has its own square matrix.
void KernelCases::add_heads(DType type) {
  const Arrays& a = *arrays_;
  const int64_t head_dim = shape_.head_dim, width = shape_.n_heads * head_dim;
  if (head_dim % dtype_info(type).block_elems != 0) return;
  const size_t bytes = static_cast<size_t>(width) * row_bytes(type, head_dim);
  if (bytes > weights_.bytes()) return;
  for (const int n_tokens : {1, options_.n_prompt}) {
    cases_.push_back(
        {"multiply_heads", std::to_string(shape_.n_heads) + " of " + times(head_dim, head_dim), name_of(type),
         n_tokens, [=, this, &a](int turn, bool /*declared*/) {
           const HeadProducts heads{.weight = {weights_.at(turn, bytes), type, head_dim, head_dim},
                                    .rows_apart = head_dim,
                                    .n_heads = shape_.n_heads,
                                    .x = a.x.data(),
                                    .x_stride = width,
                                    .x_head_stride = head_dim,
                                    .out = a.y.data(),
                                    .out_stride = width,
                                    .out_head_stride = head_dim};
           multiply_heads(heads, n_tokens, quantized_in(a.quantized_memory.data(), n_tokens, width), stream_);
         }});
  }
}

void KernelCases::add_neurons() {
  const Arrays& a = *arrays_;
  const Stream& stream = stream_;
  const int64_t ff = shape_.d_ff;
  const std::string size = std::to_string(a.active.size()) + " of " + std::to_string(ff);
  const auto add_case = [&](std::string kernel, auto&& call) {
    cases_.push_back(
        {std::move(kernel), size, "", 1, [call](int /*turn*/, bool declared) { call(declared); }});
  };
  const auto set = [&a, ff](uint64_t* bits, const DeviceList& any) {
    DeviceNeuronSet made{.wanted = bits, .any_bits = a.found_bits.data() + (ff + 63) / 64, .any = any};
    made.resize(1, ff);
    return made;
  };
  const auto found = [&a, ff](bool declared) {
    return DeviceList{a.found_ids.data(), a.n_found.at(declared), ff};
  };
  add_case("select_neurons", [=, &a, &stream](bool declared) {
    select_neurons(a.scores.at(false), nullptr, 1, ff, 0.0f, set(a.found_bits.data(), found(declared)),
                   stream);
  });
  add_case("list_bits",
           [=, &a, &stream](bool declared) { list_bits(a.wanted.at(false), ff, found(declared), stream); });
  add_case("keep_passed", [=, &a, &stream](bool declared) {
    keep_passed({Activation::kRelu}, set(a.wanted.at(false), a.list(declared, ff)), a.list(declared, ff),
                a.scores.at(false), ff, found(declared), a.y.data(), a.keep_scratch.data(), stream);
  });
  add_case("neuron_values", [=, &a, &stream](bool declared) {
    neuron_values({.activation = {Activation::kRelu},
                   .set = set(a.wanted.at(false), a.list(declared, ff)),
                   .passed = a.list(declared, ff),
                   .gates = a.scores.at(false),
                   .gates_stride = ff,
                   .gates_by_number = true,
                   .ups = a.x.data()},
                  a.y.data(), a.counts.data(), stream);
  });
}

void KernelCases::add_attention(int n_tokens) {
  Arrays& a = *arrays_;
  const BenchWeights& weights = weights_;
  const Stream& stream = stream_;
  const int heads = shape_.n_heads, head_dim = shape_.head_dim;
  const int64_t q_cols = int64_t{heads} * head_dim, kv_cols = int64_t{shape_.n_kv_heads} * head_dim;
  const int n_blocks = (std::max(options_.context, n_tokens) + kBlockTokens - 1) / kBlockTokens;
  const int context = n_blocks * kBlockTokens;
  const size_t half = static_cast<size_t>(context * kv_cols) * sizeof(uint16_t);
  cases_.push_back(
      {"rope", times(heads, head_dim), "", n_tokens, [=, &a, &stream](int /*turn*/, bool /*declared*/) {
         rope({a.y.data(), q_cols, heads}, {}, head_dim, RopeKind::kHalves, head_dim, a.x.data(), head_dim,
              n_tokens, stream);
       }});
  if (2 * half + kAlignment > weights.bytes()) return;
  // The tokens are at the end of a sequence of `context` tokens.
  std::vector<int32_t> positions(static_cast<size_t>(n_tokens)), table(static_cast<size_t>(n_blocks));
  std::iota(positions.begin(), positions.end(), context - n_tokens);
  std::iota(table.begin(), table.end(), 0);
  const auto keep = [&](const std::vector<int32_t>& values) {
    a.places.push_back(std::make_unique<Mirrored<int32_t>>(values, stream_));
    return a.places.back().get();
  };
  const Mirrored<int32_t>*const at = keep(positions),
                                *const table_of = keep(std::vector<int32_t>(positions.size())),
                                *const blocks = keep(table);
  a.attention_scratch.emplace_back(attention_scratch_bytes(n_tokens, heads, head_dim, context));
  void* const scratch = a.attention_scratch.back().data();
  const auto places = [=](bool declared) {
    return KvPlaces{.n_tokens = n_tokens,
                    .positions = at->at(declared),
                    .table_of = table_of->at(declared),
                    .block_tables = blocks->at(declared),
                    .max_blocks = n_blocks};
  };
  const KvShape kv{shape_.n_kv_heads, head_dim, kBlockTokens, n_blocks};
  const auto layer = [=, &weights](int turn) {
    auto* const k = reinterpret_cast<uint16_t*>(weights.at(turn, 2 * half));
    return KvLayer{k, k + half / sizeof(uint16_t)};
  };
  cases_.push_back({"kv_append", times(shape_.n_kv_heads, head_dim), "", n_tokens,
                    [=, &a, &stream](int turn, bool declared) {
                      kv_append(a.x.data(), a.z.data(), kv_cols, places(declared), kv, layer(turn), stream);
                    }});
  cases_.push_back({"attention", times(heads, head_dim) + ", " + std::to_string(context) + " keys", "",
                    n_tokens, [=, &a, &stream](int turn, bool declared) {
                      attention(a.x.data(), q_cols, heads, {.scale = 0.1f}, places(declared), kv, layer(turn),
                                context, scratch, a.y.data(), stream);
                    }});
}

/// Adds the cases of a recurrent layer whose value heads are as many as the shape's query heads. If their
/// number is even, there are half as many key heads, otherwise equally many. All tokens are of one sequence.
void KernelCases::add_recurrent(int n_tokens) {
  Arrays& a = *arrays_;
  const BenchWeights& weights = weights_;
  const Stream& stream = stream_;
  const int n_heads = shape_.n_heads;
  const RecurrentShape shape{n_heads % 2 == 0 ? n_heads / 2 : n_heads, n_heads, shape_.head_dim, 4, true};
  if (shape.state_bytes() > weights.bytes() || shape.head_dim > kMaxDeltaHeadDim) return;
  a.runs.push_back(std::make_unique<Mirrored<DeviceRun>>(
      std::vector<DeviceRun>{device_run({.n_tokens = n_tokens})}, stream));
  const auto runs = [n_tokens, at = a.runs.back().get()](bool declared) {
    return DeviceRuns{at->at(declared), 1, n_tokens};
  };
  // With keys of 0 and a decay of 1 the state, which lies in the weights, does not change.
  const auto filled = [&](int64_t n, float value) {
    const PinnedArray<float> values(static_cast<size_t>(n));
    std::fill_n(values.data(), n, value);
    a.recurrent.emplace_back(static_cast<size_t>(n));
    float* const array = a.recurrent.back().data();
    check(
        cudaMemcpyAsync(array, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice, stream),
        "copying the benchmark's inputs");
    stream.wait();
    return array;
  };
  const int64_t gates = int64_t{n_tokens} * n_heads;
  CausalConv conv{.shape = shape, .runs = {}, .copies = {}, .memory = {}};
  conv.raw = filled(n_tokens * shape.conv_dim(), 0.0f);
  conv.taps = filled(shape.n_taps * shape.conv_dim(), 0.0f);
  conv.memory.tails = filled(shape.tail_floats(), 0.0f);
  conv.out = {filled(n_tokens * shape.key_dim(), 0.0f), filled(n_tokens * shape.key_dim(), 0.0f),
              filled(n_tokens * shape.value_dim(), 0.0f)};
  GatedDelta delta{.shape = shape, .runs = {}, .copies = {}, .memory = {}};
  delta.q = conv.out[0];
  delta.k = conv.out[1];
  delta.v = conv.out[2];
  delta.decay = filled(gates, 1.0f);
  delta.beta = filled(gates, 1.0f);
  delta.out = filled(n_tokens * shape.value_dim(), 0.0f);
  DeltaGates gate{.n_tokens = n_tokens, .n_v_heads = n_heads};
  gate.alpha = gate.beta_logits = delta.decay;
  gate.dt = gate.a = delta.beta;
  gate.decay = filled(gates, 0.0f);
  gate.beta = filled(gates, 0.0f);
  const auto add_case = [&](std::string kernel, auto&& call) {
    cases_.push_back({std::move(kernel), times(n_heads, shape.head_dim), "", n_tokens, call});
  };
  add_case("causal_conv",
           [=, &stream](int /*turn*/, bool declared) { causal_conv(conv, runs(declared), stream); });
  add_case("delta_gates", [=, &stream](int /*turn*/, bool /*declared*/) { delta_gates(gate, stream); });
  add_case("gated_delta", [=, &weights, &stream](int turn, bool declared) {
    GatedDelta of_turn = delta;
    of_turn.memory.states = reinterpret_cast<float*>(weights.at(turn, shape.state_bytes()));
    gated_delta(of_turn, runs(declared), nullptr, stream);
  });
}

void KernelCases::add_sharing() {
  Arrays& a = *arrays_;
  const BenchWeights& weights = weights_;
  const Stream& stream = stream_;
  const int64_t d = shape_.d_model, ff = shape_.d_ff;
  const auto add_case = [&](std::string kernel, std::string size, auto&& call) {
    cases_.push_back({std::move(kernel), std::move(size), "", 1, call});
  };
  add_case("split_set", std::to_string(ff), [=, &a, &stream](int /*turn*/, bool declared) {
    const int64_t words = (ff + 63) / 64;
    uint64_t* const bits = a.found_bits.data();
    DeviceNeuronSet all{.wanted = a.wanted.at(false), .any = a.list(declared, ff)},
        hot{.wanted = bits,
            .any_bits = bits + words,
            .any = {a.found_ids.data(), a.n_found.at(declared), ff}};
    all.resize(1, ff);
    hot.resize(1, ff);
    split_set({.all = all,
               .resident = a.resident.at(false),
               .hot = hot,
               .cold = bits + 2 * words,
               .any = reinterpret_cast<uint64_t*>(a.y.data())},
              stream);
  });
  add_case("hand_over", std::to_string(d), [=, &a, &stream](int /*turn*/, bool /*declared*/) {
    HandOver what;
    what.parts[0] = {a.x.data(), a.handed.data(), d};
    what.state = a.hand_over_state.data();
    what.number = a.hand_over_number.data();
    hand_over(what, stream);
  });
  add_case("end_sums", std::to_string(d), [=, &a, &stream](int /*turn*/, bool /*declared*/) {
    const CpuSums of_cpu{{a.host_sums.data(), a.host_poison.data()}, a.has_host_sums.data()};
    end_sums(a.device_sums(), of_cpu, nullptr, 1, d, a.y.data(), stream);
  });

  // Copies bundles (adjacent rows of gate, up and down) from page-locked memory to rows of the neuron cache.
  const size_t row = row_bytes(DType::kQ4_0, d);
  const auto n_moved = static_cast<int>(std::min<int64_t>(kMovedNeurons, ff));
  if (3 * row * static_cast<size_t>(n_moved) > weights.bytes()) return;
  a.bundles = PinnedArray<std::byte>(3 * row * static_cast<size_t>(n_moved));
  std::fill_n(a.bundles.data(), a.bundles.size(), std::byte{1});
  a.moves = PinnedArray<RowChange>(static_cast<size_t>(n_moved));
  for (int32_t i = 0; i < n_moved; ++i) a.moves.data()[i] = {i, i};
  int word = 16;
  while (row % static_cast<size_t>(word) != 0) word /= 2;
  add_case("gather_bundles", std::to_string(n_moved) + " of Q4_0, " + std::to_string(3 * row) + " bytes",
           [=, &a, &weights, &stream](int turn, bool /*declared*/) {
             BundleGather gather{.parts = {}, .n_parts = 3, .moves = a.moves.data(), .n_moves = n_moved};
             std::byte* const to = weights.at(turn, 3 * row * static_cast<size_t>(n_moved));
             for (size_t p = 0; p < 3; ++p) {
               gather.parts[p] = {a.bundles.data() + p * row,
                                  3 * row,
                                  to + p * row * static_cast<size_t>(n_moved),
                                  row,
                                  row,
                                  word};
             }
             gather_bundles(gather, stream);
           });
}

}  // namespace hearth::cuda
