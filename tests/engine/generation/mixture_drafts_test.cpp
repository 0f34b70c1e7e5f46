// Drafts for mixtures of experts. A step of several tokens reads the experts of all of them, so its duration
// grows nearly linearly with its tokens until experts repeat. Measured step times (draft_length.h) and the
// ledger (draft_ledger.h) include this: a text is decoded in virtual time on machines where drafts lose, and
// where they win.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "engine/generation/speculation.h"
#include "engine/serving/sequence.h"
#include "tests/support/catch.h"

using namespace hearth;

namespace {

constexpr int kMaxDraft = 32;

/// A machine on which a step takes `rest` seconds, and the experts of one token take another 1 - rest.
struct MixtureMachine {
  double rest;
  double reuse;  // probability that an expert of a token is one of the previous token's, too

  /// Each token of a step adds 1 - reuse times as many new experts as the token before it. If reuse is n_used
  /// / n_experts, all choices are equally likely.
  double seconds(int n_tokens) const {
    return rest + (1 - rest) * (1 - std::pow(1 - reuse, n_tokens)) / reuse;
  }
  /// The most tokens per second that any fixed draft length reaches, if a drafted token is right with
  /// probability p.
  double best_speed(double p) const {
    double best = 1 / seconds(1), expected = 1;
    for (int n_drafted = 1; n_drafted <= kMaxDraft; ++n_drafted) {
      expected += std::pow(p, n_drafted);
      best = std::max(best, expected / seconds(1 + n_drafted));
    }
    return best;
  }
};

struct Decoded {
  double seconds = 0;  // a step of one token takes one second
  int n_tokens = 0, n_drafted = 0;
  double speed() const { return n_tokens / seconds; }
};

/// Decodes a text in which each drafted token is right with probability p.
Decoded decode(const MixtureMachine& machine, double p, int n_tokens) {
  constexpr int kVocabulary = 6;  // so few tokens that the last two have nearly always occurred before
  std::mt19937 random(3);
  const auto chance = [&random] { return std::generate_canonical<double, 32>(random); };
  Speculation speculation({.on = true, .max_draft = kMaxDraft, .drafter = nullptr}, 1, kVocabulary, 1 << 20);
  std::vector<std::unique_ptr<Sequence>> slots;
  Sequence& sequence = *slots.emplace_back(std::make_unique<Sequence>());
  sequence.request.max_tokens = 2 * n_tokens;
  for (int i = 0; i < 200; ++i) sequence.tokens.push_back(static_cast<int32_t>(random() % kVocabulary));
  sequence.n_prompt = sequence.n_computed = static_cast<int>(sequence.tokens.size()) - 1;
  Decoded result;
  while (result.n_tokens < n_tokens) {
    speculation.draft(slots, 63);
    const std::vector<int32_t> draft = sequence.drafts.tokens();
    const auto n_wanted = static_cast<size_t>(sequence.drafts.n_wanted);
    size_t n_right = 0;
    while (n_right < draft.size() && chance() < p) ++n_right;
    const size_t n_accepted = std::min(n_right, n_wanted);
    for (size_t i = 0; i < n_accepted; ++i) sequence.tokens.push_back(draft[i]);
    // The token after the accepted ones: the draft's next token if it is right, or else another one.
    auto next = static_cast<int32_t>(random() % kVocabulary);
    if (n_accepted < draft.size()) {
      const int32_t drafted = draft[n_accepted];
      next = n_right > n_accepted ? drafted : (drafted + 1 + next % (kVocabulary - 1)) % kVocabulary;
    }
    sequence.tokens.push_back(next);
    sequence.n_computed = static_cast<int>(sequence.tokens.size()) - 1;
    speculation.learn(sequence);
    const int size = 1 + static_cast<int>(n_wanted);
    speculation.step_took({.n_tokens = size,
                           .n_drafted = static_cast<int>(n_wanted),
                           .n_accepted = static_cast<int>(n_accepted),
                           .seconds = machine.seconds(size)});
    result.seconds += machine.seconds(size);
    result.n_tokens += 1 + static_cast<int>(n_accepted);
    result.n_drafted += static_cast<int>(n_wanted);
  }
  return result;
}

constexpr double kEven = 8.0 / 128;  // reuse, if 8 of 128 experts are used equally often

std::vector<MixtureMachine> machines() {
  std::vector<MixtureMachine> all;
  for (const double rest : {0.1, 0.3, 0.5, 0.7})
    for (const double reuse : {kEven, 0.3}) all.push_back({rest, reuse});
  return all;
}

}  // namespace

TEST_CASE("mixture drafts: decoding loses no more time than the ledger allows") {
  for (const MixtureMachine& machine : machines()) {
    for (const double p : {0.1, 0.3, 0.6, 0.7, 0.8, 0.9, 0.97}) {
      for (const int n_tokens : {50, 150, 600, 4000}) {
        const Decoded decoded = decode(machine, p, n_tokens);
        CAPTURE(machine.rest, machine.reuse, p, n_tokens, decoded.seconds, decoded.n_drafted);
        // Drafts may cost the ledger's first allowance and one hundredth of the time. The last step that the
        // allowance pays for may exceed it.
        CHECK(decoded.seconds < 1.01 * decoded.n_tokens + 8 + machine.seconds(32));
      }
    }
  }
}

TEST_CASE("mixture drafts: where drafts lose, they are soon off") {
  const MixtureMachine machine{.rest = 0.1, .reuse = kEven};
  for (const double p : {0.3, 0.6, 0.8}) {
    REQUIRE(machine.best_speed(p) < 1.1);
    const Decoded decoded = decode(machine, p, 4000);
    CAPTURE(p, decoded.seconds, decoded.n_drafted);
    CHECK(decoded.n_drafted < 4000 / 16);
    CHECK(decoded.seconds < 1.015 * decoded.n_tokens);
  }
}

TEST_CASE("mixture drafts: where drafts win, their length is nearly the best") {
  int n_checked = 0;
  for (const MixtureMachine& machine : machines()) {
    for (const double p : {0.7, 0.8, 0.9, 0.97}) {
      if (machine.best_speed(p) < 1.25) continue;  // drafts are used from an estimated gain of 1.1 on
      ++n_checked;
      const Decoded decoded = decode(machine, p, 4000);
      CAPTURE(machine.rest, machine.reuse, p, machine.best_speed(p), decoded.speed(), decoded.n_drafted);
      CHECK(decoded.speed() > 0.9 * machine.best_speed(p));
    }
  }
  CHECK(n_checked > 16);
}
