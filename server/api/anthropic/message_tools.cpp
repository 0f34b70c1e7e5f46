// Converts `tools` and `tool_choice` to OpenAI's format and passes them to read_tool_choice().
#include "server/api/anthropic/message_tools.h"

#include <string>

#include "server/json/api_error.h"

namespace hearth {
namespace {

std::string required_name(const RequestFields& fields, const char* what) {
  const std::string name = fields.string("name").value_or("");
  if (name.empty()) {
    refuse_param(fields.param("name"),
                 "'" + fields.param("name") + "' is missing or empty; send " + what + ".");
  }
  return name;
}

void check_kind(const RequestFields& tool) {
  const std::string type = tool.string("type").value_or("custom");
  if (type == "custom") return;
  refuse_param(tool.param("type"),
               "'" + tool.param("type") + "' is " + describe(Json(type)) +
                   ", a tool of Anthropic's own; this server takes tools of type 'custom', with a 'name' and "
                   "an 'input_schema'.");
}

Json read_tool(const Json& json, const std::string& param) {
  if (!json.is_object())
    refuse_param(param, "'" + param + "' must be an object, found " + describe(json) + ".");
  const RequestFields tool(json, param + ".");
  check_kind(tool);
  Json function = {{"name", required_name(tool, "the tool's name")}};
  if (const std::optional<std::string> text = tool.string("description")) function["description"] = *text;
  const Json* schema = tool.object("input_schema");
  if (schema == nullptr) {
    refuse_param(tool.param("input_schema"), "'" + tool.param("input_schema") +
                                                 "' is missing; send the JSON schema of the tool's input.");
  }
  function["parameters"] = *schema;
  if (const std::optional<bool> strict = tool.boolean("strict")) function["strict"] = *strict;
  return {{"type", "function"}, {"function", std::move(function)}};
}

Json read_choice(const RequestFields& choice) {
  const std::string type = choice.required_word("type", {"auto", "any", "tool", "none"});
  if (type == "any") return "required";
  if (type == "tool")
    return {{"type", "function"}, {"function", {{"name", required_name(choice, "the name of a tool")}}}};
  return type;
}

}  // namespace

ToolChoice read_message_tools(const RequestFields& fields) {
  Json form = Json::object();
  if (const Json* tools = fields.array("tools")) {
    form["tools"] = Json::array();
    for (size_t i = 0; i < tools->size(); ++i)
      form["tools"].push_back(read_tool((*tools)[i], fields.param("tools") + "[" + std::to_string(i) + "]"));
  }
  if (const Json* json = fields.object("tool_choice")) {
    const RequestFields choice(*json, fields.param("tool_choice."));
    form["tool_choice"] = read_choice(choice);
    form["parallel_tool_calls"] = !choice.boolean("disable_parallel_tool_use").value_or(false);
  }
  return read_tool_choice(RequestFields(form));
}

}  // namespace hearth
