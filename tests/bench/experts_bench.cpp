// Compares a layer of experts with one dense matrix of as many bytes, on this machine.
//
// The shape is that of a model with 3B active weights: d_model 2048, 128 experts of width 768, 8 for a token.
// Prints for each type and number of threads the GB/s of weights with one token and the multiply-adds per
// second with 512 tokens. With one token, the experts change with every call, so that they are read from
// memory. The dense matrix has the weights of 8 experts, as many as a token reads and is multiplied with. The
// layer and the matrix take turns, so that other load on the machine slows both alike; figures are those of
// the tenth fastest of a hundred rounds. Run by hand: experts_bench [--threads N] [--isa NAME] [--type NAME]
// [--tokens N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "tests/bench/undisturbed.h"
#include "tests/kernels/weight_rows.h"

namespace {

using namespace hearth;

constexpr int64_t kModel = 2048, kExpert = 768;
constexpr int kExperts = 128, kUsed = 8;
constexpr int64_t kRowsOfExpert = 3 * kExpert;  // in rows of d_model weights

struct Options {
  int max_threads = 2;
  Isa isa = supported_isas().front();
  std::string type;
  int many_tokens = 512;
};

/// A layer's experts: one tensor of rows with each expert's gate, up and down in turn. Read as one matrix,
/// the tensor is the dense matrix. One random row is repeated, because only the speed of its bytes matters.
struct Layer {
  explicit Layer(DType type) {
    std::mt19937 rng(1);
    const test::OwnedMatrix row = test::random_matrix(type, 1, kModel, rng);
    bytes.reserve(row.bytes.size() * static_cast<size_t>(kExperts * kRowsOfExpert));
    for (int64_t r = 0; r < kExperts * kRowsOfExpert; ++r) {
      bytes.insert(bytes.end(), row.bytes.begin(), row.bytes.end());
    }
    all = {bytes.data(), type, kExperts * kRowsOfExpert, kModel};
    for (int e = 0; e < kExperts; ++e) {
      Expert expert;
      expert.gate = {all.row(e * kRowsOfExpert), type, kExpert, kModel};
      expert.up = {all.row(e * kRowsOfExpert + kExpert), type, kExpert, kModel};
      expert.down = {all.row(e * kRowsOfExpert + 2 * kExpert), type, kModel, kExpert};
      experts.push_back(expert);
    }
  }
  /// The weights of kUsed experts, as one matrix.
  Matrix dense(int first_expert) const {
    return {all.row(first_expert * kRowsOfExpert), all.dtype, kUsed * kRowsOfExpert, kModel};
  }
  std::vector<std::byte> bytes;
  Matrix all;
  std::vector<Expert> experts;
};

double seconds_of(const auto& body) {
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Seconds {
  double experts, dense, route;
};

/// Times a step of n_tokens.
Seconds bench_step(CpuBackend& backend, const Layer& layer, int n_tokens, int rounds) {
  std::mt19937 rng(2);
  const std::vector<float> x = test::random_activations(n_tokens * kModel, rng);
  std::vector<float> out(static_cast<size_t>(n_tokens * std::max(kModel, kUsed * kRowsOfExpert)));
  std::normal_distribution<float> normal;
  std::vector<float> logits(static_cast<size_t>(n_tokens * kExperts));
  Router router;
  router.n_experts = kExperts;
  router.n_used = kUsed;
  router.renormalize = true;
  std::vector<double> experts, dense, route;
  for (int round = 0; round < rounds; ++round) {
    for (float& logit : logits) logit = normal(rng);
    ExpertChoice choice;
    ExpertCounts counts;
    route.push_back(seconds_of([&] { choice = backend.route(logits.data(), n_tokens, router); }));
    experts.push_back(seconds_of(
        [&] { backend.experts(layer.experts, {Activation::kSilu}, x.data(), choice, out.data(), counts); }));
    const int first = static_cast<int>(rng() % (kExperts - kUsed + 1));
    const Product product{layer.dense(first), nullptr, out.data(), kUsed * kRowsOfExpert};
    dense.push_back(seconds_of([&] { backend.matmul(x.data(), n_tokens, {&product, 1}); }));
  }
  return {undisturbed(experts), undisturbed(dense), undisturbed(route)};
}

void bench_type(const Options& options, DType type) {
  const Layer layer(type);
  for (int threads = 1; threads <= options.max_threads; ++threads) {
    CpuBackend backend(threads, options.isa);
    StepBounds bounds;
    bounds.max_tokens = options.many_tokens;
    bounds.max_cols = kModel;
    bounds.n_experts = kExperts;
    bounds.n_experts_used = kUsed;
    bounds.expert_cols = kExpert;
    backend.reserve(bounds);
    const Seconds one = bench_step(backend, layer, 1, 400);
    const Seconds many = bench_step(backend, layer, options.many_tokens, 15);
    const double gigabytes = static_cast<double>(layer.dense(0).bytes()) * 1e-9;
    const double products = static_cast<double>(options.many_tokens) * kUsed * kRowsOfExpert * kModel * 1e-9;
    std::printf("%-7s %7d  %7.1f %7.1f %5.0f %%  %8.1f %8.1f %5.0f %%  %8.1f %8.1f\n",
                std::string(dtype_info(type).name).c_str(), threads, gigabytes / one.experts,
                gigabytes / one.dense, one.dense / one.experts * 100, products / many.experts,
                products / many.dense, many.dense / many.experts * 100, one.route * 1e6, many.route * 1e6);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--threads") options.max_threads = std::max(1, std::atoi(argv[i + 1]));
    if (name == "--isa") options.isa = isa_from_name(argv[i + 1]).value_or(options.isa);
    if (name == "--type") options.type = argv[i + 1];
    if (name == "--tokens") options.many_tokens = std::max(1, std::atoi(argv[i + 1]));
  }
  std::printf("%s, 1 and %d tokens: experts, dense\n", std::string(isa_name(options.isa)).c_str(),
              options.many_tokens);
  std::printf("type    threads     GB/s    GB/s  share     GMAC/s   GMAC/s  share  route us  of many\n");
  for (const DType type : {DType::kQ4_0, DType::kQ8_0, DType::kQ4_K}) {
    if (!options.type.empty() && options.type != dtype_info(type).name) continue;
    bench_type(options, type);
  }
  return 0;
}
