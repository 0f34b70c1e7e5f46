// Writes a Trace in the "Trace Event Format" (Google 2016): "X" events are spans, and "M" events name rows.
#include "kernels/base/trace.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace hearth {
namespace {

[[noreturn]] void cannot_write(const std::filesystem::path& path) {
  throw std::runtime_error("--trace " + path.string() +
                           ": the file cannot be written: " + std::strerror(errno) + ".");
}

/// One row of the timeline. If two spans of a row overlap, one of them contains the other.
struct Row {
  std::string_view track;
  std::vector<Trace::Clock::time_point> open;  // ends of the spans that may contain the next span, innermost
                                               // last

  bool takes(const Trace::Span& span) {
    while (!open.empty() && open.back() <= span.begin) open.pop_back();
    return open.empty() || span.end <= open.back();
  }
};

/// Returns the row for a span, adding a row if no existing one fits. Must be called in the order in which
/// spans begin.
size_t row_of(const Trace::Span& span, std::vector<Row>& rows) {
  size_t i = 0;
  while (i < rows.size() && !(rows[i].track == span.track && rows[i].takes(span))) ++i;
  if (i == rows.size()) rows.push_back({.track = span.track, .open = {}});
  rows[i].open.push_back(span.end);
  return i;
}

double microseconds(Trace::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

void append_event(const Trace::Span& span, size_t row, Trace::Clock::time_point start, std::string& out) {
  char numbers[160];
  std::snprintf(numbers, sizeof(numbers), R"(","ph":"X","pid":1,"tid":%zu,"ts":%.3f,"dur":%.3f,"args":{)",
                row + 1, microseconds(span.begin - start), microseconds(span.end - span.begin));
  out.append(R"({"name":")").append(span.name).append(numbers);
  if (span.layer >= 0) out.append("\"layer\":").append(std::to_string(span.layer));
  if (span.layer >= 0 && span.bytes != 0) out.append(",");
  if (span.bytes != 0) out.append("\"bytes\":").append(std::to_string(span.bytes));
  out.append("}},\n");
}

}  // namespace

void Trace::add(const Span& span) {
  const MutexLock lock(mutex_);
  if (spans_.size() < max_spans_) {
    spans_.push_back(span);
  } else {
    ++n_left_out_;
  }
}

std::vector<Trace::Span> Trace::spans() const {
  const MutexLock lock(mutex_);
  return spans_;
}

size_t Trace::n_left_out() const {
  const MutexLock lock(mutex_);
  return n_left_out_;
}

std::string Trace::json() const {
  std::vector<Span> all = spans();
  // If spans begin at the same time, the longest comes first, because it contains the others.
  std::stable_sort(all.begin(), all.end(), [](const Span& a, const Span& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<Row> rows;
  std::string out = "{\"traceEvents\":[\n";
  for (const Span& span : all) append_event(span, row_of(span, rows), all.front().begin, out);
  for (size_t i = 0; i < rows.size(); ++i) {
    out.append(R"({"name":"thread_name","ph":"M","pid":1,"tid":)").append(std::to_string(i + 1));
    out.append(R"(,"args":{"name":")").append(rows[i].track).append("\"}},\n");
  }
  out.append(R"({"name":"process_name","ph":"M","pid":1,"args":{"name":"hearth"}}],)");
  out.append("\n\"displayTimeUnit\":\"ms\",\"otherData\":{\"spans_left_out\":");
  return out.append(std::to_string(n_left_out())).append("}}\n");
}

TraceFile::TraceFile(std::filesystem::path path) : path_(std::move(path)), out_(path_, std::ios::binary) {
  if (!out_) cannot_write(path_);
}

void TraceFile::write() {
  out_ << trace_.json() << std::flush;
  if (!out_) cannot_write(path_);
  out_.close();
}

}  // namespace hearth
