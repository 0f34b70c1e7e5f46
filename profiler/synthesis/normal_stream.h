// Generates normally distributed numbers fast. Equal keys give equal numbers.
//
// Used for the weights of synthetic models. The disk, not the generator, should limit the speed of writing a
// model. Therefore values are drawn from a table of 4,096 equally likely quantiles, which is much finer than
// what quantization preserves. A stream belongs to one thread; streams with different keys are independent.
#pragma once

#include <cstdint>
#include <span>

namespace hearth {

/// Combines two keys into one, for example a tensor's key and a row's number.
uint64_t mix_keys(uint64_t a, uint64_t b);

class NormalStream {
 public:
  explicit NormalStream(uint64_t key) : state_(key) {}

  /// Fills `out` with the stream's next values, with mean 0 and standard deviation `deviation`.
  void fill(std::span<float> out, float deviation = 1.0f);

  /// Returns 64 random bits.
  uint64_t bits();

 private:
  uint64_t state_;
};

}  // namespace hearth
