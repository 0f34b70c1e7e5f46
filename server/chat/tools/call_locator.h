// Finds a call with known name, arguments and id in a template's rendered text, and reads how it is written.
//
// Used by derive_tool_syntax() only.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/chat/tools/tool_syntax.h"
#include "server/json/json.h"

namespace hearth {

/// A call with texts that occur in no template. Its arguments are a text and a number.
struct ProbeCall {
  std::string name;        // the function's name
  std::string shown_name;  // how the template writes it; differs from name where the id carries the name
  std::string id;
  std::string text_key, text_value;
  std::string number_key;
  int number_value = 0;

  Json arguments() const { return {{text_key, text_value}, {number_key, number_value}}; }
  /// The call as a member of tool_calls.
  Json message_part() const;
};

/// Probe call 0 or 1. id_has_name: its id is functions.NAME:NUMBER, for templates that print only the id.
ProbeCall probe_call(int number, bool id_has_name);

/// The position of a call in a text, and its form.
struct LocatedCall {
  size_t begin = 0, end = 0;
  /// Has form, pieces, keys of JSON objects, and texts around parameters.
  ToolSyntax written;
};

/// Returns nullopt if the text has no such call, or has it in a form that ToolSyntax::Form does not list.
std::optional<LocatedCall> locate_call(std::string_view text, const ProbeCall& call);

}  // namespace hearth
