// Measures what parts of the CPU backend cost on this machine: a fork, attention in decode and prefill,
// recurrent layers, and the small operations of a decode step. Run by hand:
//   cpu_backend_bench [threads] [isa] [recurrent]
// With "recurrent", only recurrent layers are measured.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/recurrent.h"
#include "tests/bench/undisturbed.h"

namespace hearth {
namespace {

/// Returns the seconds of the tenth fastest of a hundred calls, over repetitions that take about a quarter of
/// a second: the cost without disturbance by other programs, and without the luck of a single call.
template <class Body>
double undisturbed_seconds(Body&& body) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  const Clock::time_point until = Clock::now() + std::chrono::milliseconds(250);
  while (Clock::now() < until || seconds.size() < 5) {
    const Clock::time_point start = Clock::now();
    body();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return undisturbed(std::move(seconds));
}

void bench_fork(int n_threads) {
  ThreadPool pool(n_threads);
  constexpr int kForks = 100;
  const auto fork = [&] { pool.for_each_piece(2 * n_threads, 1, [](int64_t, int64_t, int) {}); };
  const double seconds = undisturbed_seconds([&] {
    for (int i = 0; i < kForks; ++i) fork();
  });
  std::printf("fork and join, %d threads              %8.2f us\n", n_threads, seconds / kForks * 1e6);
  std::vector<double> parked;
  for (int i = 0; i < 50; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    fork();
    parked.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(parked);
  std::printf("fork of parked threads                 %8.2f us\n", parked[25] * 1e6);
}

struct Cache {
  Cache(CpuBackend& backend, int n_kv_heads, int head_dim, int context, KvType type = KvType::kF16)
      : shape{n_kv_heads, head_dim, 16, (context + 15) / 16, type} {
    const size_t halves = static_cast<size_t>(shape.n_blocks * shape.block_bytes()) / 2;
    k = backend.allocate(halves * 2);
    v = backend.allocate(halves * 2);
    std::mt19937 random(1);
    for (size_t i = 0; i < halves; ++i) {
      k.halves()[i] = static_cast<uint16_t>(0x3000 + random() % 0x400);
      v.halves()[i] = static_cast<uint16_t>(0x3000 + random() % 0x400);
    }
    table.resize(static_cast<size_t>(shape.n_blocks));
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), random);
  }
  KvShape shape;
  Buffer k, v;
  std::vector<int32_t> table;
};

struct Heads {
  const char* name;
  int n_heads, n_kv_heads, head_dim;
};

/// Measures attention of n_tokens tokens at the end of a context. Alternates between the caches of many
/// layers, so that decode reads memory.
void bench_attention(CpuBackend& backend, Heads heads, int context, int n_tokens, KvType type) {
  const int n_layers = n_tokens == 1 ? 16 : 2;
  std::vector<Cache> layers;
  for (int i = 0; i < n_layers; ++i)
    layers.emplace_back(backend, heads.n_kv_heads, heads.head_dim, context, type);
  const int64_t width = int64_t{heads.n_heads} * heads.head_dim;
  std::vector<float> q(static_cast<size_t>(n_tokens * width), 0.1f), out(q.size());
  std::vector<int32_t> positions(static_cast<size_t>(n_tokens)), table_of(positions.size(), 0);
  std::iota(positions.begin(), positions.end(), context - n_tokens);
  size_t layer = 0;
  const double seconds = undisturbed_seconds([&] {
    const Cache& cache = layers[layer++ % layers.size()];
    const KvPlaces places{n_tokens, positions.data(), table_of.data(), cache.table.data(),
                          cache.shape.n_blocks};
    backend.attention(q.data(), width, heads.n_heads, {.scale = 0.125f}, places, cache.shape,
                      {cache.k.data(), cache.v.data()}, out.data());
  });
  const double bytes =
      2.0 * context * static_cast<double>(kv_bytes(type, int64_t{heads.n_kv_heads} * heads.head_dim));
  const double flops = 4.0 * static_cast<double>(width) * n_tokens * (context - 0.5 * (n_tokens - 1));
  std::printf("attention %-14s %-4s %4d of %5d   %8.1f us %7.1f GB/s %7.1f GFLOP/s\n", heads.name,
              kv_type_name(type), n_tokens, context, seconds * 1e6, bytes / seconds * 1e-9,
              flops / seconds * 1e-9);
}

/// Measures recurrent layers with n_tokens tokens of one sequence. Alternates between the memory of 64
/// layers, so that decoding reads memory. Decoding is bound by reading and writing the state once, so it is
/// compared with Backend::scale(), which does just that.
void bench_recurrent(CpuBackend& backend, const RecurrentShape& shape, int n_tokens) {
  constexpr int kLayers = 64;
  Buffer states = backend.allocate(shape.state_bytes() * kLayers);
  Buffer tails = backend.allocate(static_cast<size_t>(shape.tail_floats() * kLayers) * sizeof(float));
  std::fill_n(states.floats(), shape.state_floats() * kLayers, 0.01f);
  std::fill_n(tails.floats(), shape.tail_floats() * kLayers, 0.01f);
  const RecurrentMemory memory{states.floats(), tails.floats(), nullptr, 0};
  // As in the engine, with large pages.
  std::vector<Buffer> buffers;
  const auto floats = [&](int64_t n_cols, float x) {
    buffers.push_back(backend.allocate(static_cast<size_t>(n_tokens * n_cols) * sizeof(float)));
    std::fill_n(buffers.back().floats(), n_tokens * n_cols, x);
    return buffers.back().floats();
  };
  const std::vector<float> taps(static_cast<size_t>(shape.n_taps * shape.conv_dim()), 0.25f);
  const float *const raw = floats(shape.conv_dim(), 0.5f), *const gates = floats(shape.n_v_heads, 0.9f);
  float *const q = floats(shape.key_dim(), 0.0f), *const k = floats(shape.key_dim(), 0.0f);
  float *const v = floats(shape.value_dim(), 0.0f), *const out = floats(shape.value_dim(), 0.0f);
  float *const decay = floats(shape.n_v_heads, 0.0f), *const beta = floats(shape.n_v_heads, 0.0f);
  RecurrentRun run{.first_token = 0, .n_tokens = n_tokens};
  const auto seconds_of = [&](auto&& body) {
    return undisturbed_seconds([&] {
      run.slot = (run.slot + 1) % kLayers;
      body();
    });
  };
  const double conv = seconds_of([&] {
    backend.recurrent()->causal_conv({shape, {&run, 1}, {}, raw, taps.data(), memory, {q, k, v}});
  });
  const double gating = seconds_of([&] {
    backend.recurrent()->delta_gates({n_tokens, shape.n_v_heads, gates, gates, gates, gates, decay, beta});
  });
  std::fill_n(q, n_tokens * shape.key_dim(), 0.01f);
  std::fill_n(k, n_tokens * shape.key_dim(), 0.08f);
  std::fill_n(decay, int64_t{n_tokens} * shape.n_v_heads, 0.9f);
  std::fill_n(beta, int64_t{n_tokens} * shape.n_v_heads, 0.5f);
  const bool scans = shape.key_rows > 0;  // Mamba-2
  const double delta = seconds_of([&] {
    const GatedDelta call{shape, {&run, 1}, {}, q, k, v, decay, beta, memory, out};
    if (scans) {
      backend.recurrent()->selective_scan({call, taps.data()});
    } else {
      backend.recurrent()->gated_delta(call);
    }
  });
  const double pass =
      seconds_of([&] { backend.scale(1.0f, shape.state_floats(), memory.state(shape, run.slot)); });
  const double bytes = 2.0 * static_cast<double>(shape.state_bytes());
  const double flops =
      (scans ? 5.0 : 7.0) * shape.n_rows() * static_cast<double>(shape.value_dim()) * n_tokens;
  std::printf("recurrent %d/%d heads %d, %4d tokens: convolution %8.1f us, gates %6.1f us\n", shape.n_k_heads,
              shape.n_v_heads, shape.head_dim, n_tokens, conv * 1e6, gating * 1e6);
  std::printf("  %s %8.1f us %7.1f GB/s %7.1f GFLOP/s, %5.1f %% of a pass over the state\n",
              scans ? "selective scan" : "gated delta", delta * 1e6, bytes / delta * 1e-9,
              flops / delta * 1e-9, pass / delta * 100);
}

void bench_small_operations(CpuBackend& backend) {
  std::vector<float> x(512 * 1536, 0.5f), y(x.size(), 0.25f), weight(1536, 1.0f), inv_freq(32, 0.01f);
  const auto report = [](const char* name, double seconds) {
    std::printf("%-38s %8.2f us\n", name, seconds * 1e6);
  };
  for (int n_tokens : {1, 512}) {
    std::printf("%d tokens of 576, 1536 wide FFN:\n", n_tokens);
    std::vector<int32_t> positions(static_cast<size_t>(n_tokens), 7);
    report("  rms_norm", undisturbed_seconds([&] {
             backend.rms_norm(x.data(), weight.data(), 1e-5f, n_tokens, 576, y.data());
           }));
    report("  silu * up", undisturbed_seconds([&] {
             backend.gated_activation({Activation::kSilu}, x.data(), y.data(), n_tokens * 1536, y.data());
           }));
    for (RopeKind kind : {RopeKind::kHalves, RopeKind::kInterleaved}) {
      const Rope rope{kind, 64, inv_freq.data(), 1.0f};
      report(kind == RopeKind::kHalves ? "  rope, halves" : "  rope, interleaved",
             undisturbed_seconds([&] { backend.rope(x.data(), 576, 9, 64, positions, rope); }));
      report("  rope at a new position", undisturbed_seconds([&] {
               ++positions[0];
               backend.rope(x.data(), 576, 9, 64, positions, rope);
             }));
    }
    Cache cache(backend, 3, 64, 512);
    std::iota(positions.begin(), positions.end(), 0);
    const std::vector<int32_t> table_of(positions.size(), 0);
    const KvPlaces places{n_tokens, positions.data(), table_of.data(), cache.table.data(),
                          cache.shape.n_blocks};
    report("  kv_append", undisturbed_seconds([&] {
             backend.kv_append(x.data(), y.data(), 192, places, cache.shape,
                               {cache.k.halves(), cache.v.halves()});
           }));
  }
}

}  // namespace
}  // namespace hearth

int main(int argc, char** argv) {
  using namespace hearth;
  const int n_threads = argc > 1 ? std::atoi(argv[1]) : default_thread_count();
  const Isa isa = argc > 2 ? isa_from_name(argv[2]).value_or(Isa::kScalar) : supported_isas().front();
  CpuBackend backend(n_threads, isa);
  backend.reserve({.max_tokens = 512,
                   .max_cols = 4096,
                   .n_heads = 9,
                   .max_context = 8192,
                   .recurrent = {16, 32, 128, 4, true}});
  std::printf("%s\n", backend.description().c_str());
  for (const RecurrentShape& shape :
       {RecurrentShape{16, 16, 128, 4, true}, RecurrentShape{16, 32, 128, 4, true},
        RecurrentShape{8, 64, 64, 4, false, 128}}) {
    for (int n_tokens : {1, 512}) bench_recurrent(backend, shape, n_tokens);
  }
  if (argc > 3) return 0;
  bench_fork(n_threads);
  for (const Heads& heads : {Heads{"9/3 heads 64", 9, 3, 64}, Heads{"8/8 heads 64", 8, 8, 64},
                             Heads{"8/2 heads 128", 8, 2, 128}}) {
    for (const KvType type : {KvType::kF16, KvType::kQ8}) {
      for (int context : {128, 1024, 4096}) bench_attention(backend, heads, context, 1, type);
      for (int context : {512, 4096}) bench_attention(backend, heads, context, 512, type);
    }
  }
  bench_small_operations(backend);
}
