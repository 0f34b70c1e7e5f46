// Implements SimulatedHost: the time of each operation of the host.
#include "profiler/simulation/simulated_host.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <new>

#include <sys/mman.h>

#include "kernels/base/virtual_time.h"
#include "kernels/cpu/sparse_ffn.h"
#include "kernels/cuda/ops/simulated_device.h"

namespace hearth {

SimulatedHost::SimulatedHost(const HostProfile& host, double ram_bytes_per_s, double to_device_bytes_per_s,
                             PlantedActivity& planted, PlantedChoice& choices, Trace* trace)
    : host_(host),
      ram_bytes_per_s_(ram_bytes_per_s),
      to_device_bytes_per_s_(to_device_bytes_per_s),
      planted_(planted),
      choices_(choices),
      trace_(trace) {}

Buffer SimulatedHost::allocate(size_t bytes) {
  if (bytes == 0) return {};
  void* begin =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  return {begin, bytes, [](void* data, size_t n) { munmap(data, n); }};
}

NeuronSetId SimulatedHost::make_set() {
  const NeuronSetId id = next_set(sets_.size(), static_cast<size_t>(bounds_.n_sets));
  sets_.emplace_back().reserve(bounds_.max_tokens, bounds_.max_cols);
  return id;
}

void SimulatedHost::small() { VirtualTime::current()->spend(costs_.small_s); }

/// Lets the threads compute for `seconds`, plus the time to hand work to them n_forks times. The first
/// hand-off takes longer if the threads are parked and must be woken.
void SimulatedHost::compute(double seconds, int n_forks) {
  VirtualTime& time = *VirtualTime::current();
  const bool parked = time.now() - last_work_ > costs_.spin_s;
  if (parked) ++n_woken_;
  seconds += (parked ? costs_.woken_fork_s : costs_.fork_s) + (n_forks - 1) * costs_.fork_s;
  const double begin = time.now();
  time.spend(seconds);
  last_work_ = time.now();
  busy_s_ += seconds;
  busy_beside_device_s_ += cuda::simulated_kernels_between(begin, begin + seconds);
  if (trace_ != nullptr)
    trace_->add(
        {"CPU", "computes", planted_.layer(), HostClock::at(begin), HostClock::at(begin + seconds), 0});
}

void SimulatedHost::read(double bytes, double multiply_adds) {
  compute(std::max(bytes / ram_bytes_per_s_, multiply_adds / host_.multiply_adds_per_s));
}

void SimulatedHost::matmul(const float* /*x*/, int n_tokens, std::span<const Product> products) {
  double bytes = 0, multiply_adds = 0;
  for (const Product& p : products) {
    const bool all = p.rows.data() == nullptr;
    const auto n_rows = all ? p.weight.n_rows : static_cast<int64_t>(p.rows.size());
    bytes += static_cast<double>(n_rows) * static_cast<double>(row_bytes(p.weight.dtype, p.weight.n_cols));
    multiply_adds += static_cast<double>(n_rows * p.weight.n_cols) * n_tokens;
    planted_.product({.weight = p.weight,
                      .ids = p.rows.data(),
                      .n_ids = static_cast<int64_t>(p.rows.size()),
                      .n_tokens = n_tokens,
                      .out = p.out,
                      .out_stride = p.out_stride});
  }
  read(bytes, multiply_adds);
}

void SimulatedHost::multiply_heads(const HeadProducts& products, int n_tokens) {
  const auto row = static_cast<double>(row_bytes(products.weight.dtype, products.weight.n_cols));
  const auto rows = static_cast<double>(products.weight.n_rows) * products.n_heads;
  read(rows * row, rows * static_cast<double>(products.weight.n_cols) * n_tokens);
}

void SimulatedHost::attention(const float* /*q*/, int64_t /*stride*/, int n_heads,
                              const AttentionScores& scores, const KvPlaces& places, const KvShape& shape,
                              KvLayer /*layer*/, float* /*out*/) {
  double keys = 0, read_keys = 0;
  for (int t = 0; t < places.n_tokens; ++t) {
    const double seen = scores.window > 0 ? std::min(places.n_keys(t), scores.window) : places.n_keys(t);
    keys += seen;
    // All tokens of a sequence read its keys together, so the bytes are counted only once, for its last
    // token.
    const bool last = t + 1 == places.n_tokens || places.table_of[t + 1] != places.table_of[t];
    if (last) read_keys += seen;
  }
  const int64_t width = int64_t{shape.n_kv_heads} * shape.head_dim;
  read(2 * read_keys * static_cast<double>(kv_bytes(shape.type, width)), 2 * keys * n_heads * shape.head_dim);
}

void SimulatedHost::select_neurons(const float* values, const float* sizes, int n_tokens, int64_t n_neurons,
                                   float at_least, NeuronSetId id) {
  NeuronSet& set = sets_.at(id.index());
  set.clear(n_tokens, n_neurons);
  for (int t = 0; t < n_tokens; ++t) {
    for (int64_t j = 0; j < n_neurons; ++j) {
      const float value = values[t * n_neurons + j];
      if (!((sizes == nullptr ? value : std::abs(value) * sizes[j]) < at_least))
        set.wanted(t)[j / 64] |= uint64_t{1} << (j % 64);
    }
  }
  set.collect();
  small();
}

/// Returns the time to compute listed neurons. The threads take pieces of the list one by one, as in
/// SparseFfn; the last thread to finish decides the time.
double SimulatedHost::rows_seconds(const FfnNeurons* ffn, const DownColumns& down, int n_tokens,
                                   const NeuronSet& set, bool gates_known, NeuronCounts& counts) {
  const auto bytes_of = [](const Matrix& m) {
    return m ? static_cast<double>(row_bytes(m.dtype, m.n_cols)) : 0.0;
  };
  const double gate = ffn == nullptr || gates_known ? 0 : bytes_of(ffn->gate),
               up = ffn == nullptr ? 0 : bytes_of(ffn->up);
  const double of_down =
      down.rows ? bytes_of(down.rows) : static_cast<double>(down.coded.n_cols_padded) * down.coded.bits / 8;
  const bool zeros = ffn == nullptr || ffn->activation.has_zeros();
  const auto n_listed = static_cast<int64_t>(set.ids().size());
  std::vector<double> piece_bytes(static_cast<size_t>(n_sum_pieces(n_listed, host_.n_cores, false)));
  double multiply_adds = 0;
  for (int64_t place = 0; place < n_listed; ++place) {
    const int32_t id = set.ids()[static_cast<size_t>(place)];
    double& bytes =
        piece_bytes[static_cast<size_t>(place) * piece_bytes.size() / static_cast<size_t>(n_listed)];
    bytes += gate;
    counts.gate_rows += gate > 0 ? 1 : 0;
    int n_active = 0;
    for (int t = 0; t < n_tokens; ++t) {
      if (!set.wants(t, id)) continue;
      ++counts.proposed;
      if (!zeros || planted_.is_active(t, id)) ++n_active;
    }
    const auto width = static_cast<double>(down.n_cols);
    multiply_adds += width * ((gate > 0 ? n_tokens : 0) + (up > 0 ? 2 : 1) * n_active);
    counts.passed += n_active;
    counts.active += n_active;
    if (n_active == 0) continue;
    bytes += up + of_down;
    ++counts.up_rows;
    ++counts.down_rows;
  }
  const double thread_rate = ram_bytes_per_s_ * host_.sparse_row_share / host_.n_cores;
  std::vector<double> ends(static_cast<size_t>(std::max(host_.n_cores, 1)));
  for (const double bytes : piece_bytes) *std::ranges::min_element(ends) += bytes / thread_rate;
  double seconds = std::max(*std::ranges::max_element(ends), multiply_adds / host_.multiply_adds_per_s);
  // While PCIe copies from the same RAM, the threads get the remaining read rate.
  const double now = VirtualTime::current()->now(), shared = cuda::simulated_use().to_device_until - now;
  const double left =
      (ram_bytes_per_s_ - to_device_bytes_per_s_) / (ram_bytes_per_s_ * host_.sparse_row_share);
  if (shared > 0 && left < 1) seconds += std::min(shared, seconds / left) * (1 - left);
  return seconds;
}

void SimulatedHost::ffn_neuron_sums(const FfnNeurons& ffn, const float* /*x*/, int n_tokens,
                                    const NeuronSet& set, const float* gates, const NeuronSums& /*sums*/,
                                    NeuronCounts& counts) {
  compute(rows_seconds(&ffn, ffn.down, n_tokens, set, gates != nullptr, counts));
}

/// Spends the time to read the rows of the listed neurons that are active. A simulation has no values, so it
/// cannot tell which contributions are small enough to skip.
void SimulatedHost::contribution_sums(const FfnNeurons& ffn, const float* /*x*/, int n_tokens,
                                      const NeuronSet& set, float /*least*/, const NeuronSums& /*sums*/,
                                      NeuronCounts& counts) {
  compute(rows_seconds(&ffn, ffn.down, n_tokens, set, false, counts));
}

void SimulatedHost::ffn_neurons(const FfnNeurons& ffn, const float* /*x*/, int n_tokens, NeuronSetId set,
                                const float* gates, float* /*out*/, NeuronCounts& counts) {
  compute(rows_seconds(&ffn, ffn.down, n_tokens, to_host(set), gates != nullptr, counts));
}

void SimulatedHost::down_neurons(const DownColumns& down, const float* /*values*/, int n_tokens,
                                 NeuronSetId set, float* /*out*/, NeuronCounts& counts) {
  compute(rows_seconds(nullptr, down, n_tokens, to_host(set), true, counts));
}

/// Only a router with several experts makes a choice. The gate of a shared expert is a router with one
/// expert.
ExpertChoice SimulatedHost::route(const float* /*logits*/, int n_tokens, const Router& router) {
  small();
  if (router.n_experts > 1) return choices_.current();
  only_expert_.assign(static_cast<size_t>(n_tokens), 0);
  only_weight_.assign(static_cast<size_t>(n_tokens), 1.0f);
  return {n_tokens, 1, only_expert_.data(), only_weight_.data()};
}

void SimulatedHost::experts(std::span<const Expert> experts, FfnActivation /*activation*/, const float* /*x*/,
                            const ExpertChoice& choice, float* /*out*/, ExpertCounts& counts) {
  compute_experts(experts, choice, nullptr, counts);
}

void SimulatedHost::missing_expert_rows(std::span<const Expert> experts, FfnActivation /*activation*/,
                                        const float* /*x*/, const ExpertChoice& choice, const int32_t* slots,
                                        float* /*rows*/, ExpertCounts& counts) {
  compute_experts(experts, choice, slots, counts);
}

/// slots: see HostExperts; if null, all pairs of a token and an expert are computed.
void SimulatedHost::compute_experts(std::span<const Expert> experts, const ExpertChoice& choice,
                                    const int32_t* slots, ExpertCounts& counts) {
  double bytes = 0, multiply_adds = 0;
  std::vector<bool> is_read(experts.size());
  for (int64_t pair = 0; pair < int64_t{choice.n_tokens} * choice.n_used; ++pair) {
    if (slots != nullptr && slots[pair] >= 0) continue;
    const auto number = static_cast<size_t>(choice.experts[pair]);
    const bool first = !is_read[number];
    is_read[number] = true;
    ++counts.chosen;
    counts.read += first ? 1 : 0;
    for (const Matrix& m : {experts[number].gate, experts[number].up, experts[number].down}) {
      if (!m) continue;
      multiply_adds += static_cast<double>(m.n_rows) * static_cast<double>(m.n_cols);
      if (first) bytes += static_cast<double>(m.bytes());
    }
  }
  if (multiply_adds == 0) return;
  compute(std::max(bytes / ram_bytes_per_s_, multiply_adds / host_.multiply_adds_per_s), costs_.expert_forks);
}

}  // namespace hearth
