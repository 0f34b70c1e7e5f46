// Tracks which activations the device also holds in quantized form, so that each array is quantized only
// once, even if several products read it. Where possible, the kernel that computes the array also quantizes
// it.
//
// Owned by DeviceWork; engine thread. It follows the order in which a step's calls are enqueued and does not
// know when they run. Small arrays, those of decoding, have memory of their own; a large one uses
// Scratch::quantized.
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

  /// The quantized form of x [n], or null arrays if there is none.
  QuantizedActivations find(const float* x, int64_t n) {
    for (Place& place : places_) {
      if (place.n == n && place.x == x) return at(place);
    }
    return {};
  }

  /// Returns where to quantize x [n]: the least recently used small array, or the scratch for large arrays.
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
  /// The scratch for large arrays, for n numbers that are read once and have no array of their own.
  QuantizedActivations room(int64_t n) {
    places_.back() = {.memory = places_.back().memory};
    return quantized_in(places_.back().memory, 1, n);
  }
  /// Whether arrays of n floats have memory of their own.
  bool keeps(int64_t n) const { return n <= places_[0].most; }

  /// Call this when the floats x [n] change: quantized forms of them become invalid.
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
