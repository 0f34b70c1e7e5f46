// The state of an answer's choices: their text so far, their end, and the tokens used.
//
// A state machine that depends on no protocol and does no I/O. Answer passes the engine's events to Choices,
// and passes the resulting parts to the AnswerShape. Each answer has one Choices, used on one thread.
// Sequence p * best_of + i of the engine's request is candidate i for prompt p.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/serving/request.h"
#include "server/api/answer/answer_control.h"
#include "server/api/answer/answer_shape.h"
#include "server/api/answer/chat_reader.h"
#include "server/api/answer/token_text.h"
#include "server/api/request/prompt_tokens.h"
#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

/// Determines how an accepted request is answered.
struct AnswerSpec {
  bool stream = false;
  /// An unstreamed answer sends a blank line after each silence of this length; 0: never.
  std::chrono::seconds blank_line_interval{0};
  int n = 1;                   // choices per prompt
  int best_of = 1;             // sequences per prompt: at least n; equal to n for a stream
  bool echo = false;           // whether the answer begins with the prompt's text
  bool with_logprobs = false;  // whether parts contain their tokens
  std::vector<std::string> stop;
  std::optional<ChatForm> chat;  // set if the answer may contain thinking or calls
  uint64_t call_id_seed = 0;     // determines the ids of calls
  std::vector<PreparedPrompt> prompts;
  std::string model = {};                       // name of the served model, for the access log
  bool speculates = false;                      // whether the engine drafts tokens
  bool has_prediction = false;                  // whether the request has a prediction
  std::shared_ptr<AnswerControl> control = {};  // null if only a disconnect of the client cancels the answer

  bool cancelled() const { return control != nullptr && control->cancelled(); }
};

class Choices {
 public:
  /// Both arguments must outlive this object.
  Choices(const AnswerSpec& spec, const Tokenizer& tokenizer);

  /// Returns the echoed prompts, which a stream sends before the first event.
  std::vector<ChoicePart> opening();

  /// The result of an event.
  struct Update {
    std::vector<ChoicePart> parts;           // streams only, in order
    std::optional<FinishedChoice> finished;  // streams only, after the parts
    // A stop string is complete, so that the event's sequence can be cancelled.
    bool stop_found = false;
    std::optional<ApiError> failure;  // set if an error ends the answer
  };
  Update take(StreamEvent event);

  /// Whether all sequences have finished.
  bool complete() const { return n_open_ == 0; }
  /// Returns the choices of an unstreamed answer, in order. They are valid as long as this object. Call once.
  /// REQUIRES: complete(), and the answer is not a stream.
  std::vector<WholeChoice> whole();
  AnswerTotals totals() const;
  /// Returns the cost so far, for the access log. ended: as in GenerationRecord.
  GenerationRecord record(const char* ended) const;

 private:
  std::optional<int> n_matched_messages(int64_t n_tokens) const;
  struct Candidate {
    TextStream text;
    std::optional<ChatReader> reader = {};       // set if AnswerSpec::chat is set
    std::vector<SaidItem> said = {};             // items so far; unstreamed answers only
    std::vector<PlacedToken> tokens = {};        // stream: tokens not yet sent; unstreamed: all tokens
    std::vector<TokenEvent> prompt_tokens = {};  // the prompt's tokens from the second one on
    std::optional<FinishedChoice> finished = {};
    EchoedPrompt echo = {};
    size_t n_placed = 0;  // unstreamed: how many of `tokens` belong to an item
    int n_cached = 0, n_matched = 0;
    /// n_reasoning: tokens of thinking. n_undecided: tokens since the last part; they count as thinking if
    /// the next part is thinking.
    int n_reasoning = 0, n_undecided = 0;
    bool echo_due = false;  // whether the echo waits for the prompt's log-probabilities

    bool stopped() const { return reader ? reader->stopped() : text.stopped(); }
  };

  const PreparedPrompt& prompt_of(int sequence) const;
  Candidate new_candidate(const PreparedPrompt& prompt, int sequence) const;
  void place(std::vector<PlacedToken>& tokens, int sequence) const;
  void take_piece(int sequence, TextPiece piece, Update& update);
  void take_parts(int sequence, const std::vector<ToolEvent>& parts, Update& update);
  static void count_tokens(Candidate& candidate);
  void end(int sequence, ChoiceEnd end, Update& update, bool cancelled = false, bool repeated = false);
  void finish(int sequence, const FinishedEvent& event, Update& update);
  const EchoedPrompt* echo_of(int sequence);
  ChoicePart echo_part(int sequence);
  WholeChoice whole_choice(int sequence, int index);
  std::vector<int> best(int prompt) const;

  const AnswerSpec* spec_;
  const Tokenizer* tokenizer_;
  std::vector<Candidate> candidates_;
  int n_open_ = 0;
  bool has_times_ = false;                                               // whether a sequence has finished
  DraftCounts drafts_;                                                   // sum over the finished sequences
  double queue_seconds_ = 0, prefill_seconds_ = 0, decode_seconds_ = 0;  // maxima so far
};

}  // namespace hearth
