// Tests the sizes of pieces, on simulated cores of unequal speed.
#include "kernels/cpu/threads/piece_schedule.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "tests/support/catch.h"

namespace hearth {
namespace {

/// A core computes `speed` units in a unit of time.
using Speeds = std::vector<double>;
using PieceSize = std::function<int64_t(int64_t left)>;

/// Returns the time at which the last core finishes, if each core takes the next piece as soon as it is free.
double time_of(int64_t n_units, const Speeds& speeds, const PieceSize& piece_size) {
  std::vector<double> free_at(speeds.size(), 0.0);
  for (int64_t left = n_units; left > 0;) {
    const size_t core = static_cast<size_t>(std::ranges::min_element(free_at) - free_at.begin());
    const int64_t units = std::min(left, piece_size(left));
    free_at[core] += static_cast<double>(units) / speeds[core];
    left -= units;
  }
  return std::ranges::max(free_at);
}

/// Returns the time if no core ever waited.
double ideal(int64_t n_units, const Speeds& speeds) {
  return static_cast<double>(n_units) / std::accumulate(speeds.begin(), speeds.end(), 0.0);
}

double shrinking(int64_t n_units, const Speeds& speeds, int64_t most) {
  const int n_threads = static_cast<int>(speeds.size());
  return time_of(n_units, speeds, [&](int64_t left) { return next_piece(left, n_threads, most); });
}

double equal(int64_t n_units, const Speeds& speeds) {
  const int64_t piece = std::max<int64_t>(1, n_units / (8 * static_cast<int64_t>(speeds.size())));
  return time_of(n_units, speeds, [&](int64_t) { return piece; });
}

Speeds cores(int n_fast, int n_slow, double slow) {
  Speeds speeds(static_cast<size_t>(n_fast), 1.0);
  speeds.insert(speeds.end(), static_cast<size_t>(n_slow), slow);
  return speeds;
}

const std::vector<Speeds> kMachines = {
    cores(2, 0, 1),   cores(1, 1, 0.5),  cores(1, 1, 0.7),  cores(8, 0, 1),    cores(4, 4, 0.5),
    cores(6, 8, 0.6), cores(8, 16, 0.5), cores(2, 6, 0.55), cores(15, 1, 0.5),
};

}  // namespace

TEST_CASE("a piece is never empty and never larger than allowed", "[piece_schedule]") {
  CHECK(next_piece(1, 64, 100) == 1);
  CHECK(next_piece(1000, 2, 100) == 100);
  CHECK(next_piece(1000, 2, 1000) == 250);
  CHECK(next_piece(7, 2, 1000) == 1);
}

TEST_CASE("cores of unequal speed finish within a unit of each other", "[piece_schedule]") {
  for (const Speeds& speeds : kMachines) {
    const double slowest = std::ranges::min(speeds);
    for (int64_t n_units : {100, 352, 1000, 5000}) {
      INFO(speeds.size() << " cores, the slowest " << slowest << ", " << n_units << " units");
      CHECK(shrinking(n_units, speeds, 14) <= ideal(n_units, speeds) + 1.0 / slowest);
      CHECK(shrinking(n_units, speeds, 1 << 20) <= ideal(n_units, speeds) + 1.0 / slowest);
    }
  }
}

TEST_CASE("unequal cores lose a few percent with shrinking pieces, and more with equal ones",
          "[piece_schedule]") {
  // 5000 units: a model's output matrix.
  double worst_shrinking = 0, worst_equal = 0;
  for (const Speeds& speeds : kMachines) {
    worst_shrinking = std::max(worst_shrinking, shrinking(5000, speeds, 1 << 20) / ideal(5000, speeds));
    worst_equal = std::max(worst_equal, equal(5000, speeds) / ideal(5000, speeds));
  }
  CHECK(worst_shrinking < 1.02);
  CHECK(worst_equal > 1.05);
}

}  // namespace hearth
