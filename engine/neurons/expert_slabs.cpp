// See the header.
#include "engine/neurons/expert_slabs.h"

#include <algorithm>
#include <cassert>

#include "kernels/cuda/ops/device_types.h"
#include "kernels/cuda/ops/expert_types.h"
#include "kernels/quant/coded_columns.h"

namespace hearth {
namespace {

/// Returns the shape and type that an expert's matrix has in a slot; the address is null.
Matrix slot_form(const Matrix& one) { return cuda::slot_rows(nullptr, one.dtype, one.n_rows, one.n_cols); }

/// Bytes that the matrix of one expert takes in a slot.
size_t matrix_bytes(const Matrix& one) {
  return one ? static_cast<size_t>(one.n_rows) * slot_form(one).stride_bytes() : 0;
}

/// Bytes that the down projection of one expert takes in a slot.
size_t down_bytes(const Expert& one, Sparsity mode) {
  return mode == Sparsity::kExact ? packed_columns_bytes(one.down) : matrix_bytes(one.down);
}

/// Writes one expert's matrix to its slot.
void copy_to_slot(const Matrix& one, std::byte* slot, ComputeDevice& device) {
  const bool packed = one.stride_bytes() == row_bytes(one.dtype, one.n_cols);
  if (packed && cuda::slot_rows_as_in_file(one.dtype)) return device.copy_in(slot, one.data, one.bytes());
  std::vector<std::byte> rows(matrix_bytes(one));
  cuda::write_slot_rows(one, 0, one.n_rows, rows.data());
  device.copy_in(slot, rows.data(), rows.size());
}

bool same_form(const Matrix& a, const Matrix& b) {
  return a.dtype == b.dtype && a.n_rows == b.n_rows && a.n_cols == b.n_cols &&
         static_cast<bool>(a) == static_cast<bool>(b);
}

std::byte* address_of(const Buffer& buffer) { return static_cast<std::byte*>(buffer.data()); }

/// Allocates n_slots matrices like `one` and sets `view` to all of them as one matrix. Does nothing for a
/// null matrix.
Buffer allocate_slots(const Matrix& one, int n_slots, Memory& memory, Matrix& view) {
  if (!one) return {};
  view = slot_form(one);
  view.n_rows *= n_slots;
  Buffer buffer = memory.allocate(matrix_bytes(one) * static_cast<size_t>(n_slots));
  view.data = address_of(buffer);
  return buffer;
}

/// Allocates biases [n] for each expert, if the experts have biases.
Buffer allocate_biases(const MixtureWeights& mixture, const float* Expert::*bias, int64_t n, Memory& memory) {
  if (mixture.experts.front().*bias == nullptr) return {};
  return memory.allocate(mixture.experts.size() * static_cast<size_t>(n) * sizeof(float));
}

void copy_biases(std::span<const Expert> experts, const float* Expert::*bias, int64_t n, const Buffer& to,
                 ComputeDevice& device) {
  if (to.data() == nullptr) return;
  std::vector<float> all;
  for (const Expert& expert : experts) all.insert(all.end(), expert.*bias, expert.*bias + n);
  device.copy_in(address_of(to), reinterpret_cast<const std::byte*>(all.data()), all.size() * sizeof(float));
}

/// Copies a shared expert to the device's memory, with packed rows.
Expert shared_on(const Expert& expert, Memory& memory) {
  Expert on_device = expert;
  for (Matrix* matrix : {&on_device.gate, &on_device.up, &on_device.down}) *matrix = memory.resident(*matrix);
  on_device.gate_bias = memory.resident(expert.gate_bias, expert.gate.n_rows);
  on_device.up_bias = memory.resident(expert.up_bias, expert.up.n_rows);
  on_device.down_bias = memory.resident(expert.down_bias, expert.down.n_rows);
  return on_device;
}

}  // namespace

std::string why_not_resident(const MixtureWeights& mixture) {
  const Expert& first = mixture.experts.front();
  for (const Expert& shared : mixture.shared) {
    for (const Matrix* matrix : {&shared.gate, &shared.up, &shared.down, &mixture.shared_gate.weight}) {
      if (!*matrix || cuda::device_has(matrix->dtype)) continue;
      return "type " + std::string(dtype_info(matrix->dtype).name) + " is computed on the CPU only";
    }
  }
  const bool alike = std::ranges::all_of(mixture.experts, [&](const Expert& expert) {
    return same_form(expert.gate, first.gate) && same_form(expert.up, first.up) &&
           same_form(expert.down, first.down) &&
           (expert.gate_bias == nullptr) == (first.gate_bias == nullptr) &&
           (expert.up_bias == nullptr) == (first.up_bias == nullptr) &&
           (expert.down_bias == nullptr) == (first.down_bias == nullptr);
  });
  return alike ? "" : "the experts of a layer differ in their types";
}

size_t slot_bytes(const MixtureWeights& mixture, Sparsity mode) {
  const Expert& one = mixture.experts.front();
  return matrix_bytes(one.gate) + matrix_bytes(one.up) + down_bytes(one, mode);
}

size_t streamed_down_bytes(const Expert& expert, Sparsity mode) {
  return mode == Sparsity::kExact ? packed_columns_bytes(expert.down) : cuda::streamed_bytes(expert.down);
}

ExpertSlabs::ExpertSlabs(const MixtureWeights& mixture, std::span<const int32_t> experts, int n_slots,
                         Memory& memory, Sparsity mode)
    : experts_(experts.begin(), experts.end()) {
  assert(experts.size() <= static_cast<size_t>(n_slots) && std::ranges::is_sorted(experts));
  if (n_slots == 0) return;
  const Expert& one = mixture.experts.front();
  view_.n_slots = n_slots;
  slots_.assign(mixture.experts.size(), -1);
  for (size_t slot = 0; slot < experts_.size(); ++slot)
    slots_[static_cast<size_t>(experts_[slot])] = static_cast<int32_t>(slot);
  view_.slots = slots_;
  gate_ = allocate_slots(one.gate, n_slots, memory, view_.gate);
  up_ = allocate_slots(one.up, n_slots, memory, view_.up);
  if (mode == Sparsity::kExact) {
    view_.down_slot_bytes = packed_columns_bytes(one.down);
    down_ = memory.allocate(view_.down_slot_bytes * static_cast<size_t>(n_slots));
    if (down_.data() != nullptr) view_.down_columns = packed_columns(one.down, address_of(down_));
  } else {
    down_ = allocate_slots(one.down, n_slots, memory, view_.down);
  }
  gate_bias_ = allocate_biases(mixture, &Expert::gate_bias, one.gate.n_rows, memory);
  up_bias_ = allocate_biases(mixture, &Expert::up_bias, one.up.n_rows, memory);
  down_bias_ = allocate_biases(mixture, &Expert::down_bias, one.down.n_rows, memory);
  slot_of_ = memory.allocate(mixture.experts.size() * sizeof(int32_t));
  const auto n_experts = static_cast<int64_t>(mixture.experts.size());
  view_.choice_bias = memory.resident(mixture.choice_bias, n_experts);
  view_.weight_scales = memory.resident(mixture.weight_scales, n_experts);
  if (!mixture.shared.empty()) {
    view_.shared = shared_on(mixture.shared.front(), memory);
    view_.shared_gate = memory.resident(mixture.shared_gate.weight);
  }
  view_.gate_bias = gate_bias_.floats();
  view_.up_bias = up_bias_.floats();
  view_.down_bias = down_bias_.floats();
  view_.slot_of = static_cast<int32_t*>(slot_of_.data());
}

void ExpertSlabs::fill(std::span<const Expert> experts, ComputeDevice& device,
                       const std::function<void(size_t bytes)>& copied) const {
  if (view_.n_slots == 0) return;
  device.copy_in(address_of(slot_of_), reinterpret_cast<const std::byte*>(slots_.data()),
                 slots_.size() * sizeof(int32_t));
  if (!device.backend().reads()) return;  // a simulated device only needs to know which experts it holds
  for (size_t slot = 0; slot < experts_.size(); ++slot) {
    const Expert& expert = experts[static_cast<size_t>(experts_[slot])];
    size_t bytes = 0;
    const auto copy = [&](const Matrix& one, const Buffer& to) {
      if (one) copy_to_slot(one, address_of(to) + slot * matrix_bytes(one), device);
      bytes += matrix_bytes(one);
    };
    copy(expert.gate, gate_);
    copy(expert.up, up_);
    if (const size_t packed = view_.down_slot_bytes; packed > 0) {
      device.copy_in(address_of(down_) + slot * packed, expert.down_columns.begin(), packed);
      bytes += packed;
    } else {
      copy(expert.down, down_);
    }
    if (copied) copied(bytes);
  }
  const Expert& one = experts.front();
  copy_biases(experts, &Expert::gate_bias, one.gate.n_rows, gate_bias_, device);
  copy_biases(experts, &Expert::up_bias, one.up.n_rows, up_bias_, device);
  copy_biases(experts, &Expert::down_bias, one.down.n_rows, down_bias_, device);
}

void ExpertSlabs::exchange(int32_t slot, int32_t expert) {
  int32_t& in_slot = experts_[static_cast<size_t>(slot)];
  slots_[static_cast<size_t>(in_slot)] = -1;
  slots_[static_cast<size_t>(expert)] = slot;
  in_slot = expert;
}

}  // namespace hearth
