// Reads the format that a request requires of its answer, from the parameters of OpenAI's API, vLLM,
// llama.cpp and Ollama.
//
// Called on the HTTP thread. The result is plain data.
#pragma once

#include "server/chat/answer_format.h"
#include "server/json/json.h"

namespace hearth {

/// Reads response_format, guided_json, guided_regex, guided_choice, guided_grammar, structured_outputs,
/// json_schema, grammar and format. Throws RequestError if several of them set a format, or if one is
/// malformed. Schemas, regular expressions and grammars are checked later, when they are compiled.
AnswerFormat read_answer_format(const RequestFields& fields);

}  // namespace hearth
