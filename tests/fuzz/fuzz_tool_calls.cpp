// Fuzzes the parser of tool calls: parses any answer, in the syntax that the first byte chooses, both whole
// and in pieces whose lengths its bytes determine. Both must give equal results, every call that begins must
// end, and an answer without calls must keep all its text, except a call that is cut off at its end.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "server/chat/tools/probe_text.h"
#include "server/chat/tools/tool_call_parser.h"
#include "tests/support/source_dir.h"

namespace {

using hearth::Json;
using hearth::ToolEvent;

// One template for each form and layout; the first bytes of the seeds number them in this order.
constexpr std::array<const char*, 19> kTemplates{
    "qwen25_tools", "qwen3",       "qwen3_coder", "glm45",      "minimax_m2",      "llama31",
    "llama4",       "lfm2",        "mistral_v3",  "minimax_m1", "functionary_v31", "functionary_v32",
    "deepseek_v3",  "command_r7b", "kimi_k2",     "gpt_oss",    "nested_openai",   "mistral_v11_call_id",
    "gemma4"};

hearth::ChatForm load(const char* name) {
  std::ifstream file(hearth::testing::source_dir() + "/tests/data/chat_templates/" + name + ".jinja");
  std::ostringstream text;
  text << file.rdbuf();
  const hearth::ChatTemplate chat = hearth::ChatTemplate::parse(text.str(), "<s>", "</s>");
  hearth::ChatForm form{.syntax = hearth::derive_chat_syntax(chat)};
  form.choice.mode = hearth::ToolMode::kAuto;
  form.choice.tools = Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {
    "type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}}}])");
  return form;
}

const hearth::ChatForm& form_of(size_t index) {
  static const std::vector<hearth::ChatForm> all = [] {
    std::vector<hearth::ChatForm> loaded;
    for (const char* name : kTemplates) loaded.push_back(load(name));
    return loaded;
  }();
  return all[index % all.size()];
}

struct Outcome {
  std::string text, reasoning, calls;
  size_t arguments_at = 0;  // where the last call's arguments begin in `calls`
  int n_open = 0, n_calls = 0;
  bool operator==(const Outcome&) const = default;
};

void require(bool holds) {
  if (!holds) std::abort();
}

bool is_object(std::string_view text) {
  return text.starts_with('{') && hearth::probe::json_end(text, 0) == text.size();
}

void add(const std::vector<ToolEvent>& events, Outcome& outcome) {
  for (const ToolEvent& event : events) {
    if (event.kind == ToolEvent::Kind::kText) outcome.text += event.text;
    if (event.kind == ToolEvent::Kind::kReasoning) outcome.reasoning += event.text;
    if (event.kind == ToolEvent::Kind::kArguments) {
      require(outcome.n_open == 1);
      outcome.calls += event.text;
    }
    if (event.kind == ToolEvent::Kind::kCallBegin) {
      require(++outcome.n_open == 1 && event.index == outcome.n_calls++);
      outcome.calls += "\n" + event.text + " " + event.id + " ";
      outcome.arguments_at = outcome.calls.size();
    }
    if (event.kind == ToolEvent::Kind::kCallEnd) {
      require(--outcome.n_open == 0);
      // Arguments that are reported as whole are the JSON of an object.
      require(!event.whole || is_object(std::string_view(outcome.calls).substr(outcome.arguments_at)));
      outcome.calls += event.whole ? " whole" : " broken";
    }
  }
}

Outcome parse(const hearth::ChatForm& form, std::string_view answer, bool whole) {
  hearth::ToolCallParser parser(form, [](int index) { return std::to_string(index); });
  Outcome outcome;
  while (!answer.empty()) {
    const size_t n = whole ? answer.size() : 1 + static_cast<unsigned char>(answer.front()) % 7;
    add(parser.push(answer.substr(0, n)), outcome);
    answer.remove_prefix(std::min(n, answer.size()));
  }
  add(parser.finish(), outcome);
  require(outcome.n_open == 0);
  return outcome;
}

std::string solid(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::string_view(" \t\r\n").find(c) == std::string_view::npos) out += c;
  return out;
}

/// Whether `text` has all of the answer but a call, or a part of the text that opens one, at the end.
bool keeps_text(const std::string& text, const std::string& answer, const std::string& opener) {
  if (!answer.starts_with(text)) return false;
  const std::string_view dropped = std::string_view(answer).substr(text.size());
  return dropped.starts_with(opener) || opener.starts_with(dropped);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  hearth::ChatForm form = form_of(data[0] % 64);
  const hearth::ChatSyntax& syntax = form.syntax;
  form.thinking = syntax.thinking_after((data[0] & 64) != 0 ? syntax.thinking.open : "");
  if ((data[0] & 128) != 0) form.format.kind = hearth::AnswerFormat::Kind::kJsonObject;
  const std::string_view answer(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome whole = parse(form, answer, true);
  require(whole == parse(form, answer, false));
  const bool plain = !syntax.thinks() && syntax.calls.text_recipient.empty();
  if (plain && whole.n_calls == 0)
    require(keeps_text(solid(whole.text), solid(answer), solid(syntax.calls.opener())));
  return 0;
}
