// Finds a call with a known name, arguments and id in text that a template rendered, and determines how the
// template writes calls.
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

/// A call to render and to search for. Its texts occur in no template. It has two arguments, a text and a
/// number.
struct ProbeCall {
  std::string name;  // the function's name
  std::string
      shown_name;  // the name as the template writes it; differs from `name` if the id contains the name
  std::string id;
  std::string text_key, text_value;
  std::string number_key;
  int number_value = 0;

  Json arguments() const { return {{text_key, text_value}, {number_key, number_value}}; }
  /// The call as a member of tool_calls.
  Json message_part() const;
};

/// Returns one of the two probe calls. number: 0 or 1. id_has_name: gives the call an id of the form
/// functions.NAME:NUMBER, for templates that print only the id.
ProbeCall probe_call(int number, bool id_has_name);

/// The position of a call in a text, and the form in which it is written.
struct LocatedCall {
  size_t begin = 0, end = 0;
  /// Only form, pieces, the keys of JSON objects, and the texts around parameters are set.
  ToolSyntax written;
};

/// Returns nullopt if the text does not contain the call, or contains it in a form that ToolSyntax::Form does
/// not list.
std::optional<LocatedCall> locate_call(std::string_view text, const ProbeCall& call);

}  // namespace hearth
