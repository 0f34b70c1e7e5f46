// Searches rendered text for a call whose name, arguments and id are known, and determines the syntax in
// which the template wrote the call.
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

/// A call that is rendered by a template and then searched for in the output. Its texts are so unusual that
/// no template contains them. It has two arguments, a text and a number.
struct ProbeCall {
  std::string name;  // name of the function
  // The name as the template writes it. It differs from `name` if the id contains the name.
  std::string shown_name;
  std::string id;
  std::string text_key, text_value;
  std::string number_key;
  int number_value = 0;

  Json arguments() const { return {{text_key, text_value}, {number_key, number_value}}; }
  /// Returns the call as an element of a message's tool_calls.
  Json message_part() const;
};

/// Returns one of two different calls. number: 0 or 1. id_has_name: the call's id has the form
/// functions.NAME:NUMBER, for templates that print the id instead of the name.
ProbeCall probe_call(int number, bool id_has_name);

/// Position of a call in a text, and the syntax in which it is written.
struct LocatedCall {
  size_t begin = 0, end = 0;
  /// Only these members are set: form, pieces, the keys of JSON objects, and the texts around parameters.
  ToolSyntax written;
};

/// Returns nullopt if the text does not contain the call, or if no ToolSyntax::Form describes how the call is
/// written.
std::optional<LocatedCall> locate_call(std::string_view text, const ProbeCall& call);

}  // namespace hearth
