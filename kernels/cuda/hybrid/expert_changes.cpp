// See the header. The buffers are divided into places, which are used in turn. A place contains the gate, up
// and down matrices of an expert, as in the file, one after the other.
#include "kernels/cuda/hybrid/expert_changes.h"

#include <array>
#include <cassert>
#include <utility>

#include "kernels/cuda/ops/expert_ops.h"
#include "kernels/cuda/ops/expert_types.h"

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

size_t place_bytes(const Expert& one) {
  size_t bytes = 0;
  for (const Part& part : kParts) bytes += one.*part.one ? (one.*part.one).bytes() : 0;
  return bytes;
}

bool is_packed(const Matrix& matrix) {
  return !matrix || matrix.stride_bytes() == row_bytes(matrix.dtype, matrix.n_cols);
}

}  // namespace

int ExpertChanges::per_buffer(const Expert& one) const {
  return static_cast<int>(streamed_.buffer_bytes() / place_bytes(one));
}

int ExpertChanges::most(const Expert& one) const {
  for (const Part& part : kParts) {
    if (!is_packed(one.*part.one)) return 0;
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
    const Matrix& from = change.from->*part.one;
    if (!from) continue;
    check(cudaMemcpyAsync(to, from.data, from.bytes(), cudaMemcpyHostToDevice, streamed_.copies()),
          "copying an expert to the device");
    to += from.bytes();
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
    if (!one) continue;
    const Matrix& slots = change.layer->*part.slots;
    const size_t bytes = static_cast<size_t>(one.n_rows) * slots.stride_bytes();
    // Matrices on the device are const for everything but the code that fills their slots.
    std::byte* const to = const_cast<std::byte*>(slots.data) + static_cast<size_t>(change.slot) * bytes;
    if (slot_rows_as_in_file(one.dtype)) {
      check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, work_.stream()),
            "moving an expert to its slot");
    } else {
      write_slots(from, one.dtype, one.n_rows, one.n_cols, to, work_.stream());
    }
    from += one.bytes();
  }
  change_slot(change.layer->slot_of, change.slot, change.expert, change.evicted, work_.stream());
}

}  // namespace hearth::cuda
