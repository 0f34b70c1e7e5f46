// The progress line, and the watch for signals.
#include <atomic>
#include <csignal>
#include <limits>

#include "profiler/options/terminal.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

struct Terminal {
  std::chrono::steady_clock::time_point now{};
  std::string text;
  ProgressLine::Clock clock() {
    return [this] { return now; };
  }
  ProgressLine::Write write() {
    return [this](std::string_view more) { text += more; };
  }
  void pass(int ms) { now += std::chrono::milliseconds(ms); }
};

}  // namespace

TEST_CASE("progress line: work of less than two seconds shows nothing") {
  Terminal terminal;
  {
    ProgressLine line("Loading", terminal.clock(), terminal.write());
    line.update(0.5);
    terminal.pass(1999);
    line.update(0.99);
  }
  CHECK(terminal.text.empty());
}

TEST_CASE(
    "progress line: longer work shows the share done and the time left, and clears the line at the end") {
  Terminal terminal;
  {
    ProgressLine line("Scoring", terminal.clock(), terminal.write());
    terminal.pass(30'000);
    line.update(0.25, "perplexity 12.5");
    CHECK(terminal.text == "\r\033[KScoring 25 %, perplexity 12.5, 1 min 30 s left");
    terminal.text.clear();
    terminal.pass(199);
    line.update(0.26);  // too soon to be written
    CHECK(terminal.text.empty());
    terminal.pass(29'801);
    line.update(1.0);
    CHECK(terminal.text == "\r\033[KScoring 100 %, 0 s left");
    terminal.text.clear();
  }
  CHECK(terminal.text == "\r\033[K");
}

TEST_CASE("progress line: before any progress no time left is shown") {
  Terminal terminal;
  ProgressLine line("Loading", terminal.clock(), terminal.write());
  terminal.pass(5000);
  line.update(0.0);
  CHECK(terminal.text == "\r\033[KLoading");
}

TEST_CASE("progress line: times are printed in readable units") {
  CHECK(time_left_text(0.4) == "0 s");
  CHECK(time_left_text(59.4) == "59 s");
  CHECK(time_left_text(59.6) == "1 min 00 s");
  CHECK(time_left_text(3599) == "59 min 59 s");
  CHECK(time_left_text(3600) == "1 h 00 min");
  CHECK(time_left_text(90061) == "25 h 01 min");
  CHECK(time_left_text(-1) == "0 s");
  CHECK(time_left_text(std::numeric_limits<double>::quiet_NaN()) == "0 s");
  CHECK(time_left_text(1e30) == "277777 h 46 min");
}

namespace {

std::atomic<int> n_before{0};

/// While it lives, counts signals of both kinds that are not watched.
struct Counted {
  Counted() : old_int(std::signal(SIGINT, count)), old_term(std::signal(SIGTERM, count)) { n_before = 0; }
  ~Counted() {
    std::signal(SIGINT, old_int);
    std::signal(SIGTERM, old_term);
  }
  static void count(int) { ++n_before; }
  void (*old_int)(int);
  void (*old_term)(int);
};

}  // namespace

TEST_CASE("a signal watch: the first signal is noted, the second has its previous effect") {
  const Counted counted;
  for (const int first : {SIGINT, SIGTERM}) {
    for (const int second : {SIGINT, SIGTERM}) {
      n_before = 0;
      const SignalWatch watch;
      CHECK_FALSE(watch.stopped());
      std::raise(first);
      CHECK(watch.stopped());
      CHECK(watch.signal() == first);
      CHECK(watch.exit_code() == 128 + first);
      CHECK(n_before == 0);
      std::raise(second);
      CHECK(n_before == 1);
      CHECK(watch.signal() == first);
    }
  }
}

TEST_CASE("a signal watch restores signals at its end, and the next one starts fresh") {
  const Counted counted;
  {
    const SignalWatch watch;
    std::raise(SIGTERM);
  }
  { const SignalWatch untouched; }
  std::raise(SIGINT);
  std::raise(SIGTERM);
  CHECK(n_before == 2);
  const SignalWatch watch;
  CHECK_FALSE(watch.stopped());
}

}  // namespace hearth::test
