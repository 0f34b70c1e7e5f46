// Experts in slots: their rows, biases and numbers equal the file's, and their bytes equal those that a meter
// counts. The device's memory is the host's here; plan_test.cpp in tests/engine/cuda has an emulated device.
#include "engine/neurons/expert_slabs.h"

#include <cstring>
#include <filesystem>
#include <numeric>

#include "engine/model/model_spec.h"
#include "engine/neurons/expert_layout.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/ops/expert_types.h"
#include "kernels/quant/coded_columns.h"
#include "tests/engine/forward/backend_device.h"
#include "tests/support/catch.h"
#include "tests/support/source_dir.h"

namespace hearth::test {
namespace {

struct MixtureFile {
  explicit MixtureFile(const std::string& name)
      : file(ModelFile::open(std::filesystem::path(testing::source_dir()) / "tests/data/arch" /
                             (name + ".gguf"))),
        spec(read_model_spec(file)),
        weights(bind_weights(file, spec)) {}

  ModelFile file;
  ModelSpec spec;
  Weights weights;
};

/// One expert's matrix as a slot holds it.
std::vector<std::byte> slot_of_matrix(const Matrix& one) {
  std::vector<std::byte> rows(static_cast<size_t>(one.n_rows) * cuda::slot_row_bytes(one.dtype, one.n_cols));
  cuda::write_slot_rows(one, 0, one.n_rows, rows.data());
  return rows;
}

bool slot_has(const Matrix& slots, int64_t slot, const Matrix& one) {
  if (!one) return !slots;
  const std::vector<std::byte> expected = slot_of_matrix(one);
  return std::memcmp(slots.row(slot * one.n_rows), expected.data(), expected.size()) == 0;
}

bool same_bias(const float* all, size_t expert, const float* own, int64_t n) {
  if (own == nullptr) return all == nullptr;
  return std::memcmp(all + expert * static_cast<size_t>(n), own, static_cast<size_t>(n) * sizeof(float)) == 0;
}

/// Every layer's slots, filled with the given experts.
void check_slabs(const MixtureFile& model, std::span<const int32_t> experts, int n_slots) {
  CpuBackend cpu{1, Isa::kScalar};
  BackendDevice device(cpu);
  for (const LayerWeights& layer : model.weights.layers) {
    const MixtureWeights& mixture = layer.mixture;
    if (mixture.experts.empty()) continue;
    REQUIRE(why_not_resident(mixture).empty());
    const ExpertSlabs slabs(mixture, experts, n_slots, cpu);
    size_t copied = 0;
    slabs.fill(mixture.experts, device, [&](size_t bytes) { copied += bytes; });
    CHECK(copied == experts.size() * slot_bytes(mixture, Sparsity::kDense));
    const DeviceExperts& view = slabs.view();
    CHECK(view.n_slots == n_slots);
    CHECK(view.up.n_rows == n_slots * mixture.experts.front().up.n_rows);
    for (size_t slot = 0; slot < experts.size(); ++slot) {
      const Expert& expert = mixture.experts[static_cast<size_t>(experts[slot])];
      const auto at = static_cast<int64_t>(slot);
      CHECK((slot_has(view.gate, at, expert.gate) && slot_has(view.up, at, expert.up) &&
             slot_has(view.down, at, expert.down)));
    }
    std::vector<int32_t> expected(mixture.experts.size(), -1);
    for (size_t slot = 0; slot < experts.size(); ++slot)
      expected[static_cast<size_t>(experts[slot])] = static_cast<int32_t>(slot);
    CHECK(std::equal(expected.begin(), expected.end(), view.slot_of));
    for (size_t e = 0; e < mixture.experts.size(); ++e) {
      const Expert& expert = mixture.experts[e];
      CHECK((same_bias(view.gate_bias, e, expert.gate_bias, expert.gate.n_rows) &&
             same_bias(view.up_bias, e, expert.up_bias, expert.up.n_rows) &&
             same_bias(view.down_bias, e, expert.down_bias, expert.down.n_rows)));
    }
  }
}

TEST_CASE("expert slabs have the file's rows, however the file stores them") {
  // One tensor for all experts, one for each, gate and up in one, biases, MXFP4, no experts in a layer.
  const std::string name =
      GENERATE("mixtral", "mixtral-split", "qwen2moe-fused", "gpt-oss", "gpt-oss-mxfp4", "deepseek2-v3");
  INFO(name);
  const MixtureFile model(name);
  const int n = model.spec.mixture.n_experts;
  std::vector<int32_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  check_slabs(model, all, n);
  check_slabs(model, std::vector<int32_t>{0, n - 1}, 3);
  check_slabs(model, {}, 1);
}

TEST_CASE("expert slabs take the bytes that a meter counts, and none without slots") {
  const MixtureFile model("gpt-oss");
  const MixtureWeights& mixture = model.weights.layers.front().mixture;
  const Expert& one = mixture.experts.front();
  const size_t n = mixture.experts.size();
  MemoryMeter meter;
  const ExpertSlabs slabs(mixture, std::vector<int32_t>{1, 2}, 3, meter);
  size_t expected = piece_bytes(n * sizeof(int32_t));
  for (const Matrix& matrix : {one.gate, one.up, one.down}) expected += piece_bytes(3 * matrix.bytes());
  for (const int64_t rows : {one.gate.n_rows, one.up.n_rows, one.down.n_rows})
    expected += piece_bytes(n * static_cast<size_t>(rows) * sizeof(float));
  CHECK(meter.bytes() == expected);
  CHECK(slabs.view().up.data == nullptr);
  const ExpertSlabs none(mixture, {}, 0, meter);
  CHECK(meter.bytes() == expected);
  CHECK(none.view().n_slots == 0);
  CHECK(ExpertSlabs().view().slot_of == nullptr);
}

TEST_CASE("in exact mode, expert slabs have packed down columns") {
  const MixtureFile model("smallthinker");
  CpuBackend cpu{1, Isa::kScalar};
  BackendDevice device(cpu);
  ExpertLayout layout(model.weights, cpu);
  layout.fill(1, {});
  const MixtureWeights& mixture = model.weights.layers[1].mixture;
  const Expert& one = mixture.experts.front();
  const std::vector<int32_t> experts = {0, 2, 3};
  MemoryMeter meter;
  CHECK(ExpertSlabs(mixture, experts, 4, meter, Sparsity::kExact).view().up.data == nullptr);
  const size_t packed = packed_columns_bytes(one.down);
  CHECK(meter.bytes() == piece_bytes(mixture.experts.size() * sizeof(int32_t)) +
                             2 * piece_bytes(4 * one.gate.bytes()) + piece_bytes(4 * packed));
  const ExpertSlabs slabs(mixture, experts, 4, cpu, Sparsity::kExact);
  size_t copied = 0;
  slabs.fill(layout.experts(1), device, [&](size_t bytes) { copied += bytes; });
  CHECK(copied == 3 * slot_bytes(mixture, Sparsity::kExact));
  const DeviceExperts& view = slabs.view();
  CHECK_FALSE(view.down);
  CHECK(view.down_slot_bytes == packed);
  for (size_t slot = 0; slot < experts.size(); ++slot) {
    const Expert& expert = layout.experts(1)[static_cast<size_t>(experts[slot])];
    const auto at = static_cast<int64_t>(slot);
    CHECK((slot_has(view.gate, at, expert.gate) && slot_has(view.up, at, expert.up)));
    CHECK(std::memcmp(view.down_columns.begin() + slot * packed, expert.down_columns.begin(), packed) == 0);
  }
}

TEST_CASE("expert slabs pack rows that lie apart") {
  const MixtureFile model("mixtral");
  MixtureWeights mixture;
  mixture.experts = model.weights.layers.front().mixture.experts;
  // Gate and up rows in turns.
  const size_t row = row_bytes(mixture.experts[0].gate.dtype, mixture.experts[0].gate.n_cols);
  std::vector<std::vector<std::byte>> both;
  for (Expert& expert : mixture.experts) {
    std::vector<std::byte>& rows = both.emplace_back(expert.gate.bytes() + expert.up.bytes());
    for (int64_t r = 0; r < expert.gate.n_rows; ++r) {
      std::memcpy(rows.data() + static_cast<size_t>(2 * r) * row, expert.gate.row(r), row);
      std::memcpy(rows.data() + static_cast<size_t>(2 * r + 1) * row, expert.up.row(r), row);
    }
    expert.gate.data = rows.data();
    expert.up.data = rows.data() + row;
    expert.gate.row_stride = expert.up.row_stride = 2 * row;
  }
  CpuBackend cpu{1, Isa::kScalar};
  BackendDevice device(cpu);
  const ExpertSlabs slabs(mixture, std::vector<int32_t>{1}, 1, cpu);
  slabs.fill(mixture.experts, device, {});
  const Expert& file = model.weights.layers.front().mixture.experts[1];
  CHECK((slot_has(slabs.view().gate, 0, file.gate) && slot_has(slabs.view().up, 0, file.up)));
}

TEST_CASE("experts of different types, or with shared experts of a type of the CPU only, are not resident") {
  const MixtureFile model("mixtral");
  MixtureWeights mixture;
  mixture.experts = model.weights.layers.front().mixture.experts;
  CHECK(why_not_resident(mixture).empty());
  mixture.experts[1].down.dtype = DType::kQ8_0;
  CHECK(why_not_resident(mixture) == "the experts of a layer differ in their types");
  for (Expert& expert : mixture.experts) expert.down.dtype = DType::kIQ2_XS;
  CHECK(why_not_resident(mixture).empty());
  mixture.shared = {mixture.experts.front()};
  CHECK(why_not_resident(mixture) == "type IQ2_XS is computed on the CPU only");
}

}  // namespace
}  // namespace hearth::test
