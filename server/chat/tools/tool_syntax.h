// How a model writes tool calls: the texts around the name, the arguments and the id of each call.
//
// A chat template shows past calls in the form in which the model was trained to write them, so
// derive_tool_syntax() reads the form from the template: it renders short conversations with known calls and
// looks at the texts around them. Done once, when the model is loaded. ToolCallParser uses the result to find
// calls in the model's output, and tool_grammar.h to constrain that output. docs/structured.md describes what
// clients see of this.
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
    kTagged,      // name within text, then a JSON object: <function=NAME>{...}</function>
    kParameters,  // each argument has tags: <parameter=KEY>VALUE</parameter>
    kPython,      // NAME(key=value, key=value)
    kHarmony,  // messages with channels: <|channel|>commentary to=functions.NAME ...<|message|>{...}<|call|>
  };
  struct Piece {
    enum class Kind { kText, kName, kId, kIndex, kArguments };
    Kind kind = Kind::kText;
    std::string text = {};  // kText only
  };

  /// The source that shows the model its tools and past calls. Prompts, past calls, grammars and parsers all
  /// follow this one syntax, so a call in the form that the prompt asks for is always read as a call.
  enum class Source {
    kTemplate,  // the template shows tools, and past calls in this syntax
    kFamily,    // the template shows tools but no calls; the model's family is known to write this syntax
    kServer,    // the template shows no tools: with_tools_in_text() writes tools and past calls into messages
  };

  Form form = Form::kJsonObject;
  Source source = Source::kServer;

  // All calls of an answer: section_begin, calls joined by separator, section_end. A call: call_begin, the
  // part described by `form`, call_end. Each may be empty. Their white space is the template's; the parser
  // accepts any.
  std::string section_begin, call_begin, call_end, separator, section_end;
  bool several_calls = true;  // false: the template has no form for a second call in one message
  /// The prompt ends with call_begin, so an answer begins with a name. Plain text is a call of the name
  /// text_recipient.
  bool prompt_opens_call = false;
  std::string text_recipient;

  /// kJsonObject, kTagged: one call between call_begin and call_end, in the template's form.
  std::vector<Piece> pieces;
  /// kJsonObject: the object's keys. id_key: empty if calls have no ids. wrapper_key: key of an inner object
  /// that has name and arguments; empty if there is none.
  std::string name_key = "name", arguments_key = "arguments", id_key, wrapper_key;
  /// How a name is written: name_prefix, the name, and with name_index also ":" and the call's number (Kimi
  /// K2).
  std::string name_prefix;
  bool name_index = false;

  /// kParameters: NAME name_end, then for each argument key_begin KEY key_end VALUE value_end, joined by
  /// value_separator.
  std::string name_end, key_begin, key_end, value_end, value_separator;

  /// The text that reveals a call: section_begin or call_begin up to the end of its first line. Empty if
  /// nothing precedes a call.
  std::string opener() const;
  /// Whether the opener is empty, or is a [ that may begin any text. Calls are then found only at the start
  /// of the answer, and only calls of the request's tools count.
  bool bare() const;
  /// The text after a call if another call follows (next_call) and if none does (after_last), without white
  /// space at either end.
  std::string next_call() const;
  std::string after_last() const;
};

/// end_texts: texts of the tokens that end an answer. They do not occur in generated text, so they are
/// removed from the syntax, and so is the template's eos_token. A template that does not show tools gets the
/// plain syntax, even if it shows calls, because the prompt then asks for that syntax. Does not throw for a
/// template whose calls it cannot interpret: the result is then the syntax of a model family recognized from
/// the template's text, or else the plain syntax.
ToolSyntax derive_tool_syntax(const ChatTemplate& chat_template, std::span<const std::string> end_texts = {});

/// <tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call>: for templates that do not show tools.
ToolSyntax plain_tool_syntax();

/// The syntax of gpt-oss (OpenAI's harmony format), which uses channels and not only texts around values.
ToolSyntax harmony_tool_syntax();

}  // namespace hearth
