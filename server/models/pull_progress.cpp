// See the header.
#include "server/models/pull_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "engine/residency/memory_limit.h"
#include "profiler/machine/rate_text.h"

namespace hearth {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kRedraw{200};
constexpr seconds kLineEvery{5};
constexpr seconds kRateOver{10};  // long enough for a steady rate, short enough to show changes
constexpr std::string_view kClearLine = "\r\033[K";

void to_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

PullProgress::PullProgress(std::string what)
    : PullProgress(std::move(what), std::chrono::steady_clock::now, to_stderr, isatty(STDERR_FILENO) != 0) {}

PullProgress::PullProgress(std::string what, Clock clock, Write write, bool is_terminal)
    : what_(std::move(what)), clock_(std::move(clock)), write_(std::move(write)), is_terminal_(is_terminal) {
  next_ = clock_() + (is_terminal_ ? kRedraw : milliseconds(kLineEvery));
}

PullProgress::~PullProgress() {
  if (shown_) write_(kClearLine);
}

void PullProgress::update(uint64_t there, uint64_t size, uint64_t loaded) {
  const std::chrono::steady_clock::time_point now = clock_();
  if (samples_.empty() || now - samples_.back().time >= kRedraw) samples_.push_back({now, loaded});
  while (samples_.size() > 2 && now - samples_.front().time > kRateOver) samples_.pop_front();
  if (now < next_) return;
  next_ = now + (is_terminal_ ? kRedraw : milliseconds(kLineEvery));
  write_(is_terminal_ ? std::string(kClearLine) + line(there, size) : line(there, size) + "\n");
  shown_ = is_terminal_;
}

void PullProgress::note(const std::string& sentence) {
  write_((shown_ ? std::string(kClearLine) : "") + "hearthd: " + sentence + "\n");
  shown_ = false;
}

double PullProgress::bytes_per_s() const {
  if (samples_.size() < 2 || samples_.back().loaded < samples_.front().loaded) return 0;
  const double took = std::chrono::duration<double>(samples_.back().time - samples_.front().time).count();
  return took > 0 ? static_cast<double>(samples_.back().loaded - samples_.front().loaded) / took : 0;
}

// Returns, for example, "SmolLM3-3B-Q4_K_M: 43 %, 821 MB of 1.92 GB, 93.1 MB/s, 12 s left".
std::string PullProgress::line(uint64_t there, uint64_t size) const {
  const double rate = bytes_per_s();
  std::string text = what_ + ": ";
  if (size > 0) text += std::to_string(there * 100 / size) + " %, ";
  text += bytes_text(static_cast<double>(there));
  if (size > 0) text += " of " + bytes_text(static_cast<double>(size));
  if (rate > 0) text += ", " + bytes_text(rate) + "/s";
  if (rate > 0 && size > there)
    text += ", " + time_left_text(static_cast<double>(size - there) / rate) + " left";
  return text;
}

}  // namespace hearth
