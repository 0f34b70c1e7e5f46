#include "server/chat/tools/tool_grammar.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/constraint/grammar/character_set.h"
#include "server/chat/tools/probe_text.h"

namespace hearth {
namespace {

using Expr = Grammar::Expr;
using Form = ToolSyntax::Form;
using Piece = ToolSyntax::Piece;

constexpr int kMaxIdBytes = 64;
constexpr int kMaxIndexDigits = 6;
constexpr int kMaxGap = 16;  // bytes of white space

class Builder {
 public:
  Builder(const ChatForm& form, const std::vector<GrammarTool>& tools)
      : form_(&form), syntax_(&form.syntax.calls) {
    for (const GrammarTool& tool : tools) {
      const auto& allowed = form.choice.allowed;
      const bool may =
          allowed.empty() || std::find(allowed.begin(), allowed.end(), tool.name) != allowed.end();
      if (may) tools_.push_back(&tool);
    }
    if (tools_.empty() && mode() == ToolMode::kRequired) {
      throw ConstraintError("A tool must be called, but no tool is allowed; send tools or allow one.", "");
    }
  }

  Grammar take() {
    const Expr body = syntax_->form == Form::kHarmony ? harmony() : sequence({thinking(), answer()});
    const Grammar::Rule root = grammar_.declare("answer");
    grammar_.define(root, body);
    grammar_.set_root(root);
    return std::move(grammar_);
  }

 private:
  ToolMode mode() const { return form_->choice.mode; }

  Expr literal(std::string_view text) { return grammar_.literal(text); }
  Expr sequence(std::initializer_list<Expr> parts) { return grammar_.sequence(parts); }
  Expr choice(std::initializer_list<Expr> parts) { return grammar_.choice(parts); }
  Expr maybe(Expr what) { return grammar_.optional(what); }
  Expr any_number(Expr what) { return grammar_.any_number(what); }
  Expr white() { return any_number(grammar_.byte(byte_set(probe::kWhiteSpace))); }
  /// Matches white space that the model may write. The length is limited, because a required call could
  /// otherwise be postponed forever.
  Expr gap() { return grammar_.repeat(grammar_.byte(byte_set(probe::kWhiteSpace)), 0, kMaxGap); }
  Expr any_text() { return any_number(grammar_.character(all_characters())); }

  /// Matches a text as the parser reads the text of a syntax: with any white space before each character.
  Expr spread(std::string_view text) {
    std::vector<Expr> parts;
    for (const char c : text) {
      if (probe::kWhiteSpace.find(c) != std::string_view::npos) continue;
      parts.push_back(white());
      parts.push_back(literal(std::string_view(&c, 1)));
    }
    return grammar_.sequence(parts);
  }

  Expr text_without(std::string_view text) { return without(any_text(), text); }
  /// Matches every text that `what` matches and that does not contain `text`. REQUIRES: `what` does not call
  /// rules.
  Expr without(Expr what, std::string_view text) {
    if (text.empty()) return what;
    return grammar_.except(what, sequence({any_text(), literal(text), any_text()}));
  }

  // The answer.

  Expr thinking() {
    if (form_->thinking == ThinkingMode::kNone) return grammar_.empty();
    const ThinkingSyntax& tags = form_->syntax.thinking;
    const Expr thought = sequence({text_without(tags.close), literal(tags.close), gap()});
    return form_->thinking == ThinkingMode::kBegun ? thought : maybe(sequence({literal(tags.open), thought}));
  }

  Expr answer() {
    if (syntax_->prompt_opens_call) return answer_to_open_call();
    if (mode() == ToolMode::kRequired) return sequence({gap(), calls(true)});
    if (mode() == ToolMode::kNone || tools_.empty()) return text();
    if (syntax_->bare() || form_->has_format()) return choice({sequence({gap(), calls(true)}), text()});
    return sequence({text_before_calls(), maybe(calls(true))});
  }

  /// Matches text that ToolCallParser does not read as a call. It may mention the tag that opens calls within
  /// a line, if no call follows the tag: "Write <tool_call> first". At the start of a line, the tag begins a
  /// call.
  Expr text_before_calls() {
    const std::string begin = syntax_->section_begin + syntax_->call_begin;
    const std::string opener = syntax_->opener();
    const std::string_view behind = probe::trim(begin).substr(opener.size());
    const bool is_json = syntax_->form == Form::kJsonObject;
    if (behind.empty() && !is_json) return text_without(opener);
    const Expr call = sequence({literal(opener), spread(behind), spread(is_json ? "{" : "")});
    const Expr blanks = any_number(grammar_.byte(byte_set(" \t\r")));
    const Expr begins_line =
        sequence({maybe(sequence({any_text(), literal("\n")})), blanks, literal(opener), any_text()});
    return grammar_.except(any_text(), choice({begins_line, sequence({any_text(), call, any_text()})}));
  }

  /// Matches an answer to a prompt that already ends with the opener of a call. In such an answer, plain text
  /// is also written as a call, with the name text_recipient.
  Expr answer_to_open_call() {
    if (mode() == ToolMode::kRequired) return calls(false);
    const std::string after_name = syntax_->pieces.size() > 1 ? syntax_->pieces[1].text : std::string();
    const Expr said = sequence({literal(syntax_->text_recipient + after_name),
                                form_->has_format() ? formatted_text() : text_without(syntax_->opener())});
    if (mode() == ToolMode::kNone || tools_.empty()) return said;
    if (form_->has_format()) return choice({said, calls(false)});
    return choice({sequence({said, maybe(calls(true))}), calls(false)});
  }

  /// Matches text that ToolCallParser does not read as a call.
  Expr text() {
    if (form_->has_format()) return formatted_text();
    if (!syntax_->bare()) return text_without(syntax_->opener());
    return grammar_.except(any_text(), sequence({white(), call_begin(), any_text()}));
  }

  /// Matches text in the required format. If calls are also allowed, excludes text of a regular format
  /// (kRegex, kChoice) that the parser would read as the beginning of a call. JSON is not excluded; the
  /// parser reads it as a call only if calls are JSON objects without an opener.
  Expr formatted_text() {
    const Expr text = format_expression(grammar_, form_->format);
    const AnswerFormat::Kind kind = form_->format.kind;
    const bool is_regular = kind == AnswerFormat::Kind::kRegex || kind == AnswerFormat::Kind::kChoice;
    const bool leave_out = is_regular && mode() == ToolMode::kAuto && !tools_.empty();
    return leave_out ? grammar_.except(text, sequence({white(), call_begin(), any_text()})) : text;
  }

  /// Matches text that the parser reads as the beginning of a call.
  Expr call_begin() {
    if (!syntax_->bare()) return literal(syntax_->opener());
    if (syntax_->form == Form::kJsonObject)
      return sequence({literal("{"), white(), literal("\"" + syntax_->name_key + "\"")});
    std::vector<Expr> names;
    for (const GrammarTool* tool : tools_) names.push_back(literal(tool->name));
    return sequence({literal(probe::trim(syntax_->section_begin)), white(), grammar_.choice(names), white(),
                     literal("(")});
  }

  // Calls.

  /// opened: whether the match includes the text that opens the first call.
  Expr calls(bool opened) {
    const Expr first = opened ? call(syntax_->section_begin + syntax_->call_begin) : call("");
    const bool several = form_->choice.parallel && syntax_->several_calls;
    const Expr more = several ? any_number(call(syntax_->separator + syntax_->call_begin)) : grammar_.empty();
    return sequence({first, more, literal(syntax_->section_end), after_calls()});
  }

  /// Matches what may follow the calls: white space, which some templates write there, or text if the answer
  /// may have any. A model that has begun white space is thus not forced to make another call.
  Expr after_calls() {
    const bool any = mode() == ToolMode::kAuto && !form_->has_format() && !syntax_->bare();
    return any ? text_without(syntax_->opener()) : gap();
  }

  Expr call(const std::string& begin) {
    return sequence({literal(begin), grammar_.call(body_rule()), literal(syntax_->call_end)});
  }

  /// Matches a call of any tool, without call_begin and call_end.
  Grammar::Rule body_rule() {
    if (!has_body_) {
      std::vector<Expr> bodies;
      for (const GrammarTool* tool : tools_) bodies.push_back(body(*tool));
      body_ = grammar_.declare("call");
      grammar_.define(body_, grammar_.choice(bodies));
      has_body_ = true;
    }
    return body_;
  }

  Expr body(const GrammarTool& tool) {
    switch (syntax_->form) {
      case Form::kParameters:
        return sequence({name(tool), literal(syntax_->name_end),
                         parameters(
                             tool, [this](const GrammarParameter& p) { return tagged_parameter(p); },
                             syntax_->value_separator)});
      case Form::kPython:
        return sequence({name(tool), literal("("),
                         parameters(
                             tool, [this](const GrammarParameter& p) { return python_parameter(p); }, ", "),
                         literal(")")});
      case Form::kMarked:
        return sequence({name(tool), tool.arguments(grammar_)});
      default:
        return pieces(tool);
    }
  }

  Expr name(const GrammarTool& tool) {
    const Expr text = literal(syntax_->name_prefix + tool.name + (syntax_->name_index ? ":" : ""));
    return syntax_->name_index ? sequence({text, index()}) : text;
  }
  Expr index() { return grammar_.repeat(grammar_.byte(byte_range('0', '9')), 1, kMaxIndexDigits); }
  Expr id() {
    const ByteSet letters =
        byte_range('0', '9') | byte_range('a', 'z') | byte_range('A', 'Z') | byte_set("_-");
    return grammar_.repeat(grammar_.byte(letters), 1, kMaxIdBytes);
  }

  Expr pieces(const GrammarTool& tool) {
    std::vector<Expr> parts;
    for (const Piece& piece : syntax_->pieces) parts.push_back(this->piece(piece, tool));
    return grammar_.sequence(parts);
  }

  Expr piece(const Piece& piece, const GrammarTool& tool) {
    switch (piece.kind) {
      case Piece::Kind::kName:
        return name(tool);
      case Piece::Kind::kId:
        return id();
      case Piece::Kind::kIndex:
        return index();
      case Piece::Kind::kArguments:
        return tool.arguments(grammar_);
      case Piece::Kind::kText:
        break;
    }
    return literal(piece.text);
  }

  /// Matches the parameters in order, joined by the separator. Optional parameters may be missing. Builds the
  /// expression from the last parameter to the first, in two forms: without a separator before the first
  /// parameter that is present (rest_first), and with one (rest_later).
  Expr parameters(const GrammarTool& tool, const std::function<Expr(const GrammarParameter&)>& written,
                  const std::string& separator) {
    Expr rest_first = grammar_.empty(), rest_later = grammar_.empty();
    for (size_t i = tool.parameters.size(); i > 0; --i) {
      const GrammarParameter& parameter = tool.parameters[i - 1];
      const Expr here = written(parameter);
      const Expr first = sequence({here, rest_later});
      const Expr later = sequence({literal(separator), here, rest_later});
      rest_first = as_rule(parameter.required ? first : choice({first, rest_first}));
      rest_later = as_rule(parameter.required ? later : choice({later, rest_later}));
    }
    return rest_first;
  }

  /// Wraps an expression that is used in two places in a rule, so that the grammar contains it only once.
  Expr as_rule(Expr what) {
    const Grammar::Rule rule = grammar_.declare("parameters");
    grammar_.define(rule, what);
    return grammar_.call(rule);
  }

  Expr tagged_parameter(const GrammarParameter& parameter) {
    const std::string& end = syntax_->value_end;
    // A value whose closing tag stands in a line of its own may also be closed within its last line.
    const Expr closed =
        end.starts_with('\n') ? choice({literal(end), literal(probe::trim_start(end))}) : literal(end);
    return sequence(
        {literal(syntax_->key_begin + parameter.name + syntax_->key_end), tagged_value(parameter), closed});
  }

  Expr tagged_value(const GrammarParameter& parameter) {
    if (!parameter.parts) return parameter.value ? parameter.value(grammar_) : before_close(any_text());
    const GrammarParameter::Parts parts = parameter.parts(grammar_);
    std::vector<Expr> options;
    if (parts.texts) options.push_back(before_close(*parts.texts));
    if (parts.others) options.push_back(*parts.others);
    return grammar_.choice(options);
  }

  /// Matches the texts of `what` in which the parser finds no end of a value. REQUIRES: `what` does not call
  /// rules.
  Expr before_close(Expr what) {
    const std::string close(probe::trim(syntax_->value_end));
    if (!syntax_->closes_on_own_line()) return without(what, close);
    const Expr follows = choice({spread(syntax_->key_begin), spread(syntax_->end_tag())});
    const Expr ends = choice({literal("\n" + close), sequence({literal(close), follows})});
    return grammar_.except(
        what, choice({sequence({literal(close), any_text()}), sequence({any_text(), ends, any_text()})}));
  }

  Expr python_parameter(const GrammarParameter& parameter) {
    const Expr value = parameter.value ? parameter.value(grammar_) : quoted();
    return sequence({literal(parameter.name + "="), value});
  }

  Expr quoted() {
    const Expr escape = sequence({literal("\\"), grammar_.byte(byte_set("\"\\nt"))});
    const std::array<CharRange, 3> ranges{{{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}}};
    return sequence({literal("\""), any_number(choice({grammar_.character(ranges), escape})), literal("\"")});
  }

  // Harmony format: an answer consists of messages with channels.

  Expr message(std::string_view channel) {
    return sequence({literal("<|channel|>" + std::string(channel) + "<|message|>"), text_without("<|")});
  }
  Expr before(Expr what) { return maybe(sequence({what, literal("<|end|><|start|>assistant")})); }

  /// Matches a call in the forms that models write: the recipient stands before or after the channel, and
  /// "functions." and the type of the arguments may be missing.
  Expr harmony_call() {
    std::vector<Expr> calls;
    for (const GrammarTool* tool : tools_) {
      const Expr recipient =
          sequence({maybe(literal(" ")), literal("to="), maybe(literal("functions.")), literal(tool->name)});
      const Expr channel =
          sequence({literal("<|channel|>"), choice({literal("commentary"), literal("analysis")})});
      const Expr type = sequence({maybe(literal(" ")), maybe(literal("<|constrain|>")),
                                  maybe(choice({literal("json"), literal("code")})), literal("<|message|>")});
      const Expr header = choice({sequence({recipient, channel}), sequence({channel, recipient})});
      calls.push_back(sequence({header, type, tool->arguments(grammar_)}));
    }
    return grammar_.choice(calls);
  }

  Expr harmony() {
    const bool thinks = form_->thinking != ThinkingMode::kNone;
    const Expr thought = thinks ? before(message("analysis")) : grammar_.empty();
    const bool may_call = mode() != ToolMode::kNone && !tools_.empty();
    const Expr last =
        form_->has_format()
            ? sequence({literal("<|channel|>final<|message|>"), format_expression(grammar_, form_->format)})
            : message("final");
    if (!may_call) return sequence({thought, last});
    const Expr made = sequence({before(message("commentary")), harmony_call()});
    if (mode() == ToolMode::kRequired) return sequence({thought, made});
    return sequence({thought, choice({last, made})});
  }

  const ChatForm* form_;
  const ToolSyntax* syntax_;  // belongs to form_
  std::vector<const GrammarTool*> tools_;
  Grammar grammar_;
  Grammar::Rule body_{};
  bool has_body_ = false;
};

}  // namespace

Grammar build_tool_grammar(const ChatForm& form, const std::vector<GrammarTool>& tools) {
  return Builder(form, tools).take();
}

}  // namespace hearth
