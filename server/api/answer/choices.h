// The state of an answer's choices while the engine's events arrive: text so far, end, usage.
//
// This state machine is independent of protocols and does no I/O. Answer passes events to it, and passes its
// results to the answer's shape. Each request has one, on the HTTP thread. Sequence p * best_of + i of the
// engine's request is candidate i for prompt p.
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

/// How to answer an accepted request.
struct AnswerSpec {
  bool stream = false;
  /// An unstreamed answer gets a blank line after each silence of this length; 0: never.
  std::chrono::seconds blank_line_interval{0};
  int n = 1;                   // choices per prompt
  int best_of = 1;             // sequences per prompt: at least n; exactly n for a stream
  bool echo = false;           // the answer begins with the prompt's text
  bool with_logprobs = false;  // parts carry their tokens
  std::vector<std::string> stop;
  std::optional<ChatForm> chat;  // set for chats whose answers separate thinking or calls from text
  uint64_t call_id_seed = 0;     // source of the ids of calls
  std::vector<PreparedPrompt> prompts;
  std::string model = {};                       // the served name, for the access log
  bool speculates = false;                      // the engine drafts tokens
  bool has_prediction = false;                  // the request has a prediction
  std::shared_ptr<AnswerControl> control = {};  // null: only the client can end the answer

  bool cancelled() const { return control != nullptr && control->cancelled(); }
};

class Choices {
 public:
  /// Both arguments must outlive this object.
  Choices(const AnswerSpec& spec, const Tokenizer& tokenizer);

  /// Returns the parts that a stream sends before the first event: echoed prompts.
  std::vector<ChoicePart> opening();

  /// The result of an event.
  struct Update {
    std::vector<ChoicePart> parts;           // streams only, in order
    std::optional<FinishedChoice> finished;  // streams only, after the parts
    bool stop_found = false;          // true: a stop string is complete, so the event's sequence can be
                                      // cancelled
    std::optional<ApiError> failure;  // set if the answer cannot be completed
  };
  Update take(StreamEvent event);

  /// Whether all sequences have finished.
  bool complete() const { return n_open_ == 0; }
  /// Returns the choices of an unstreamed answer, in order. REQUIRES: complete(), not stream. Call once. The
  /// result is valid as long as this object.
  std::vector<WholeChoice> whole();
  AnswerTotals totals() const;
  /// Returns the cost so far, for the access log. ended: see GenerationRecord.
  GenerationRecord record(const char* ended) const;

 private:
  struct Candidate {
    TextStream text;
    std::optional<ChatReader> reader = {};       // with AnswerSpec::chat
    std::vector<SaidItem> said = {};             // items so far; unstreamed answers only
    std::vector<PlacedToken> tokens = {};        // tokens not yet sent, or all tokens if unstreamed
    std::vector<TokenEvent> prompt_tokens = {};  // from prompt token 1 on
    std::optional<FinishedChoice> finished = {};
    EchoedPrompt echo = {};
    size_t n_placed = 0;  // unstreamed: how many of `tokens` have been assigned to items
    int n_cached = 0;
    /// n_reasoning: number of thinking tokens. n_undecided: number of tokens since the last part. They are
    /// added to n_reasoning if the next part is thinking.
    int n_reasoning = 0, n_undecided = 0;
    bool echo_due = false;  // true while the echo waits for the prompt's log-probabilities

    bool stopped() const { return reader ? reader->stopped() : text.stopped(); }
  };

  const PreparedPrompt& prompt_of(int sequence) const;
  Candidate new_candidate(const PreparedPrompt& prompt, int sequence) const;
  void place(std::vector<PlacedToken>& tokens, int sequence) const;
  void take_piece(int sequence, TextPiece piece, Update& update);
  void take_parts(int sequence, const std::vector<ToolEvent>& parts, Update& update);
  static void count_tokens(Candidate& candidate);
  void end(int sequence, ChoiceEnd end, Update& update, bool cancelled = false);
  void finish(int sequence, const FinishedEvent& event, Update& update);
  const EchoedPrompt* echo_of(int sequence);
  ChoicePart echo_part(int sequence);
  WholeChoice whole_choice(int sequence, int index);
  std::vector<int> best(int prompt) const;

  const AnswerSpec* spec_;
  const Tokenizer* tokenizer_;
  std::vector<Candidate> candidates_;
  int n_open_ = 0;
  bool has_times_ = false;                                               // at least one sequence has finished
  DraftCounts drafts_;                                                   // of finished sequences
  double queue_seconds_ = 0, prefill_seconds_ = 0, decode_seconds_ = 0;  // maxima so far
};

}  // namespace hearth
