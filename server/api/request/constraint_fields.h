// Reads the format that a request requires of its answer: OpenAI's response_format, and the parameters of
// vLLM, llama.cpp and Ollama.
//
// Called by the request parsers on the HTTP thread; the result is plain data.
#pragma once

#include "server/chat/answer_format.h"
#include "server/json/json.h"

namespace hearth {

/// Reads response_format, guided_json, guided_regex, guided_choice, guided_grammar, structured_outputs,
/// json_schema, grammar and format. Throws RequestError if more than one of them sets a format, or if one is
/// malformed. Schemas, expressions and grammars are checked later, when they are compiled.
AnswerFormat read_answer_format(const RequestFields& fields);

}  // namespace hearth
