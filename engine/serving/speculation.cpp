// See the header.
#include "engine/serving/speculation.h"

#include <algorithm>
#include <bit>

#include "engine/serving/sequence.h"

namespace hearth {
namespace {

// What is believed of a kind of draft before one was seen: the longer the match, the likelier it goes on.
constexpr std::array<double, SequenceDrafts::kKinds> kPrior = {0.3, 0.5, 0.7, 0.8, 0.9};
// Tokens that estimates remember, of all sequences and of one, and what the former weigh in the latter.
constexpr double kMemory = 256, kSequenceMemory = 32;
constexpr double kPriorWeight = 4;
// After so many steps with drafts one goes without, so that the time of such steps stays known.
constexpr int kPlainEvery = 256;

// 2 to 3 matching tokens are kind 0, 4 to 7 kind 1, and so on; 32 kind 4.
int kind_of(int match_length) { return std::bit_width(static_cast<unsigned>(match_length)) - 2; }

bool decodes(const Sequence& sequence) {
  return !sequence.prefilling() && !sequence.request.embedding && sequence.request.max_tokens > 0;
}

}  // namespace

void Speculation::draft(std::span<const std::unique_ptr<Sequence>> slots, int n_more) {
  if (!options_.on) return;
  choices_.clear();
  drafted_.clear();
  int n_decoding = 0;
  bool any_prompt = false;
  for (const std::unique_ptr<Sequence>& slot : slots) {
    if (!slot) continue;
    Sequence& sequence = *slot;
    sequence.drafts.tokens.clear();
    sequence.drafts.n_wanted = 0;
    any_prompt = any_prompt || sequence.prefilling();
    if (!decodes(sequence)) continue;
    n_decoding += sequence.n_pending();
    const int n_left = sequence.request.max_tokens - sequence.n_generated() - 1;
    if (n_left <= 0) continue;
    sequence.drafts.n_sequence_tokens = sequence.tokens.size();
    if (options_.drafter) {
      options_.drafter->draft(sequence, sequence.drafts.tokens);
      sequence.drafts.n_wanted = std::min(n_left, static_cast<int>(sequence.drafts.tokens.size()));
      continue;
    }
    look_up(sequence);
    if (sequence.drafts.tokens.empty()) continue;
    drafted_.push_back(&sequence);
    choices_.push_back({.share = share_of(sequence.drafts),
                        .n_offered = std::min(n_left, static_cast<int>(sequence.drafts.tokens.size()))});
  }
  // A step with a prompt takes long because of it, and its time says nothing about drafts.
  if (any_prompt || choices_.empty()) return;
  if (n_since_plain_ >= kPlainEvery) return;
  choose_lengths(costs_, n_decoding, n_more, choices_);
  for (size_t i = 0; i < choices_.size(); ++i) drafted_[i]->drafts.n_wanted = choices_[i].n_computed;
}

void Speculation::look_up(Sequence& sequence) const {
  SequenceDrafts& drafts = sequence.drafts;
  if (!drafts.lookup) {
    const size_t most =
        static_cast<size_t>(sequence.n_prompt) + static_cast<size_t>(sequence.request.max_tokens);
    drafts.lookup = std::make_unique<PromptLookup>(sequence.request.prediction, most);
    drafts.tokens.reserve(static_cast<size_t>(options_.max_draft));
  }
  const int length =
      drafts.lookup->find(sequence.tokens, static_cast<size_t>(options_.max_draft), drafts.tokens);
  if (length > 0) drafts.kind = kind_of(length);
}

double Speculation::share_of(const SequenceDrafts& drafts) const {
  const auto kind = static_cast<size_t>(drafts.kind);
  return drafts.acceptance[kind].share(acceptance_[kind].share(kPrior[kind], kPriorWeight), kPriorWeight);
}

void Speculation::learn(Sequence& sequence) {
  SequenceDrafts& drafts = sequence.drafts;
  if (!options_.on || drafts.tokens.empty()) return;
  const std::span<const int32_t> came = std::span(sequence.tokens).subspan(drafts.n_sequence_tokens);
  const size_t n = std::min(came.size(), drafts.tokens.size());
  size_t n_right = 0;
  while (n_right < n && came[n_right] == drafts.tokens[n_right]) ++n_right;
  const auto kind = static_cast<size_t>(drafts.kind);
  acceptance_[kind].add(static_cast<int>(n_right), n_right < n, kMemory);
  drafts.acceptance[kind].add(static_cast<int>(n_right), n_right < n, kSequenceMemory);
}

void Speculation::step_took(int n_tokens, int n_drafted, double seconds) {
  costs_.add(n_tokens, seconds);
  n_since_plain_ = n_drafted > 0 ? n_since_plain_ + 1 : 0;
}

}  // namespace hearth
