// No operation of the CPU backend allocates, on any of its threads.
//
// Replaces the program's allocation functions to count calls; left out of sanitizer builds, which have their
// own functions.
#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/recurrent.h"
#include "tests/support/catch.h"

namespace {
std::atomic<long> allocations{0};
}

void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* data = std::malloc(bytes == 0 ? 1 : bytes);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }

namespace hearth {

TEST_CASE("no operation allocates", "[cpu_backend]") {
  const int n_tokens = 64, head_dim = 32, n_heads = 4, n_kv_heads = 2;
  const int64_t width = n_heads * head_dim, kv_width = n_kv_heads * head_dim;
  std::vector<std::byte> weights(row_bytes(DType::kQ8_0, width) * static_cast<size_t>(width));
  const Matrix matrix{weights.data(), DType::kQ8_0, width, width};
  const std::vector<float> inv_freq(16, 0.1f), weight(static_cast<size_t>(width), 1.0f);
  const KvShape shape{n_kv_heads, head_dim, 16, 64};
  std::array<Expert, 16> experts;
  experts.fill({matrix, matrix, matrix, weight.data(), nullptr, nullptr});
  std::array<Expert, 16> skipping = experts;
  for (Expert& expert : skipping) {
    expert.down_columns = {.rows = matrix, .coded = {}, .n_neurons = width, .n_cols = width};
  }
  Router router;
  router.n_experts = 16;
  router.n_used = 3;
  router.n_groups = 4;
  router.n_groups_used = 2;
  for (int n_threads : {1, 3}) {
    CpuBackend backend(n_threads, supported_isas().front());
    StepBounds bounds{n_tokens, width, n_heads, 1024};
    bounds.n_experts = static_cast<int>(experts.size());
    bounds.n_experts_used = 3;
    bounds.expert_cols = width;
    const RecurrentShape recurrent{2, 2, head_dim, 4, true};
    bounds.recurrent = recurrent;
    backend.reserve(bounds);
    const size_t cache_bytes = static_cast<size_t>(kv_width) * 1024 * 2;
    const Buffer k_cache = backend.allocate(cache_bytes), v_cache = backend.allocate(cache_bytes);
    std::vector<float> x(static_cast<size_t>(n_tokens * width), 0.5f), y(x.size()), k = x, v = x;
    std::vector<int32_t> tokens(n_tokens, 5), positions(n_tokens), table_of(n_tokens, 0), table(64);
    for (int i = 0; i < 64; ++i) table[static_cast<size_t>(i)] = 63 - i;
    const Rope rope{RopeKind::kHalves, head_dim, inv_freq.data(), 1.0f};
    const std::vector<Product> products = {{matrix, nullptr, y.data(), width, false}};
    FfnNeurons ffn;
    ffn.gate = ffn.up = ffn.down.rows = matrix;
    ffn.down.n_neurons = ffn.down.n_cols = width;
    NeuronSet set;
    set.reserve(n_tokens, width);
    NeuronCounts counts;
    ExpertCounts expert_counts;
    const size_t recurrent_bytes = static_cast<size_t>(recurrent.state_floats()) * 8;
    const Buffer states = backend.allocate(recurrent_bytes), tails = backend.allocate(recurrent_bytes),
                 log = backend.allocate(recurrent_bytes);
    const RecurrentMemory memory{states.floats(), tails.floats(), log.floats(), 1};
    const std::vector<float> raw(static_cast<size_t>(n_tokens * recurrent.conv_dim()), 0.5f);
    const std::vector<float> rates = {-0.1f, -0.2f};
    std::vector<float> decay(static_cast<size_t>(2 * n_tokens), 0.5f), beta = decay;
    const long before = allocations.load();
    for (int n : {1, 5, 64}) {  // decode, a small batch, prefill
      for (int i = 0; i < n; ++i) positions[static_cast<size_t>(i)] = 900 + i;
      const KvPlaces places{n, positions.data(), table_of.data(), table.data(), 64};
      const std::span<const int32_t> some(positions.data(), static_cast<size_t>(n));
      backend.embed(matrix, std::span(tokens).first(static_cast<size_t>(n)), x.data());
      backend.rms_norm(x.data(), weight.data(), 1e-5f, n, width, y.data());
      backend.layer_norm(x.data(), weight.data(), nullptr, 1e-5f, n, width, y.data());
      backend.matmul(x.data(), n, products);
      backend.rope(x.data(), width, n_heads, head_dim, some, rope);
      backend.kv_append(k.data(), v.data(), kv_width, places, shape, {k_cache.halves(), v_cache.halves()});
      backend.attention(x.data(), width, n_heads, {.scale = 0.2f}, places, shape,
                        {k_cache.halves(), v_cache.halves()}, y.data());
      backend.attention(x.data(), width, n_heads,
                        {.scale = 0.2f, .window = 300, .soft_cap = 30.0f, .sinks = weight.data()}, places,
                        shape, {k_cache.halves(), v_cache.halves()}, y.data());
      backend.gated_activation({Activation::kSilu}, x.data(), y.data(), n * width, y.data());
      backend.select_neurons(x.data(), nullptr, n, width, 0.1f, set);
      backend.ffn_neurons(ffn, x.data(), n, set, nullptr, y.data(), counts);
      backend.down_neurons(ffn.down, x.data(), n, set, y.data(), counts);
      const ExpertChoice choice = backend.route(k.data(), n, router);
      backend.experts(experts, {Activation::kSilu}, x.data(), choice, y.data(), expert_counts);
      backend.experts(skipping, {Activation::kRelu}, x.data(), choice, y.data(), expert_counts);
      backend.gather_rows(x.data(), width, std::span(table).last(1), y.data());
      const RecurrentRun run{.n_tokens = n, .n_replayed = n > 1 ? 1 : 0, .n_uncertain = 1, .fresh = n == 1};
      RecurrentOps& ops = *backend.recurrent();
      ops.causal_conv(
          {recurrent, {&run, 1}, {}, raw.data(), raw.data(), memory, {x.data(), k.data(), v.data()}});
      ops.delta_gates({n, 2, decay.data(), beta.data(), raw.data(), rates.data(), decay.data(), beta.data()});
      ops.gated_delta({.shape = recurrent,
                       .runs = {&run, 1},
                       .copies = {},
                       .q = x.data(),
                       .k = k.data(),
                       .v = v.data(),
                       .decay = decay.data(),
                       .beta = beta.data(),
                       .memory = memory,
                       .out = y.data()});
      ops.selective_scan({{.shape = recurrent,
                           .runs = {&run, 1},
                           .copies = {},
                           .q = x.data(),
                           .k = k.data(),
                           .v = v.data(),
                           .decay = decay.data(),
                           .beta = beta.data(),
                           .memory = memory,
                           .out = y.data()},
                          rates.data()});
    }
    CHECK(allocations.load() == before);
  }
}

}  // namespace hearth
