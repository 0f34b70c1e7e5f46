// Implements HostSpeed and node_read_rate().
#include "profiler/machine/host_speed.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <random>
#include <thread>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/threads/topology.h"
#include "kernels/quant/quantize.h"
#include "profiler/machine/prompt_rate.h"

namespace hearth {
namespace {

constexpr DType kType = DType::kQ4_0;
constexpr int64_t kCols = 4096, kNeurons = 11008;  // a layer of Llama 2 7B
// Three disjoint sets of 15 % of the neurons each, so that a pass over one set finds no useful data of the
// previous pass in the caches.
constexpr int kSets = 3, kSetShare = 15;
constexpr int64_t kLeastNeurons = 256;  // minimum for each thread; with less memory, fewer threads read

/// Returns the set that a neuron belongs to, or a number of kSets or more if it belongs to none. The choice
/// is by hash, so that a set's rows are scattered.
int set_of(int64_t neuron) {
  const uint64_t hash = static_cast<uint64_t>(neuron) * 0x9E3779B97F4A7C15u >> 32;
  return static_cast<int>(hash % 100) / kSetShare;
}

/// Returns the processor seconds that all threads of this process have used together.
double process_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

size_t bundle_bytes() { return 2 * row_bytes(kType, kCols); }

/// One thread's part in the measurement of scattered reads. A Reader has layers of neurons that no other
/// thread reads, and the set of active neurons.
class Reader {
 public:
  Reader(Isa isa, int64_t n_bundles)
      : backend_(std::make_unique<CpuBackend>(1, isa)),
        d_ff_(std::min(kNeurons, n_bundles)),
        n_layers_(n_bundles / d_ff_),
        gates_(static_cast<size_t>(d_ff_)),
        sums_(kCols) {
    StepBounds bounds;
    bounds.max_cols = std::max(kCols, d_ff_);
    bounds.d_model = kCols;
    bounds.shares = true;
    backend_->sum_as_integers();
    backend_->reserve(bounds);
    set_.reserve(1, d_ff_);
  }

  void choose(int set) {
    for (int64_t j = 0; j < d_ff_; ++j) gates_[static_cast<size_t>(j)] = set_of(j) == set ? 1.0f : -1.0f;
    backend_->select_neurons(gates_.data(), nullptr, 1, d_ff_, 0.5f, set_);
    counts_ = {};
  }

  void read(const std::byte* bundles, const float* x) {
    for (int64_t layer = 0; layer < n_layers_; ++layer) {
      const std::byte* up = bundles + static_cast<size_t>(layer * d_ff_) * bundle_bytes();
      FfnNeurons ffn;
      ffn.gate = {up, kType, d_ff_, kCols, bundle_bytes()};  // not read, because the gates are given
      ffn.up = ffn.gate;
      ffn.down.rows = {up + row_bytes(kType, kCols), kType, d_ff_, kCols, bundle_bytes()};
      ffn.down.n_neurons = d_ff_;
      ffn.down.n_cols = kCols;
      backend_->ffn_neuron_sums(ffn, x, 1, set_, gates_.data(), {sums_.data(), &poison_}, counts_);
    }
  }

  int64_t n_rows() const { return counts_.up_rows + counts_.down_rows; }

 private:
  std::unique_ptr<CpuBackend> backend_;
  int64_t d_ff_, n_layers_;
  std::vector<float> gates_;
  std::vector<int64_t> sums_;
  int32_t poison_ = 0;
  NeuronSet set_;
  NeuronCounts counts_;
};

/// Returns a row of weights of typical size, so that the products with it also have a typical size.
std::vector<std::byte> one_row() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(kCols);
  for (float& value : values) value = normal(random);
  std::vector<std::byte> row(row_bytes(kType, kCols));
  quantize_row(kType, values.data(), kCols, row.data());
  return row;
}

}  // namespace

HostSpeed::HostSpeed(int n_threads, Isa isa)
    : isa_(isa), backend_(std::make_unique<CpuBackend>(n_threads, isa)) {
  backend_->reserve(prompt_rate_bounds());
  const ReadBuffer memory = read_buffer();
  short_of_memory_ = memory.is_short;
  n_words_ = memory.bytes / sizeof(uint64_t);
  words_.reset(new uint64_t[n_words_]);
  fill();
}

HostSpeed::~HostSpeed() = default;

/// Fills the memory with copies of one row. All threads write different pieces, so that each piece is in the
/// memory of its thread's NUMA node.
void HostSpeed::fill() {
  const std::vector<std::byte> row = one_row();
  auto* bytes = reinterpret_cast<std::byte*>(words_.get());
  const size_t n_bytes = n_words_ * sizeof(uint64_t);
  backend_->threads().for_each_piece(static_cast<int64_t>((n_bytes + row.size() - 1) / row.size()), 512,
                                     [&](int64_t begin, int64_t end, int) {
                                       for (int64_t r = begin; r < end; ++r) {
                                         const size_t at = static_cast<size_t>(r) * row.size();
                                         std::memcpy(bytes + at, row.data(),
                                                     std::min(row.size(), n_bytes - at));
                                       }
                                     });
}

PassRates HostSpeed::read_rate(int n_threads) const {
  return measure_read({words_.get(), n_words_}, n_threads).quiet;
}

double HostSpeed::scattered_rate() const {
  // 1. Divide the memory into layers of bundles, and make the input of one token. Each thread gets layers of
  //    its own, unlike the threads of one backend, which compute each layer together. If threads shared a
  //    layer, all would wait whenever another program ran on the processor of one of them.
  const auto n_bundles = static_cast<int64_t>(n_words_ * sizeof(uint64_t) / bundle_bytes());
  const int n_threads =
      static_cast<int>(std::clamp<int64_t>(n_bundles / kLeastNeurons, 1, backend_->n_threads()));
  std::vector<Reader> readers;
  for (int t = 0; t < n_threads; ++t) readers.emplace_back(isa_, n_bundles / n_threads);
  std::vector<float> x(kCols);
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (float& value : x) value = normal(random);

  // 2. For each set, pass over all layers with the set's neurons active.
  const auto* bytes = reinterpret_cast<const std::byte*>(words_.get());
  double best = 0;
  for (int set = 0; set < kSets; ++set) {
    for (Reader& reader : readers) reader.choose(set);
    const double seconds =
        seconds_together(n_threads, {}, [&](int t) {
          readers[static_cast<size_t>(t)].read(
              bytes + static_cast<size_t>(t * (n_bundles / n_threads)) * bundle_bytes(), x.data());
        }).processors;
    int64_t n_rows = 0;
    for (const Reader& reader : readers) n_rows += reader.n_rows();
    best =
        std::max(best, static_cast<double>(n_rows) * static_cast<double>(row_bytes(kType, kCols)) / seconds);
  }
  return best;
}

double HostSpeed::multiply_adds_per_s() {
  return prompt_rate(*backend_, process_seconds) * backend_->n_threads();
}

double node_read_rate(const std::vector<int>& cpus) {
  const size_t n_words = read_buffer().bytes / sizeof(uint64_t);
  const std::unique_ptr<uint64_t[]> words(new uint64_t[n_words]);
  {
    // Memory is placed on the NUMA node whose processor writes it first.
    const std::jthread writer([&] {
      keep_thread_to(cpus);
      std::fill_n(words.get(), n_words, 1);
    });
  }
  return measure_read({words.get(), n_words}, static_cast<int>(cpus.size()), cpus).quiet.median;
}

}  // namespace hearth
