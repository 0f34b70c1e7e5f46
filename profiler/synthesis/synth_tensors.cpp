// Implements the members of TensorMaker that are not templates.
#include "profiler/synthesis/synth_tensors.h"

#include "profiler/synthesis/normal_stream.h"

namespace hearth {

SynthTensor TensorMaker::random_stack(std::string name, DType dtype, int64_t count, int64_t n_rows,
                                      int64_t n_cols, uint64_t stream, double deviation) {
  return stack(std::move(name), dtype, count, n_rows, n_cols, [&](int64_t row, std::span<float> out) {
    NormalStream random(mix_keys(stream, static_cast<uint64_t>(row)));
    random.fill(out, static_cast<float>(deviation));
  });
}

SynthTensor TensorMaker::constant(std::string name, std::vector<int64_t> shape, float value) {
  size_t n = 1;
  for (const int64_t size : shape) n *= static_cast<size_t>(size);
  SynthTensor tensor{std::move(name), DType::kF32, std::move(shape), {}};
  const std::vector<float> values(n, value);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

void TensorMaker::done(int64_t n_elements) {
  n_done_ += n_elements;
  if (progress_) progress_(static_cast<double>(n_done_) / static_cast<double>(n_elements_));
}

}  // namespace hearth
