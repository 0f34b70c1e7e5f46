// Tracks which activations also exist in quantized form on the device, so that each array is quantized only
// once, even if several products read it. Where possible, the kernel that computes an array also quantizes
// it.
//
// Owned by DeviceWork; engine thread. The state changes when work is enqueued, not when the work runs. The
// small arrays of decode steps are kept in separate buffers (Scratch::kept_inputs). All large arrays share
// one buffer, Scratch::quantized.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/scratch.h"

namespace hearth::cuda {

class QuantizedInputs {
 public:
  void reserve(const Scratch& scratch) {
    for (size_t i = 0; i < Scratch::kKeptInputs; ++i)
      places_[i] = {.memory = scratch.kept_inputs[i], .most = scratch.kept_floats};
    places_.back() = {.memory = scratch.quantized};
    forget();
  }

  /// Returns the quantized form of x [n], or null arrays if it does not exist.
  QuantizedActivations find(const float* x, int64_t n) {
    for (Place& place : places_) {
      if (place.n == n && place.x == x) return at(place);
    }
    return {};
  }

  /// Returns the arrays to which the caller must now quantize x [n]. If x is small, they are in the least
  /// recently used buffer of Scratch::kept_inputs, otherwise in Scratch::quantized.
  QuantizedActivations add(const float* x, int64_t n) {
    Place* place = &places_.back();
    if (n <= places_[0].most) {
      place = places_.data();
      for (size_t i = 1; i < Scratch::kKeptInputs; ++i) {
        if (places_[i].last_use < place->last_use) place = &places_[i];
      }
    }
    place->x = x;
    place->n = n;
    return at(*place);
  }
  /// Returns arrays in Scratch::quantized for n quantized numbers that only one product reads. find() does
  /// not find them.
  QuantizedActivations room(int64_t n) {
    places_.back() = {.memory = places_.back().memory};
    return quantized_in(places_.back().memory, 1, n);
  }
  /// Whether an array of n floats is small, so that add() uses a buffer of Scratch::kept_inputs.
  bool keeps(int64_t n) const { return n <= places_[0].most; }

  /// Call this when the floats x [n] change, which makes their quantized forms invalid.
  void written(const float* x, int64_t n) {
    for (Place& place : places_) {
      if (place.x < x + n && x < place.x + place.n) place = {.memory = place.memory, .most = place.most};
    }
  }
  /// Call this when anything may have changed.
  void forget() {
    for (Place& place : places_) place = {.memory = place.memory, .most = place.most};
  }

 private:
  struct Place {
    std::byte* memory = nullptr;
    int64_t most = 0;  // floats
    const float* x = nullptr;
    int64_t n = 0;  // 0: nothing is there
    uint64_t last_use = 0;
  };
  QuantizedActivations at(Place& place) {
    place.last_use = ++n_uses_;
    return quantized_in(place.memory, 1, place.n);
  }

  std::array<Place, Scratch::kKeptInputs + 1> places_;
  uint64_t n_uses_ = 0;
};

}  // namespace hearth::cuda
