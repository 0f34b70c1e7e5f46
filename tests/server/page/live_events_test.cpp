// The page's events without sockets: their contents, how many streams may be open, and how they end.
#include "server/page/live_events.h"

#include <atomic>
#include <thread>
#include <vector>

#include "server/page/live_json.h"
#include "tests/server/api/api_bench.h"
#include "tests/support/catch.h"
#include "tests/support/manual_clock.h"

namespace hearth {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds kFast{1};

/// The events of a stream: kinds and data.
std::vector<std::pair<std::string, json>> events_of(const std::string& text) {
  std::vector<std::pair<std::string, json>> events;
  for (size_t at = 0; at < text.size();) {
    const size_t line = text.find('\n', at), end = text.find("\n\n", at);
    events.emplace_back(text.substr(at + 7, line - at - 7),
                        json::parse(text.substr(line + 7, end - line - 7)));
    at = end + 2;
  }
  return events;
}

struct FiguredEngine : PlayedEngine {
  EngineFigures told;
  EngineFigures figures() const override { return told; }
};

struct Bench {
  FiguredEngine engine;
  test::ManualClock clock;
  LiveActivity live{{.n_layers = 2, .n_units = 4, .max_tokens = 1}, milliseconds(0), clock.reader()};
  LiveEvents events{
      {.engine = engine, .live = live, .model = "small", .device = "CPU"}, kFast, clock.reader()};

  Bench() {
    engine.now.n_slots = 4;
    live.attach({.placements = {}, .memory = {.vram = 0, .ram = 8, .file = 9, .kv = 100}});
  }
  /// Runs a sampled step in which neuron 2 of layer 1 fires.
  void fire() {
    Batch batch;
    batch.tokens = batch.positions = batch.slots = batch.logit_rows = {0};
    const LiveActivity::StepScope step(&live, batch);
    if (live.found() == nullptr) return;
    live.found()->bits[0] = 0b100;
    live.add(1, *live.found());
  }
};

TEST_CASE("a stream begins with the current state, and continues with the engine's work") {
  Bench bench;
  bench.engine.now.n_running = 3;
  bench.engine.now.n_waiting = 2;
  bench.engine.told.kv_tokens = 160;
  bench.engine.told.kv_used_tokens = 64;
  RecordingClient client;
  client.on_write = [&](std::string_view) {
    bench.fire();
    return client.writes.size() < 3;
  };
  bench.events.stream(client);
  CHECK(client.head.status == 200);
  CHECK(client.head.content_type == "text/event-stream");
  CHECK(client.finished);
  const auto events = events_of(client.received);
  REQUIRE(events.size() == 3);
  CHECK(events[0].first == "model");
  CHECK(events[0].second["map"] ==
        json({{"units", "neurons"}, {"layers", 2}, {"per_layer", 4}, {"buckets", 4}}));
  CHECK(events[0].second["memory"] == json({{"vram", 0}, {"ram", 8}, {"file", 9}}));
  CHECK(events[1].first == "frame");
  const json& frame = events[1].second;
  CHECK(frame["slots"] == json({{"total", 4}, {"running", 3}}));
  CHECK(frame["waiting"] == 2);
  CHECK(frame["kv"] == json({{"used", 40}, {"total", 100}}));
  CHECK(frame["fired"]["levels"] == "000000f0");
  CHECK(frame["fired"]["active"] == 0.25);
}

TEST_CASE("a model that is placed again is described again") {
  Bench bench;
  RecordingClient client;
  const std::vector<LayerPlacement> layers = {{.hot = {1}}, {.on_device = false, .hot = {}}};
  client.on_write = [&](std::string_view) {
    if (client.writes.size() == 2) bench.live.attach({.placements = layers, .why_nothing = "Nothing."});
    return client.writes.size() < 3;
  };
  bench.events.stream(client);
  const auto events = events_of(client.received);
  REQUIRE(events.size() == 3);
  CHECK(events[2].first == "model");
  CHECK(events[2].second["map"]["hot"] == "0f000000");
  CHECK(events[2].second["map"]["cache"] == false);
  CHECK(events[2].second["map"]["reason"] == "Nothing.");
}

/// Streams on threads of their own, until their clients leave.
struct Watchers {
  explicit Watchers(LiveEvents& events, int n) : clients(static_cast<size_t>(n)) {
    for (RecordingClient& client : clients) {
      client.on_write = [this, &client](std::string_view) {
        if (client.writes.size() == 1) ++n_begun;
        return true;
      };
      client.alive = [this] { return !leave; };
      threads.emplace_back([&events, &client] { events.stream(client); });
    }
    while (n_begun < n) std::this_thread::yield();
  }
  ~Watchers() { leave = true; }

  std::atomic<bool> leave{false};
  std::atomic<int> n_begun{0};
  std::vector<RecordingClient> clients;
  std::vector<std::jthread> threads;
};

TEST_CASE("the number of streams is bounded, and a stream that ends makes room") {
  Bench bench;
  {
    const Watchers watchers(bench.events, LiveEvents::kMaxStreams);
    RecordingClient refused;
    bench.events.stream(refused);
    CHECK(refused.head.status == 503);
    CHECK_THAT(refused.received, ContainsSubstring("8 streams") && ContainsSubstring("too_many_streams"));
  }
  RecordingClient client;
  client.alive = [] { return false; };
  bench.events.stream(client);
  CHECK(client.head.status == 200);
}

TEST_CASE("steps are sampled only while there is a stream") {
  Bench bench;
  LiveStep seen;
  bench.fire();
  CHECK_FALSE(bench.live.latest(seen));
  RecordingClient client;
  client.alive = [&] {
    bench.fire();
    CHECK(bench.live.latest(seen));
    return false;
  };
  bench.events.stream(client);
  bench.fire();
  CHECK_FALSE(bench.live.latest(seen));
}

TEST_CASE("streams end when the server stops, and when the engine fails") {
  Bench bench;
  RecordingClient client, other;
  client.on_write = [&](std::string_view) {
    bench.engine.failed = true;
    return true;
  };
  bench.events.stream(client);
  CHECK(client.finished);
  CHECK(client.writes.size() <= 2);
  bench.engine.failed = false;
  other.on_write = [&bench](std::string_view) {
    bench.events.close();
    return true;
  };
  bench.events.stream(other);  // returns
  CHECK(other.finished);
  RecordingClient refused;
  bench.events.stream(refused);
  CHECK(refused.head.status == 503);
  CHECK_THAT(refused.received, ContainsSubstring("the server is stopping; try again when it is back"));
}

TEST_CASE("frames without news are left out, but for no longer than the allowed silence") {
  Bench bench;
  RecordingClient client;
  int n_asked = 0;
  std::vector<size_t> n_written;  // before each frame
  client.alive = [&] {
    n_written.push_back(client.writes.size());
    if (++n_asked == 10) bench.clock.advance(LiveEvents::kSilence - milliseconds(1));
    if (n_asked == 15) bench.clock.advance(milliseconds(1));
    return n_asked < 20;
  };
  bench.events.stream(client);
  REQUIRE(n_written.size() == 20);
  CHECK(n_written[1] == 2);  // the model, the first frame
  CHECK(n_written[14] == 2);
  CHECK(n_written[15] == 3);
  CHECK(client.writes.size() == 3);
}

TEST_CASE("the rate of tokens is measured over the last two seconds") {
  TokenRate rate;
  CHECK(rate.add(0, 100) == 0);
  CHECK(rate.add(0.5, 110) == Approx(20));
  CHECK(rate.add(1, 120) == Approx(20));
  CHECK(rate.add(2.5, 120) == Approx(5));
  CHECK(rate.add(4.5, 120) == 0);
}

}  // namespace
}  // namespace hearth
