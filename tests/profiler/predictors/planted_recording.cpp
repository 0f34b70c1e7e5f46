// Implements planted_recording().
#include "tests/profiler/predictors/planted_recording.h"

#include <algorithm>

#include "profiler/synthesis/normal_stream.h"

namespace hearth::test {

RecordFile planted_recording(const std::filesystem::path& path, int n_rows, uint64_t seed) {
  constexpr int kDimensions = 6;
  const int d_model = kPlantedShape.d_model, d_ff = kPlantedShape.d_ff;
  NormalStream planes(99);  // the same for every seed
  std::vector<float> directions(static_cast<size_t>(d_ff * kDimensions));
  planes.fill(directions);
  NormalStream random(seed);
  RecordWriter writer(path, kPlantedShape, 0);
  std::vector<float> x(static_cast<size_t>(d_model));
  std::vector<uint8_t> codes(static_cast<size_t>(d_ff));
  for (int row = 0; row < n_rows; ++row) {
    random.fill(x, 0.5f + static_cast<float>(row % 4));
    x.back() = 1.5f * (0.5f + static_cast<float>(row % 4));  // encodes the input's size
    for (int j = 0; j < d_ff; ++j) {
      float sum = -x.back();
      for (int i = 0; i < kDimensions; ++i) {
        sum += directions[static_cast<size_t>(j * kDimensions + i)] * x[static_cast<size_t>(i)];
      }
      codes[static_cast<size_t>(j)] = contribution_code(std::max(sum, 0.0f));
    }
    writer.append(x.data(), codes);
  }
  writer.flush();
  return RecordFile(path, kPlantedShape, n_rows);
}

}  // namespace hearth::test
