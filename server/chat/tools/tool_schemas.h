// Converts the parameter schemas of a request's tools to parts of the grammar that constrains its answer.
//
// Called on the HTTP thread when a grammar is built.
#pragma once

#include <string>
#include <vector>

#include "server/chat/tools/tool_grammar.h"
#include "server/json/json.h"

namespace hearth {

/// Whether the tool sets "strict": true. OpenAI's API then requires that the whole schema is enforced.
bool is_strict(const Json& tool);

/// Returns the tools for build_tool_grammar(), in order. A tool without a schema has no arguments. A schema
/// that cannot be enforced is replaced by a looser one: an object whose parameters have any value of their
/// type. schemas: ToolChoice::schemas. all_loose: replaces the schemas of all tools that are not strict.
/// tools: an array, as in ToolChoice; null if there are none. string_mark: ToolSyntax::string_mark. Throws
/// RequestError if the schema of a strict tool cannot be enforced.
std::vector<GrammarTool> grammar_tools(const Json& tools, bool all_loose, const std::string& string_mark = {},
                                       const Json& schemas = nullptr);

}  // namespace hearth
