// Recordings: rows are read as they were written, and an interrupted recording can be continued.
#include "profiler/predictors/recording.h"

#include <cmath>
#include <fstream>
#include <stdexcept>

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

constexpr RecordShape kShape{.layer = 3, .d_model = 5, .d_ff = 7};

std::vector<float> input_of(int row) {
  std::vector<float> x;
  for (int i = 0; i < kShape.d_model; ++i)
    x.push_back(static_cast<float>(row + 1) * static_cast<float>(i - 2));
  return x;
}
std::vector<uint8_t> codes_of(int row) {
  std::vector<uint8_t> codes;
  for (int j = 0; j < kShape.d_ff; ++j) codes.push_back(static_cast<uint8_t>(row * 31 + j * 7));
  return codes;
}

void append(const std::filesystem::path& path, int begin, int end) {
  RecordWriter writer(path, kShape, begin);
  for (int row = begin; row < end; ++row) writer.append(input_of(row).data(), codes_of(row));
  writer.flush();
}

void check(const std::filesystem::path& path, int n_rows) {
  const RecordFile file(path, kShape, n_rows);
  CHECK(file.n_rows() == n_rows);
  for (int row = 0; row < n_rows; ++row) {
    // Scaled to a mean square of 1: the inputs -2 to 2 have one of 2.
    CHECK(file.scale(row) == Approx((row + 1) * std::sqrt(2.0)));
    std::vector<float> x(static_cast<size_t>(kShape.d_model));
    file.input(row, x.data());
    for (int i = 0; i < kShape.d_model; ++i) {
      CHECK(x[static_cast<size_t>(i)] == Approx((i - 2) / std::sqrt(2.0)).epsilon(1e-3));
    }
    const std::vector<uint8_t> codes = codes_of(row);
    CHECK(std::equal(codes.begin(), codes.end(), file.codes(row)));
  }
}

}  // namespace

TEST_CASE("contribution codes: they are within 5 % of their values, and keep their order") {
  CHECK(contribution_code(0) == 0);
  CHECK(contribution_code(std::nanf("")) == 0);
  CHECK(contribution_of(0) == 0);
  uint8_t last = 0;
  for (float c = 1e-6f; c < 1e6f; c *= 1.03f) {
    const uint8_t code = contribution_code(c);
    CHECK(code >= 1);
    CHECK(code >= last);
    last = code;
    if (c > 3e-5f && c < 5e4f) CHECK(contribution_of(code) == Approx(c).epsilon(0.05));
  }
  CHECK(last == 255);
  CHECK(contribution_code(HUGE_VALF) == 255);
}

TEST_CASE("recording: rows are read back as appended, also over several runs") {
  const TempFolder folder;
  const std::filesystem::path path = record_path(folder.path(), 3);
  CHECK(path.filename() == "layer-003.record");
  CHECK(recorded_rows(path, kShape) == 0);
  append(path, 0, 4);
  CHECK(recorded_rows(path, kShape) == 4);
  append(path, 4, 9);
  check(path, 9);
}

TEST_CASE("recording: an interrupted run's extra rows are cut off") {
  const TempFolder folder;
  const std::filesystem::path path = folder / "r";
  append(path, 0, 6);
  std::ofstream(path, std::ios::binary | std::ios::app) << "half a row";
  CHECK(recorded_rows(path, kShape) == 6);
  append(path, 5, 8);  // continues after the fifth
  CHECK(recorded_rows(path, kShape) == 8);
  check(path, 8);
}

TEST_CASE("recording: files of another shape, too short or damaged are refused") {
  const TempFolder folder;
  const std::filesystem::path path = folder / "r";
  append(path, 0, 2);
  CHECK_THROWS_AS(RecordFile(path, kShape, 3), std::runtime_error);
  CHECK_THROWS_AS(RecordWriter(path, kShape, 3), std::runtime_error);
  RecordShape other = kShape;
  other.d_ff = 8;
  CHECK_THROWS_AS(RecordFile(path, other, 1), std::runtime_error);
  CHECK_THROWS_AS(recorded_rows(path, other), std::runtime_error);
  CHECK_THROWS_AS(RecordFile(folder / "none", kShape, 1), std::runtime_error);
  CHECK_THROWS_AS(RecordWriter(folder / "no/such/folder", kShape, 0), std::runtime_error);
}

}  // namespace hearth::test
