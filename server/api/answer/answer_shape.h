// The wire format of an answer: the interface that turns generated parts into the bytes for one family of
// clients.
//
// Choices turns the engine's events into parts that do not depend on a protocol; a shape turns parts into
// bytes, for example OpenAI's chat or completion chunks. For a stream, Answer calls begin() first; then, for
// each choice, part() several times and end() once; and finally finish() or failure(). For an unstreamed
// answer it calls only whole(). Each answer has its own shape, on the HTTP thread.
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

/// How many drafted tokens of a request's prediction were accepted and rejected.
struct PredictionUsage {
  int64_t n_accepted = 0, n_rejected = 0;
};

struct Usage {
  int64_t n_prompt = 0, n_cached = 0, n_completion = 0;  // tokens
  /// How many of the n_completion tokens are thinking. The tokens of the tags around the thinking may or may
  /// not be included.
  int64_t n_reasoning = 0;
  std::optional<PredictionUsage> prediction = {};  // absent: the request has no prediction
};

/// Cost of an answer. Each time is the maximum over the answer's sequences.
struct AnswerTotals {
  Usage usage;
  std::optional<DraftCounts> drafts = {};  // absent: the engine does not draft
  double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
};

/// The prompt that a completion repeats before its text.
struct EchoedPrompt {
  const PreparedPrompt* prompt = nullptr;
  /// Log-probabilities of the prompt's tokens from the second one on; empty if none are requested.
  std::span<const TokenEvent> tokens = {};
};

/// A piece of a choice; the parts of a choice arrive in order.
struct ChoicePart {
  int choice = 0;
  ToolEvent said;
  /// If log-probabilities are requested: the tokens whose text arrived since the choice's previous part.
  /// Offsets count from the start of the choice's text, including an echoed prompt.
  std::vector<PlacedToken> tokens = {};
  const EchoedPrompt* echo = nullptr;  // not null if `said` is the prompt's text; valid during the call
};

enum class ChoiceEnd { kStop, kLength, kToolCalls };

/// "stop", "length" or "tool_calls", for OpenAI's clients and the log.
const char* finish_reason(ChoiceEnd end);

struct FinishedChoice {
  int choice = 0;
  ChoiceEnd end = ChoiceEnd::kStop;
  std::string stop_string = {};  // the stop string that ended the choice; empty if none did
  bool cancelled = false;        // true: it was cancelled through the AnswerControl; ignore `end`
};

/// An item of a choice: adjacent parts of one kind, joined.
struct SaidItem {
  enum class Kind { kText, kReasoning, kCall };
  Kind kind = Kind::kText;
  std::string text = {};  // kCall: the arguments, as JSON
  std::string name = {};  // kCall: the function's name
  std::string id = {};    // kCall
  bool whole = true;      // kCall: the arguments are complete
  size_t n_tokens = 0;    // if log-probabilities are requested: how many of the choice's tokens, in order,
                          // belong to this item
};
void append(std::vector<SaidItem>& items, const ToolEvent& part);
/// The concatenated texts of all items of one kind.
std::string joined(std::span<const SaidItem> items, SaidItem::Kind kind);

/// A call's arguments; nullopt if the call is incomplete. REQUIRES: kind kCall.
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

  /// The error format used before the status is sent.
  virtual ErrorStyle error_style() const { return ErrorStyle::kOpenAi; }
  virtual std::string_view stream_type() const { return "text/event-stream"; }
  /// Returns the bytes to send on a silent stream, which this family's clients skip; empty if there are no
  /// such bytes.
  virtual std::string_view ping() const { return ": ping\n\n"; }

  /// Tells the shape the number of prompt tokens. Called once, when the engine has accepted the request,
  /// before accepted() and the functions that return bytes.
  virtual void know_prompt(int64_t /*n_tokens*/) {}
  /// Called when the engine has accepted the request. Returns a handle with which other threads can cancel
  /// the answer, or null if only the client can.
  virtual std::shared_ptr<AnswerControl> accepted() { return nullptr; }

  virtual std::string begin() { return {}; }
  virtual std::string part(const ChoicePart& part) = 0;
  virtual std::string end(const FinishedChoice& choice) = 0;
  virtual std::string finish(const AnswerTotals& totals) = 0;
  /// Called if the answer cannot be completed after its status was sent.
  virtual std::string failure(const ApiError& error) = 0;

  /// The body of an unstreamed answer. choices: in order.
  virtual std::string whole(std::span<const WholeChoice> choices, const AnswerTotals& totals) = 0;
};

/// A server-sent event: "data: ...\n\n".
std::string sse_event(std::string_view data);

}  // namespace hearth
