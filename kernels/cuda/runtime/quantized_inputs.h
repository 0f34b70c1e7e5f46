// Which activations are on the device in quantised form too: so that an array is quantised once, however many products read
// it, and by the kernel that computes it where that can.
//
// Owned by DeviceWork; engine thread. It follows the calls of a step, which are enqueued in its order, and knows nothing of
// when they run. Small arrays, of decoding, have places of their own; a large one has the scratch of Scratch::quantized.
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

  /// The form of x [n], or arrays of null if it is not there.
  QuantizedActivations find(const float* x, int64_t n) {
    for (Place& place : places_) {
      if (place.n == n && place.x == x) return at(place);
    }
    return {};
  }

  /// Where x [n] is to be quantised, in the place that was used least recently, or in the scratch of large arrays.
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
  /// The scratch of large arrays, for n numbers that are read once and have no array of their own.
  QuantizedActivations room(int64_t n) {
    places_.back() = {.memory = places_.back().memory};
    return quantized_in(places_.back().memory, 1, n);
  }
  /// Whether arrays of n floats have places of their own.
  bool keeps(int64_t n) const { return n <= places_[0].most; }

  /// The floats x [n] change: what was quantised of them is no longer valid.
  void written(const float* x, int64_t n) {
    for (Place& place : places_) {
      if (place.x < x + n && x < place.x + place.n) place = {.memory = place.memory, .most = place.most};
    }
  }
  /// Anything may have changed.
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
