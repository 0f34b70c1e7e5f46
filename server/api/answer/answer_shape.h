// How an answer looks on the wire: the interface between what was generated and what a family of clients is sent.
//
// Choices turns the engine's events into parts that know no protocol; a shape turns parts into bytes: OpenAI's chat or
// completion chunks, or another family's. Answer owns the order: begin(), then for each choice parts and one end, then
// finish() or failure(); or whole() alone, if the answer is not streamed. One shape per answer, on the HTTP thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/answer/token_text.h"
#include "server/api/request/prompt_tokens.h"
#include "server/chat/tools/tool_call_parser.h"
#include "server/json/api_error.h"
#include "server/json/json.h"

namespace hearth {

class AnswerControl;

/// Tokens of a request's prediction that were computed ahead: those that came, and those that did not.
struct PredictionUsage {
  int64_t n_accepted = 0, n_rejected = 0;
};

struct Usage {
  int64_t n_prompt = 0, n_cached = 0, n_completion = 0;  // tokens
  int64_t n_reasoning = 0;  // of n_completion: those that thinking took, tags not counted exactly
  std::optional<PredictionUsage> prediction = {};  // absent: the request has none
};

/// What the answer has cost. Times are the longest of its sequences.
struct AnswerTotals {
  Usage usage;
  std::optional<DraftCounts> drafts = {};  // absent: the engine drafts nothing
  double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
};

/// The prompt that a completion repeats before its text.
struct EchoedPrompt {
  const PreparedPrompt* prompt = nullptr;
  std::span<const TokenEvent> tokens =
      {};  // from the prompt's second token on; empty unless log-probabilities are wanted
};

/// Something that a choice says; the parts of a choice come in the order in which it says them.
struct ChoicePart {
  int choice = 0;
  ToolEvent said;
  /// With log-probabilities: the tokens whose text has come since the choice's last part. Their offsets count from the
  /// start of the choice's text, an echoed prompt included.
  std::vector<PlacedToken> tokens = {};
  const EchoedPrompt* echo = nullptr;  // not null: `said` is the prompt's text; valid during the call
};

enum class ChoiceEnd { kStop, kLength, kToolCalls };

/// As OpenAI's clients and the log read it: "stop", "length", "tool_calls".
const char* finish_reason(ChoiceEnd end);

struct FinishedChoice {
  int choice = 0;
  ChoiceEnd end = ChoiceEnd::kStop;
  std::string stop_string = {};  // the stop string that ended it; empty: none did
  bool cancelled = false;        // ended by its AnswerControl; `end` says nothing then
};

/// What a choice has said, neighbouring parts of one kind joined.
struct SaidItem {
  enum class Kind { kText, kReasoning, kCall };
  Kind kind = Kind::kText;
  std::string text = {};  // kCall: the arguments, as JSON
  std::string name = {};  // kCall: the function's
  std::string id = {};    // kCall
  bool whole = true;      // kCall: whether the arguments are complete
  size_t n_tokens = 0;    // with log-probabilities: how many of the choice's tokens, in order, go with it
};
void append(std::vector<SaidItem>& items, const ToolEvent& part);
/// The texts of all items of a kind, joined.
std::string joined(std::span<const SaidItem> items, SaidItem::Kind kind);

/// A call's arguments; nullopt if the call was cut short. REQUIRES: kind kCall.
std::optional<Json> arguments_object(const SaidItem& call);

/// A choice of an answer that is sent whole.
struct WholeChoice {
  FinishedChoice finished;
  std::vector<SaidItem> said;
  std::vector<PlacedToken> tokens;     // with log-probabilities; offsets as in ChoicePart
  const EchoedPrompt* echo = nullptr;  // valid during the call
};

/// Every function returns the bytes to send, which may be none.
class AnswerShape {
 public:
  virtual ~AnswerShape() = default;

  /// How errors look before the status is sent.
  virtual ErrorStyle error_style() const { return ErrorStyle::kOpenAi; }
  virtual std::string_view stream_type() const { return "text/event-stream"; }
  /// What a stream is sent after a silence; empty: this family's clients skip nothing.
  virtual std::string_view ping() const { return ": ping\n\n"; }

  /// Called once, before all that follows: how many tokens the prompts have.
  virtual void know_prompt(int64_t /*n_tokens*/) {}
  /// The engine has accepted the request. Returns by what other threads can end the answer; null: they cannot.
  virtual std::shared_ptr<AnswerControl> accepted() { return nullptr; }

  virtual std::string begin() { return {}; }
  virtual std::string part(const ChoicePart& part) = 0;
  virtual std::string end(const FinishedChoice& choice) = 0;
  virtual std::string finish(const AnswerTotals& totals) = 0;
  /// The answer cannot be completed, and its status has been sent.
  virtual std::string failure(const ApiError& error) = 0;

  /// The body of an answer that is not streamed. choices: in order.
  virtual std::string whole(std::span<const WholeChoice> choices, const AnswerTotals& totals) = 0;
};

/// One server-sent event: "data: ...\n\n".
std::string sse_event(std::string_view data);

}  // namespace hearth
