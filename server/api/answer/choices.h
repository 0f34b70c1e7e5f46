// The choices of one answer while the engine's events come in: what each has said, how it ended, usage.
//
// A state machine that knows no protocol, and reads and writes nothing itself: Answer feeds it events and gives what it
// returns to the answer's shape. One per request, on the HTTP thread. Sequence p * best_of + i of the engine's request is the i-th candidate for
// prompt p.
#pragma once

#include <chrono>
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

/// How an accepted request is to be answered.
struct AnswerSpec {
  bool stream = false;
  /// An answer that is sent whole gets a blank line after each such silence; 0: none.
  std::chrono::seconds blank_line_interval{0};
  int n = 1;                   // choices for every prompt
  int best_of = 1;             // sequences for every prompt, >= n; equal to n if stream
  bool echo = false;           // the prompt's text comes first
  bool with_logprobs = false;  // parts have their tokens
  std::vector<std::string> stop;
  std::optional<ToolParserOptions>
      reading;                        // of a chat whose answers have thinking or calls apart from their text
  std::vector<int32_t> shown_tokens;  // with reading: control tokens whose text is read, ascending
  std::vector<PreparedPrompt> prompts;
  std::string model = {};                       // the served name, for the access log
  bool speculates = false;                      // the engine drafts tokens
  bool has_prediction = false;                  // the request has one
  std::shared_ptr<AnswerControl> control = {};  // null: nobody but its client ends the answer

  bool cancelled() const { return control != nullptr && control->cancelled(); }
};

class Choices {
 public:
  /// Both must outlive this.
  Choices(const AnswerSpec& spec, const Tokenizer& tokenizer);

  /// What a stream says before the first event: prompts to echo.
  std::vector<ChoicePart> opening();

  /// What an event leads to.
  struct Update {
    std::vector<ChoicePart> parts;           // of a stream, in order
    std::optional<FinishedChoice> finished;  // of a stream, after the parts
    bool stop_found = false;          // a stop string is complete: the event's sequence can be cancelled
    std::optional<ApiError> failure;  // the answer cannot be completed
  };
  Update take(StreamEvent event);

  /// Have all sequences finished?
  bool complete() const { return n_open_ == 0; }
  /// The choices of an answer that is sent whole, in order. REQUIRES: complete(), not stream. Call once. Valid as long as
  /// this.
  std::vector<WholeChoice> whole();
  AnswerTotals totals() const;
  /// What the answer has cost so far, for the access log. ended: see GenerationRecord.
  GenerationRecord record(const char* ended) const;

 private:
  struct Candidate {
    TextStream text;
    std::optional<ChatReader> reader = {};       // with AnswerSpec::reading
    std::vector<SaidItem> said = {};             // so far, if the answer is sent whole
    std::vector<PlacedToken> tokens = {};        // its tokens
    std::vector<TokenEvent> prompt_tokens = {};  // from prompt token 1 on
    std::optional<FinishedChoice> finished = {};
    EchoedPrompt echo = {};
    size_t n_placed = 0;  // of `tokens`, if the answer is sent whole: items have them
    int n_cached = 0;
    int n_reasoning = 0, n_undecided = 0;  // tokens of thinking; tokens since the last part
    bool echo_due = false;                 // the echo waits for the log-probabilities of the prompt

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
  DraftCounts drafts_;                                                   // of those that have finished
  double queue_seconds_ = 0, prefill_seconds_ = 0, decode_seconds_ = 0;  // the longest so far
};

}  // namespace hearth
