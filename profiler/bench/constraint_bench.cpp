// Implements run_constraint_bench(), which decodes free and constrained text in turn.
#include "profiler/bench/constraint_bench.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "engine/constraint/constraint.h"
#include "engine/constraint/forced_tokens.h"
#include "engine/constraint/mask/token_trie.h"
#include "engine/sampling/sampler.h"
#include "engine/step/fixed_blocks.h"
#include "engine/tokenizer/tokenizer.h"
#include "profiler/bench/bench.h"

namespace hearth {
namespace {

using Clock = std::chrono::steady_clock;

/// All texts begin with this prompt. It makes the model write text similar to the constrained forms.
constexpr std::string_view kPrompt = "Here is a customer's record, with all details, as JSON:\n";
constexpr int kMostPrompt = 64;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// Returns the calling thread's processor time in ms, which does not include time taken by other programs.
double thread_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

/// One slot's text.
struct Slot {
  std::vector<int32_t> tokens;  // the prompt, then the generated tokens
  std::optional<ConstraintState> state;
  std::vector<int32_t> forced;  // forced tokens that have not been appended yet, in reverse order
  SamplerState sampler;
};

/// The slots that decode one form, either free text or one of the constraints.
class Decoder {
 public:
  Decoder(ModelRuntime& model, const ConstraintBenchOptions& options, const FixedBlocks& blocks,
          int first_slot)
      : model_(model),
        first_slot_(first_slot),
        slots_(static_cast<size_t>(options.n_slots)),
        sampler_(model.facts().spec.n_vocab) {
    params_.temperature = options.temperature;
    blocks.set_tables(batch_);
  }

  void hold_to(std::shared_ptr<const Constraint> constraint) { constraint_ = std::move(constraint); }

  /// Computes the prompt, and chooses each slot's first token. Every round samples different texts.
  void begin(const std::vector<int32_t>& prompt, uint64_t round) {
    n_prompt_ = static_cast<int>(prompt.size());
    for (size_t s = 0; s < slots_.size(); ++s) {
      Slot& slot = slots_[s];
      slot = Slot{};
      slot.tokens = prompt;
      start_text(slot);
      batch_.clear();
      for (int i = 0; i < n_prompt_; ++i) add(static_cast<int>(s), prompt[static_cast<size_t>(i)], i);
      batch_.logit_rows = {n_prompt_ - 1};
      params_.seed = round * 1000 + s;
      choose(slot, forward());
    }
    spent_ms_.clear();
    n_forced_ = 0;
  }

  /// Runs one step of all slots. Returns its duration in ms.
  double step(uint64_t round) {
    const Clock::time_point begin = Clock::now();
    batch_.clear();
    for (size_t s = 0; s < slots_.size(); ++s) {
      add(static_cast<int>(s), slots_[s].tokens.back(), static_cast<int>(slots_[s].tokens.size()) - 1);
      batch_.logit_rows.push_back(static_cast<int32_t>(s));
    }
    const std::span<const float> logits = forward();
    const auto n_vocab = static_cast<size_t>(model_.facts().spec.n_vocab);
    for (size_t s = 0; s < slots_.size(); ++s) {
      params_.seed = round * 1000 + s;
      choose(slots_[s], logits.subspan(s * n_vocab, n_vocab));
    }
    return ms_since(begin);
  }

  // time spent on the constraint, one value per token
  const std::vector<double>& spent_ms() const { return spent_ms_; }
  int n_forced() const { return n_forced_; }
  int n_texts() const { return n_texts_; }

 private:
  void start_text(Slot& slot) const {
    if (constraint_ != nullptr) slot.state.emplace(constraint_);
    slot.forced.clear();
  }

  void add(int slot, int32_t token, int position) {
    batch_.tokens.push_back(token);
    batch_.positions.push_back(position);
    batch_.slots.push_back(first_slot_ + slot);
  }

  std::span<const float> forward() { return model_.forward(batch_).logits; }

  void choose(Slot& slot, std::span<const float> logits) {
    const double begin = thread_ms();
    const TokenMask* const allowed = mask(slot);
    const double mask_ms = thread_ms() - begin;
    const SampleResult drawn = sampler_.sample({.logits = logits,
                                                .params = params_,
                                                .tokens = slot.tokens,
                                                .n_prompt = n_prompt_,
                                                .allowed = allowed,
                                                .state = slot.sampler});
    if (!drawn.error.empty()) throw std::runtime_error(std::string(drawn.error));
    const double chosen = thread_ms();
    slot.tokens.push_back(constraint_ != nullptr ? followed(slot, drawn.token) : drawn.token);
    if (constraint_ != nullptr) spent_ms_.push_back(mask_ms + thread_ms() - chosen);
  }

  /// Returns the tokens that may come next, by the engine's rule: the tokens that the constraint allows, and
  /// end tokens where the text may end. Null for free text.
  const TokenMask* mask(Slot& slot) {
    if (!slot.state) return nullptr;
    const TokenMask& mask = slot.state->mask();
    if (!slot.state->may_end()) return &mask;
    with_ends_ = mask;
    for (const int32_t token : model_.facts().tokenizer.end_tokens()) with_ends_.allow(token);
    return &with_ends_;
  }

  /// Returns the token to append: the next forced token if there is one, otherwise `drawn`. Advances the
  /// constraint's state past the returned token.
  int32_t followed(Slot& slot, int32_t drawn) {
    if (!slot.forced.empty()) {
      drawn = slot.forced.back();
      slot.forced.pop_back();
      ++n_forced_;
    }
    if (!slot.state->accept(drawn)) {  // an end token
      end_text(slot);
      return drawn;
    }
    if (slot.state->must_end())
      end_text(slot);
    else if (slot.forced.empty()) {
      slot.forced = forced_tokens(*slot.state);
      std::reverse(slot.forced.begin(), slot.forced.end());
    }
    return drawn;
  }

  void end_text(Slot& slot) {
    ++n_texts_;
    start_text(slot);
  }

  ModelRuntime& model_;
  const int first_slot_;
  std::shared_ptr<const Constraint> constraint_;
  std::vector<Slot> slots_;
  Sampler sampler_;
  SamplingParams params_;
  Batch batch_;
  TokenMask with_ends_;
  std::vector<double> spent_ms_;
  int n_prompt_ = 0, n_forced_ = 0, n_texts_ = 0;
};

/// The rounds' measurements of one form.
struct Rounds {
  std::vector<double> step_ms, share, compile_ms, spent_ms;
  int n_forced = 0, n_texts = 0;
};

ConstraintCost cost_of(const ConstraintCase& form, Rounds rounds, const ConstraintBenchOptions& options) {
  ConstraintCost cost{.name = form.name};
  cost.tokens_per_s = options.n_slots * 1000.0 / upper_median(rounds.step_ms);
  cost.share = upper_median(rounds.share);
  cost.n_texts = rounds.n_texts;
  if (rounds.spent_ms.empty()) return cost;
  cost.compile_ms = upper_median(rounds.compile_ms);
  std::vector<double>& spent = rounds.spent_ms;
  std::sort(spent.begin(), spent.end());
  const auto n = static_cast<double>(spent.size());
  cost.mean_ms = std::accumulate(spent.begin(), spent.end(), 0.0) / n;
  cost.p99_ms = spent[(spent.size() - 1) * 99 / 100];
  cost.max_ms = spent.back();
  cost.forced = rounds.n_forced / n;
  return cost;
}

std::vector<int32_t> prompt_of(const Tokenizer& tokenizer) {
  std::vector<int32_t> prompt = tokenizer.encode(kPrompt, true, false);
  if (prompt.size() > kMostPrompt) prompt.resize(kMostPrompt);
  return prompt;
}

}  // namespace

int slots_of(std::span<const ConstraintCase> cases, const ConstraintBenchOptions& options) {
  return static_cast<int>(cases.size()) * options.n_slots;
}

int context_of(const ConstraintBenchOptions& options) { return kMostPrompt + options.n_generate + 1; }

std::vector<ConstraintCost> run_constraint_bench(ModelRuntime& model, std::span<const ConstraintCase> cases,
                                                 const ConstraintBenchOptions& options,
                                                 const std::function<void(double fraction)>& progress) {
  // 1. Prepare the vocabulary's token trie, and slots for every form.
  const auto trie = TokenTrie::from_tokenizer(model.facts().tokenizer);
  const std::vector<int32_t> prompt = prompt_of(model.facts().tokenizer);
  const FixedBlocks blocks(model.limits(), slots_of(cases, options));
  std::vector<Decoder> decoders;
  for (size_t i = 0; i < cases.size(); ++i)
    decoders.emplace_back(model, options, blocks, static_cast<int>(i) * options.n_slots);
  std::vector<Rounds> found(cases.size());

  for (int round = 0; round < options.n_repeats; ++round) {
    const auto seed = static_cast<uint64_t>(round);
    // 2. Compile the constraints again, without the masks that the previous round cached, and compute the
    // prompt.
    for (size_t i = 0; i < cases.size(); ++i) {
      if (cases[i].is_constrained()) {
        const double begin = thread_ms();
        decoders[i].hold_to(Constraint::compile(cases[i].grammar(), trie));
        found[i].compile_ms.push_back(thread_ms() - begin);
      }
      decoders[i].begin(prompt, seed);
    }
    // 3. Run steps of all forms in turn. The order rotates, because each form finds the CPU caches as the
    //    previous form left them.
    std::vector<double> round_ms(cases.size());
    for (int t = 0; t < options.n_generate; ++t) {
      for (size_t i = 0; i < cases.size(); ++i) {
        const size_t turn = (i + static_cast<size_t>(t)) % cases.size();
        round_ms[turn] += decoders[turn].step(seed);
      }
      if (progress) progress((round + (t + 1.0) / options.n_generate) / options.n_repeats);
    }
    // 4. Keep the round's measurements.
    for (size_t i = 0; i < cases.size(); ++i) {
      found[i].step_ms.push_back(round_ms[i] / options.n_generate);
      found[i].share.push_back(round_ms[i] / round_ms[0] - 1);
      found[i].n_forced += decoders[i].n_forced();
      found[i].n_texts = decoders[i].n_texts();
      const std::vector<double>& spent = decoders[i].spent_ms();
      found[i].spent_ms.insert(found[i].spent_ms.end(), spent.begin(), spent.end());
    }
  }

  std::vector<ConstraintCost> costs;
  for (size_t i = 0; i < cases.size(); ++i) costs.push_back(cost_of(cases[i], std::move(found[i]), options));
  return costs;
}

std::string constraint_bench_text(const ModelRuntime& model, const ConstraintBenchOptions& options,
                                  std::span<const ConstraintCost> costs) {
  std::string text = fmt::format(
      "model    {}, {}, {} tokens\nbackend  {}\n"
      "decode   {} tokens in each of {} slots, {} rounds, forms in turn\n\n"
      "{:<22} {:>9} {:>10}   {:>21}   {:>8} {:>7} {:>6}\n"
      "{:<22} {:>9} {:>10}   {:>21}   {:>8} {:>7} {:>6}\n",
      model.facts().file.path().filename().string(), model.facts().spec.name, model.facts().spec.n_vocab,
      model.placed().backend, options.n_generate, options.n_slots, options.n_repeats, "form", "tokens/s",
      "per token", "constraint's ms", "compiled", "forced", "texts", "", "", "", "mean / p99 / max", "ms", "",
      "ended");
  for (const ConstraintCost& cost : costs) {
    text += fmt::format("{:<22} {:>9.1f}", cost.name, cost.tokens_per_s);
    if (&cost == &costs.front()) {
      text += "\n";
      continue;
    }
    text += fmt::format(" {:>+9.2f} %   {:>6.3f} /{:>6.3f} /{:>6.2f}   {:>8.1f} {:>5.1f} % {:>6}\n",
                        100 * cost.share, cost.mean_ms, cost.p99_ms, cost.max_ms, cost.compile_ms,
                        100 * cost.forced, cost.n_texts);
  }
  return text;
}

std::string constraint_bench_json(const ModelRuntime& model, const ConstraintBenchOptions& options,
                                  std::span<const ConstraintCost> costs) {
  nlohmann::ordered_json json = {{"model", model.facts().file.path().filename().string()},
                                 {"backend", model.placed().backend},
                                 {"vocabulary", model.facts().spec.n_vocab},
                                 {"slots", options.n_slots},
                                 {"generate", options.n_generate},
                                 {"rounds", options.n_repeats},
                                 {"forms", nlohmann::ordered_json::array()}};
  for (const ConstraintCost& cost : costs) {
    nlohmann::ordered_json form = {{"name", cost.name}, {"tokens_per_s", cost.tokens_per_s}};
    if (&cost != &costs.front()) {
      form.update({{"cost_share", cost.share},
                   {"constraint_ms", {{"mean", cost.mean_ms}, {"p99", cost.p99_ms}, {"max", cost.max_ms}}},
                   {"compile_ms", cost.compile_ms},
                   {"forced_share", cost.forced},
                   {"texts_ended", cost.n_texts}});
    }
    json["forms"].push_back(std::move(form));
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace hearth
