// The tools of a request to the Responses API. A tool has the members of its function, which the Chat API
// writes into an inner object "function".
//
// A custom tool, whose input is a text, becomes a function with one text parameter; a namespace becomes its
// functions. Tools that OpenAI's servers run, and those that this server does not know, are left out: the
// model then cannot call them. Called on the HTTP thread.
#pragma once

#include <map>
#include <string>

#include "server/api/request/tool_choice.h"
#include "server/json/json.h"

namespace hearth {

/// A tool whose calls are not plain function calls, as the client knows it.
struct CalledTool {
  std::string name;
  std::string space = {};  // its namespace, or empty
  bool is_custom = false;  // its input is a text instead of JSON
};
/// By the name that the model sees.
using CalledTools = std::map<std::string, CalledTool>;

/// The parameter of the function that stands for a custom tool.
inline constexpr const char* kCustomInput = "input";

/// Returns the name under which the model sees a tool. space: the tool's namespace, or empty.
std::string shown_tool_name(const std::string& space, const std::string& name);

/// Reads tools, tool_choice and parallel_tool_calls. additional: tools from items of the input, or null.
/// choice: receives the result. called: receives the tools whose calls are not plain function calls. echo:
/// receives the members that the response repeats. Throws RequestError if a member is invalid, or demands a
/// call of a tool that the server would have to run.
void read_response_tools(const RequestFields& fields, const Json& additional, ToolChoice& choice,
                         CalledTools& called, Json& echo);

}  // namespace hearth
