// Replays: hits and times of traces that were worked out by hand, the optimum against all possible caches,
// and what the policies do on planted traces.
#include "profiler/replay/replay.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <random>

#include "profiler/machine/shipped_machines.h"
#include "profiler/replay/optimum.h"
#include "profiler/replay/prefetch_policy.h"
#include "profiler/replay/replay_report.h"
#include "tests/support/catch.h"
#include "tests/support/source_dir.h"

namespace hearth::test {
namespace {

constexpr uint64_t kSize = 1000;  // bytes of an expert

/// A trace of one layer in which each token uses one expert of n_experts.
ExpertTrace trace_of(std::vector<uint16_t> experts, int n_experts = 3) {
  ExpertTrace trace;
  trace.model.n_layers = 1;
  trace.model.n_experts = n_experts;
  trace.n_used = 1;
  trace.layers = {{0, kSize}};
  trace.add_run(TraceText::kGenerated, true, experts);
  return trace;
}

/// A token takes 1 s besides its expert. An expert on the GPU takes no further time; a missing one takes 1 s
/// for the hand-over and 4 s on the CPU. If no expert is missing, the hand-over is free, so the total time
/// shows the number of misses.
DecodeCosts costs_of(double link_bytes_per_s, double cpu_share = 1) {
  const MixtureSeconds hit{.whole = 0.5}, miss{.whole = 0.5, .host = 4, .hand_over = 1};
  return {.layers = {{{{miss, hit}, {miss, hit}, {miss, hit}}}},
          .other_s = 0.5,
          .link_bytes_per_s = link_bytes_per_s,
          .cpu_share = cpu_share,
          .other_bytes = 0};
}

PolicyResult replayed(ReplayPolicy policy, const ExpertTrace& trace, double n_held, const DecodeCosts& costs,
                      std::vector<double> use = {0.6, 0.3, 0.1}) {
  return replay(policy, trace, 0, {{std::move(use)}}, n_held * kSize, costs);
}

/// The committed traces: synth --shape qwen3-30b-a3b --layers 4 --tokens 1000 --trace FILE, and
///   flat.trace    --expert-skew 0 --expert-reuse 0
///   topics.trace  --topic-tokens 250
const std::vector<std::string> kTraces = {"skewed", "flat", "topics"};

ExpertTrace committed(const std::string& name) {
  return read_expert_trace(std::filesystem::path(hearth::testing::source_dir()) / "tests/data/traces" /
                           (name + ".trace"));
}

/// A committed trace on a machine. The first quarter is known.
struct PlantedReplay {
  PlantedReplay(const std::string& name, MachineProfile machine)
      : trace(committed(name)),
        model(model_of_shape(shape(), DType::kQ4_0, "")),
        question{.model = model,
                 .machine = std::move(machine),
                 .vram_bytes = std::nullopt,
                 .ram_bytes = std::nullopt,
                 .load = {},
                 .modes = {},
                 .activity = std::nullopt,
                 .active = std::nullopt,
                 .assumptions = {}},
        costs(decode_costs(question, trace)),
        known(use_in_trace(trace, 0, first())) {}

  static ModelShape shape() {
    ModelShape shape = *find_shape("qwen3-30b-a3b");
    shape.n_layers = 4;
    return shape;
  }
  uint64_t first() const { return trace.n_tokens() / 4; }
  PolicyResult run(ReplayPolicy policy, double share, double prefetch_accuracy = kPrefetchAccuracy) const {
    return replay(policy, trace, first(), known, share * all_expert_bytes(trace), costs, {},
                  prefetch_accuracy);
  }

  ExpertTrace trace;
  PlannedModel model;
  PlanQuestion question;
  DecodeCosts costs;
  KnownUse known;
};

MachineProfile slow_link(double bytes_per_s) {
  MachineProfile machine = *shipped_machine("rtx3060");
  machine.gpu->to_device_pinned_bytes_per_s = bytes_per_s;
  return machine;
}

}  // namespace

TEST_CASE("replay: hits of a tiny trace are those worked out by hand") {
  const ExpertTrace trace = trace_of({0, 1, 1, 0, 0, 2, 2});
  const DecodeCosts costs = costs_of(1e9);  // copies take a microsecond
  const auto hits = [&](ReplayPolicy policy, double n_held) {
    return replayed(policy, trace, n_held, costs).n_hits;
  };
  CHECK(hits(ReplayPolicy::kNone, 1) == 0);
  CHECK(hits(ReplayPolicy::kStatic, 1) == 3);
  CHECK(hits(ReplayPolicy::kStatic, 2) == 5);
  CHECK(hits(ReplayPolicy::kLru, 1) == 4);
  CHECK(hits(ReplayPolicy::kLru, 2) == 6);
  // 1 replaces 0 at its second use; 0 replaces 1 when it has 2.6 uses to 2.3; 2 never has more.
  CHECK(hits(ReplayPolicy::kLfu, 1) == 2);
  CHECK(hits(ReplayPolicy::kOptimum, 1) == 4);
  CHECK(hits(ReplayPolicy::kOptimum, 2) == 6);
  CHECK(hits(ReplayPolicy::kOptimum, 3) == 7);
  const PolicyResult lru = replayed(ReplayPolicy::kLru, trace, 1, costs);
  CHECK(lru.n_copied == 3);
  CHECK(lru.copied_bytes == 3 * kSize);
  CHECK(lru.hit_rate() == Approx(4.0 / 7));
  CHECK(lru.seconds == Approx(7 * 1 + 3 * (1 + 4)));
  CHECK(replayed(ReplayPolicy::kOptimum, trace, 1, costs).n_copied == 3);
}

TEST_CASE("replay: a copied expert is there when its copy ends, and the CPU is slower meanwhile") {
  const ExpertTrace trace = trace_of({1, 1, 1, 1, 1});
  // Copies take 7 s. The first token ends at 6 s; the copy begins with the rest of the token, at 5.5 s.
  const PolicyResult late = replayed(ReplayPolicy::kLru, trace, 1, costs_of(kSize / 7.0));
  CHECK(late.n_hits == 2);
  CHECK(late.seconds == Approx(3 * 6 + 2 * 1));
  // During a copy, the CPU works at half of its rate. It begins the second token's expert at 7.5 s, and the
  // copy ends at 12.5 s. In these 5 s it does 2.5 s of the 4 s of work, and after that the other 1.5 s.
  const PolicyResult slower = replayed(ReplayPolicy::kLru, trace, 1, costs_of(kSize / 7.0, 0.5));
  CHECK(slower.n_hits == 3);
  CHECK(slower.seconds == Approx(6 + (0.5 + 1 + 5 + 1.5 + 0.5) + 3 * 1));
}

TEST_CASE("replay: one expert is copied at a time, in the order in which they were missed") {
  ExpertTrace trace = trace_of({0, 1, 2, 0, 1, 2, 0, 1, 2}, 3);
  // Copies take 12 s, two tokens' time: 0 arrives while token 2 is computed, and so on.
  const PolicyResult result = replay(ReplayPolicy::kLru, trace, 0, {{{0, 0, 0}}}, 0, costs_of(kSize / 12.0));
  CHECK(result.n_copied == 0);  // nothing has room
  // The cache begins with the experts of lowest number, and has room for all.
  CHECK(replay(ReplayPolicy::kLru, trace, 0, {{{0, 0, 0}}}, 3 * kSize, costs_of(kSize / 12.0)).n_hits == 9);
}

TEST_CASE("replay: the optimum has as many hits as the best of all possible caches") {
  std::mt19937 rng(7);
  for (int round = 0; round < 60; ++round) {
    std::vector<uint16_t> experts;
    for (int i = 0; i < 11; ++i) experts.push_back(static_cast<uint16_t>(rng() % 4));
    const ExpertTrace trace = trace_of(experts, 4);
    // A use is a hit if the expert was kept since its previous use, or since the beginning if this is its
    // first use. Tries all sets of such intervals.
    struct Interval {
      int begin, end;  // kept for the moments between; begin is -1 for the first contents
    };
    std::vector<Interval> intervals;
    for (int i = 0; i < 11; ++i) {
      int before = i - 1;
      while (before >= 0 && experts[static_cast<size_t>(before)] != experts[static_cast<size_t>(i)]) --before;
      intervals.push_back({before, i});
    }
    const int capacity = 1 + round % 3;
    int best = 0;
    for (uint32_t set = 0; set < 1u << 11; ++set) {
      bool fits = true;
      for (int moment = -1; moment < 11 && fits; ++moment) {  // just after each moment
        int n = 0;
        for (uint32_t i = 0; i < 11; ++i) {
          const Interval& interval = intervals[i];
          n += ((set >> i) & 1) != 0 && interval.begin <= moment && interval.end > moment ? 1 : 0;
        }
        fits = n <= capacity;
      }
      if (fits) best = std::max(best, std::popcount(set));
    }
    CAPTURE(round);
    CHECK(replayed(ReplayPolicy::kOptimum, trace, capacity, costs_of(1e9), {0, 0, 0, 0}).n_hits ==
          static_cast<uint64_t>(best));
  }
}

TEST_CASE("replay: no policy catches more than the optimum, and more memory catches more") {
  for (const std::string& name : kTraces) {
    const PlantedReplay planted(name, *shipped_machine("rtx4090"));
    double before = 0;
    for (const double share : {0.05, 0.25, 0.5, 0.9}) {
      const PolicyResult optimum = planted.run(ReplayPolicy::kOptimum, share);
      CAPTURE(name, share);
      CHECK(optimum.hit_rate() > before);
      before = optimum.hit_rate();
      for (const ReplayPolicy policy : {ReplayPolicy::kNone, ReplayPolicy::kStatic, ReplayPolicy::kLru,
                                        ReplayPolicy::kLfu, ReplayPolicy::kDecay, ReplayPolicy::kLearned}) {
        const PolicyResult result = planted.run(policy, share);
        CAPTURE(policy_name(policy));
        CHECK(result.n_hits <= optimum.n_hits);
        CHECK(result.n_choices == 750 * 4 * 8);
        CHECK((policy == ReplayPolicy::kNone ? result.n_hits == 0 : result.hit_rate() > share / 2));
      }
    }
    CHECK(planted.run(ReplayPolicy::kLearned, 1).hit_rate() == 1);
  }
}

TEST_CASE("replay: on a flat trace the learned policy loses nothing against the first contents") {
  for (const char* name : {"rtx4090", "rtx3060"}) {
    const PlantedReplay planted("flat", *shipped_machine(name));
    for (const double share : {0.05, 0.25, 0.5}) {
      const PolicyResult learned = planted.run(ReplayPolicy::kLearned, share);
      CAPTURE(name, share);
      CHECK(learned.seconds < 1.02 * planted.run(ReplayPolicy::kStatic, share).seconds);
      CHECK(learned.seconds < 1.02 * planted.run(ReplayPolicy::kNone, share).seconds);
    }
  }
}

TEST_CASE(
    "replay: the learned policy follows topics, and is faster than the first contents where use is skewed") {
  for (const char* name : {"rtx4090", "rtx3060"}) {
    for (const char* trace : {"skewed", "topics"}) {
      const PlantedReplay planted(trace, *shipped_machine(name));
      const PolicyResult learned = planted.run(ReplayPolicy::kLearned, 0.25),
                         fixed = planted.run(ReplayPolicy::kStatic, 0.25);
      CAPTURE(name, trace);
      CHECK(learned.n_hits > fixed.n_hits);
      CHECK(learned.seconds < fixed.seconds);
    }
  }
}

TEST_CASE("replay: the learned policy is never slower than LRU by more than noise") {
  for (const std::string& name : kTraces) {
    for (const char* machine : {"rtx4090", "rtx3060", "rtx4060-laptop", "h100"}) {
      const PlantedReplay planted(name, *shipped_machine(machine));
      for (const double share : {0.25, 0.5, 0.75}) {
        CAPTURE(name, machine, share);
        CHECK(planted.run(ReplayPolicy::kLearned, share).seconds <
              1.02 * planted.run(ReplayPolicy::kLru, share).seconds);
      }
    }
  }
}

TEST_CASE("replay: on a slow link, copying every missed expert is slower than no cache") {
  const PlantedReplay planted("flat", slow_link(6e9));
  const double none = planted.run(ReplayPolicy::kNone, 0.05).seconds;
  CHECK(planted.run(ReplayPolicy::kLru, 0.05).seconds > none);
  CHECK(planted.run(ReplayPolicy::kLearned, 0.05).seconds < none);
}

/// Decodes `n_tokens` times a token that uses expert 2 of 3 in each of two layers, while the GPU's cache
/// keeps expert 0. The tokens before it used 0 and 1. Experts of the second layer may be prefetched.
struct Prefetched {
  double seconds = 0;
  int n_hits = 0;
  uint64_t n_copied = 0;
};
DecodeCosts costs_two_layers(double copy_s, double cpu_share) {
  DecodeCosts costs = costs_of(kSize / copy_s, cpu_share);
  costs.layers.push_back(costs.layers.front());
  return costs;
}
Prefetched prefetched(double copy_s, double cpu_share, double accuracy, int n_tokens = 1) {
  ExpertTrace trace = trace_of({});
  trace.model.n_layers = 2;
  trace.layers = {{0, kSize}, {1, kSize}};
  trace.add_run(TraceText::kGenerated, true, std::vector<uint16_t>{0, 0, 1, 1, 2, 2});
  const DecodeCosts costs = costs_two_layers(copy_s, cpu_share);
  const std::vector<double> use = {1, 0, 0};
  PrefetchPolicy policy(make_policy(ReplayPolicy::kStatic, trace, {{use, use}}, 2 * kSize, kSize), trace,
                        costs, Held::kSome, accuracy);
  DecodeClock clock(costs, Held::kSome, policy);
  Prefetched result;
  for (int token = 0; token < n_tokens; ++token) {
    for (size_t layer = 0; layer < 2; ++layer) {
      if (layer == 0) policy.predict(2, 1);
      result.n_hits += clock.run_layer(layer, trace.chosen(2, layer));
    }
    policy.end_token(clock.end_token());
  }
  result.seconds = clock.seconds();
  result.n_copied = clock.n_copied();
  return result;
}

TEST_CASE("replay: a prefetched expert counts if it arrives before its layer's router has chosen") {
  constexpr double kMissed = 0.5 + 1 + 4, kHit = 0.5, kOther = 0.5;
  // Copies of 0.4 s fit in the second layer's attention, which takes 0.5 s.
  const Prefetched fits = prefetched(0.4, 0.5, 1);
  CHECK(fits.n_hits == 1);
  CHECK(fits.n_copied == 1);
  CHECK(fits.seconds == Approx(kMissed + kHit + kOther));
  // Copies of 0.9 s begin 0.4 s before the first layer ends. Meanwhile, the CPU has half of its rate.
  const Prefetched early = prefetched(0.9, 0.5, 1);
  CHECK(early.n_hits == 1);
  CHECK(early.seconds == Approx(kMissed + 0.2 + kHit + kOther));
  // Copies of 20 s would arrive too late, so none begins.
  const Prefetched late = prefetched(20, 1, 1);
  CHECK(late.n_hits == 0);
  CHECK(late.n_copied == 0);
  CHECK(late.seconds == Approx(2 * kMissed + kOther));
}

TEST_CASE("replay: a wrong prefetch saves nothing, and none begins if prefetches are expected to lose time") {
  const Prefetched half = prefetched(0.4, 1, 0.5, 1000);
  CHECK(half.n_hits > 400);
  CHECK(half.n_hits < 600);
  // One half of the wrong predictions name the expert that the cache has.
  CHECK(half.n_copied > 650);
  CHECK(half.n_copied < 850);
  CHECK(prefetched(0.4, 1, 0, 10).n_copied == 0);
  // Copies of 8 s take 7.5 s of the CPU's time at 0.6 of its rate: 3 s of work, while an expert takes 4 s.
  CHECK(prefetched(8, 0.6, 1, 10).n_copied == 0);  // more than the CPU's work in a layer
  CHECK(best_prefetch(costs_two_layers(8, 0.6), Held::kSome, 1, kSize, 0.8) == 1);
  CHECK(best_prefetch(costs_two_layers(8, 0.6), Held::kSome, 1, kSize, 0.7) == 0);
}

TEST_CASE("replay: prefetches with a good prediction save time, and without one change nothing") {
  for (const char* name : {"rtx4090", "rtx3060"}) {
    const PlantedReplay planted("skewed", *shipped_machine(name));
    const PolicyResult learned = planted.run(ReplayPolicy::kLearned, 0.25),
                       right = planted.run(ReplayPolicy::kPrefetch, 0.25, 1),
                       wrong = planted.run(ReplayPolicy::kPrefetch, 0.25, 0);
    CAPTURE(name);
    CHECK(right.n_hits > learned.n_hits);
    CHECK(right.seconds < learned.seconds);
    CHECK(wrong.n_copied == learned.n_copied);
    CHECK(wrong.seconds == Approx(learned.seconds));
  }
}

TEST_CASE("replay: generated tokens are decoded, prompts only if they are asked for") {
  ExpertTrace trace = trace_of({0, 0});
  trace.add_run(TraceText::kPrompt, true, std::vector<uint16_t>{1, 2, 1});
  trace.add_run(TraceText::kGenerated, false, std::vector<uint16_t>{2});
  CHECK(decoded_part(trace, false).experts == std::vector<uint16_t>{0, 0, 2});
  CHECK(decoded_part(trace, true).experts == trace.experts);
  const KnownUse use = use_in_trace(trace, 2, 6);
  CHECK(use.per_token[0] == std::vector<double>{0, 0.5, 0.5});
  ActivityCounts counts(1, 3, true);
  counts.n_tokens = 4;
  counts.active = {1, 2, 1};
  CHECK(use_in_counts(trace, counts).per_token[0] == std::vector<double>{0.25, 0.5, 0.25});
}

TEST_CASE("replay: experts of different sizes share the budget by their use per byte") {
  ExpertTrace trace = trace_of({0, 1});
  trace.model.n_layers = 2;
  trace.layers = {{0, 1000}, {1, 3000}};
  const KnownUse known{{{0.2, 0.5, 0.3}, {0.2, 0.1, 0.7}}};
  const auto held = hottest_experts(trace, known, 5000);
  CHECK(held[0] == std::vector<int32_t>{1, 2});
  CHECK(held[1] == std::vector<int32_t>{2});
  CHECK_FALSE(optimal_hits(trace, 0, 5000).exact);
}

TEST_CASE("replay: the table has a line for each policy, and tells what does not fit the GPU") {
  const PlantedReplay planted("skewed", *shipped_machine("rtx3060"));
  const std::vector<PolicyResult> results{planted.run(ReplayPolicy::kStatic, 0.25),
                                          planted.run(ReplayPolicy::kOptimum, 0.25)};
  ReplayedTrace what{.question = planted.question,
                     .trace = planted.trace,
                     .trained_on = "its first 250 tokens",
                     .budget_bytes = 0.25 * all_expert_bytes(planted.trace),
                     .other_bytes = planted.costs.other_bytes};
  const std::string text = replay_text(what, results);
  CHECK_THAT(text, ContainsSubstring("750 decoded tokens; 8 of 128 experts in each of 4 layers") &&
                       ContainsSubstring("budget    25.0 % of the experts") &&
                       ContainsSubstring("\nstatic ") && ContainsSubstring("\noptimum ") &&
                       ContainsSubstring("knows the future"));
  CHECK_THAT(text, !ContainsSubstring("has free"));
  what.other_bytes = 13e9;
  CHECK_THAT(replay_text(what, results), ContainsSubstring("more than such a GPU has free"));
  CHECK_THAT(replay_json(what, results), ContainsSubstring("\"policy\": \"static\""));
}

}  // namespace hearth::test
