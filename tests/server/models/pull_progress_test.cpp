// Progress lines of a pull, with a clock that the test moves.
#include "server/models/pull_progress.h"

#include <algorithm>

#include "tests/support/catch.h"

using namespace hearth;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

struct Bench {
  std::chrono::steady_clock::time_point now{};
  std::string written;
  PullProgress progress;

  explicit Bench(bool is_terminal)
      : progress(
            "x", [this] { return now; }, [this](std::string_view text) { written += text; }, is_terminal) {}
};

}  // namespace

TEST_CASE("pull progress: on a terminal one line with rate and time left is redrawn") {
  Bench bench(true);
  for (int tenth = 0; tenth <= 20; ++tenth) {
    bench.progress.update(static_cast<uint64_t>(tenth) * 10'000'000, 1'000'000'000,
                          static_cast<uint64_t>(tenth) * 10'000'000);
    bench.now += milliseconds(100);
  }
  CHECK_THAT(bench.written, ContainsSubstring("\r\033[Kx: 20 %, 200.0 MB of 1.00 GB, 100.0 MB/s, 8 s left"));
  CHECK(bench.written.find('\n') == std::string::npos);
  bench.progress.note("a sentence");
  CHECK_THAT(bench.written, ContainsSubstring("\r\033[Khearthd: a sentence\n"));
}

TEST_CASE("pull progress: elsewhere a line is printed every few seconds, without escape sequences") {
  Bench bench(false);
  for (int second = 0; second <= 20; ++second) {
    bench.progress.update(static_cast<uint64_t>(second) * 1'000'000, 0,
                          static_cast<uint64_t>(second) * 1'000'000);
    bench.now += seconds(1);
  }
  CHECK(std::count(bench.written.begin(), bench.written.end(), '\n') == 4);
  CHECK(bench.written.find('\033') == std::string::npos);
  CHECK_THAT(bench.written, ContainsSubstring("x: 20.0 MB, 1.0 MB/s\n"));
}

TEST_CASE("pull progress: bytes of an earlier pull count as done, but not for the rate") {
  Bench bench(false);
  bench.progress.update(900, 1000, 0);
  bench.now += seconds(6);
  bench.progress.update(900, 1000, 0);
  CHECK_THAT(bench.written,
             ContainsSubstring("x: 90 %") && !ContainsSubstring("/s") && !ContainsSubstring("left"));
}
