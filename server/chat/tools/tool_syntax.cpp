#include "server/chat/tools/tool_syntax.h"

#include "server/chat/tools/probe_text.h"

namespace hearth {
namespace {

std::string trimmed(std::string_view text) { return std::string(probe::trim(text)); }

}  // namespace

std::string ToolSyntax::opener() const {
  const std::string begin = trimmed(section_begin + call_begin);
  return trimmed(begin.substr(0, begin.find('\n')));
}

bool ToolSyntax::bare() const {
  const std::string begin = opener();
  return begin.empty() || begin == "[";
}

std::string ToolSyntax::next_call() const { return trimmed(separator + call_begin); }

std::string ToolSyntax::after_last() const { return trimmed(section_end); }

bool ToolSyntax::closes_on_own_line() const { return value_end.starts_with('\n') && !end_tag().empty(); }

std::string ToolSyntax::end_tag() const {
  const std::string end = trimmed(call_end + section_end);
  return trimmed(end.substr(0, end.find('>') + 1));
}

ToolSyntax plain_tool_syntax() {
  using Kind = ToolSyntax::Piece::Kind;
  ToolSyntax syntax;
  syntax.call_begin = "<tool_call>\n";
  syntax.call_end = "\n</tool_call>";
  syntax.separator = "\n";
  syntax.pieces = {{Kind::kText, "{\"name\": \""},
                   {Kind::kName},
                   {Kind::kText, "\", \"arguments\": "},
                   {Kind::kArguments},
                   {Kind::kText, "}"}};
  return syntax;
}

ToolSyntax harmony_tool_syntax() {
  ToolSyntax syntax;
  syntax.form = ToolSyntax::Form::kHarmony;
  syntax.call_begin = "<|channel|>commentary to=functions.";
  syntax.name_end = " <|constrain|>json<|message|>";
  syntax.several_calls = false;
  return syntax;
}

}  // namespace hearth
