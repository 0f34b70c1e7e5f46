// The table of docs/tools.md: what becomes of calls and thinking with every template of
// tests/data/chat_templates. Fails if the table differs from what the code does; with the environment
// variable HEARTH_WRITE_TABLES, writes the table instead (tests/regenerate.sh).
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "server/chat/messages.h"
#include "server/chat/tools/probe_text.h"
#include "server/chat/tools/tool_description.h"
#include "server/chat/tools/tool_grammar.h"
#include "server/chat/tools/tool_schemas.h"
#include "tests/server/chat/tool_answers.h"
#include "tests/support/grammar_matcher.h"

namespace hearth::tests {
namespace {

const Json kArguments = {{"city", "Z\xC3\xBCrich & \"Bern\""}, {"days", 3}};

/// The names of all templates, in alphabetical order.
std::vector<std::string> template_names() {
  std::vector<std::string> names;
  const std::string folder = hearth::testing::source_dir() + "/tests/data/chat_templates";
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".jinja") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

Json history(int n_calls, const Json& content, bool has_results) {
  Json calls = Json::array();
  for (int i = 0; i < n_calls; ++i) {
    const std::string id = "functions.get_weather:" + std::to_string(i);
    calls.push_back({{"id", id},
                     {"type", "function"},
                     {"function", {{"name", "get_weather"}, {"arguments", kArguments.dump()}}}});
  }
  Json messages = Json::array({{{"role", "user"}, {"content", "Weather?"}},
                               {{"role", "assistant"}, {"content", content}, {"tool_calls", calls}}});
  for (int i = 0; has_results && i < n_calls; ++i) {
    messages.push_back(
        {{"role", "tool"}, {"tool_call_id", calls[static_cast<size_t>(i)]["id"]}, {"content", "gray"}});
  }
  return read_messages(messages);
}

/// One template, as ChatDialect uses it.
class Subject {
 public:
  explicit Subject(const std::string& name) : chat_(chat_template(name)), form_(chat_form(chat_)) {}

  const ChatForm& form() const { return form_; }
  const ToolSyntax& syntax() const { return form_.syntax.calls; }

  std::string render(const Json& messages, bool opens_answer) const {
    const bool in_text = syntax().source == ToolSyntax::Source::kServer;
    const Json written = in_text                  ? with_tools_in_text(messages, tools(), syntax())
                         : syntax().calls_in_text ? with_calls_in_text(messages, syntax())
                                                  : messages;
    return chat_.render(written, in_text ? Json(nullptr) : tools(), opens_answer);
  }

  /// An answer with so many calls, as the history of the conversation would show it.
  std::string answer(int n_calls) const {
    const Json messages = history(n_calls, "", false);
    const std::string prompt = render(Json::array({messages[0]}), true);
    const std::string rendered = render(messages, false);
    std::string text = rendered.substr(probe::common_prefix(rendered, prompt));
    std::string close(probe::trim(syntax().call_end + syntax().section_end));
    if (close.empty()) close = syntax().form == ToolSyntax::Form::kPython ? ")" : "}";
    const size_t end = text.rfind(close);
    text.resize(end == std::string::npos ? text.size() : end + close.size());
    const size_t thought =
        form_.syntax.thinking.exists() ? text.find(form_.syntax.thinking.close) : probe::kNone;
    if (thought != probe::kNone) text.erase(0, thought + form_.syntax.thinking.close.size());
    return std::string(probe::trim_start(text));
  }

  Outcome parse(const std::string& text, size_t piece = probe::kNone) const {
    return parse_in_pieces(form_, text, std::max<size_t>(1, std::min(piece, text.size())));
  }

  bool is_right(const Outcome& outcome, size_t n_calls) const {
    if (outcome.calls.size() != n_calls || !outcome.text.empty()) return false;
    return std::ranges::all_of(outcome.calls, [](const ParsedCall& call) {
      return call.whole && call.name == "get_weather" &&
             Json::parse(call.arguments, nullptr, false) == kArguments;
    });
  }

 private:
  ChatTemplate chat_;
  ChatForm form_;
};

const char* word(bool holds) { return holds ? "yes" : "no"; }

std::string form_of(const ToolSyntax& syntax) {
  switch (syntax.form) {
    case ToolSyntax::Form::kJsonObject:
      return "JSON";
    case ToolSyntax::Form::kTagged:
      return "tagged";
    case ToolSyntax::Form::kParameters:
      return "parameters";
    case ToolSyntax::Form::kPython:
      return "Python";
    case ToolSyntax::Form::kMarked:
      return "marked";
    case ToolSyntax::Form::kHarmony:
      return "Harmony";
  }
  return "";
}

std::string source_of(const ToolSyntax& syntax) {
  if (syntax.source == ToolSyntax::Source::kTemplate) return "template";
  return syntax.source == ToolSyntax::Source::kFamily ? "family" : "Hearth";
}

bool is_streamed_alike(const Subject& subject, const std::string& answer) {
  const Outcome whole = subject.parse(answer);
  for (size_t piece = 1; piece < answer.size(); ++piece)
    if (subject.parse(answer, piece) != whole) return false;
  return true;
}

std::string parallel(const Subject& subject) {
  if (!subject.syntax().several_calls) return "one";
  try {
    return word(subject.is_right(subject.parse(subject.answer(2)), 2));
  } catch (const TemplateError&) {
    return "one";  // the template refuses two calls
  }
}

/// Whether every beginning of the answer gives no more than a part of the call: no text from the call's tags,
/// and no call that is whole without all of its arguments. Calls that begin with only a bracket are text
/// until they name a tool.
bool is_cut_cleanly(const Subject& subject, const std::string& answer) {
  for (size_t n = 1; n < answer.size(); ++n) {
    const Outcome outcome = subject.parse(answer.substr(0, n));
    if (outcome.calls.size() > 1) return false;
    const bool may_be_text =
        n == 1 || subject.syntax().bare() || subject.syntax().form == ToolSyntax::Form::kHarmony;
    if (!outcome.text.empty() && (!may_be_text || !outcome.calls.empty())) return false;
    for (const ParsedCall& call : outcome.calls)
      if (call.whole && Json::parse(call.arguments, nullptr, false) != kArguments) return false;
  }
  return true;
}

/// Whether the history shows a call without text, and its result, and nothing for the text.
bool shows_null_content(const Subject& subject) {
  try {
    const std::string shown = subject.render(history(1, nullptr, true), true);
    const std::string plain = subject.render(history(1, "", true), true);
    const auto has = [&](const char* text) { return shown.find(text) != std::string::npos; };
    const auto count = [](const std::string& text) {
      size_t n = 0;
      for (const char* missing : {"None", "null"})
        for (size_t at = text.find(missing); at != std::string::npos; at = text.find(missing, at + 1)) ++n;
      return n;
    };
    return has("get_weather") && has("rich &") && has("gray") && count(shown) == count(plain);
  } catch (const TemplateError&) {
    return false;
  }
}

/// The tag that opens thinking, if an answer with thinking and a call is read and allowed.
std::string thinking(const Subject& subject, const std::string& answer,
                     const std::function<bool(std::string)>& has) {
  if (!subject.form().syntax.thinks()) return "none";
  const ThinkingSyntax& tags = subject.form().syntax.thinking;
  const bool harmony = subject.syntax().form == ToolSyntax::Form::kHarmony;
  const std::string thought = harmony ? "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
                                      : tags.open + "\nHm.\n" + tags.close + "\n\n";
  const Outcome outcome = subject.parse(thought + answer);
  const bool right = outcome.reasoning == "Hm." && subject.is_right(outcome, 1) && has(thought + answer);
  return right ? "`" + (harmony ? std::string("analysis") : tags.open) + "`" : "no";
}

std::string row_of(const std::string& name) {
  const Subject subject(name);
  const std::string answer = subject.answer(1);
  const auto allows = [&](ToolMode mode, const std::string& text) {
    ChatForm form = subject.form();
    form.choice.mode = mode;
    const Grammar grammar =
        build_tool_grammar(form, grammar_tools(tools(), false, subject.syntax().string_mark));
    return test::GrammarMatcher(grammar).matches(text);
  };
  std::string text = answer;
  if (subject.syntax().prompt_opens_call) {  // the prompt has the text that opens the call
    const std::string begin(probe::trim(subject.syntax().section_begin + subject.syntax().call_begin));
    if (text.starts_with(begin)) text = std::string(probe::trim_start(text.substr(begin.size())));
  }
  const bool enforced = allows(ToolMode::kAuto, text) && allows(ToolMode::kRequired, text);
  std::string row = "| " + name + " | " + form_of(subject.syntax()) + " | " + source_of(subject.syntax());
  for (const std::string& cell :
       {std::string(word(subject.is_right(subject.parse(text), 1))),
        std::string(word(is_streamed_alike(subject, text))), parallel(subject),
        std::string(word(is_cut_cleanly(subject, text))), std::string(word(enforced)),
        std::string(word(shows_null_content(subject))),
        thinking(subject, text, [&](const std::string& all) { return allows(ToolMode::kAuto, all); })}) {
    row += " | " + cell;
  }
  return row + " |\n";
}

constexpr std::string_view kBegin = "<!-- The table is generated. -->\n",
                           kEnd = "<!-- End of the table. -->\n";

std::string table() {
  std::string text =
      "| template | form | told by | whole | streamed | parallel | cut | enforced | null content | thinking "
      "|\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  for (const std::string& name : template_names()) {
    INFO(name);
    text += row_of(name);
  }
  return text;
}

TEST_CASE("the table of templates in docs/tools.md says what the code does") {
  const char* const written = std::getenv("HEARTH_WRITE_TABLES");
  const std::string path = written != nullptr ? written : hearth::testing::source_dir() + "/docs/tools.md";
  std::ostringstream read;
  read << std::ifstream(path).rdbuf();
  std::string page = read.str();
  const size_t begin = page.find(kBegin), end = page.find(kEnd);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  const size_t from = begin + kBegin.size() + 1;  // an empty line
  const std::string now = table() + "\n";
  if (written != nullptr) {
    page.replace(from, end - from, now);
    std::ofstream(path) << page;
    return;
  }
  INFO("run tests/regenerate.sh and look at the difference");
  CHECK(page.substr(from, end - from) == now);
}

}  // namespace
}  // namespace hearth::tests
