// JSON shared by OpenAI's chat and completion answers.
//
// Members are in OpenAI's order. A member without a value is null if OpenAI's clients expect it to be
// present.
#pragma once

#include <cstdint>
#include <string>

#include "server/api/answer/answer_shape.h"
#include "server/json/json.h"

namespace hearth {

/// Members shared by all JSON objects of one answer.
struct AnswerHead {
  std::string id;       // cmpl-... or chatcmpl-...
  int64_t created = 0;  // Unix seconds
  std::string model;    // the name the client used
  std::string fingerprint;
};

/// Returns an object with the members of the head; the caller adds `choices` and everything after it.
Json head_json(const AnswerHead& head, const char* object);
Json usage_json(const Usage& usage);
/// Returns a stream chunk with one choice. with_usage: the stream ends with the usage, so the earlier chunks
/// have a null usage.
std::string chunk_event(const AnswerHead& head, const char* object, Json choice, bool with_usage);
/// Returns the end of a stream: the usage, if requested, and [DONE].
std::string last_events(const AnswerHead& head, const char* object, const Usage& usage, bool with_usage);

}  // namespace hearth
