// Reads the format that a request demands of its answer: OpenAI's response_format, and the parameters of
// vLLM, llama.cpp and Ollama.
//
// Called by the request parsers on the HTTP thread; plain data afterwards.
#pragma once

#include <string>
#include <vector>

#include "server/json/json.h"

namespace hearth {

struct AnswerFormat {
  enum class Kind {
    kText,        // anything
    kJsonObject,  // any JSON object
    kJsonSchema,  // JSON valid under the schema `text`
    kRegex,       // text that matches the regular expression `text` as a whole
    kGrammar,     // a text of the GBNF grammar `text`
    kChoice,      // one of `choices`
  };
  Kind kind = Kind::kText;
  std::string text;
  std::vector<std::string> choices;  // at least one, none empty
  std::string param = {};            // the parameter that set it, for error messages
};

/// Reads response_format, guided_json, guided_regex, guided_choice, guided_grammar, structured_outputs,
/// json_schema, grammar and format. Throws RequestError if more than one of them asks for something, or one
/// is malformed. Schemas, expressions and grammars are checked later, when they are compiled.
AnswerFormat read_answer_format(const RequestFields& fields);

}  // namespace hearth
