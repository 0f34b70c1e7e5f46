// Measures the gain of skipping zeros inside experts on this machine.
//
// The shape is that of a model with 3B active weights whose experts have a ReLU: d_model 2560, 64 experts of
// width 768, 6 for a token. The gates' biases are such that, by default, nine in ten neurons are zero. Prints
// for each type, number of threads and number of tokens the time of one layer's experts without and with
// skipping zeros, and the GB/s of weights that are read. Experts change with every call, so that at one token
// they are read from memory. The two variants take turns, so that other load on the machine slows both alike;
// figures are the tenth percentile of 15 to 2,000 rounds. Run by hand: expert_zeros_bench [--threads N]
// [--isa NAME] [--type NAME] [--active SHARE] [--prompt N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/quant/coded_columns.h"
#include "tests/bench/undisturbed.h"
#include "tests/kernels/weight_rows.h"

namespace {

using namespace hearth;

constexpr int64_t kModel = 2560, kExpert = 768;
constexpr int kExperts = 64, kUsed = 6;

struct Options {
  int threads = 2;
  Isa isa = supported_isas().front();
  std::string type;
  double active = 0.1;
  int prompt_tokens = 512;
};

/// A layer's experts with their down columns. One random row is repeated, because only the speed of its bytes
/// matters.
struct Layer {
  Layer(DType type, double active) {
    std::mt19937 rng(1);
    std::bernoulli_distribution is_active(active);
    const test::OwnedMatrix inputs = test::random_matrix(type, 1, kModel, rng);
    const test::OwnedMatrix downs = test::random_matrix(type, kModel, kExpert, rng);
    const auto repeat = [&](const std::vector<std::byte>& one, int64_t n) {
      std::vector<std::byte>& all = bytes.emplace_back();
      all.reserve(one.size() * static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) all.insert(all.end(), one.begin(), one.end());
      return all.data();
    };
    bytes.reserve(5 * kExperts);
    for (int e = 0; e < kExperts; ++e) {
      std::vector<float>& bias = biases.emplace_back();
      for (int64_t j = 0; j < kExpert; ++j) bias.push_back(is_active(rng) ? 1e6f : -1e6f);
      Expert expert;
      expert.gate = {repeat(inputs.bytes, kExpert), type, kExpert, kModel};
      expert.up = {repeat(inputs.bytes, kExpert), type, kExpert, kModel};
      expert.down = {repeat(downs.bytes, 1), type, kModel, kExpert};
      expert.gate_bias = bias.data();
      whole.push_back(expert);
      const size_t stride = (column_codes_bytes(type, kModel) + 63) / 64 * 64;
      std::byte* codes = bytes.emplace_back(stride * kExpert).data();
      std::byte* scales = bytes.emplace_back(column_scales_bytes(expert.down)).data();
      expert.down_columns = turn_down_projection(expert.down, nullptr, codes, stride, scales);
      skipping.push_back(expert);
    }
    column_bytes = static_cast<double>(column_codes_bytes(type, kModel));
    scale_bytes = static_cast<double>(column_scales_bytes(whole.front().down));
  }
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::vector<float>> biases;
  std::vector<Expert> whole, skipping;
  double column_bytes, scale_bytes;  // of a neuron's codes; of all scales of an expert
};

/// Milliseconds of a call, and the bytes of weights that it reads.
struct Cost {
  double ms, bytes;
};

class Bench {
 public:
  Bench(const Options& options, const Layer& layer, int n_tokens)
      : layer_(layer), n_tokens_(n_tokens), backend_(options.threads, options.isa) {
    StepBounds bounds;
    bounds.max_tokens = n_tokens;
    bounds.max_cols = kModel;
    bounds.n_experts = kExperts;
    bounds.n_experts_used = kUsed;
    bounds.expert_cols = kExpert;
    backend_.reserve(bounds);
    x_ = test::random_activations(n_tokens * kModel, rng_);
    out_.resize(x_.size());
    weights_.assign(static_cast<size_t>(n_tokens * kUsed), 1.0f / kUsed);
    chosen_.resize(weights_.size());
  }

  void run(int rounds, Cost& whole, Cost& skipping) {
    std::vector<double> ms[2];
    ExpertCounts counts[2];
    for (int round = 0; round < rounds; ++round) {
      for (const int skips : {round % 2, 1 - round % 2}) {
        const std::vector<Expert>& experts = skips == 1 ? layer_.skipping : layer_.whole;
        choose();
        const ExpertChoice choice{n_tokens_, kUsed, chosen_.data(), weights_.data()};
        const auto begin = std::chrono::steady_clock::now();
        backend_.experts(experts, {Activation::kRelu}, x_.data(), choice, out_.data(), counts[skips]);
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
        ms[skips].push_back(seconds.count() * 1e3);
      }
    }
    whole = {undisturbed(ms[0]), whole_bytes(counts[0]) / rounds};
    skipping = {undisturbed(ms[1]), skipping_bytes(counts[1]) / rounds};
  }

 private:
  void choose() {
    std::vector<int32_t> all(kExperts);
    std::iota(all.begin(), all.end(), 0);
    for (int t = 0; t < n_tokens_; ++t) {
      std::ranges::shuffle(all, rng_);
      std::copy_n(all.begin(), kUsed, chosen_.begin() + t * kUsed);
    }
  }
  double whole_bytes(const ExpertCounts& counts) const {
    const Expert& any = layer_.whole.front();
    return static_cast<double>(counts.read) *
           static_cast<double>(any.gate.bytes() + any.up.bytes() + any.down.bytes());
  }
  /// Counts all scales of the down columns, because with one active neuron in ten nearly every group of 32
  /// has one.
  double skipping_bytes(const ExpertCounts& counts) const {
    const Expert& any = layer_.skipping.front();
    return static_cast<double>(counts.read) * (static_cast<double>(any.gate.bytes()) + layer_.scale_bytes) +
           static_cast<double>(counts.up_rows) * static_cast<double>(any.up.stride_bytes()) +
           static_cast<double>(counts.down_rows) * layer_.column_bytes;
  }

  const Layer& layer_;
  int n_tokens_;
  CpuBackend backend_;
  std::mt19937 rng_{2};
  std::vector<float> x_, out_, weights_;
  std::vector<int32_t> chosen_;
};

void bench_type(const Options& options, DType type) {
  const Layer layer(type, options.active);
  for (const int n_tokens : {1, 2, 4, 16, 64, options.prompt_tokens}) {
    Bench bench(options, layer, n_tokens);
    Cost whole, skipping;
    bench.run(std::max(15, 2000 / n_tokens), whole, skipping);
    std::printf("%-6s %6d  %9.3f %6.1f %6.1f   %9.3f %6.1f %6.1f   %5.2f\n",
                std::string(dtype_info(type).name).c_str(), n_tokens, whole.ms, whole.bytes * 1e-6,
                whole.bytes / whole.ms * 1e-6, skipping.ms, skipping.bytes * 1e-6,
                skipping.bytes / skipping.ms * 1e-6, whole.ms / skipping.ms);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--threads") options.threads = std::max(1, std::atoi(argv[i + 1]));
    if (name == "--isa") options.isa = isa_from_name(argv[i + 1]).value_or(options.isa);
    if (name == "--type") options.type = argv[i + 1];
    if (name == "--active") options.active = std::atof(argv[i + 1]);
    if (name == "--prompt") options.prompt_tokens = std::max(1, std::atoi(argv[i + 1]));
  }
  std::printf("%s, %d threads, %.0f %% of neurons active\n", std::string(isa_name(options.isa)).c_str(),
              options.threads, options.active * 100);
  std::printf("type   tokens   whole ms     MB   GB/s    skipping     MB   GB/s   ratio\n");
  for (const DType type : {DType::kQ4_0, DType::kQ8_0, DType::kQ4_K, DType::kF16}) {
    if (!options.type.empty() && options.type != dtype_info(type).name) continue;
    bench_type(options, type);
  }
  return 0;
}
