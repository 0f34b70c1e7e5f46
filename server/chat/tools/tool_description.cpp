#include "server/chat/tools/tool_description.h"

#include <utility>

#include "server/chat/tools/marked_values.h"
#include "server/chat/tools/python_literals.h"

namespace hearth {
namespace {

std::string content_of(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return {};
  return content->is_string() ? content->get<std::string>() : one_line(*content);
}

/// Returns the arguments as JSON text. Arguments that the client sent as text stay unchanged.
std::string arguments_of(const Json& function) {
  const auto arguments = function.find("arguments");
  if (arguments == function.end()) return "{}";
  return arguments->is_string() ? arguments->get<std::string>() : one_line(*arguments);
}

/// Writes one call with call_begin and call_end, but without section_begin, separator and section_end. name:
/// as the syntax writes it. arguments: JSON text.
std::string call_text(const ToolSyntax& syntax, const std::string& name, const std::string& arguments) {
  if (syntax.form == ToolSyntax::Form::kHarmony)
    return syntax.call_begin + name + syntax.name_end + arguments + syntax.call_end;
  if (syntax.form == ToolSyntax::Form::kPython)
    return syntax.call_begin + name + "(" + json_to_python_arguments(arguments) + ")" + syntax.call_end;
  if (syntax.form == ToolSyntax::Form::kMarked)
    return syntax.call_begin + name + "{" + json_to_marked_members(arguments, syntax.string_mark) + "}" +
           syntax.call_end;
  std::string text = syntax.call_begin;
  for (const ToolSyntax::Piece& piece : syntax.pieces) {
    using Kind = ToolSyntax::Piece::Kind;
    text += piece.kind == Kind::kName ? name : piece.kind == Kind::kArguments ? arguments : piece.text;
  }
  return text + syntax.call_end;
}

void calls_to_text(Json& message, const ToolSyntax& syntax) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return;
  std::string text = content_of(message);
  if (!text.empty() && !calls->empty()) text += '\n';
  bool is_first = true;
  for (const Json& call : *calls) {
    const Json& function = call.at("function");
    const std::string name = one_line(function.at("name"));
    text += std::exchange(is_first, false) ? syntax.section_begin : syntax.separator;
    text += call_text(syntax, name.substr(1, name.size() - 2), arguments_of(function));
  }
  if (!calls->empty()) text += syntax.section_end;
  message["content"] = std::move(text);
  message.erase("tool_calls");
}

/// Adds a tool result. If `joins`, appends it to the last message; otherwise, adds a user message.
void add_result(const Json& message, bool joins, Json& out) {
  std::string text = "<tool_response>\n" + content_of(message) + "\n</tool_response>";
  if (joins) {
    out.back()["content"] = content_of(out.back()) + "\n" + text;
  } else {
    out.push_back({{"role", "user"}, {"content", std::move(text)}});
  }
}

void add_description(const std::string& description, Json& messages) {
  for (const char* role : {"system", "user"}) {
    for (Json& message : messages) {
      if (message["role"] != role) continue;
      const std::string content = content_of(message);
      message["content"] = *role == 's' ? content + "\n\n" + description : description + "\n\n" + content;
      return;
    }
  }
  Json system = {{"role", "system"}, {"content", description}};
  messages.insert(messages.begin(), std::move(system));
}

}  // namespace

std::string one_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string describe_tools(const Json& tools, const ToolSyntax& syntax) {
  std::string text = "You can call these functions. Each is described by one line of JSON:\n<tools>\n";
  for (const Json& tool : tools) text += one_line(tool.contains("function") ? tool["function"] : tool) + "\n";
  text +=
      "</tools>\n\nTo call a function, answer with its name and its arguments in this form, and nothing "
      "after it:\n";
  text += syntax.section_begin + call_text(syntax, "the function's name", R"({"parameter": "value"})") +
          syntax.section_end;
  text +=
      "\nThe results then follow between <tool_response> and </tool_response>. If no function helps, answer "
      "in plain words.";
  return text;
}

Json with_calls_in_text(const Json& messages, const ToolSyntax& syntax) {
  Json out = messages;
  for (Json& message : out) calls_to_text(message, syntax);
  return out;
}

Json with_tools_in_text(const Json& messages, const Json& tools, const ToolSyntax& syntax) {
  Json out = Json::array();
  bool after_result = false;
  for (const Json& message : messages) {
    const bool is_result = message["role"] == "tool" || message["role"] == "function";
    if (is_result) {
      add_result(message, after_result, out);
    } else {
      out.push_back(message);
      calls_to_text(out.back(), syntax);
    }
    after_result = is_result;
  }
  if (tools.is_array() && !tools.empty()) add_description(describe_tools(tools, syntax), out);
  return out;
}

}  // namespace hearth
