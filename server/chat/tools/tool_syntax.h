// The syntax in which a model writes tool calls: the texts around the name, the arguments and the id of each
// call.
//
// A chat template writes past calls in the syntax that the model learned in training. derive_tool_syntax()
// therefore derives the syntax from the template. It renders short conversations with known calls when the
// model is loaded, and examines the texts around these calls. ToolCallParser uses the syntax to find calls in
// the model's output; build_tool_grammar() uses it to constrain the output. docs/structured.md describes tool
// calls for clients.
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
    kTagged,      // a JSON object after the name, with text around both: <function=NAME>{...}</function>
    kParameters,  // each argument has tags: <parameter=KEY>VALUE</parameter>
    kPython,      // NAME(key=value, key=value)
    kMarked,      // NAME{key:value,key:value}, whose strings stand between two marks (marked_values.h)
    kHarmony,  // messages with channels: <|channel|>commentary to=functions.NAME ...<|message|>{...}<|call|>
  };
  struct Piece {
    enum class Kind { kText, kName, kId, kIndex, kArguments };
    Kind kind = Kind::kText;
    std::string text = {};  // only for kText
  };

  /// The origin of the syntax. Prompts, past calls, grammars and parsers all use one syntax, so that the
  /// parser recognizes every call in the form that the prompt requests.
  enum class Source {
    kTemplate,  // the template shows tools, and past calls in this syntax
    kFamily,    // the template shows tools but no calls; this syntax is known from the model's family
    kServer,    // the template does not show tools; with_tools_in_text() writes tools and past calls into
                // messages
  };

  Form form = Form::kJsonObject;
  Source source = Source::kServer;
  /// Whether the template leaves calls of past messages out, so that with_calls_in_text() writes them into
  /// the messages' text. Always true for Source::kServer.
  bool calls_in_text = true;

  // The calls of an answer are written as section_begin, the calls joined by separator, and section_end. Each
  // call is written as call_begin, the part described by `form`, and call_end. Any of these texts may be
  // empty. The texts contain white space as the template writes it; the parser accepts any white space there.
  std::string section_begin, call_begin, call_end, separator, section_end;
  bool several_calls = true;  // false if one message cannot contain a second call
  /// Whether the prompt ends with call_begin. An answer then begins with a function's name, and plain text is
  /// written as a call of text_recipient.
  bool prompt_opens_call = false;
  std::string text_recipient;

  /// kJsonObject, kTagged: the parts of a call between call_begin and call_end.
  std::vector<Piece> pieces;
  /// kJsonObject: the object's keys. id_key: empty if calls have no ids. wrapper_key: the key of an inner
  /// object that contains the name and the arguments, or empty.
  std::string name_key = "name", arguments_key = "arguments", id_key, wrapper_key;
  /// A call's name is written as name_prefix and the function's name. If name_index is true (Kimi K2), ":"
  /// and the call's index follow.
  std::string name_prefix;
  bool name_index = false;

  /// kParameters: a call is written as NAME name_end, then key_begin KEY key_end VALUE value_end for each
  /// argument, joined by value_separator.
  std::string name_end, key_begin, key_end, value_end, value_separator;

  /// Whether the text that closes a value stands in a line of its own, and something follows it by which it
  /// can be recognized elsewhere: the text that opens the next parameter, or end_tag().
  bool closes_on_own_line() const;
  /// Returns the first tag of call_end, which follows the last parameter.
  std::string end_tag() const;

  /// kMarked: the text before and after a string.
  std::string string_mark;

  /// Returns the text by which the parser recognizes a call: the first line of section_begin + call_begin,
  /// without white space at either end. Empty if both are empty.
  std::string opener() const;
  /// Whether calls have no opener, or only "[", with which plain text may also begin. Calls are then
  /// recognized only at the start of the answer, and only if they name a tool of the request.
  bool bare() const;
  /// Return the text after call_end: next_call() is separator and call_begin, for another call; after_last()
  /// is section_end, after the last call. White space at the ends is removed.
  std::string next_call() const;
  std::string after_last() const;
};

/// Derives the syntax of calls from a template. end_texts: the texts of the tokens that end an answer. These
/// texts and the template's eos_token do not occur in generated text, so both are removed from the syntax. A
/// template that does not show tools gets the plain syntax, because the server then describes the tools and
/// the plain syntax in the prompt. If the template's calls cannot be interpreted, returns the syntax of a
/// model family recognized by the template's source, or else the plain syntax.
ToolSyntax derive_tool_syntax(const ChatTemplate& chat_template, std::span<const std::string> end_texts = {});

/// Returns the syntax <tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call>, for templates that do not
/// show tools.
ToolSyntax plain_tool_syntax();

/// Returns the syntax of gpt-oss (OpenAI's harmony format), which writes calls as messages with channels.
ToolSyntax harmony_tool_syntax();

}  // namespace hearth
