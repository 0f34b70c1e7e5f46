// What OpenAI's chat and completion answers have in common.
//
// Members are in the order in which OpenAI sends them, and null where its clients expect the member to be there.
#pragma once

#include <cstdint>
#include <string>

#include "server/api/answer/answer_shape.h"
#include "server/json/json.h"

namespace hearth {

/// What all JSON objects of one answer share.
struct AnswerHead {
  std::string id;       // cmpl-... or chatcmpl-...
  int64_t created = 0;  // Unix seconds
  std::string model;    // the name the client used
  std::string fingerprint;
};

/// The object with those members; `choices` and what follows are to be added.
Json head_json(const AnswerHead& head, const char* object);
Json usage_json(const Usage& usage);
/// A chunk of a stream with one choice. with_usage: the stream ends with the usage, so that all chunks before have null.
std::string chunk_event(const AnswerHead& head, const char* object, Json choice, bool with_usage);
/// The end of a stream: the usage, if it was asked for, and [DONE].
std::string last_events(const AnswerHead& head, const char* object, const Usage& usage, bool with_usage);

}  // namespace hearth
