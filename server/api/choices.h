// The choices of one answer while the engine's events come in: text, log-probabilities, finish reasons,
// usage.
//
// A state machine that reads and writes nothing itself: Answer feeds it events and sends what it returns. One
// per request, on the HTTP thread. Sequence p * best_of + i of the engine's request is the i-th candidate for
// prompt p.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "engine/serving/request.h"
#include "server/api/answer_json.h"
#include "server/api/chat_reader.h"
#include "server/api/error.h"
#include "server/api/prompt_tokens.h"
#include "server/api/text_stream.h"
#include "server/http/http_types.h"

namespace hearth {

/// How an accepted request is to be answered.
struct AnswerSpec {
  AnswerHead head;
  bool stream = false;
  bool include_usage = false;
  /// An answer that is sent whole gets a blank line after each such silence; 0: none.
  std::chrono::seconds blank_line_interval{0};
  int n = 1;                      // choices for every prompt
  int best_of = 1;                // sequences for every prompt, >= n; equal to n if stream
  bool echo = false;              // the prompt's text comes first
  std::optional<int> n_logprobs;  // alternatives asked for with every token; absent: no log-probabilities
  std::vector<std::string> stop;
  std::optional<ToolParserOptions>
      reading;                        // of a chat whose answers have thinking or calls apart from their text
  std::vector<int32_t> shown_tokens;  // with reading: control tokens whose text is read, ascending
  std::vector<PreparedPrompt> prompts;
};

class Choices {
 public:
  /// Both must outlive this.
  Choices(const AnswerSpec& spec, const Tokenizer& tokenizer);

  /// What a stream sends before the first event: the roles of a chat, or prompts to echo. Each becomes the
  /// `choices` entry of a chunk.
  std::vector<Json> opening();

  /// What an event leads to.
  struct Update {
    std::vector<Json> pieces;         // of a stream: `choices` entries to send, one chunk each
    bool stop_found = false;          // a stop string is complete: the event's sequence can be cancelled
    std::optional<ApiError> failure;  // the answer cannot be completed
  };
  Update take(StreamEvent event);

  /// Have all sequences finished?
  bool complete() const { return n_open_ == 0; }
  /// The `choices` of an answer that is sent whole, in order. REQUIRES: complete(), not stream. Call once.
  Json whole();
  Usage usage() const;
  /// What the answer has cost so far, for the access log. ended: see GenerationRecord.
  GenerationRecord record(const char* ended) const;

 private:
  struct Candidate {
    TextStream text;
    std::optional<ChatReader> reader = {};       // with AnswerSpec::reading
    ChatMessage collected = {};                  // what was said so far, if the answer is sent whole
    std::vector<PlacedToken> tokens = {};        // its tokens
    std::vector<TokenEvent> prompt_tokens = {};  // from prompt token 1 on
    const char* finish_reason = nullptr;
    int n_cached = 0;
    bool echo_due = false;  // the echo waits for the log-probabilities of the prompt

    bool stopped() const { return reader ? reader->stopped() : text.stopped(); }
  };

  const PreparedPrompt& prompt_of(int sequence) const;
  Candidate new_candidate(const PreparedPrompt& prompt, int sequence) const;
  void take_piece(int sequence, TextPiece piece, Update& update);
  void take_parts(int sequence, const std::vector<ToolEvent>& parts, Update& update);
  void end(int sequence, const char* reason, Update& update);
  void finish(int sequence, const FinishedEvent& event, Update& update);
  Json echo_piece(int sequence);
  Json logprobs(int sequence, const std::vector<PlacedToken>& tokens, bool with_prompt, bool with_text) const;
  Json choice(int sequence, int index);
  std::vector<int> best(int prompt) const;

  const AnswerSpec* spec_;
  const Tokenizer* tokenizer_;
  std::vector<Candidate> candidates_;
  int n_open_ = 0;
  bool has_times_ = false;                                               // at least one sequence has finished
  double queue_seconds_ = 0, prefill_seconds_ = 0, decode_seconds_ = 0;  // the longest so far
};

}  // namespace hearth
