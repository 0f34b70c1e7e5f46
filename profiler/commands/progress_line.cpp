// The progress line. See the header.
#include "profiler/commands/progress_line.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace hearth {
namespace {

constexpr std::chrono::seconds kQuiet{2};           // shorter work needs no line
constexpr std::chrono::milliseconds kRefresh{200};  // fast enough to look alive, slow enough to cost nothing
constexpr std::string_view kClearLine = "\r\033[K";

ProgressLine::Write stderr_if_terminal() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); };
}

}  // namespace

std::string time_left_text(double seconds) {
  const long long whole = std::isfinite(seconds) ? std::llround(std::min(std::max(seconds, 0.0), 1e9)) : 0;
  char text[64];
  if (whole < 60) {
    std::snprintf(text, sizeof(text), "%lld s", whole);
  } else if (whole < 3600) {
    std::snprintf(text, sizeof(text), "%lld min %02lld s", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof(text), "%lld h %02lld min", whole / 3600, whole / 60 % 60);
  }
  return text;
}

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

}  // namespace hearth
