// neurons_bench [--isa NAME] [--threads N] [--type NAME] [--shape d_model,d_ff] [--active SHARE]
// [--seconds S] [--tokens N]: measures the cost of the sparse FFN on this machine.
//
// For decoding, prints the GB/s of what one call of ffn_neurons reads, and its share of the bandwidth at
// which the same threads just read memory. There is a line for each layout that a layer's rows can have:
// packed matrices or bundles of a neuron's rows, in small pages (like a mapped file) or large ones, with
// float sums or integer sums (kernels/neuron_sums.h). All are measured in turn in one run; figures are
// medians. Then compares --tokens tokens (prefill) with the dense products. Run by hand.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/weight_rows.h"

namespace {

using namespace hearth;

struct Options {
  std::string isa, type = "Q4_0";
  int n_threads = 2, n_tokens = 256;
  int64_t d_model = 4096, d_ff = 11008;
  double active = 0.18, seconds = 4.0;
};

/// Memory in pages of the wanted size.
struct Pages {
  /// Filled with copies of one row of random weights, because only the speed of its bytes matters.
  Pages(size_t size, DType type, int64_t n_cols, bool large) : bytes(size) {
    data = static_cast<std::byte*>(
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    madvise(data, size, large ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    std::mt19937 rng(1);
    const test::OwnedMatrix row = test::random_matrix(type, 1, n_cols, rng);
    for (size_t at = 0; at < size; at += row.bytes.size()) {
      std::memcpy(data + at, row.bytes.data(), row.bytes.size());
    }
  }
  ~Pages() { munmap(data, bytes); }
  Pages(const Pages&) = delete;
  size_t bytes;
  std::byte* data = nullptr;
};

enum class Layout { kPacked, kUpDown, kGateUpDown };

/// As many layers as the pages hold, in this layout.
struct Layers {
  Layers(const Options& o, DType type, Layout layout, const Pages& pages) : row(row_bytes(type, o.d_model)) {
    const size_t matrix = row * static_cast<size_t>(o.d_ff);
    const int n = static_cast<int>(pages.bytes / (3 * matrix));
    const size_t stride = layout == Layout::kPacked ? 0 : layout == Layout::kUpDown ? 2 * row : 3 * row;
    for (int i = 0; i < n; ++i) {
      const std::byte* base = pages.data + 3 * matrix * static_cast<size_t>(i);
      const std::byte* ups = layout == Layout::kGateUpDown ? base + row : base + matrix;
      const std::byte* downs = layout == Layout::kPacked ? ups + matrix : ups + row;
      FfnNeurons ffn;
      ffn.gate = {base, type, o.d_ff, o.d_model, layout == Layout::kGateUpDown ? stride : 0};
      ffn.up = {ups, type, o.d_ff, o.d_model, stride};
      ffn.down.rows = {downs, type, o.d_ff, o.d_model, stride};
      ffn.down.n_neurons = o.d_ff;
      ffn.down.n_cols = o.d_model;
      layers.push_back(ffn);
    }
  }
  size_t row;
  std::vector<FfnNeurons> layers;
};

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double (*seconds_now)() = wall_seconds;

double seconds_of(const std::function<void()>& body) {
  const double start = seconds_now();
  body();
  return seconds_now() - start;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Returns the GB/s that the pool's threads read. Each reads eight streams, because a single stream does not
/// keep the memory busy.
double read_bandwidth(ThreadPool& pool, const Pages& pages) {
  constexpr int64_t kPiece = 8 << 20;
  constexpr int64_t kStreams = 8, kStreamWords = kPiece / kStreams / 8;
  std::vector<uint64_t> sinks(static_cast<size_t>(pool.n_threads()) * 8);
  const int64_t n = static_cast<int64_t>(pages.bytes) / kPiece;
  const double seconds = seconds_of([&] {
    pool.for_each_piece(n, 1, [&](int64_t piece, int64_t, int worker) {
      const uint64_t* words = reinterpret_cast<const uint64_t*>(pages.data + piece * kPiece);
      uint64_t sum[8] = {};
      for (int64_t i = 0; i < kStreamWords; i += 8) {
        for (int64_t stream = 0; stream < kStreams; ++stream) {
          for (int64_t k = 0; k < 8; ++k) sum[k] ^= words[stream * kStreamWords + i + k];
        }
      }
      for (uint64_t s : sum) sinks[static_cast<size_t>(worker) * 8] ^= s;
    });
  });
  return static_cast<double>(n * kPiece) / seconds * 1e-9;
}

/// One way of reading the neurons of a token: its name and the seconds of a pass over all layers.
struct Case {
  std::string name;
  Layers* layers;
  bool gates_known;
  bool integers;                   // integer sums, which are used if a GPU has a share
  std::vector<double> rates = {};  // GB/s
};

class Bench {
 public:
  explicit Bench(const Options& o) : o_(o), type_(DType::kQ4_0) {
    for (DType type : test::all_types()) {
      if (o.type == dtype_info(type).name) type_ = type;
    }
    std::mt19937 rng(2);
    x_ = test::random_activations(o.n_tokens * o.d_model, rng);
    // Scales x so that values have the size that they have in models, because integer sums have a slow path
    // for other values.
    for (float& x : x_) x *= 1e-6f;
    out_.resize(x_.size());
    sums_.resize(static_cast<size_t>(o.d_model));
    // Makes the wanted share of gates positive; all rows are alike, so their products would all have one
    // sign.
    gates_.resize(static_cast<size_t>(o.n_tokens * o.d_ff));
    std::bernoulli_distribution active(o.active);
    for (float& gate : gates_) gate = active(rng) ? 1.0f : -1.0f;
    few_.reserve(1, o.d_ff);
    many_.reserve(o.n_tokens, o.d_ff);
  }

  void decode(CpuBackend& backend, Case& c) {
    backend.select_neurons(gates_.data(), nullptr, 1, o_.d_ff, 0.5f, few_);
    NeuronCounts counts;
    const double seconds = seconds_of([&] {
      for (const FfnNeurons& ffn : c.layers->layers) {
        const float* gates = c.gates_known ? gates_.data() : nullptr;
        if (c.integers) {
          backend.ffn_neuron_sums(ffn, x_.data(), 1, few_, gates, {sums_.data(), &poison_}, counts);
        } else {
          backend.ffn_neurons(ffn, x_.data(), 1, few_, gates, out_.data(), counts);
        }
      }
    });
    const int64_t rows = counts.gate_rows + counts.up_rows + counts.down_rows;
    c.rates.push_back(static_cast<double>(rows) * static_cast<double>(c.layers->row) / seconds * 1e-9);
  }

  /// Seconds of one layer for many tokens: dense, and its three parts sparse.
  void prefill(CpuBackend& backend, const Layers& packed) {
    const FfnNeurons& ffn = packed.layers[0];
    const int64_t n = o_.n_tokens;
    std::vector<float> gates(gates_.size()), ups(gates_.size());
    std::vector<double> dense, sparse, listed, down;
    // The dense down projection has the transposed shape but does the same work.
    const Matrix turned{ffn.down.rows.data, type_, o_.d_model, o_.d_ff};
    const Product first[] = {{ffn.gate, nullptr, gates.data(), o_.d_ff, false},
                             {ffn.up, nullptr, ups.data(), o_.d_ff, false}};
    const Product second{turned, nullptr, out_.data(), o_.d_model, true};
    for (int run = 0; run < 5; ++run) {
      dense.push_back(seconds_of([&] {
        backend.matmul(x_.data(), o_.n_tokens, first);
        backend.gated_activation(ffn.activation, gates.data(), ups.data(), n * o_.d_ff, ups.data());
        backend.matmul(ups.data(), o_.n_tokens, {&second, 1});
      }));
      NeuronCounts counts;
      sparse.push_back(seconds_of([&] {
        backend.matmul(x_.data(), o_.n_tokens, {first, 1});
        backend.select_neurons(gates_.data(), nullptr, o_.n_tokens, o_.d_ff, 0.5f, many_);
        backend.ffn_neurons(ffn, x_.data(), o_.n_tokens, many_, gates_.data(), out_.data(), counts);
      }));
      down.push_back(seconds_of(
          [&] { backend.down_neurons(ffn.down, gates_.data(), o_.n_tokens, many_, out_.data(), counts); }));
    }
    std::printf("%d tokens: dense %.1f ms, exact %.1f ms (%.2f of it), its down projection %.1f ms\n",
                o_.n_tokens, median(dense) * 1e3, median(sparse) * 1e3, median(sparse) / median(dense),
                median(down) * 1e3);
  }

 private:
  Options o_;
  DType type_;
  std::vector<float> x_, out_, gates_;
  std::vector<int64_t> sums_;
  int32_t poison_ = 0;
  NeuronSet few_, many_;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--isa") o.isa = argv[i + 1];
    if (name == "--type") o.type = argv[i + 1];
    if (name == "--threads") o.n_threads = std::max(1, std::atoi(argv[i + 1]));
    if (name == "--tokens") o.n_tokens = std::max(1, std::atoi(argv[i + 1]));
    if (name == "--active") o.active = std::atof(argv[i + 1]);
    if (name == "--seconds") o.seconds = std::atof(argv[i + 1]);
    if (name == "--shape") {
      std::string shape = argv[i + 1];
      o.d_model = std::atoll(shape.c_str());
      o.d_ff = std::atoll(shape.substr(shape.find(',') + 1).c_str());
    }
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv);
  if (o.n_threads == 1) seconds_now = cpu_seconds;
  DType type = DType::kQ4_0;
  for (DType other : test::all_types()) {
    if (o.type == dtype_info(other).name) type = other;
  }
  const size_t row = row_bytes(type, o.d_model), layer = 3 * row * static_cast<size_t>(o.d_ff);
  const size_t bytes = std::max<size_t>(2, static_cast<size_t>(1.5e9 / static_cast<double>(layer))) * layer;
  const Pages small(bytes, type, o.d_model, false), large(bytes, type, o.d_model, true);
  struct Named {
    std::string name;
    Layers layers;
  };
  std::vector<Named> layouts;
  for (const auto& [name, layout] :
       {std::pair{"packed", Layout::kPacked}, std::pair{"[up|down]", Layout::kUpDown},
        std::pair{"[gate|up|down]", Layout::kGateUpDown}}) {
    layouts.push_back({std::string(name) + ", 4 KB pages", Layers(o, type, layout, small)});
    layouts.push_back({std::string(name) + ", 2 MB pages", Layers(o, type, layout, large)});
  }
  Bench bench(o);
  for (Isa isa : supported_isas()) {
    if (o.isa.empty() ? isa == Isa::kScalar : o.isa != isa_name(isa)) continue;
    CpuBackend backend(o.n_threads, isa);
    backend.reserve({std::max(o.n_tokens, 1), std::max(o.d_model, o.d_ff), 32, 16});
    std::vector<Case> cases;
    for (Named& layout : layouts) {
      for (bool known : {true, false}) {
        for (bool integers : {false, true}) {
          const std::string name = layout.name + (known ? ", gates known" : ", gates read");
          cases.push_back({name + (integers ? ", integers" : ""), &layout.layers, known, integers});
        }
      }
    }
    ThreadPool reader(o.n_threads);
    std::vector<double> bandwidth;
    const double start = wall_seconds();
    while (wall_seconds() - start < o.seconds || bandwidth.size() < 3) {
      for (Case& c : cases) bench.decode(backend, c);
      bandwidth.push_back(read_bandwidth(reader, large));
    }
    std::printf("%s, %s: reading %.1f GB/s (best %.1f)\n", backend.description().c_str(), o.type.c_str(),
                median(bandwidth), *std::ranges::max_element(bandwidth));
    for (const Case& c : cases) {
      std::printf("  %-46s %6.1f GB/s  %4.0f %%  best %6.1f\n", c.name.c_str(), median(c.rates),
                  100 * median(c.rates) / median(bandwidth), *std::ranges::max_element(c.rates));
    }
    if (o.n_tokens > 1) bench.prefill(backend, layouts[0].layers);
  }
  return 0;
}
