// Calibrated sparsity in a running model: how thresholds change its answers, and that nothing else does.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/model_runtime.h"
#include "kernels/quant/quantize.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"
#include "tests/support/mixed_steps.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<int32_t> calibration_tokens() {
  std::vector<int32_t> tokens;
  for (int i = 0; i < 40; ++i) tokens.push_back((i * i * 17 + i * 5 + 3) % 259);
  return tokens;
}

TinyShape shape() {
  TinyShape shape;
  shape.d_ff = 64;  // whole blocks of the quantized types
  return shape;
}

/// Gives the model down projections of this type, all from the same random numbers.
void quantize_down(TinyModel& model, DType type) {
  const int64_t d_ff = shape().d_ff, d_model = shape().d_model;
  for (int layer = 0; layer < 2; ++layer) {
    Bytes data(row_bytes(type, d_ff) * static_cast<size_t>(d_model));
    for (int64_t r = 0; r < d_model; ++r) {
      std::vector<float> row;
      for (int64_t c = 0; c < d_ff; ++c) {
        row.push_back(0.5f * std::sin(static_cast<float>(r * 131 + c * 29 + layer * 7)));
      }
      quantize_row(type, row.data(), d_ff, data.data() + static_cast<size_t>(r) * row_bytes(type, d_ff));
    }
    model.tensor("blk." + std::to_string(layer) + ".ffn_down.weight", type, {d_ff, d_model}, data);
  }
}

struct CalibratedOnDisk {
  explicit CalibratedOnDisk(const TinyModel& model, const std::string& activation = "") {
    options.path = folder / "model.gguf";
    options.n_threads = 1;
    options.ffn_activation = activation;
    options.prefill_chunk = 16;
    model.write(options.path);
  }
  std::unique_ptr<ModelRuntime> dense() {
    options.sparsity.mode = "dense";
    options.sparsity.calibrating = false;
    return ModelRuntime::load(options);
  }
  std::unique_ptr<ModelRuntime> calibrating() {
    options.sparsity.mode = "calibrated";
    options.sparsity.calibrating = true;
    return ModelRuntime::load(options);
  }
  TempFolder folder;
  LoadOptions options;
};

std::vector<float> logits(ModelRuntime& model) { return testing::logits_of(model, calibration_tokens(), 16); }

/// Largest difference, as a share of the root mean square.
double worst_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0, squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, static_cast<double>(std::fabs(a[i] - b[i])));
    squares += static_cast<double>(a[i]) * a[i];
  }
  return worst / std::sqrt(squares / static_cast<double>(a.size()));
}

/// Thresholds below which about half of the neurons stay, from what the model shows.
std::vector<float> medians(ModelRuntime& model) {
  std::vector<std::vector<float>> scores(2);
  const size_t d_ff = static_cast<size_t>(model.facts().spec.d_ff);
  model.observation().observe_values(
      [&](int layer, const float* values, const float* down_sizes, int n_tokens) {
        for (size_t i = 0; i < static_cast<size_t>(n_tokens) * d_ff; ++i) {
          scores[static_cast<size_t>(layer)].push_back(std::fabs(values[i]) * down_sizes[i % d_ff]);
        }
      });
  logits(model);
  model.observation().observe_values({});
  std::vector<float> thresholds;
  for (std::vector<float>& layer : scores) {
    CHECK(layer.size() == calibration_tokens().size() * d_ff);
    std::ranges::nth_element(layer, layer.begin() + static_cast<ptrdiff_t>(layer.size() / 2));
    thresholds.push_back(layer[layer.size() / 2]);
  }
  return thresholds;
}

// Sums over neurons run in another order than the dense product's, and the latter rounds values to 15 bits. A
// wrong neuron changes results by whole units.
constexpr double kRounding = 0.01;

}  // namespace

TEST_CASE("calibrated mode: thresholds of zero skip nothing") {
  for (const DType type : {DType::kF32, DType::kF16, DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
    TinyModel model("llama", shape());
    quantize_down(model, type);
    CalibratedOnDisk disk(model);
    const std::vector<float> dense = logits(*disk.dense());
    const auto calibrating = disk.calibrating();
    calibrating->observation().reset_activity();
    INFO(dtype_info(type).name);
    CHECK(worst_distance(dense, logits(*calibrating)) < kRounding);
    CHECK(calibrating->observation().activity().active == 1.0);
    CHECK(calibrating->observation().activity().n_tokens == 40);
  }
}

TEST_CASE("calibrated mode: infinite thresholds leave the FFN's bias and nothing else") {
  for (const char* architecture : {"llama", "opt"}) {
    CalibratedOnDisk disk(TinyModel(architecture, shape()), std::string(architecture) == "opt" ? "gelu" : "");
    TinyModel without(architecture, shape());
    for (const char* name : {"blk.0.ffn_down.weight", "blk.1.ffn_down.weight"}) {
      without.random_tensor(name, {shape().d_ff, shape().d_model}, 0, 0);
    }
    CalibratedOnDisk zeros(without, disk.options.ffn_activation);
    const auto calibrating = disk.calibrating();
    calibrating->observation().set_thresholds(std::vector<float>{kInfinity, kInfinity});
    calibrating->observation().reset_activity();
    INFO(architecture);
    CHECK(worst_distance(logits(*zeros.dense()), logits(*calibrating)) < 1e-6);
    CHECK(calibrating->observation().activity().active == 0.0);
    // They can be removed again.
    calibrating->observation().set_thresholds(std::vector<float>{0, 0});
    CHECK(worst_distance(logits(*disk.dense()), logits(*calibrating)) < kRounding);
  }
}

TEST_CASE("calibrated mode: a layer's threshold skips the values below it in that layer") {
  CalibratedOnDisk disk(TinyModel("llama", shape()));
  const auto model = disk.calibrating();
  const std::vector<float> half = medians(*model);
  model->observation().set_thresholds(std::vector<float>{half[0], 0});
  model->observation().count_activity();
  model->observation().reset_activity();
  logits(*model);
  CHECK(model->observation().activity().active == Approx(0.75).margin(0.001));
  const std::vector<uint32_t> hits = model->observation().take_activity().active;
  const auto middle = hits.begin() + shape().d_ff;
  CHECK(std::all_of(middle, hits.end(), [](uint32_t n) { return n == 40; }));
  uint64_t first = 0;
  for (auto at = hits.begin(); at != middle; ++at) first += *at;
  CHECK(first == 40u * 64u / 2);
}

TEST_CASE("calibrated mode: a sequence gets the same bits alone and mixed in any way, with any threads") {
  for (const DType type : {DType::kF32, DType::kQ4_0, DType::kQ8_0}) {
    TinyModel tiny("qwen3", shape());
    quantize_down(tiny, type);
    for (const Isa isa : testing::model_isas()) {
      CalibratedOnDisk disk(tiny);
      disk.options.isa = isa;
      disk.options.n_slots = 4;
      disk.options.context_tokens = 64;
      std::vector<float> alone, thresholds;
      for (const int n_threads : {1, 2, 3}) {
        disk.options.n_threads = n_threads;
        const auto model = disk.calibrating();
        if (thresholds.empty()) thresholds = medians(*model);
        model->observation().set_thresholds(thresholds);
        INFO(dtype_info(type).name << ", " << isa_name(isa) << ", threads " << n_threads);
        const std::vector<float> now = logits(*model);
        if (alone.empty()) alone = now;
        CHECK(std::memcmp(now.data(), alone.data(), now.size() * sizeof(float)) == 0);
        CHECK(rows_changed_by_mixing(*model, {1, 17, 40, 61}, 1) == 0);
      }
    }
  }
}

}  // namespace hearth::test
