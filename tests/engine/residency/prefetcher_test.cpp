// Tests the Prefetcher with a scripted hybrid FFN and copier: which neurons are copied and when, that rows
// are never written while they may be read, the counts, and the effect of a failure.
#include "engine/residency/prefetcher.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <set>

#include "kernels/base/virtual_time.h"
#include "tests/engine/residency/test_copier.h"
#include "tests/support/catch.h"

namespace hearth::testing {
namespace {

using Bits = std::vector<uint64_t>;
using Ids = std::set<int32_t>;

Bits bits_of(int64_t n_neurons, const Ids& ids) {
  Bits bits(static_cast<size_t>((n_neurons + 63) / 64));
  for (const int32_t id : ids) bits[static_cast<size_t>(id / 64)] |= uint64_t{1} << (id % 64);
  return bits;
}

Ids range(int32_t begin, int32_t end) {
  Ids ids;
  for (int32_t i = begin; i < end; ++i) ids.insert(i);
  return ids;
}

/// The device's rows as the hybrid FFN keeps them, with checks of every write.
class Device {
 public:
  struct LayerShape {
    int number;
    int32_t n_neurons, n_hot, n_device_rows;
  };

  explicit Device(std::vector<LayerShape> layers, PrefetchOptions options = {}) : shapes_(std::move(layers)) {
    std::vector<PrefetchLayer> of;
    for (const LayerShape& shape : shapes_) {
      State& state = states_[shape.number];
      state.shape = shape;
      for (int32_t i = 0; i < shape.n_hot; ++i) state.hot.push_back(i);
    }
    for (const LayerShape& shape : shapes_) {
      of.push_back({.layer = shape.number,
                    .n_neurons = shape.n_neurons,
                    .hot = states_[shape.number].hot,
                    .n_hot = shape.n_hot,
                    .n_device_rows = shape.n_device_rows});
    }
    control.on_start = [this](int layer, std::span<const RowChange> moves) { started(layer, moves); };
    control.on_gate = [this](int layer) { gated(layer); };
    options.stopped = [this](const std::string&) { ++n_stopped; };
    prefetcher = std::make_unique<Prefetcher>(of, std::make_unique<TestCopier>(control), options);
  }

  /// Runs a layer's step whose tokens want these neurons. Returns those that the device had.
  Ids step(int layer, const Ids& wanted, const Ids* proposed_for_next = nullptr) {
    State& state = states_.at(layer);
    const std::span<const RowChange> changes = prefetcher->changes(layer);
    carry_out(state, changes);
    Ids had, cold;
    for (const int32_t id : wanted) {
      const bool here = id < state.shape.n_hot || state.device_row.contains(id);
      (here ? had : cold).insert(id);
      ++(id < state.shape.n_hot ? n_hot : here ? n_cached : n_cold);
      if (state.device_row.contains(id) && state.unused.erase(id) > 0) ++n_used;
    }
    prefetcher->enqueued(layer, nullptr);
    const int64_t n = state.shape.n_neurons;
    if (proposed_for_next != nullptr) {
      const LayerShape& next = next_of(layer);
      prefetcher->proposed(next.number, bits_of(next.n_neurons, *proposed_for_next));
    }
    prefetcher->wanted(layer, bits_of(n, wanted), bits_of(n, cold));
    return had;
  }

  /// The neurons in a layer's cache, as far as the backend knows.
  Ids cached(int layer) const {
    Ids ids;
    for (const auto& [neuron, device_row] : states_.at(layer).device_row) ids.insert(neuron);
    return ids;
  }

  CopierControl control;
  std::unique_ptr<Prefetcher> prefetcher;  // goes before control
  std::vector<std::pair<int, Ids>> starts() const {
    const std::lock_guard lock(mutex_);
    return starts_;
  }
  int n_stopped = 0;
  int64_t n_used = 0, n_evicted = 0, n_evicted_unused = 0;
  int64_t n_hot = 0, n_cached = 0, n_cold = 0;  // of the neurons that steps wanted
  std::atomic<bool> fault = false;              // a device row that was not free was written, or the like

 private:
  struct State {
    LayerShape shape;
    std::vector<int32_t> hot;
    std::map<int32_t, int32_t> device_row;  // used by the engine thread
    Ids unused;
    Ids emptied;                      // device rows; used by the engine thread
    std::map<int32_t, int32_t> busy;  // row -> neuron, until the row may be written; under mutex_
  };

  const LayerShape& next_of(int layer) const {
    const auto at = std::ranges::find(shapes_, layer, &LayerShape::number);
    return at + 1 == shapes_.end() ? shapes_.front() : at[1];
  }
  void expect(bool holds) {
    if (!holds) fault = true;
  }
  void carry_out(State& state, std::span<const RowChange> changes) {
    expect(changes.size() <= RowPrefetcher::kMaxChanges);
    const std::lock_guard lock(mutex_);
    for (const RowChange& change : changes) {
      if (change.device_row >= 0) {
        expect(state.busy.contains(change.device_row) && state.busy[change.device_row] == change.neuron);
        expect(state.device_row.try_emplace(change.neuron, change.device_row).second);
        state.unused.insert(change.neuron);
      } else {
        expect(state.device_row.contains(change.neuron));
        state.emptied.insert(state.device_row[change.neuron]);
        state.device_row.erase(change.neuron);
        ++n_evicted;
        n_evicted_unused += static_cast<int64_t>(state.unused.erase(change.neuron));
      }
    }
  }
  void gated(int layer) {
    State& state = states_.at(layer);
    const std::lock_guard lock(mutex_);
    expect(!state.emptied.empty());
    for (const int32_t device_row : state.emptied) state.busy.erase(device_row);
    state.emptied.clear();
  }
  void started(int layer, std::span<const RowChange> moves) {
    State& state = states_.at(layer);
    const std::lock_guard lock(mutex_);
    expect(!moves.empty() && moves.size() <= RowPrefetcher::kMaxChanges);
    Ids ids;
    for (const RowChange& move : moves) {
      ids.insert(move.neuron);
      expect(move.neuron >= state.shape.n_hot && move.neuron < state.shape.n_neurons);
      expect(move.device_row >= state.shape.n_hot && move.device_row < state.shape.n_device_rows);
      for (const auto& [device_row, neuron] : state.busy) expect(neuron != move.neuron);
      expect(state.busy.try_emplace(move.device_row, move.neuron).second);
    }
    starts_.emplace_back(layer, ids);
  }

  const std::vector<LayerShape> shapes_;
  std::map<int, State> states_;
  mutable std::mutex mutex_;
  std::vector<std::pair<int, Ids>> starts_;
};

/// Moves all that the device lacks, because the link counts as infinitely fast.
const PrefetchOptions kAll{.link_over_cpu = 1e12};

TEST_CASE("wanted neurons are counted, and moved only into rows that nothing reads, in any order of events") {
  const bool settled = GENERATE(true, false);
  const bool proposed = GENERATE(true, false);
  std::mt19937 rng(3);
  Device device({{0, 100, 10, 30}, {2, 64, 0, 1}, {3, 700, 20, 650}, {4, 65, 65, 65}, {7, 90, 30, 30}},
                {.link_over_cpu = 3});
  const auto some = [&](int32_t n, int per_cent) {
    Ids ids;
    for (int32_t i = 0; i < n; ++i) {
      if (static_cast<int>(rng() % 100) < per_cent) ids.insert(i);
    }
    return ids;
  };
  for (int token = 0; token < 60; ++token) {
    device.prefetcher->begin_step();
    const std::pair<int, int32_t> layers[] = {{0, 100}, {2, 64}, {3, 700}, {4, 65}, {7, 90}};
    for (size_t i = 0; i < 5; ++i) {
      const Ids next = some(layers[(i + 1) % 5].second, 30);
      device.step(layers[i].first, some(layers[i].second, token % 7 == 0 ? 90 : 20),
                  proposed ? &next : nullptr);
      if (settled) device.prefetcher->settle();
      if (rng() % 3 == 0) device.prefetcher->computed(layers[i].first, 1e-5);
    }
    device.prefetcher->end_step();
  }
  device.prefetcher->settle();
  const PrefetchCounters counters = device.prefetcher->counters();
  CHECK_FALSE(device.fault);
  CHECK(device.prefetcher->why_stopped().empty());
  CHECK(counters.used == device.n_used);
  CHECK(counters.hot == device.n_hot);
  CHECK(counters.cached == device.n_cached);
  CHECK(counters.cold == device.n_cold);
  CHECK(counters.evicted == device.n_evicted);
  CHECK(counters.evicted_unused == device.n_evicted_unused);
  for (const auto& [layer, n] : {std::pair{0, 100}, {2, 64}, {3, 700}, {4, 65}, {7, 90}}) {
    Bits bits((static_cast<size_t>(n) + 63) / 64);
    CHECK(device.prefetcher->cached(layer, bits));
    CHECK(bits == bits_of(n, device.cached(layer)));
  }
  for (const int layer : {1, 5, 8}) {
    Bits bits(1, 5);
    CHECK_FALSE(device.prefetcher->cached(layer, bits));
    CHECK(bits[0] == 5);
  }
  int64_t n_started = 0;
  for (const auto& [layer, ids] : device.starts()) n_started += static_cast<int64_t>(ids.size());
  CHECK(counters.moved == n_started);
  CHECK(counters.bytes == 100 * n_started);
  CHECK(counters.used <= counters.moved);
  CHECK(counters.evicted_unused <= counters.evicted);
  CHECK(counters.evicted <= counters.moved);
  CHECK(counters.hidden_seconds <= counters.copy_seconds);
  if (!settled) return;  // the thread may have been too late for everything
  CHECK(counters.late == 0);
  CHECK(counters.used > 0);
  CHECK((counters.hot > 0 && counters.cached > 0 && counters.cold > 0));
  CHECK(counters.evicted > 0);
}

TEST_CASE("without proposals, the next layers are brought the neurons that they wanted last") {
  Device device({{0, 64, 4, 20}, {1, 64, 4, 20}, {2, 64, 4, 20}}, kAll);
  const auto token = [&](const Ids& a, const Ids& b, const Ids& c) {
    std::vector<Ids> had;
    int layer = 0;
    for (const Ids* wanted : {&a, &b, &c}) {
      had.push_back(device.step(layer++, *wanted));
      device.prefetcher->settle();
    }
    return had;
  };
  CHECK(token({1, 10}, {2, 11}, {3, 12}) == std::vector<Ids>{{1}, {2}, {3}});
  // In the first token, layer 1 was the first that could know another layer's wants, those of layer 0.
  const std::vector<std::pair<int, Ids>> starts = device.starts();
  CHECK(starts == std::vector<std::pair<int, Ids>>{{0, {10}}, {1, {11}}});
  CHECK(token({1, 10}, {2, 11}, {3, 12}) == std::vector<Ids>{{1, 10}, {2, 11}, {3, 12}});
  CHECK(device.prefetcher->counters().used == 3);
  CHECK_FALSE(device.fault);
}

TEST_CASE("with proposals, the proposed neurons are brought to the next layer only") {
  Device device({{0, 64, 4, 20}, {5, 80, 4, 20}}, kAll);
  const Ids for_5{2, 40, 79}, for_0{7};
  device.step(0, {50}, &for_5);
  device.prefetcher->settle();
  CHECK(device.step(5, {3, 40, 60, 79}, &for_0) == Ids{3, 40, 79});
  device.prefetcher->settle();
  CHECK(device.step(0, {7, 50}, &for_5) == Ids{7});
  CHECK(device.starts() == std::vector<std::pair<int, Ids>>{{5, {40, 79}}, {0, {7}}});
}

TEST_CASE("the number of neurons brought makes the link and the CPU finish together") {
  // The link takes 100 seconds per bundle; the CPU computes 3 bundles in that time, one, or a third of one.
  // (The test's own time and the start of a copy do not matter beside this.)
  const auto [cpu_seconds, n_brought] =
      GENERATE(std::pair{100.0 / 3, 11}, std::pair{100.0, 21}, std::pair{300.0, 31});
  // Both are measured, so that their initial estimates no longer matter.
  Device device({{0, 64, 0, 0}, {1, 681, 0, 681}, {2, 41, 0, 41}});
  device.control.seconds_per_bundle = 100;
  const Ids cold = range(0, 64), nobody;
  for (int i = 0; i < 64; ++i) {
    const Ids only = range(10 * i, 10 * i + 10);
    device.step(0, cold, &only);
    device.prefetcher->computed(0, 64 * cpu_seconds);
    device.prefetcher->settle();
    device.step(1, {}, &nobody);
  }
  const size_t before = device.starts().size();
  CHECK(before == 64);
  const Ids all = range(0, 41);
  device.step(1, {}, &all);
  device.prefetcher->settle();
  REQUIRE(device.starts().size() == before + 1);
  CHECK(static_cast<int>(device.starts().back().second.size()) == n_brought);
}

TEST_CASE("the link is also used while the CPU computes no neurons") {
  // The link copies 1000 bundles per second and the CPU computes as many: of 400, each would handle 200 in
  // 0.2 s. A layer takes another 0.1 s, in which the link copies another 100: so it handles 250 in 0.25 s,
  // and the CPU 150 in 0.15 s.
  VirtualTime time;
  Device device({{0, 64, 0, 0}, {1, 681, 0, 681}, {2, 400, 0, 400}});
  time.wait_for_threads(2);
  device.control.seconds_per_bundle = 1e-3;
  const Ids cold = range(0, 50), nobody, all = range(0, 400);
  device.prefetcher->begin_step();
  device.step(0, cold, &nobody);
  for (int i = 0; i < 100; ++i) {
    time.spend(0.15);
    device.prefetcher->computed(0, 0.05);
  }
  for (int i = 0; i < 64; ++i) {
    const Ids only = range(10 * i, 10 * i + 10);
    device.step(0, cold, &only);
    time.spend(0.15);
    device.prefetcher->computed(0, 0.05);
    device.step(1, {}, &nobody);
  }
  const size_t before = device.starts().size();
  CHECK(before == 64);
  device.step(1, {}, &all);
  time.spend(0.1);
  time.end();
  device.prefetcher->settle();
  size_t n_brought = 0;  // piece by piece
  const auto starts = device.starts();
  for (size_t i = before; i < starts.size(); ++i) n_brought += starts[i].second.size();
  CHECK(static_cast<double>(n_brought) ==
        Approx(250).margin(1));  // starting a copy takes no time of the link
}

TEST_CASE("once the device has begun with a layer, no more neurons are brought to it") {
  Device device({{0, 64, 0, 0}, {1, 400, 0, 400}}, kAll);
  const Ids all = range(0, 400), nobody;
  device.control.hold();
  device.step(0, {}, &all);
  device.control.await_held();  // the first piece is in flight
  device.step(1, {}, &nobody);
  device.control.let_through();
  device.prefetcher->settle();
  REQUIRE(device.starts().size() == 1);
  CHECK(device.starts()[0].second.size() == 100);
  CHECK_FALSE(device.fault);
}

TEST_CASE("a neuron wanted while it is in flight counts as late, and is used later") {
  Device device({{0, 64, 0, 8}, {1, 64, 0, 8}}, kAll);
  device.control.hold();
  const Ids next{5, 6};
  device.step(0, {}, &next);
  device.control.await_held();
  CHECK(device.step(1, {5, 9}) == Ids{});
  CHECK(device.prefetcher->counters().late == 1);
  CHECK(device.step(1, {5}) == Ids{});
  CHECK(device.prefetcher->counters().late == 1);
  device.control.let_through();
  device.prefetcher->settle();
  CHECK(device.step(1, {5, 6}) == Ids{5, 6});
  CHECK(device.prefetcher->counters().used == 2);
  CHECK_FALSE(device.fault);
}

TEST_CASE("a copy counts as hidden while a step runs that has not reached its layer") {
  Device device({{0, 64, 0, 8}, {1, 64, 0, 8}}, kAll);
  device.control.seconds_per_bundle = 1e-9;  // copied at the last moment before it is known
  const Ids next{5};
  device.prefetcher->begin_step();
  device.step(0, {}, &next);
  device.prefetcher->settle();
  const PrefetchCounters in_step = device.prefetcher->counters();
  CHECK(in_step.copy_seconds > 0);
  CHECK(in_step.hidden_seconds == Approx(in_step.copy_seconds));
  // The copy takes longer than the step, so only the part during the step is hidden.
  device.control.seconds_per_bundle = 1e6;
  const Ids another{6};
  device.step(0, {}, &another);
  device.prefetcher->settle();
  const PrefetchCounters longer = device.prefetcher->counters();
  CHECK(longer.copy_seconds > 1e6 * 0.99);
  CHECK(longer.hidden_seconds < 1e5);
  // After the step has ended, nothing is hidden.
  device.control.seconds_per_bundle = 1e-9;
  device.control.hold();
  const Ids third{7};
  device.step(0, {}, &third);
  device.control.await_held();
  device.prefetcher->end_step();
  device.control.let_through();
  device.prefetcher->settle();
  CHECK(device.prefetcher->counters().hidden_seconds == longer.hidden_seconds);
}

TEST_CASE("when moving fails, arrived neurons stay, the reason is logged once, and layers go on") {
  const bool in_gate = GENERATE(false, true);
  Device device({{0, 64, 0, 2}, {1, 64, 0, 2}}, kAll);
  const Ids first{5, 6}, then{7, 8};
  device.step(0, {}, &first);
  device.prefetcher->settle();
  CHECK(device.step(1, {5, 6}) == Ids{5, 6});
  device.prefetcher->settle();
  const auto fail = [](int, auto...) { throw std::runtime_error("the bus is gone."); };
  if (in_gate) {
    device.control.on_gate = fail;
  } else {
    device.control.on_start = fail;
  }
  for (int i = 0; i < 5; ++i) {
    device.step(0, {}, &then);
    device.prefetcher->settle();
    device.step(1, then);
    device.prefetcher->settle();
  }
  CHECK(device.prefetcher->why_stopped().find("the bus is gone.") != std::string::npos);
  CHECK(device.n_stopped == 1);
  CHECK(device.prefetcher->counters().moved == 2);
}

TEST_CASE("a prefetcher ends while copies are under way, and with no layers at all") {
  {
    Device device({{0, 64, 0, 8}, {1, 64, 0, 8}}, kAll);
    device.control.hold();
    const Ids next{5, 6};
    device.step(0, {}, &next);
    device.control.await_held();
    device.control.let_through();
  }
  Device none({});
  none.prefetcher->settle();
  CHECK(none.prefetcher->counters().moved == 0);
}

}  // namespace
}  // namespace hearth::testing
