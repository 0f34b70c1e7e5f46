// See the header.
#include "engine/generation/speculation.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "engine/serving/sequence.h"

namespace hearth {
namespace {

// The acceptance that is assumed for each kind of draft until some drafts of that kind were observed. Longer
// matches are more likely to continue correctly. The value of kind 0 is so low that its drafts are not
// computed until their acceptance has been observed to be higher.
constexpr std::array<double, Draft::kKinds> kPrior = {0.2, 0.5, 0.7, 0.8, 0.9, 0.7};
// Number of recent tokens that determine the acceptance estimates: over all sequences (kMemory) and for one
// sequence (kSequenceMemory). In the estimate for one sequence, the overall estimate counts as much as
// kPriorWeight observed tokens.
constexpr double kMemory = 256, kSequenceMemory = 32;
constexpr double kPriorWeight = 4;
// After this many steps with drafts, one step runs without drafts, so that the cost of plain steps stays
// known.
constexpr int kPlainEvery = 64;
// A step's time counts as at most this multiple of the expected time, because the system may have interrupted
// the step.
constexpr double kInterrupted = 2;
// The text of a sequence may become easier to guess. So the draft model is tried again after this many
// generated tokens, then each time the answer has doubled in length.
constexpr int kFirstTrial = 16;
// Limits of the two DraftLedgers, in units of one step's time: for drafts from the sequences' own texts, and
// for drafts from the draft model. The draft model's limits are higher because it must first read the prompt.
// In the time of 256 steps, it reads about ten thousand tokens.
constexpr double kTextsFirst = 8, kTextsMost = 32;
constexpr double kModelFirst = 32, kModelMost = 256;
// The first read is limited to this many tokens, to learn how long reading takes.
constexpr int kFirstRead = 16;
// Weight of the newest measurement in the mean time that the draft model takes to read one token.
constexpr double kNewestRead = 1.0 / 8;

// Returns the kind of a draft with this many matching tokens: 2 to 3 are kind 0, 4 to 7 are kind 1, and so
// on; 32 are kind 4.
int kind_of(int match_length) { return std::bit_width(static_cast<unsigned>(match_length)) - 2; }

bool decodes(const Sequence& sequence) {
  return !sequence.prefilling() && !sequence.request.embedding && sequence.request.max_tokens > 0;
}

}  // namespace

Speculation::Speculation(SpeculationOptions options, int n_slots, int n_vocab, int context_tokens)
    : options_(std::move(options)), of_texts_(kTextsFirst, kTextsMost), of_model_(kModelFirst, kModelMost) {
  if (!options_.on) return;
  if (options_.draft_model == nullptr) {
    if (options_.predictor != nullptr) nextn_.emplace(*options_.predictor, n_slots);
    return;
  }
  model_.emplace(*options_.draft_model, n_slots, n_vocab, std::min(options_.draft_context, context_tokens));
}

void Speculation::bind_thread() {
  if (model_) model_->bind_thread();
}

void Speculation::draft(std::span<const std::unique_ptr<Sequence>> slots, int n_more) {
  if (!options_.on) return;
  collect(slots);
  by_model_ = false;
  if (candidates_.empty() || options_.drafter) return;
  // If a step has prompt tokens, they dominate its duration, which then reveals nothing about drafts.
  const bool plain = any_prompt_ || n_since_plain_ >= kPlainEvery;
  if (plain && !options_.whatever_it_costs) return;
  read_ahead(n_more);
  choose(n_more);
  plan_model();
  if (model_) run_model();
}

/// Lists the sequences for which tokens can be drafted, and looks up the drafts that cost nothing.
void Speculation::collect(std::span<const std::unique_ptr<Sequence>> slots) {
  candidates_.clear();
  n_decoding_ = 0;
  any_prompt_ = false;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    if (!slots[slot]) continue;
    Sequence& sequence = *slots[slot];
    SequenceDrafts& drafts = sequence.drafts;
    drafts.looked_up.tokens.clear();
    drafts.by_model = drafts.in_prediction = false;
    drafts.n_wanted = 0;
    any_prompt_ = any_prompt_ || sequence.prefilling();
    if (!decodes(sequence)) continue;
    n_decoding_ += sequence.n_pending();
    Candidate candidate{.sequence = &sequence,
                        .slot = static_cast<int>(slot),
                        .n_left = sequence.request.max_tokens - sequence.n_generated() - 1};
    if (candidate.n_left <= 0) continue;
    drafts.n_sequence_tokens = sequence.tokens.size();
    if (options_.drafter) {
      options_.drafter->draft(sequence, drafts.looked_up.tokens);
      drafts.n_wanted = std::min(candidate.n_left, static_cast<int>(drafts.looked_up.tokens.size()));
    } else {
      look_up(sequence);
      if (model_) candidate.n_missing = model_->n_missing(sequence, candidate.slot);
      if (nextn_ && NextnDrafter::can_draft(sequence)) candidate.n_missing = 1;
    }
    candidates_.push_back(candidate);
  }
}

void Speculation::look_up(Sequence& sequence) const {
  SequenceDrafts& drafts = sequence.drafts;
  if (!drafts.lookup) {
    const size_t most =
        static_cast<size_t>(sequence.n_prompt) + static_cast<size_t>(sequence.request.max_tokens);
    const auto& prediction = sequence.request.prediction;
    drafts.lookup = std::make_unique<PromptLookup>(
        prediction ? std::span(*prediction) : std::span<const int32_t>(), most);
    drafts.looked_up.tokens.reserve(static_cast<size_t>(options_.max_draft));
  }
  const int length =
      drafts.lookup->find(sequence.tokens, static_cast<size_t>(options_.max_draft), drafts.looked_up.tokens);
  if (length > 0) drafts.looked_up.kind = kind_of(length);
  drafts.in_prediction = drafts.lookup->in_prediction();
}

double Speculation::share_of(const Sequence& sequence, int kind) const {
  const auto k = static_cast<size_t>(kind);
  return sequence.drafts.acceptance[k].share(acceptance_[k].share(kPrior[k], kPriorWeight), kPriorWeight);
}

double Speculation::model_share(const Sequence& sequence) const {
  const double share = share_of(sequence, Draft::kModel);
  return sequence.n_generated() < sequence.drafts.next_trial ? share : std::max(share, kPrior[Draft::kModel]);
}

/// Estimated times of the draft model for n_sequences sequences with n_missing missing tokens in total; 0 if
/// unknown.
ModelSeconds Speculation::model_seconds(int n_missing, int n_sequences) const {
  if (model_costs_.most_tokens() == 0) return {};
  return {.first = model_costs_.seconds(n_missing), .each = model_costs_.seconds(n_sequences)};
}

bool Speculation::is_ready(const Candidate& candidate) const {
  return candidate.n_missing && (nextn_ || *candidate.n_missing <= model_->most_missing());
}

DraftChoice Speculation::model_choice(const Candidate& candidate) const {
  const int most = nextn_ ? std::min(options_.max_draft, nextn_->most_tokens()) : options_.max_draft;
  return {.share = model_share(*candidate.sequence),
          .n_offered = std::min(candidate.n_left, most),
          .modeled = true};
}

/// Whether the draft model should read the text: whether its drafts would probably save more time in the rest
/// of the answer than reading takes.
bool Speculation::is_worth_reading(const Candidate& candidate, int n_more) const {
  if (options_.whatever_it_costs) return true;
  DraftChoice alone = model_choice(candidate);
  const double gain = choose_lengths(costs_, n_decoding_, n_more, std::span(&alone, 1), model_seconds(1, 1));
  if (gain <= 1) return false;
  const double plain = costs_.seconds(n_decoding_), to_read = read_seconds_ * *candidate.n_missing;
  return to_read <= candidate.n_left * plain * (1 - 1 / gain) && of_model_.allows(to_read / plain);
}

/// Lets the draft model read part of one text, so that it can soon draft for that sequence without delaying
/// others for long.
void Speculation::read_ahead(int n_more) {
  for (Candidate& candidate : candidates_) {
    if (!candidate.n_missing || is_ready(candidate) || !is_worth_reading(candidate, n_more)) continue;
    const int most = read_seconds_ > 0 ? model_->most_read() : std::min(kFirstRead, model_->most_read());
    const int n = std::min(*candidate.n_missing - 1, most);
    const auto begin = std::chrono::steady_clock::now();
    model_->read(*candidate.sequence, candidate.slot, n);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    *candidate.n_missing -= n;
    model_seconds_ += seconds;
    read_seconds_ += (read_seconds_ > 0 ? kNewestRead : 1.0) * (seconds / n - read_seconds_);
    return;
  }
}

/// Decides the source and length of every sequence's draft.
void Speculation::choose(int n_more) {
  // 1. Offer the drafts from the sequences' own texts.
  choices_.clear();
  for (const Candidate& candidate : candidates_) {
    const Draft& draft = candidate.sequence->drafts.looked_up;
    const bool offered = !draft.tokens.empty() && (options_.whatever_it_costs || of_texts_.allows(0));
    choices_.push_back(
        {.share = offered ? share_of(*candidate.sequence, draft.kind) : 0.0,
         .n_offered = offered ? std::min(candidate.n_left, static_cast<int>(draft.tokens.size())) : 0});
  }
  // 2. Use the draft model's drafts instead where they are more likely to be right.
  with_model_ = choices_;
  int n_missing = 0, n_modeled = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (!is_ready(candidates_[i]) || !(options_.whatever_it_costs || of_model_.allows(0))) continue;
    const DraftChoice by_model = model_choice(candidates_[i]);
    if (by_model.share <= choices_[i].share && !options_.whatever_it_costs) continue;
    with_model_[i] = by_model;
    n_missing += *candidates_[i].n_missing;
    ++n_modeled;
  }
  // 3. Choose the combination with the highest expected tokens per second.
  bool use_model = n_modeled > 0;
  if (options_.whatever_it_costs) {
    for (DraftChoice& choice : use_model ? with_model_ : choices_) choice.n_computed = choice.n_offered;
  } else {
    const double without = choose_lengths(costs_, n_decoding_, n_more, choices_);
    use_model = use_model && choose_lengths(costs_, n_decoding_, n_more, with_model_,
                                            model_seconds(n_missing, n_modeled)) > without;
  }
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const DraftChoice& choice = use_model ? with_model_[i] : choices_[i];
    SequenceDrafts& drafts = candidates_[i].sequence->drafts;
    drafts.n_wanted = choice.n_computed;
    drafts.by_model = choice.modeled && choice.n_computed > 0;
  }
}

/// Lists the sequences for which the draft model or the model's own layer drafts.
void Speculation::plan_model() {
  jobs_.clear();
  for (const Candidate& candidate : candidates_) {
    SequenceDrafts& drafts = candidate.sequence->drafts;
    if (!drafts.by_model) continue;
    drafts.modeled.kind = Draft::kModel;
    drafts.modeled.tokens.clear();
    drafts.in_prediction = false;
    drafts.next_trial =
        candidate.sequence->n_generated() + std::max(kFirstTrial, candidate.sequence->n_generated());
    jobs_.push_back({.sequence = candidate.sequence,
                     .slot = candidate.slot,
                     .n_wanted = drafts.n_wanted,
                     .draft = &drafts.modeled.tokens});
  }
  by_model_ = !jobs_.empty();
}

void Speculation::run_model() {
  if (by_model_) finish_model(model_->draft(jobs_));
}

void Speculation::predict(std::span<const std::unique_ptr<Sequence>> slots, std::span<StepPiece> pieces,
                          const Batch& tables) {
  if (!nextn_ || !by_model_) return;
  // 1. The scheduler may have shortened drafts, or taken sequences out of their slots.
  const auto piece_of = [&](const DraftJob& job) {
    return std::ranges::find_if(pieces, [&](const StepPiece& piece) {
      return piece.slot == job.slot && slots[static_cast<size_t>(piece.slot)].get() == job.sequence;
    });
  };
  std::erase_if(jobs_, [&](DraftJob& job) {
    const auto piece = piece_of(job);
    job.n_wanted = piece == pieces.end() ? 0 : piece->n_drafted;
    return job.n_wanted == 0;
  });
  by_model_ = !jobs_.empty();
  if (!by_model_) return;
  // 2. Draft, and leave out of the step what was not drafted.
  finish_model(nextn_->draft(jobs_, tables));
  for (const DraftJob& job : jobs_) {
    StepPiece& piece = *piece_of(job);
    const int n_less = piece.n_drafted - static_cast<int>(job.draft->size());
    for (int* const n : {&piece.n_drafted, &piece.n_tokens, &piece.n_rows}) *n -= n_less;
  }
}

void Speculation::finish_model(std::span<const DraftPassTime> passes) {
  for (const DraftPassTime& pass : passes) {
    model_costs_.add(pass.n_tokens, pass.seconds);
    model_seconds_ += pass.seconds;
  }
  for (const Candidate& candidate : candidates_) {
    SequenceDrafts& drafts = candidate.sequence->drafts;
    if (drafts.by_model) drafts.n_wanted = static_cast<int>(drafts.modeled.tokens.size());
  }
}

void Speculation::learn(Sequence& sequence) {
  if (!options_.on) return;
  learn(sequence, sequence.drafts.looked_up);
  if (sequence.drafts.by_model) learn(sequence, sequence.drafts.modeled);
}

void Speculation::learn(Sequence& sequence, const Draft& draft) {
  SequenceDrafts& drafts = sequence.drafts;
  if (draft.tokens.empty()) return;
  const std::span<const int32_t> came = std::span(sequence.tokens).subspan(drafts.n_sequence_tokens);
  const size_t n = std::min(came.size(), draft.tokens.size());
  const size_t n_right =
      static_cast<size_t>(std::ranges::mismatch(came.first(n), draft.tokens).in1 - came.begin());
  const auto kind = static_cast<size_t>(draft.kind);
  acceptance_[kind].add(static_cast<int>(n_right), n_right < n, kMemory);
  drafts.acceptance[kind].add(static_cast<int>(n_right), n_right < n, kSequenceMemory);
}

void Speculation::step_took(const StepRecord& step) {
  if (!options_.on) return;
  const double drafting = std::exchange(model_seconds_, 0.0);
  if (step.only_decodes) {
    costs_.add(step.n_tokens, step.seconds);
    n_since_plain_ = step.n_drafted > 0 ? n_since_plain_ + 1 : 0;
  }
  if (costs_.most_tokens() == 0) return;
  const int n_decoding = step.n_tokens - step.n_drafted;
  const double plain = costs_.seconds(step.only_decodes ? n_decoding : 1);
  for (DraftLedger* const ledger : {&of_texts_, &of_model_})
    ledger->passed((step.seconds + drafting) / plain);
  of_model_.saved(-drafting / plain);
  if (!step.only_decodes || step.n_drafted == 0) return;
  const double seconds = std::min(step.seconds, kInterrupted * costs_.seconds(step.n_tokens));
  const double saved = plain * (n_decoding + step.n_accepted) / n_decoding - seconds;
  (by_model_ ? of_model_ : of_texts_).saved(saved / plain);
}

}  // namespace hearth
