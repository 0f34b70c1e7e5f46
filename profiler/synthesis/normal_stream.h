// Normally distributed numbers by the hundred million, the same ones for the same key.
//
// Weights of synthetic models: their making should wait for the disk, not for the generator, so values are
// drawn from a table of 4,096 equally likely quantiles. That is far finer than what quantisation leaves of
// them. One thread each; streams of different keys are independent.
#pragma once

#include <cstdint>
#include <span>

namespace hearth {

/// One key from two: a tensor's key and a row's number, say.
uint64_t mix_keys(uint64_t a, uint64_t b);

class NormalStream {
 public:
  explicit NormalStream(uint64_t key) : state_(key) {}

  /// The next values, of mean 0 and standard deviation `deviation`.
  void fill(std::span<float> out, float deviation = 1.0f);

  /// 64 random bits.
  uint64_t bits();

 private:
  uint64_t state_;
};

}  // namespace hearth
