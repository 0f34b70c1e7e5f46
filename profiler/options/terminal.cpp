// Implements SignalWatch, ProgressLine, read_text() and print_result().
#include "profiler/options/terminal.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "profiler/activity/text_feed.h"

namespace hearth {
namespace {

using Handler = void (*)(int);

// The signal handler uses only these variables.
std::atomic<int> noted{0};
std::atomic<Handler> before_int{SIG_DFL}, before_term{SIG_DFL};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<Handler>::is_always_lock_free);

void hand_back() {
  std::signal(SIGINT, before_int);
  std::signal(SIGTERM, before_term);
}

Handler handler_of(int signal) {
  struct sigaction now {};
  ::sigaction(signal, nullptr, &now);
  return now.sa_handler;
}

extern "C" void note_signal(int signal) {
  noted = signal;
  hand_back();
}

}  // namespace

SignalWatch::SignalWatch() {
  noted = 0;
  // Store both old handlers before setting the new ones, because a signal may arrive at any moment.
  before_int = handler_of(SIGINT);
  before_term = handler_of(SIGTERM);
  std::signal(SIGINT, note_signal);
  std::signal(SIGTERM, note_signal);
}

SignalWatch::~SignalWatch() { hand_back(); }

int SignalWatch::signal() const { return noted; }

namespace {

constexpr std::chrono::seconds kQuiet{2};           // shorter work needs no line
constexpr std::chrono::milliseconds kRefresh{200};  // fast enough to look alive, slow enough to cost nothing
constexpr std::string_view kClearLine = "\r\033[K";

ProgressLine::Write stderr_if_terminal() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); };
}

}  // namespace

ProgressLine::ProgressLine(std::string what)
    : ProgressLine(std::move(what), std::chrono::steady_clock::now, stderr_if_terminal()) {}

ProgressLine::ProgressLine(std::string what, Clock clock, Write write)
    : what_(std::move(what)), clock_(std::move(clock)), write_(std::move(write)) {
  begin_ = clock_();
  next_ = begin_ + kQuiet;
}

ProgressLine::~ProgressLine() {
  if (shown_) write_(kClearLine);
}

void ProgressLine::update(double fraction, std::string_view detail) {
  if (!write_) return;
  const std::chrono::steady_clock::time_point now = clock_();
  if (now < next_) return;
  next_ = now + kRefresh;
  std::string line = std::string(kClearLine) + what_;
  if (fraction > 0) {
    const double elapsed = std::chrono::duration<double>(now - begin_).count();
    char percent[16];
    std::snprintf(percent, sizeof(percent), " %.0f %%", 100 * fraction);
    line += percent;
    if (!detail.empty()) line += ", " + std::string(detail);
    line += ", " + time_left_text(elapsed / fraction * (1 - fraction)) + " left";
  }
  write_(line);
  shown_ = true;
}

namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;

}  // namespace

std::string read_text(const std::string& path, std::string_view option) {
  TextInput in(path, "give " + std::string(option) + " another file");
  std::string text = in.read(kMaxTextBytes + 1);
  if (text.size() > kMaxTextBytes) in.refuse("it has more than 1 GiB, or no end");
  if (text.empty()) in.refuse("it is empty");
  return text;
}

void print_result(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw std::runtime_error(
        "the result could not be written to the standard output: " + std::string(std::strerror(errno)) + ".");
  }
}

}  // namespace hearth
