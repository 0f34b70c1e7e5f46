// The wire format of an answer, for example OpenAI's chat chunks: an interface that converts the parts of an
// answer to bytes.
//
// Choices converts the engine's events to parts, which do not depend on a protocol. An AnswerShape converts
// parts to bytes. For a stream, Answer calls begin(); then, for each choice, part() several times and end()
// once; then finish() or failure(). For an unstreamed answer, Answer calls only whole(). Each answer has its
// own AnswerShape, used on one thread.
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

/// Drafted tokens of the request's prediction: how many were accepted, and how many were rejected.
struct PredictionUsage {
  int64_t n_accepted = 0, n_rejected = 0;
};

struct Usage {
  int64_t n_prompt = 0, n_cached = 0, n_matched = 0, n_completion = 0;  // tokens
  /// Tokens of thinking, as a part of n_completion. The tokens of the tags around the thinking may be
  /// included.
  int64_t n_reasoning = 0;
  std::optional<PredictionUsage> prediction = {};  // absent if the request has no prediction
};

/// The cost of an answer. Each time is the maximum over the answer's sequences.
struct AnswerTotals {
  Usage usage;
  std::optional<DraftCounts> drafts = {};  // absent if the engine does not draft
  double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
};

/// The prompt, which a completion with `echo` repeats before its text.
struct EchoedPrompt {
  const PreparedPrompt* prompt = nullptr;
  /// Log-probabilities of the prompt's tokens from the second token on. Empty if none are requested.
  std::span<const TokenEvent> tokens = {};
};

/// A part of a choice. The parts of a choice arrive in order.
struct ChoicePart {
  int choice = 0;
  ToolEvent said;
  /// The tokens whose text arrived since the choice's previous part, if log-probabilities are requested.
  /// Their offsets count from the start of the choice's text, which includes an echoed prompt.
  std::vector<PlacedToken> tokens = {};
  const EchoedPrompt* echo = nullptr;  // not null if `said` is the echoed prompt; valid during the call
};

enum class ChoiceEnd { kStop, kLength, kToolCalls };

/// Returns "stop", "length" or "tool_calls", as in OpenAI's API and the access log.
const char* finish_reason(ChoiceEnd end);

struct FinishedChoice {
  int choice = 0;
  ChoiceEnd end = ChoiceEnd::kStop;
  std::string stop_string = {};  // the stop string that ended the choice, or empty
  bool cancelled = false;        // cancelled through the AnswerControl; `end` is then meaningless
  bool repeated = false;         // ended because it repeated itself without end; `end` is kLength
};

/// Extensions to OpenAI's choices for FinishedChoice::repeated: the name and the value of a member.
inline constexpr const char* kStopReason = "stop_reason";
inline constexpr const char* kRepetition = "repetition";

/// A part of a whole choice: the concatenation of adjacent ChoiceParts of one kind.
struct SaidItem {
  enum class Kind { kText, kReasoning, kCall };
  Kind kind = Kind::kText;
  std::string text = {};  // kCall: the arguments, as JSON
  std::string name = {};  // kCall: the function's name
  std::string id = {};    // kCall
  bool whole = true;      // kCall: whether the arguments are complete
  // If log-probabilities are requested: the number of the choice's tokens that belong to this item. Items and
  // tokens have the same order.
  size_t n_tokens = 0;
};
void append(std::vector<SaidItem>& items, const ToolEvent& part);
/// Returns the concatenated texts of all items of one kind.
std::string joined(std::span<const SaidItem> items, SaidItem::Kind kind);

/// Returns a call's arguments, or nullopt if the call is incomplete. REQUIRES: call.kind is kCall.
std::optional<Json> arguments_object(const SaidItem& call);

/// A choice of an unstreamed answer.
struct WholeChoice {
  FinishedChoice finished;
  std::vector<SaidItem> said;
  std::vector<PlacedToken> tokens;     // if log-probabilities are requested; offsets as in ChoicePart
  const EchoedPrompt* echo = nullptr;  // valid during the call
};

/// begin(), part(), end(), finish(), failure() and whole() return the bytes to send, which may be empty.
class AnswerShape {
 public:
  virtual ~AnswerShape() = default;

  /// The format of errors that are sent instead of an answer.
  virtual ErrorStyle error_style() const { return ErrorStyle::kOpenAi; }
  virtual std::string_view stream_type() const { return "text/event-stream"; }
  /// Returns bytes that clients of this protocol ignore, to keep a silent stream open. Empty if there are no
  /// such bytes.
  virtual std::string_view ping() const { return ": ping\n\n"; }

  /// Receives the number of prompt tokens. Called once, after the engine has accepted the request and before
  /// the call of accepted().
  virtual void know_prompt(int64_t /*n_tokens*/) {}
  /// Called when the engine has accepted the request. Returns a handle with which other threads can cancel
  /// the answer, or null if only a disconnect of the client cancels it.
  virtual std::shared_ptr<AnswerControl> accepted() { return nullptr; }

  virtual std::string begin() { return {}; }
  virtual std::string part(const ChoicePart& part) = 0;
  virtual std::string end(const FinishedChoice& choice) = 0;
  virtual std::string finish(const AnswerTotals& totals) = 0;
  /// Called if an error occurs after the status was sent.
  virtual std::string failure(const ApiError& error) = 0;

  /// Returns the body of an unstreamed answer. choices: in order.
  virtual std::string whole(std::span<const WholeChoice> choices, const AnswerTotals& totals) = 0;
};

/// Returns a server-sent event: "data: ...\n\n".
std::string sse_event(std::string_view data);

}  // namespace hearth
