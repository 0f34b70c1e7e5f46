// Compares the work that kernels declare with the memory that they touch.
//
// Memory is watched page by page, so sizes are such that page boundaries hardly matter, and a declaration may
// be off by a tenth.
#include <array>
#include <cstring>
#include <numeric>

#include "kernels/cuda/attention/attention_launch.cuh"
#include "kernels/cuda/matmul/cublaslt_products.h"
#include "kernels/cuda/ops/expert_types.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/ops/recurrent_ops.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/quant/coded_columns.h"
#include "tests/kernels/cuda/device_array.h"
#include "tests/kernels/cuda/device_experts.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"

namespace {

using namespace hearth;
using test::DeviceArray;

constexpr double kPage = 4096;

class KernelWorkTest {
 public:
  KernelWorkTest() : before_(cudaemu::config()) {
    cudaemu::config().guard = true;
    cudaemu::take_touches();
  }
  ~KernelWorkTest() { cudaemu::config() = before_; }

  /// Runs `call` and compares the declared bytes of each of its kernels with the bytes that it touches.
  /// n_arrays: the maximum number of arrays that a kernel touches. times: how often it touches each byte,
  /// which is 2 if it both reads and writes them.
  template <class Call>
  void check(const test::TestStream& stream, int n_arrays, const Call& call, int times = 1) {
    cuda::check(cudaDeviceSynchronize(), "waiting for what was cleared");
    cudaemu::config().count_touched = true;
    call();
    stream.wait();
    cudaemu::config().count_touched = false;
    const std::vector<cudaemu::KernelTouch> touches = cudaemu::take_touches();
    REQUIRE(!touches.empty());
    for (const cudaemu::KernelTouch& touch : touches) {
      INFO(touch.name << ": declared " << touch.work.bytes << ", touched " << touch.bytes);
      const double touched = times * static_cast<double>(touch.bytes);
      CHECK(touched <= 1.1 * touch.work.bytes + n_arrays * 2 * kPage);
      CHECK(touch.work.bytes <= 1.1 * touched + n_arrays * kPage);
    }
  }

 private:
  cudaemu::Config before_;
};

TEST_CASE_METHOD(KernelWorkTest, "operations on rows declare what they touch") {
  const test::TestStream stream;
  constexpr int64_t kRows = 4, kCols = 65536;
  const DeviceArray<float> x(kRows * kCols), y(kRows * kCols), weight(kCols);
  check(stream, 2, [&] { cuda::copy(x.data(), kRows * kCols, y.data(), stream); });
  check(stream, 3,
        [&] { cuda::rms_norm(x.data(), weight.data(), 1e-5f, kRows, kCols, y.data(), 1, stream); });
  const DeviceArray<std::byte> memory(cuda::quantized_bytes(kRows, kCols));
  const cuda::QuantizedActivations quantized = cuda::quantized_in(memory.data(), kRows, kCols);
  check(stream, 7, [&] {
    cuda::rms_norm(x.data(), weight.data(), 1e-5f, kRows, kCols, y.data(), 1, stream, quantized);
  });
  check(stream, 2, [&] {
    cuda::gated_activation({Activation::kRelu}, x.data(), nullptr, kRows * kCols, y.data(), stream);
  });
  check(
      stream, 1, [&] { cuda::cut_rows(0.5f, kRows, kCols, x.data(), stream); }, 2);
  constexpr int kSums = 4;
  constexpr int64_t kMixed = kCols / kSums;
  check(stream, 3, [&] {
    cuda::mix_rows({x.data(), x.data(), weight.data(), y.data(), kSums, kSums, kRows * kMixed, kRows, kMixed},
                   stream);
  });
}

TEST_CASE_METHOD(KernelWorkTest, "products declare what they touch, of all rows and of listed ones") {
  const test::TestStream stream;
  constexpr int64_t kRows = 512, kCols = 8192;
  // Numbers of tokens for which the weights are read once. Batches are only of quantized weights.
  const int n_tokens = GENERATE(1, 4, 12);
  const DType type = GENERATE(DType::kQ4_0, DType::kF16);
  if (type == DType::kF16 && n_tokens > 4) return;
  const DeviceArray<std::byte> weights(kRows * row_bytes(type, kCols));
  const DeviceArray<std::byte> quantized(cuda::quantized_bytes(n_tokens, kCols));
  const auto n = static_cast<size_t>(n_tokens);
  const DeviceArray<float> x(n * kCols), out(n * kRows);
  cudaMemset(weights.data(), 0, weights.size());
  cudaMemset(x.data(), 0, x.size() * sizeof(float));
  const cuda::QuantizedActivations activations = cuda::quantized_in(quantized.data(), n_tokens, kCols);
  check(stream, 5, [&] { cuda::quantize(x.data(), n_tokens, kCols, activations, stream); });
  cuda::MatmulOp op{.weight = {weights.data(), type, kRows, kCols},
                    .rows = {},
                    .x = x.data(),
                    .quantized = activations,
                    .n_tokens = n_tokens,
                    .out = out.data(),
                    .out_stride = kRows};
  check(stream, 6, [&] { cuda::matmul(op, stream); });
  const DeviceArray<std::byte> more_weights(kRows * row_bytes(type, kCols));
  cudaMemset(more_weights.data(), 0, more_weights.size());
  const DeviceArray<float> more_out(n * kRows);
  cuda::MatmulOp more = op;
  more.weight.data = more_weights.data();
  more.out = more_out.data();
  check(stream, 8, [&] { cuda::matmul(std::array{op, more}, stream); });
  std::vector<int32_t> ids(kRows / 2);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i + 100);
  const DeviceArray<int32_t> list(ids), length(std::vector<int32_t>{static_cast<int32_t>(ids.size())});
  op.rows = {list.data(), length.data(), kRows};
  check(stream, 8, [&] { cuda::matmul(op, stream); });
}

TEST_CASE_METHOD(KernelWorkTest, "products of heads declare what they touch, in one launch or two") {
  const test::TestStream stream;
  constexpr int64_t kHeads = 6, kRows = 256, kCols = 512;
  // The largest numbers of tokens that read the weights once.
  const auto [type, n_tokens] =
      GENERATE(std::pair(DType::kQ8_0, 1), std::pair(DType::kQ8_0, 4), std::pair(DType::kQ8_0, 64),
               std::pair(DType::kF16, 1), std::pair(DType::kF16, 8));
  const DeviceArray<std::byte> weights(kHeads * kRows * row_bytes(type, kCols));
  const auto n = static_cast<size_t>(n_tokens);
  const DeviceArray<float> x(n * kHeads * kCols), out(n * kHeads * kRows);
  cudaMemset(weights.data(), 0, weights.size());
  cudaMemset(x.data(), 0, x.size() * sizeof(float));
  const HeadProducts heads{.weight = {weights.data(), type, kRows, kCols},
                           .rows_apart = kRows,
                           .n_heads = kHeads,
                           .x = x.data(),
                           .x_stride = kHeads * kCols,
                           .x_head_stride = kCols,
                           .out = out.data(),
                           .out_stride = kHeads * kRows,
                           .out_head_stride = kRows};
  const DeviceArray<std::byte> room(cuda::quantized_bytes(kHeads * n_tokens, kCols));
  check(stream, 6, [&, n_tokens = n_tokens] {
    cuda::multiply_heads(heads, n_tokens, cuda::quantized_in(room.data(), kHeads * n_tokens, kCols), stream);
  });
}

TEST_CASE_METHOD(KernelWorkTest,
                 "what is packed for a library and what it multiplies declare what they touch") {
  const test::TestStream stream;
  constexpr int64_t kRows = 512, kCols = 4096;
  constexpr int kTokens = 100;
  const DType type = GENERATE(DType::kQ4_0, DType::kF16, DType::kF32);
  const DeviceArray<std::byte> weights(kRows * row_bytes(type, kCols));
  cudaMemset(weights.data(), 0, weights.size());
  const DeviceArray<float> x(kTokens * kCols), out(kTokens * kRows), bias(kRows);
  const DeviceArray<float> tokens(cuda::kLibraryTokens * kCols), unscale(cuda::kLibraryTokens),
      products(cuda::kLibraryTokens * kRows);
  const DeviceArray<uint16_t> decoded(kRows * kCols);
  cudaMemset(x.data(), 0, x.size() * sizeof(float));
  const auto library = std::get<std::unique_ptr<cuda::LibraryProducts>>(cuda::LibraryProducts::start());
  const cuda::LibraryScratch scratch{.max_cols = kCols,
                                     .max_rows = kRows,
                                     .max_weights = kRows * kCols,
                                     .tokens = tokens.data(),
                                     .unscale = unscale.data(),
                                     .products = products.data(),
                                     .weights = decoded.data()};
  const Matrix weight{weights.data(), type, kRows, kCols};
  REQUIRE(library->takes(weight, scratch));
  check(stream, 6, [&] {
    library->multiply(
        x.data(), kTokens,
        std::array{Product{.weight = weight, .bias = bias.data(), .out = out.data(), .out_stride = kRows}},
        scratch, stream);
  });
}

TEST_CASE_METHOD(KernelWorkTest, "sets of neurons and down rows declare what they touch") {
  const test::TestStream stream;
  constexpr int64_t kNeurons = 16384, kCols = 2048;
  std::vector<float> scores(kNeurons);
  for (size_t i = 0; i < scores.size(); ++i) scores[i] = i < scores.size() / 4 ? 1.0f : -1.0f;
  const DeviceArray<float> values(scores);
  const DeviceArray<uint64_t> wanted(kNeurons / 64);
  const DeviceArray<int32_t> ids(kNeurons), n(1);
  const DeviceArray<uint64_t> any(kNeurons / 64);
  cuda::DeviceNeuronSet set{
      .wanted = wanted.data(), .any_bits = any.data(), .any = {.ids = ids.data(), .n = n.data()}};
  set.resize(1, kNeurons);
  check(stream, 5, [&] {
    cuda::select_neurons(values.data(), nullptr, 1, kNeurons, 0.0f, set, stream);
    cuda::list_wanted(set, stream);
  });
  const DeviceArray<float> gates(scores), kept(kNeurons);
  const DeviceArray<int32_t> passed_ids(kNeurons), n_passed(std::vector<int32_t>{0});
  const DeviceArray<cuda::DeviceCounts> counts(std::vector<cuda::DeviceCounts>(1));
  const cuda::DeviceList passed{passed_ids.data(), n_passed.data(), kNeurons};
  const FfnActivation relu{Activation::kRelu};
  check(stream, 6, [&] {
    cuda::keep_passed(relu, set, set.any, gates.data(), kNeurons, passed, kept.data(), nullptr, stream);
  });
  check(stream, 7, [&] {
    cuda::neuron_values({.activation = relu,
                         .set = set,
                         .passed = passed,
                         .gates = kept.data(),
                         .gates_stride = kNeurons,
                         .ups = gates.data()},
                        values.data(), counts.data(), stream);
  });
  const DeviceArray<float> sizes(std::vector<float>(kNeurons, 1.0f));
  check(stream, 6,
        [&] { cuda::drop_below(set, set.any, sizes.data(), 2.0f, kept.data(), counts.data(), stream); });
  const DeviceArray<std::byte> rows(kNeurons * row_bytes(DType::kQ4_0, kCols));
  cudaMemset(rows.data(), 0, rows.size());
  DownColumns down;
  down.rows = {rows.data(), DType::kQ4_0, kNeurons, kCols};
  down.n_neurons = kNeurons;
  down.n_cols = kCols;
  std::vector<float> ones(kNeurons, 1.0f);
  const DeviceArray<float> listed(ones);
  const DeviceArray<int64_t> sums(kCols);
  const DeviceArray<int32_t> poison(1);
  check(stream, 6, [&] {
    cuda::add_down(down, set.any, listed.data(), 1, {sums.data(), poison.data()}, stream);
  });
  const DeviceArray<float> out(kCols);
  check(
      stream, 3,
      [&] {
        cuda::end_sums({sums.data(), poison.data()}, {}, nullptr, 1, kCols, out.data(), stream);
      },
      2);
}

TEST_CASE_METHOD(KernelWorkTest, "attention declares the keys and values it reads") {
  const test::TestStream stream;
  constexpr int kHeads = 8, kHeadDim = 128, kKeys = 1024, kBlockTokens = 16, kBlocks = kKeys / kBlockTokens;
  const KvType type = GENERATE(KvType::kF16, KvType::kQ8);
  const KvShape shape{kHeads, kHeadDim, kBlockTokens, kBlocks, type};
  const DeviceArray<std::byte> k(static_cast<size_t>(kBlocks * shape.block_bytes())), v(k.size());
  cudaMemset(k.data(), 0, k.size());
  cudaMemset(v.data(), 0, v.size());
  std::vector<int32_t> table(kBlocks);
  std::iota(table.begin(), table.end(), 0);
  const DeviceArray<int32_t> tables(table), position(std::vector<int32_t>{kKeys - 1}),
      table_of(std::vector<int32_t>{0});
  const DeviceArray<float> q(kHeads * kHeadDim), out(kHeads * kHeadDim);
  cudaMemset(q.data(), 0, q.size() * sizeof(float));
  const DeviceArray<std::byte> scratch(
      std::vector<std::byte>(cuda::attention_scratch_bytes(1, kHeads, kHeadDim, kKeys)));
  const KvPlaces places{.n_tokens = 1,
                        .positions = position.data(),
                        .table_of = table_of.data(),
                        .block_tables = tables.data(),
                        .max_blocks = kBlocks};
  check(stream, 10, [&] {
    cuda::attention(q.data(), kHeads * kHeadDim, kHeads, {.scale = 1.0f}, places, shape, {k.data(), v.data()},
                    kKeys, scratch.data(), out.data(), stream);
  });
}

TEST_CASE_METHOD(KernelWorkTest, "writing keys and values declares the cache's bytes of its type") {
  const test::TestStream stream;
  constexpr int kHeads = 8, kHeadDim = 128, kTokens = 256, kBlockTokens = 16,
                kBlocks = kTokens / kBlockTokens;
  const KvType type = GENERATE(KvType::kF16, KvType::kQ8);
  const KvShape shape{kHeads, kHeadDim, kBlockTokens, kBlocks, type};
  const DeviceArray<std::byte> k_cache(static_cast<size_t>(kBlocks * shape.block_bytes())),
      v_cache(k_cache.size());
  const DeviceArray<float> k(kTokens * kHeads * kHeadDim), v(k.size());
  cudaMemset(k.data(), 0, k.size() * sizeof(float));
  cudaMemset(v.data(), 0, v.size() * sizeof(float));
  std::vector<int32_t> table(kBlocks), position(kTokens);
  std::iota(table.begin(), table.end(), 0);
  std::iota(position.begin(), position.end(), 0);
  const DeviceArray<int32_t> tables(table), positions(position), table_of(std::vector<int32_t>(kTokens, 0));
  const KvPlaces places{.n_tokens = kTokens,
                        .positions = positions.data(),
                        .table_of = table_of.data(),
                        .block_tables = tables.data(),
                        .max_blocks = kBlocks};
  check(stream, 7, [&] {
    cuda::kv_append(k.data(), v.data(), kHeads * kHeadDim, places, shape, {k_cache.data(), v_cache.data()},
                    stream);
  });
}

TEST_CASE_METHOD(KernelWorkTest, "recurrent layers declare what they touch") {
  const test::TestStream stream;
  constexpr int kTokens = 256, kDrafts = 64;
  const RecurrentShape shape{4, 16, GENERATE(100, 128), 4, true, GENERATE(0, 64)};
  const auto zeros = [](int64_t n) { return std::vector<float>(static_cast<size_t>(n)); };
  const DeviceArray<float> raw(zeros(kTokens * shape.conv_dim())),
      taps(zeros(shape.n_taps * shape.conv_dim())), q(zeros(kTokens * shape.key_dim())), k(q.size()),
      v(zeros(kTokens * shape.value_dim())), out(v.size()), states(zeros(shape.state_floats())),
      tails(zeros(shape.tail_floats())), log(zeros(kDrafts * shape.log_floats())),
      decay(zeros(kTokens * shape.n_v_heads)), beta(decay.size()), head(zeros(shape.n_v_heads));
  cudaMemset(k.data(), 0, k.size() * sizeof(float));
  cudaMemset(beta.data(), 0, beta.size() * sizeof(float));
  const DeviceArray<uint32_t> counters(std::vector<uint32_t>(kTokens * cuda::kDeltaCounters));
  const RecurrentMemory memory{states.data(), tails.data(), log.data(), kDrafts};
  const CausalConv conv{.shape = shape,
                        .runs = {},
                        .copies = {},
                        .raw = raw.data(),
                        .taps = taps.data(),
                        .memory = memory,
                        .out = {q.data(), k.data(), v.data()}};
  const GatedDelta delta{.shape = shape,
                         .runs = {},
                         .copies = {},
                         .q = q.data(),
                         .k = k.data(),
                         .v = v.data(),
                         .decay = decay.data(),
                         .beta = beta.data(),
                         .memory = memory,
                         .out = out.data()};
  const auto runs = [](const DeviceArray<cuda::DeviceRun>& run) {
    return cuda::DeviceRuns{run.data(), static_cast<int>(run.size()), kTokens};
  };
  // A prompt beside an unused entry, then a step that reads and writes the state, then drafts.
  const DeviceArray<cuda::DeviceRun> prompt({{.slot = 0, .n_tokens = kTokens, .fresh = 1}, {}}),
      decoding({{.slot = 0, .n_tokens = 1}}),
      drafts({{.slot = 0, .n_tokens = kDrafts + 1, .n_uncertain = kDrafts, .fresh = 1}});
  check(stream, 8, [&] { cuda::causal_conv(conv, runs(prompt), stream); });
  check(stream, 9, [&] { cuda::gated_delta(delta, runs(prompt), counters.data(), stream); });
  check(
      stream, 9, [&] { cuda::gated_delta(delta, runs(decoding), counters.data(), stream); }, 2);
  // Parts of the log are apart.
  check(stream, 40, [&] { cuda::causal_conv(conv, runs(drafts), stream); });
  check(stream, 40, [&] { cuda::gated_delta(delta, runs(drafts), counters.data(), stream); });
  check(stream, 9, [&] {
    cuda::selective_scan({delta, head.data()}, runs(prompt), counters.data(), stream);
  });
  check(stream, 6, [&] {
    cuda::delta_gates(
        {kTokens, shape.n_v_heads, decay.data(), beta.data(), head.data(), head.data(), q.data(), k.data()},
        stream);
  });
  check(stream, 6, [&] {
    cuda::delta_gates(
        {kTokens, shape.n_v_heads, decay.data(), nullptr, head.data(), head.data(), q.data(), k.data()},
        stream);
  });
}

TEST_CASE_METHOD(KernelWorkTest, "choosing, grouping and adding up experts declare what they touch") {
  const test::TestStream stream;
  constexpr int kTokens = 1024, kExperts = 64, kUsed = 16;
  constexpr int64_t kModel = 256;
  std::vector<float> scores(kTokens * kExperts);
  for (size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>(i * 7919 % 1009);
  std::vector<int32_t> slots(kExperts);
  std::iota(slots.begin(), slots.end(), 0);
  const DeviceArray<float> logits(scores);
  const DeviceArray<int32_t> slot_of(slots);
  const test::DeviceChoiceArrays choice(kTokens, kUsed);
  const test::DeviceGroups groups(kTokens, kUsed, kExperts, kExperts);
  const Router router{.n_experts = kExperts, .n_used = kUsed};
  check(stream, 5, [&] { cuda::route(logits.data(), router, slot_of.data(), choice.view(), stream); });
  check(stream, 6, [&] { cuda::group_pairs(choice.view(), groups.view(), stream); });
  const DeviceArray<float> rows(kTokens * kUsed * kModel), out(kTokens * kModel);
  cudaMemset(rows.data(), 0, rows.size() * sizeof(float));
  check(stream, 4, [&] {
    cuda::combine(choice.view(), groups.view().row_of_pair, rows.data(), nullptr, {}, kModel, out.data(),
                  stream);
  });
  const test::DeviceChoiceArrays of_one(kTokens, 1);
  check(stream, 3, [&] { cuda::weigh_inputs(of_one.view(), rows.data(), kModel, out.data(), stream); });
  const DeviceArray<float> hidden(kTokens * kUsed * kModel);
  check(stream, 3, [&] {
    cuda::expert_activation({Activation::kSilu}, rows.data(), nullptr, groups.view(), kModel, hidden.data(),
                            stream);
  });
}

TEST_CASE_METHOD(KernelWorkTest, "products of experts declare what they touch") {
  const test::TestStream stream;
  constexpr int kExperts = 16, kUsed = 4;
  constexpr int64_t kRows = 256, kCols = 4096;
  const auto [type, n_tokens] =
      GENERATE(std::pair(DType::kQ4_0, 1), std::pair(DType::kMXFP4, 4), std::pair(DType::kNVFP4, 4),
               std::pair(DType::kIQ3_S, 1), std::pair(DType::kF16, 1), std::pair(DType::kQ4_0, 40));
  const size_t bytes = cuda::slot_row_bytes(type, kCols);
  const DeviceArray<std::byte> weights(kExperts * kRows * bytes);
  const auto n = static_cast<size_t>(n_tokens);
  const DeviceArray<float> x(n * kCols), out(n * kUsed * kRows);
  cudaMemset(weights.data(), 0, weights.size());
  cudaMemset(x.data(), 0, x.size() * sizeof(float));
  const DeviceArray<std::byte> quantized(cuda::quantized_bytes(n_tokens, kCols));
  const cuda::QuantizedActivations activations = cuda::quantized_in(quantized.data(), n_tokens, kCols);
  cuda::quantize(x.data(), n_tokens, kCols, activations, stream);
  test::HostChoice chosen{n_tokens, kUsed, {}, {}, {}};
  for (int pair = 0; pair < n_tokens * kUsed; ++pair) chosen.experts.push_back(pair * 5 % kExperts);
  chosen.slots = chosen.experts;
  chosen.weights.resize(chosen.experts.size());
  const test::DeviceChoiceArrays choice(chosen);
  const test::DeviceGroups groups(n_tokens, kUsed, kExperts, kExperts);
  cuda::group_pairs(choice.view(), groups.view(), stream);
  const cuda::ExpertProduct product{.weight = cuda::slot_rows(weights.data(), type, kExperts * kRows, kCols),
                                    .n_rows = kRows,
                                    .out = out.data()};
  check(stream, 8, [&] {
    cuda::expert_products({&product, 1}, {x.data(), activations, false}, groups.view(), stream);
  });
}

TEST_CASE_METHOD(KernelWorkTest, "skipping zeros inside experts declares what it touches") {
  const test::TestStream stream;
  constexpr int kExperts = 8, kUsed = 4;
  constexpr int64_t kNeurons = 1024, kCols = 4096;
  const auto [type, n_tokens] =
      GENERATE(std::pair(DType::kQ4_0, 1), std::pair(DType::kQ4_K, 1), std::pair(DType::kF16, 6));
  const Matrix down{nullptr, type, kCols, kNeurons};
  const DeviceArray<std::byte> columns(std::vector<std::byte>(kExperts * packed_columns_bytes(down)));
  test::HostChoice chosen{n_tokens, kUsed, {}, {}, {}};
  for (int pair = 0; pair < n_tokens * kUsed; ++pair) chosen.experts.push_back(pair * 5 % kExperts);
  chosen.slots = chosen.experts;
  chosen.weights.resize(chosen.experts.size());
  const test::DeviceChoiceArrays choice(chosen);
  const test::DeviceGroups groups(n_tokens, kUsed, kExperts, kExperts);
  cuda::group_pairs(choice.view(), groups.view(), stream);
  const auto n_pairs = static_cast<int64_t>(chosen.n_pairs());
  std::vector<float> products(static_cast<size_t>(n_pairs * kNeurons));
  for (size_t i = 0; i < products.size(); ++i) products[i] = i / 64 % 3 == 0 ? 1.0f : -1.0f;
  const DeviceArray<float> gates(products), ups(products), out(static_cast<size_t>(n_pairs * kCols));
  const DeviceArray<int32_t> n_active(static_cast<size_t>(n_pairs));
  const DeviceArray<cuda::DeviceCounts> counts(std::vector<cuda::DeviceCounts>(1));
  const cuda::ActiveOfRows active{reinterpret_cast<int32_t*>(ups.data()), gates.data(), n_active.data()};
  check(stream, 5, [&] {
    cuda::list_active({Activation::kRelu}, gates.data(), ups.data(), groups.view(), kNeurons, active,
                      counts.data(), stream);
  });
  check(stream, 8, [&] {
    cuda::add_active_rows(packed_columns(down, columns.data()), packed_columns_bytes(down), active,
                          groups.view(), nullptr, out.data(), stream);
  });
}

}  // namespace
