// How a model writes tool calls: the texts around the name, the arguments and the id of each call.
//
// A chat template shows past calls to the model in the form in which the model was trained to make them.
// So the form is read off the template: derive_tool_syntax() renders short conversations with calls of
// known names and values and looks at what stands around them. Done once, when the model is loaded.
// ToolCallParser finds calls in what the model generates by the result, and tool_grammar.h holds the model
// to it. docs/structured.md says what clients see of this.
//
// Plain data; any thread may read it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/chat/chat_template.h"

namespace hearth {

struct ToolSyntax {
  enum class Form {
    kJsonObject,  // {"name": ..., "arguments": {...}}
    kTagged,  // the name in some text, then the arguments as a JSON object: <function=NAME>{...}</function>
    kParameters,  // each argument in tags of its own: <parameter=KEY>VALUE</parameter>
    kPython,      // NAME(key=value, key=value)
    kHarmony,  // messages with channels: <|channel|>commentary to=functions.NAME ...<|message|>{...}<|call|>
  };
  struct Piece {
    enum class Kind { kText, kName, kId, kIndex, kArguments };
    Kind kind = Kind::kText;
    std::string text = {};  // of kText
  };

  Form form = Form::kJsonObject;
  /// Whether the template shows tools to the model. If not, with_tools_in_text() does.
  bool template_shows_tools = false;
  /// Whether the template itself shows calls. If not, the form is that of a family of models, or the
  /// plain one.
  bool derived = false;

  // All calls of an answer: section_begin, calls with separators between, section_end. A call:
  // call_begin, what `form` says, call_end. Each may be empty. White space in them is what the template
  // prints; the parser takes any.
  std::string section_begin, call_begin, call_end, separator, section_end;
  bool several_calls = true;  // false: the template has no form for a second call in one message
  /// The prompt ends with call_begin, so that an answer begins with a name. Text is a call of the name
  /// text_recipient.
  bool prompt_opens_call = false;
  std::string text_recipient;

  /// kJsonObject, kTagged: one call between call_begin and call_end, as the template prints it.
  std::vector<Piece> pieces;
  /// kJsonObject: the object's keys. id_key: empty if calls have no ids; wrapper_key: of the object in
  /// the object that has name and arguments, empty if there is none.
  std::string name_key = "name", arguments_key = "arguments", id_key, wrapper_key;
  /// What is written for a name: name_prefix, the name, and with name_index ":" and the call's number
  /// (Kimi K2).
  std::string name_prefix;
  bool name_index = false;

  /// kParameters: NAME name_end, then for each argument key_begin KEY key_end VALUE value_end, with
  /// value_separator between.
  std::string name_end, key_begin, key_end, value_end, value_separator;

  /// The text by which calls are noticed: the beginning of section_begin or call_begin up to the end of
  /// its line. Empty if calls begin with nothing but themselves.
  std::string opener() const;
  /// Whether an opener is missing, or is a [ that may begin any text: calls are then looked for at the
  /// start of the answer only, and only those of the request's tools count.
  bool bare() const;
  /// What may stand after a call if another follows, and if none does. Without white space at their ends.
  std::string next_call() const;
  std::string after_last() const;
};

/// end_texts: texts of the tokens that end an answer. They do not occur in generated text, so they are
/// cut from the syntax; the template's eos_token always is. Never throws for a template it cannot make
/// sense of: the result is then the plain syntax, or that of the family of models which the template's
/// text gives away.
ToolSyntax derive_tool_syntax(const ChatTemplate& chat_template, std::span<const std::string> end_texts = {});

/// <tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call>: for templates that know nothing of tools.
ToolSyntax plain_tool_syntax();

/// The syntax of gpt-oss (OpenAI's harmony format), whose channels are more than texts around values.
ToolSyntax harmony_tool_syntax();

}  // namespace hearth
