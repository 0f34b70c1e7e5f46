// tool_choice has six forms: three words, a named function, and two forms of allowed_tools.
#include "server/api/request/tool_choice.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "server/json/api_error.h"

namespace hearth {
namespace {

constexpr size_t kMaxTools = 1024;

std::string name_of(const Json& tool) { return tool["function"]["name"].get<std::string>(); }

/// Checks that the tool has the form {"type": "function", "function": {"name", ...}}. Throws RequestError.
void check_tool(const Json& tool, const std::string& param) {
  if (!tool.is_object())
    refuse_param(param, "'" + param + "' must be an object, found " + describe(tool) + ".");
  const RequestFields fields(tool, param + ".");
  if (fields.string("type").value_or("") != "function") {
    refuse_param(fields.param("type"), "'" + fields.param("type") + "' must be 'function'.");
  }
  const Json* function = fields.object("function");
  const RequestFields inner(function != nullptr ? *function : tool, fields.param("function."));
  if (function == nullptr || inner.string("name").value_or("").empty()) {
    refuse_param(fields.param("function"),
                 "'" + fields.param("function") + "' must be an object with a 'name'.");
  }
  inner.string("description");
  inner.boolean("strict");
  const Json* parameters = inner.find("parameters");
  if (parameters != nullptr && !parameters->is_object()) {
    refuse_param(inner.param("parameters"), "'" + inner.param("parameters") +
                                                "' must be a JSON schema (an object), found " +
                                                describe(*parameters) + ".");
  }
}

Json read_tools(const RequestFields& fields) {
  if (const Json* functions = fields.array("functions"); functions != nullptr && !functions->empty()) {
    refuse_param("functions", "'functions' is not supported; send 'tools' instead.");
  }
  const Json* tools = fields.array("tools");
  if (tools == nullptr || tools->empty()) return nullptr;
  if (tools->size() > kMaxTools) {
    refuse_param("tools", "'tools' has " + std::to_string(tools->size()) + " entries; at most " +
                              std::to_string(kMaxTools) + " are allowed.");
  }
  for (size_t i = 0; i < tools->size(); ++i) check_tool((*tools)[i], "tools[" + std::to_string(i) + "]");
  return *tools;
}

ToolMode mode_of(const std::string& word, const std::string& param) {
  if (word == "none") return ToolMode::kNone;
  if (word == "auto") return ToolMode::kAuto;
  if (word == "required" || word == "any") return ToolMode::kRequired;  // "any" is the word of Mistral's API
  refuse_param(param,
               "'" + param + "' must be 'none', 'auto' or 'required', found " + describe(Json(word)) + ".");
}

/// Returns the name in {"type": "function", "function": {"name"}} or {"type": "function", "name"}.
std::string read_name(const Json& choice, const std::string& param) {
  if (choice.is_object()) {
    const RequestFields fields(choice, param + ".");
    const Json* function = fields.object("function");
    const std::optional<std::string> name =
        function != nullptr ? RequestFields(*function, param + ".function.").string("name")
                            : fields.string("name");
    if (name) return *name;
  }
  refuse_param(param,
               "'" + param +
                   "' must name a function: {\"type\": \"function\", \"function\": {\"name\": ...}}, found " +
                   describe(choice) + ".");
}

void read_allowed(const RequestFields& fields, ToolChoice& out) {
  const Json* wrapped = fields.object("allowed_tools");
  const RequestFields inner(wrapped != nullptr ? *wrapped : *fields.find("tools"),
                            fields.param("allowed_tools."));
  const Json* tools = wrapped != nullptr ? inner.array("tools") : fields.array("tools");
  const std::string mode = (wrapped != nullptr ? inner : fields).string("mode").value_or("auto");
  if (tools == nullptr || tools->empty()) {
    refuse_param(fields.param("tools"),
                 "'" + fields.param("tools") + "' must name the tools that are allowed.");
  }
  out.mode = mode_of(mode, fields.param("mode"));
  for (size_t i = 0; i < tools->size(); ++i) {
    out.allowed.push_back(read_name((*tools)[i], fields.param("tools") + "[" + std::to_string(i) + "]"));
  }
}

void read_choice(const RequestFields& fields, ToolChoice& out) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  const std::string param = fields.param("tool_choice");
  if (choice->is_string()) {
    out.mode = mode_of(choice->get<std::string>(), param);
  } else if (choice->is_object()) {
    const RequestFields inner(*choice, param + ".");
    const bool has_list = inner.find("allowed_tools") != nullptr || inner.find("tools") != nullptr;
    if (inner.string("type") == "allowed_tools" && has_list) {
      read_allowed(inner, out);
    } else {
      out.mode = ToolMode::kRequired;
      out.allowed = {read_name(*choice, param)};
      out.parallel = false;  // OpenAI's API allows one call of a named function; small models would repeat it
    }
  } else {
    refuse_param(param, "'" + param + "' must be 'none', 'auto', 'required' or an object, found " +
                            describe(*choice) + ".");
  }
}

void check_names(const ToolChoice& choice) {
  for (const std::string& name : choice.allowed) {
    const auto is_it = [&](const Json& tool) { return name_of(tool) == name; };
    if (choice.tools.is_array() && std::ranges::any_of(choice.tools, is_it)) continue;
    refuse_param("tool_choice",
                 "'tool_choice' names the function " + describe(Json(name)) + ", which is not in 'tools'.");
  }
}

}  // namespace

ToolChoice read_tool_choice(const RequestFields& fields) {
  ToolChoice out;
  out.tools = read_tools(fields);
  out.mode = out.tools.is_null() ? ToolMode::kNone : ToolMode::kAuto;
  out.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  read_choice(fields, out);
  check_names(out);
  if (out.mode == ToolMode::kRequired && out.tools.is_null()) {
    refuse_param("tool_choice", "'tool_choice' demands a call, but 'tools' is empty; send the tools.");
  }
  if (out.tools.is_null()) out.mode = ToolMode::kNone;
  if (out.mode == ToolMode::kNone) out.tools = nullptr;  // hides the tools from the model
  return out;
}

}  // namespace hearth
