// Traces: which spans are kept, and that the JSON follows Chrome's format.
#include "kernels/base/trace.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace hearth::testing {
namespace {

using std::chrono::microseconds;
using Json = nlohmann::json;

/// A span at these microseconds after an arbitrary time.
Trace::Span span(const char* track, const char* name, int layer, int begin_us, int end_us,
                 int64_t bytes = 0) {
  const Trace::Clock::time_point start{std::chrono::hours(7)};
  return {track, name, layer, start + microseconds(begin_us), start + microseconds(end_us), bytes};
}

/// The events of a kind ("X", "M").
std::vector<Json> events(const Json& json, const std::string& kind) {
  std::vector<Json> found;
  for (const Json& event : json.at("traceEvents")) {
    if (event.at("ph") == kind) found.push_back(event);
  }
  return found;
}

/// Names of the rows, by number.
std::map<int, std::string> rows(const Json& json) {
  std::map<int, std::string> names;
  for (const Json& event : events(json, "M")) {
    if (event.at("name") == "thread_name") names[event.at("tid")] = event.at("args").at("name");
  }
  return names;
}

TEST_CASE("trace: spans become events with their track, times since the first, layer and bytes") {
  Trace trace;
  trace.add(span("PCIe", "copy", 1, 30, 70, 4096));
  trace.add(span("GPU", "attention", 0, 10, 25));
  trace.add(span("engine", "sample", -1, 80, 81));
  const Json json = Json::parse(trace.json());
  const std::vector<Json> found = events(json, "X");
  REQUIRE(found.size() == 3);
  const std::map<int, std::string> names = rows(json);
  CHECK(found[0].at("name") == "attention");
  CHECK(names.at(found[0].at("tid")) == "GPU");
  CHECK(found[0].at("ts") == 0.0);
  CHECK(found[0].at("dur") == 15.0);
  CHECK(found[0].at("args") == Json{{"layer", 0}});
  CHECK(found[1].at("name") == "copy");
  CHECK(names.at(found[1].at("tid")) == "PCIe");
  CHECK(found[1].at("ts") == 20.0);
  CHECK(found[1].at("dur") == 40.0);
  CHECK(found[1].at("args") == Json{{"layer", 1}, {"bytes", 4096}});
  CHECK(found[2].at("args").empty());
  CHECK(json.at("otherData").at("spans_left_out") == 0);
}

TEST_CASE("trace: an empty trace is valid JSON") { CHECK(events(Json::parse(Trace().json()), "X").empty()); }

TEST_CASE("trace: overlapping spans of a track get rows of their own, nested ones stay in their row") {
  Trace trace;
  trace.add(span("PCIe", "first", 0, 0, 20));
  trace.add(span("PCIe", "overlaps the first", 0, 10, 30));
  trace.add(span("PCIe", "within the first", 0, 5, 9));
  trace.add(span("PCIe", "after the first", 0, 20, 25));
  trace.add(span("GPU", "meanwhile", 0, 0, 40));
  const Json json = Json::parse(trace.json());
  std::map<std::string, int> row;
  for (const Json& event : events(json, "X")) row[event.at("name")] = event.at("tid");
  CHECK(row.at("within the first") == row.at("first"));
  CHECK(row.at("after the first") == row.at("first"));
  CHECK(row.at("overlaps the first") != row.at("first"));
  CHECK(row.at("meanwhile") != row.at("first"));
  const std::map<int, std::string> names = rows(json);
  CHECK(names.size() == 3);
  CHECK(names.at(row.at("overlaps the first")) == "PCIe");
  CHECK(names.at(row.at("meanwhile")) == "GPU");
}

TEST_CASE("trace: threads that add at the same time lose nothing, and no row holds overlapping spans") {
  constexpr int kThreads = 4, kSpans = 500;
  constexpr std::array<const char*, 2> kTracks = {"CPU", "GPU"};
  Trace trace;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&trace, &kTracks, t] {
        for (int i = 0; i < kSpans; ++i)
          TraceBlock block(&trace, kTracks[static_cast<size_t>(t % 2)], "work", t);
      });
    }
  }
  std::map<int, std::vector<std::pair<double, double>>> by_row;
  std::map<int, std::set<std::string>> tracks_of_layer;
  const Json json = Json::parse(trace.json());
  const std::map<int, std::string> names = rows(json);
  for (const Json& event : events(json, "X")) {
    const double begin = event.at("ts"), end = begin + event.at("dur").get<double>();
    by_row[event.at("tid")].emplace_back(begin, end);
    tracks_of_layer[event.at("args").at("layer")].insert(names.at(event.at("tid")));
  }
  size_t n = 0;
  for (auto& [row, spans] : by_row) {
    n += spans.size();
    std::sort(spans.begin(), spans.end());
    for (size_t i = 1; i < spans.size(); ++i) {
      const bool apart = spans[i].first >= spans[i - 1].second - 0.002;  // rounding loses a nanosecond
      const bool held = spans[i].second <= spans[i - 1].second + 0.002;
      REQUIRE((apart || held));
    }
  }
  CHECK(n == kThreads * kSpans);
  for (const auto& [layer, tracks] : tracks_of_layer) CHECK(tracks.size() == 1);
}

TEST_CASE("trace: a full trace keeps the first spans and counts the others") {
  Trace trace(2);
  for (int i = 0; i < 5; ++i) trace.add(span("CPU", "FFN", i, i, i + 1));
  REQUIRE(trace.spans().size() == 2);
  CHECK(trace.spans()[1].layer == 1);
  CHECK(trace.n_left_out() == 3);
  CHECK(Json::parse(trace.json()).at("otherData").at("spans_left_out") == 3);
}

TEST_CASE("trace: a scope becomes a span from its begin to its end; without a trace it does nothing") {
  Trace trace;
  const Trace::Clock::time_point before = Trace::Clock::now();
  { TraceBlock block(&trace, "CPU", "attention", 3); }
  { TraceBlock block(nullptr, "CPU", "attention", 4); }
  const Trace::Clock::time_point after = Trace::Clock::now();
  REQUIRE(trace.spans().size() == 1);
  const Trace::Span found = trace.spans().front();
  CHECK(found.layer == 3);
  CHECK(found.begin >= before);
  CHECK(found.end >= found.begin);
  CHECK(found.end <= after);
}

}  // namespace
}  // namespace hearth::testing
