// The JSON of answers, as OpenAI's specification has it: chat.completion, text_completion, their stream
// chunks, and the log-probabilities of tokens in the shapes of both endpoints.
//
// Pure functions of plain data; called by Answer and Choices on the HTTP thread. Log-probabilities are the
// engine's; -infinity, which JSON does not have, is sent as -9999.0, as OpenAI does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/tokenizer/tokenizer.h"
#include "server/api/json.h"
#include "server/api/text_stream.h"
#include "server/chat/tool_call_parser.h"

namespace hearth {

/// What all JSON objects of one answer share.
struct AnswerHead {
  bool chat = false;
  std::string id;       // cmpl-... or chatcmpl-...
  int64_t created = 0;  // Unix seconds
  std::string model;    // the name the client used
  std::string fingerprint;
};

/// A choice, or a piece of one.
struct ChoicePart {
  int index = 0;
  std::string text;
  Json logprobs;                        // null if none were asked for
  const char* finish_reason = nullptr;  // null until the last part
};

struct Usage {
  int64_t n_prompt = 0, n_cached = 0, n_completion = 0;
};

Json usage_json(const Usage& usage);

/// What an assistant has said, collected from its parts.
struct ChatMessage {
  std::string text = {}, reasoning = {};
  Json calls = Json::array();  // as in OpenAI's tool_calls

  void add(const ToolEvent& part);
};

/// A chat's choice of an answer that is sent whole, and that answer; a completion's is a piece_choice().
Json message_choice(int index, const ChatMessage& message, Json logprobs, const char* finish_reason);
Json whole_answer(const AnswerHead& head, Json choices, const Usage& usage);

/// Choices of stream chunks: a chat's choice begins with a role, then come pieces, and the end has a reason
/// but no text.
Json role_choice(int index);
Json piece_choice(const AnswerHead& head, ChoicePart part);
/// A piece of a chat whose answers have parts. REQUIRES: not kCallEnd.
Json part_choice(int index, const ToolEvent& part, Json logprobs);
Json end_choice(const AnswerHead& head, int index, const char* finish_reason);
Json chunk(const AnswerHead& head, Json choices);

/// One server-sent event: "data: ...\n\n".
std::string sse_event(std::string_view data);

/// A token's bytes; for a control token those of its name. Empty for ids that the vocabulary does not have.
std::string token_bytes(const Tokenizer& tokenizer, int32_t token);

/// Log-probabilities of a chat:
/// {"content":[{"token","logprob","bytes","top_logprobs":[{"token","logprob","bytes"}]}], "refusal":null},
/// with at most n_top alternatives for each token. Bytes of `token` that are not UTF-8 are written \xNN;
/// `bytes` has them exactly.
Json chat_logprobs(const Tokenizer& tokenizer, std::span<const PlacedToken> tokens, int n_top);

/// Log-probabilities of a completion: {"tokens","token_logprobs","top_logprobs","text_offset"}, arrays of
/// equal length that are filled token by token.
class LegacyLogprobs {
 public:
  /// n_top: the request's `logprobs`. A token that is not among its n_top alternatives is listed beside them.
  /// The tokenizer must outlive this.
  LegacyLogprobs(const Tokenizer& tokenizer, int n_top);

  /// The first token of an echoed prompt. Nothing predicted it, so its log-probability and alternatives are
  /// null.
  void add_first(int32_t token, int64_t offset);
  /// offset: characters before the token in the choice's text.
  void add(const TokenEvent& event, int64_t offset);
  /// The finished object. Call once.
  Json take();

 private:
  const Tokenizer* tokenizer_;
  int n_top_;
  Json tokens_ = Json::array();
  Json logprobs_ = Json::array();
  Json top_ = Json::array();
  Json offsets_ = Json::array();
};

}  // namespace hearth
