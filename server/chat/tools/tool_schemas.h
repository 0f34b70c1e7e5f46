// The parameter schemas of a request's tools as parts of the grammar of answers.
//
// Called on the HTTP thread when a grammar is built.
#pragma once

#include <vector>

#include "server/chat/tools/tool_grammar.h"
#include "server/json/json.h"

namespace hearth {

/// Whether OpenAI's "strict": true is set for the tool, which forbids to enforce less than its schema.
bool is_strict(const Json& tool);

/// The tools of a grammar, in order. A tool without a schema takes no arguments. A schema that cannot be
/// enforced is replaced by a looser one: any object, and values of each parameter's type. all_loose: replace
/// the schemas of all tools that are not strict. tools: an array, as in ToolChoice; null: none. Throws
/// RequestError if the schema of a strict tool cannot be enforced.
std::vector<GrammarTool> grammar_tools(const Json& tools, bool all_loose);

}  // namespace hearth
