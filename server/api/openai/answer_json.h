// Functions that write the JSON of both chat and text completions.
//
// Members have the order of OpenAI's API. A member without a value is null if OpenAI's clients expect it to
// be present.
#pragma once

#include <cstdint>
#include <string>

#include "server/api/answer/answer_shape.h"
#include "server/json/json.h"

namespace hearth {

/// Members that all JSON objects of one answer have.
struct AnswerHead {
  std::string id;       // cmpl-... or chatcmpl-...
  int64_t created = 0;  // Unix seconds
  std::string model;    // the name in the request
  std::string fingerprint;
};

/// Returns an object with these members. The caller adds `choices` and the members after it.
Json head_json(const AnswerHead& head, const char* object);
Json usage_json(const Usage& usage);
/// Returns a chunk with one choice. with_usage: whether the last chunk of the stream contains the usage; in
/// this case, OpenAI's API requires that earlier chunks have a null usage.
std::string chunk_event(const AnswerHead& head, const char* object, Json choice, bool with_usage);
/// Returns the last events of a stream: the usage, if requested, and [DONE].
std::string last_events(const AnswerHead& head, const char* object, const Usage& usage, bool with_usage);

}  // namespace hearth
