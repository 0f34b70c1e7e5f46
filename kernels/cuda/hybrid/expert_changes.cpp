// See the header. The buffers are divided into places, which are used in turn. A place contains the gate, up
// and down matrices of an expert, as in host memory, one after the other. If zeros are skipped, it contains
// the packed down columns instead of the down matrix.
#include "kernels/cuda/hybrid/expert_changes.h"

#include <array>
#include <cassert>
#include <span>
#include <utility>

#include "kernels/cuda/ops/expert_ops.h"
#include "kernels/cuda/ops/expert_types.h"
#include "kernels/quant/coded_columns.h"

namespace hearth::cuda {
namespace {

/// A matrix of an expert and the matrix of all slots.
struct Part {
  Matrix Expert::*one;
  Matrix DeviceExperts::*slots;
};
constexpr std::array<Part, 3> kParts = {Part{&Expert::gate, &DeviceExperts::gate},
                                        Part{&Expert::up, &DeviceExperts::up},
                                        Part{&Expert::down, &DeviceExperts::down}};

/// Whether the part is the packed down columns.
bool is_columns(const Expert& expert, const Part& part) {
  return part.one == &Expert::down && expert.down_columns;
}

/// The bytes of an expert's part in host memory, which are packed.
std::span<const std::byte> bytes_of(const Expert& expert, const Part& part) {
  const Matrix& matrix = expert.*part.one;
  if (is_columns(expert, part)) return {expert.down_columns.begin(), packed_columns_bytes(matrix)};
  return matrix ? std::span(matrix.data, matrix.bytes()) : std::span<const std::byte>();
}

size_t place_bytes(const Expert& one) {
  size_t bytes = 0;
  for (const Part& part : kParts) bytes += bytes_of(one, part).size();
  return bytes;
}

bool is_packed(const Expert& expert, const Part& part) {
  const Matrix& matrix = expert.*part.one;
  return !matrix || is_columns(expert, part) ||
         matrix.stride_bytes() == row_bytes(matrix.dtype, matrix.n_cols);
}

}  // namespace

int ExpertChanges::per_buffer(const Expert& one) const {
  return static_cast<int>(streamed_.buffer_bytes() / place_bytes(one));
}

int ExpertChanges::most(const Expert& one) const {
  for (const Part& part : kParts) {
    if (!is_packed(one, part)) return 0;
  }
  return per_buffer(one) * static_cast<int>(streamed_.n_buffers());
}

void ExpertChanges::begin(const SlotChange& change) {
  const int per_buffer = this->per_buffer(*change.from);
  assert(static_cast<int>(copies_.size()) < most(*change.from));
  const int place = std::exchange(next_place_, (next_place_ + 1) % most(*change.from));
  const auto buffer = static_cast<size_t>(place / per_buffer);
  std::byte* to = streamed_.borrow(buffer, work_.scratch()) +
                  static_cast<size_t>(place % per_buffer) * place_bytes(*change.from);
  if (unused_marks_.empty()) unused_marks_.push_back(std::make_unique<Marks>());
  const Marks& marks = *unused_marks_.back();
  copies_.push_back(Copy{change, buffer, to, std::move(unused_marks_.back())});
  unused_marks_.pop_back();
  marks.began.record(streamed_.copies());
  for (const Part& part : kParts) {
    const std::span<const std::byte> from = bytes_of(*change.from, part);
    if (from.empty()) continue;
    check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, streamed_.copies()),
          "copying an expert to the device");
    to += from.size();
  }
  marks.ended.record(streamed_.copies());
}

int ExpertChanges::n_arrived() const {
  int n = 0;
  for (const Copy& copy : copies_) {
    if (!copy.marks->ended.reached()) break;
    ++n;
  }
  return n;
}

void ExpertChanges::end(int n) {
  for (; n > 0; --n) {
    Copy& copy = copies_.front();
    const Marks& marks = *copy.marks;
    if (marks.ended.reached()) seconds_ = marks.ended.seconds_since(marks.began);
    marks.ended.delay(work_.stream());
    move(copy);
    streamed_.give_back(copy.buffer, work_.stream());
    unused_marks_.push_back(std::move(copy.marks));
    copies_.pop_front();
  }
}

/// Moves an expert from its place to its slot.
void ExpertChanges::move(const Copy& copy) const {
  const SlotChange& change = copy.change;
  const std::byte* from = copy.place;
  for (const Part& part : kParts) {
    const Matrix& one = change.from->*part.one;
    const size_t n_bytes = bytes_of(*change.from, part).size();
    if (n_bytes == 0) continue;
    const bool columns = is_columns(*change.from, part);
    const Matrix& slots = change.layer->*part.slots;
    const std::byte* const first_slot = columns ? change.layer->down_columns.begin() : slots.data;
    const size_t slot_bytes =
        columns ? change.layer->down_slot_bytes : static_cast<size_t>(one.n_rows) * slots.stride_bytes();
    // Matrices on the device are const for everything but the code that fills their slots.
    std::byte* const to = const_cast<std::byte*>(first_slot) + static_cast<size_t>(change.slot) * slot_bytes;
    if (columns || slot_rows_as_in_file(one.dtype)) {
      check(cudaMemcpyAsync(to, from, slot_bytes, cudaMemcpyDeviceToDevice, work_.stream()),
            "moving an expert to its slot");
    } else {
      write_slots(from, one.dtype, one.n_rows, one.n_cols, to, work_.stream());
    }
    from += n_bytes;
  }
  change_slot(change.layer->slot_of, change.slot, change.expert, change.evicted, work_.stream());
}

}  // namespace hearth::cuda
