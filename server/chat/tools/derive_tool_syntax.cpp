// Derives the syntax of tool calls from a chat template. Renders the prompt of an answer, a text answer, and
// answers with one and two calls. The texts that open, separate and close calls follow from the differences.
#include <array>
#include <optional>
#include <utility>

#include "server/chat/thinking_syntax.h"
#include "server/chat/tools/call_locator.h"
#include "server/chat/tools/probe_text.h"
#include "server/chat/tools/tool_syntax.h"

namespace hearth {
namespace {

Json tool_of(const ProbeCall& call) {
  Json properties = {{call.text_key, {{"type", "string"}, {"description", "Some text"}}},
                     {call.number_key, {{"type", "integer"}, {"description", "Some number"}}}};
  Json parameters = {{"type", "object"}, {"properties", std::move(properties)}, {"required", Json::array()}};
  Json function = {{"name", call.name}, {"description", "Probes."}, {"parameters", std::move(parameters)}};
  return {{"type", "function"}, {"function", std::move(function)}};
}

/// Renders test conversations with one chat template.
class Probe {
 public:
  Probe(const ChatTemplate& chat_template, bool id_has_name)
      : template_(&chat_template), calls_{probe_call(0, id_has_name), probe_call(1, id_has_name)} {
    tools_ = Json::array({tool_of(calls_[0]), tool_of(calls_[1])});
    question_ = {{"role", "user"}, {"content", "hearth asks this"}};
  }

  const ProbeCall& call(size_t i) const { return calls_[i]; }
  /// Renders the prompt that precedes an answer. All functions below return nullopt if the template raises an
  /// error.
  std::optional<std::string> prompt(bool with_tools, const Json& extra = nullptr) const {
    return render(Json::array({question_}), with_tools ? tools_ : Json(nullptr), true, extra);
  }
  std::optional<std::string> text_answer() const {
    return answer({{"role", "assistant"}, {"content", probe::kAnswerText}});
  }
  std::optional<std::string> calls_answer(size_t n_calls) const {
    Json calls = Json::array();
    for (size_t i = 0; i < n_calls; ++i) calls.push_back(calls_[i].message_part());
    return answer({{"role", "assistant"}, {"content", nullptr}, {"tool_calls", std::move(calls)}});
  }

 private:
  std::optional<std::string> answer(Json message) const {
    return render(Json::array({question_, std::move(message)}), tools_, false, nullptr);
  }
  std::optional<std::string> render(const Json& messages, const Json& tools, bool prompt,
                                    const Json& extra) const {
    try {
      return template_->render(messages, tools, prompt, extra);
    } catch (const TemplateError&) {
      return std::nullopt;
    }
  }

  const ChatTemplate* template_;
  std::array<ProbeCall, 2> calls_;
  Json tools_, question_;
};

/// Returns the position in a rendered conversation at which the last answer begins. Compares the conversation
/// with the prompts that the template renders before an answer. If the conversation begins with such a
/// prompt, returns the end of the longest one. Otherwise, returns the length of the longest common prefix of
/// the conversation and a prompt.
size_t answer_begin(const Probe& probe, std::string_view rendered) {
  size_t whole = 0, shared = 0;
  for (const Json& extra : {Json(nullptr), Json{{"enable_thinking", false}}, Json{{"thinking", false}}}) {
    for (const bool with_tools : {true, false}) {  // some templates show tools only with the last message
      const std::optional<std::string> prompt = probe.prompt(with_tools, extra);
      if (!prompt) continue;
      shared = std::max(shared, probe::common_prefix(rendered, *prompt));
      if (rendered.starts_with(*prompt)) whole = std::max(whole, prompt->size());
    }
  }
  return whole > 0 ? whole : shared;
}

/// Returns the text between the content of a text answer and the end of the conversation. This text ends the
/// turn.
std::string turn_end(const Probe& probe) {
  const std::optional<std::string> rendered = probe.text_answer();
  const size_t at = rendered ? rendered->rfind(probe::kAnswerText) : probe::kNone;
  return at == probe::kNone ? std::string() : rendered->substr(at + probe::kAnswerText.size());
}

/// The text of an answer with calls. The prompt, the thinking and the end of the turn are removed.
class Answer {
 public:
  Answer(const Probe& probe, std::string_view rendered, const ThinkingSyntax& thinking,
         std::span<const std::string> end_texts)
      : text_(rendered.substr(answer_begin(probe, rendered))) {
    text_.resize(text_.size() - probe::common_suffix(text_, turn_end(probe)));
    for (const std::string& end : end_texts) {
      const size_t at = end.empty() ? probe::kNone : text_.rfind(end);
      if (at != probe::kNone && probe::trim(text_.substr(at + end.size())).empty()) text_.resize(at);
    }
    const size_t thought = thinking.exists() ? text_.find(thinking.close) : probe::kNone;
    if (thought != probe::kNone) text_.erase(0, thought + thinking.close.size());
    text_ = std::string(probe::trim(text_));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Handles templates whose prompt already ends with the text that opens the first call. Between two calls,
/// this text is part of the answer, so compare_with_two() has stored it as `separator`. Moves it to
/// call_begin.
void take_opener_from_prompt(const Probe& probe, ToolSyntax& syntax) {
  const std::string_view opener = probe::trim(syntax.separator);
  const std::string prompt = probe.prompt(true).value_or("");
  if (opener.empty() || !syntax.opener().empty() || !probe::trim_end(prompt).ends_with(opener)) return;
  syntax.prompt_opens_call = true;
  syntax.call_begin = opener;
  syntax.separator.clear();
  const std::optional<std::string> rendered = probe.text_answer();
  if (!rendered || !rendered->starts_with(prompt)) return;
  std::string_view recipient(*rendered);
  recipient = recipient.substr(prompt.size(), recipient.rfind(probe::kAnswerText) - prompt.size());
  const std::string_view after_name =
      syntax.pieces.size() > 1 ? probe::trim(syntax.pieces[1].text) : std::string_view();
  recipient = probe::trim(recipient);
  if (!recipient.ends_with(after_name)) return;
  recipient.remove_suffix(after_name.size());
  syntax.text_recipient = probe::trim(recipient);
}

/// Returns the syntax of an answer with one call. All text before the call becomes call_begin, and all text
/// after the call becomes call_end.
ToolSyntax of_one_call(const std::string& answer, const LocatedCall& call) {
  ToolSyntax syntax = call.written;
  syntax.source = ToolSyntax::Source::kTemplate;
  syntax.calls_in_text = false;
  syntax.several_calls = false;
  syntax.call_begin = answer.substr(0, call.begin);
  syntax.call_end = answer.substr(call.end);
  return syntax;
}

/// Compares an answer with two calls with an answer with one call. call_begin and call_end contain all text
/// around the one call. Moves the parts that are not repeated for each call to section_begin and section_end.
void compare_with_two(const Probe& probe, const std::string& two, ToolSyntax& syntax) {
  const std::optional<LocatedCall> first = locate_call(two, probe.call(0));
  if (!first) return;
  const std::string_view rest = std::string_view(two).substr(first->end);
  const std::optional<LocatedCall> second = locate_call(rest, probe.call(1));
  if (!second || second->written.form != syntax.form) return;
  const std::string_view between = rest.substr(0, second->begin);
  if (two.substr(0, first->begin) != syntax.call_begin)
    return;  // the template opens the first call differently if there is a second call
  const std::string_view before = syntax.call_begin;
  const std::string_view after = syntax.call_end;
  const size_t n_end = probe::common_prefix(after, between);
  const size_t n_begin =
      std::min(probe::common_suffix(before, between), between.size() - std::min(n_end, between.size()));
  const std::string section_begin(before.substr(0, before.size() - n_begin));
  const std::string call_begin(before.substr(before.size() - n_begin));
  const std::string section_end(after.substr(n_end));
  const std::string call_end(after.substr(0, n_end));
  syntax.several_calls = true;
  syntax.separator = between.substr(n_end, between.size() - n_begin - n_end);
  syntax.section_begin = section_begin;
  syntax.call_begin = call_begin;
  syntax.section_end = section_end;
  syntax.call_end = call_end;
}

std::optional<ToolSyntax> read_off(const Probe& probe, const ThinkingSyntax& thinking,
                                   std::span<const std::string> end_texts) {
  const std::optional<std::string> rendered = probe.calls_answer(1);
  if (!rendered) return std::nullopt;
  const Answer one(probe, *rendered, thinking, end_texts);
  const std::optional<LocatedCall> call = locate_call(one.text(), probe.call(0));
  if (!call) return std::nullopt;
  ToolSyntax syntax = of_one_call(one.text(), *call);
  if (const std::optional<std::string> with_two = probe.calls_answer(2)) {
    compare_with_two(probe, Answer(probe, *with_two, thinking, end_texts).text(), syntax);
  }
  // If section_begin is empty, nothing encloses the calls. section_end is then only the end of the turn,
  // which Answer has not removed, because some templates end a turn with calls differently from a turn with
  // text (Llama's eom).
  if (probe::trim(syntax.section_begin).empty()) syntax.section_end.clear();
  take_opener_from_prompt(probe, syntax);
  return syntax;
}

/// Recognizes the harmony format by its channels, which appear even in a text answer.
bool is_harmony(const Probe& probe) {
  const std::string text = probe.text_answer().value_or("");
  return text.find("<|channel|>") != probe::kNone && text.find("<|message|>") != probe::kNone;
}

/// A model family whose template shows tools but not calls. `word` occurs in the family's templates. The
/// models' makers document the form of calls.
struct Family {
  std::string_view word;
  ToolSyntax (*syntax)();
};

ToolSyntax json_list(std::string_view begin, std::string_view end) {
  ToolSyntax syntax = plain_tool_syntax();
  syntax.section_begin = std::string(begin) + "[";
  syntax.section_end = "]" + std::string(end);
  syntax.call_begin = syntax.call_end = "";
  syntax.separator = ", ";
  return syntax;
}

ToolSyntax phi() { return json_list("<|tool_call|>", "<|/tool_call|>"); }
ToolSyntax granite() { return json_list("<|tool_call|>", ""); }
ToolSyntax mistral() { return json_list("[TOOL_CALLS]", ""); }
ToolSyntax lfm() {
  ToolSyntax syntax = json_list("<|tool_call_start|>", "<|tool_call_end|>");
  syntax.form = ToolSyntax::Form::kPython;
  syntax.pieces.clear();
  return syntax;
}
ToolSyntax function_gemma() {
  ToolSyntax syntax;
  syntax.form = ToolSyntax::Form::kMarked;
  syntax.call_begin = "<start_function_call>call:";
  syntax.call_end = "<end_function_call>";
  syntax.string_mark = "<escape>";
  return syntax;
}
ToolSyntax llama() {
  ToolSyntax syntax = plain_tool_syntax();
  syntax.call_begin = syntax.call_end = syntax.separator = "";
  syntax.several_calls = false;
  syntax.arguments_key = "parameters";
  syntax.pieces[2].text = "\", \"parameters\": ";
  return syntax;
}

constexpr std::array<Family, 8> kFamilies{{{"<|/tool|>", phi},
                                           {"<|tool_call|>", granite},
                                           {"[AVAILABLE_TOOLS]", mistral},
                                           {"<|tool_call_start|>", lfm},
                                           {"<|tool_list_start|>", lfm},
                                           {"List of tools: [", lfm},  // LFM2.5
                                           {"<start_function_declaration>", function_gemma},
                                           {"<|python_tag|>", llama}}};

/// probe: renders answers with calls. A template that writes them, in whatever form, is left to do so.
ToolSyntax of_family(const ChatTemplate& chat_template, const Probe& probe) {
  ToolSyntax syntax = plain_tool_syntax();
  for (const Family& family : kFamilies) {
    if (chat_template.source().find(family.word) == std::string::npos) continue;
    syntax = family.syntax();
    break;
  }
  syntax.source = ToolSyntax::Source::kFamily;
  const std::optional<std::string> rendered = probe.calls_answer(1);
  syntax.calls_in_text = rendered && rendered->find(probe.call(0).text_value) == std::string::npos;
  return syntax;
}

}  // namespace

ToolSyntax derive_tool_syntax(const ChatTemplate& chat_template, std::span<const std::string> end_texts) {
  std::vector<std::string> ends(end_texts.begin(), end_texts.end());
  ends.push_back(chat_template.eos_text());
  const ThinkingSyntax thinking = derive_thinking_syntax(chat_template);
  const Probe probe(chat_template, false);
  const std::optional<std::string> with_tools = probe.prompt(true);
  const bool shows_tools = with_tools && with_tools != probe.prompt(false);
  if (is_harmony(probe)) {
    ToolSyntax syntax = harmony_tool_syntax();
    syntax.source = shows_tools ? ToolSyntax::Source::kTemplate : ToolSyntax::Source::kServer;
    syntax.calls_in_text = !shows_tools;
    return syntax;
  }
  if (!shows_tools) return plain_tool_syntax();
  if (auto derived = read_off(probe, thinking, ends)) return *std::move(derived);
  if (auto by_id = read_off(Probe(chat_template, true), thinking, ends)) {
    by_id->name_prefix = "functions.";
    by_id->name_index = true;
    return *std::move(by_id);
  }
  return of_family(chat_template, probe);
}

}  // namespace hearth
