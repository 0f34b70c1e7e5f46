// The JSON of answers: chat.completion, text_completion and their stream chunks, as OpenAI's specification
// has them.
//
// Pure functions of plain data; called by Answer on the HTTP thread.
#pragma once

#include <cstdint>
#include <string>

#include "server/api/json_body.h"

namespace hearth {

/// What all JSON objects of one answer have in common.
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
  Json logprobs;                        // null: none
  const char* finish_reason = nullptr;  // null until the last part
};

struct Usage {
  int64_t n_prompt = 0, n_cached = 0, n_completion = 0;
};

Json usage_json(const Usage& usage);

/// A choice of an answer that is sent whole.
Json whole_choice(const AnswerHead& head, ChoicePart part);
Json whole_answer(const AnswerHead& head, Json choices, const Usage& usage);

/// Choices of stream chunks. The role opens a chat's choice; the end has no text.
Json role_choice(int index);
Json piece_choice(const AnswerHead& head, ChoicePart part);
Json end_choice(const AnswerHead& head, int index, const char* finish_reason);
Json chunk(const AnswerHead& head, Json choices);

/// One server-sent event: "data: ...\n\n".
std::string sse_event(const Json& data);
/// JSON text; what is not UTF-8 (nothing should be) is replaced, never thrown over.
std::string json_text(const Json& json);

}  // namespace hearth
