// Shared by tests of tool calls: the templates of tests/data/chat_templates, two tools, and the outcome of
// parsing an answer.
#pragma once

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "server/chat/tools/tool_call_parser.h"
#include "tests/support/catch.h"
#include "tests/support/frozen_clock.h"
#include "tests/support/source_dir.h"

namespace hearth::tests {

inline ChatTemplate chat_template(const std::string& name) {
  std::ifstream file(hearth::testing::source_dir() + "/tests/data/chat_templates/" + name + ".jinja");
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return ChatTemplate::parse(text.str(), "<s>", "</s>", frozen_clock);
}

inline const Json& tools() {
  static const Json json = Json::parse(R"([
    {"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters": {
      "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
      "options": {"type": "object"}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "now", "description": "Time.",
      "parameters": {"type": "object", "properties": {}}}}])");
  return json;
}

struct ParsedCall {
  std::string name, id, arguments;
  bool whole = false;
  bool operator==(const ParsedCall&) const = default;
};

/// The joined events of an answer, in order for each kind.
struct Outcome {
  std::string text, reasoning;
  std::vector<ParsedCall> calls;
  bool operator==(const Outcome&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  out << "text " << Json(outcome.text) << " reasoning " << Json(outcome.reasoning);
  for (const ParsedCall& call : outcome.calls) {
    out << " call " << call.name << " " << call.id << " " << call.arguments
        << (call.whole ? "" : " broken off");
  }
  return out;
}

inline void add(const std::vector<ToolEvent>& events, Outcome& outcome) {
  for (const ToolEvent& event : events) {
    switch (event.kind) {
      case ToolEvent::Kind::kText:
        outcome.text += event.text;
        break;
      case ToolEvent::Kind::kReasoning:
        outcome.reasoning += event.text;
        break;
      case ToolEvent::Kind::kCallBegin:
        REQUIRE(event.index == static_cast<int>(outcome.calls.size()));
        outcome.calls.push_back({event.text, event.id, {}, false});
        break;
      case ToolEvent::Kind::kArguments:
        REQUIRE(event.index + 1 == static_cast<int>(outcome.calls.size()));
        CHECK_FALSE(event.text.empty());
        outcome.calls.back().arguments += event.text;
        break;
      case ToolEvent::Kind::kCallEnd:
        REQUIRE(event.index + 1 == static_cast<int>(outcome.calls.size()));
        outcome.calls.back().whole = event.whole;
        break;
    }
  }
}

inline Outcome parse_in_pieces(const ChatForm& form, const std::string& answer, size_t piece) {
  ToolCallParser parser(form, [](int index) { return "made" + std::to_string(index); });
  Outcome outcome;
  for (size_t at = 0; at < answer.size(); at += piece) add(parser.push(answer.substr(at, piece)), outcome);
  add(parser.finish(), outcome);
  return outcome;
}

/// Parses the answer whole and in pieces of every length, and checks that the results are equal.
inline Outcome parse_answer(const ChatForm& form, const std::string& answer) {
  const Outcome whole = parse_in_pieces(form, answer, std::max<size_t>(answer.size(), 1));
  for (size_t piece = 1; piece < answer.size(); ++piece) {
    INFO("pieces of " << piece << " bytes of: " << answer);
    const Outcome outcome = parse_in_pieces(form, answer, piece);
    REQUIRE(outcome == whole);
  }
  return whole;
}

/// Returns the form of a request with tools().
inline ChatForm chat_form(const ChatTemplate& chat) {
  ChatForm form{.syntax = derive_chat_syntax(chat), .choice = {.tools = tools(), .mode = ToolMode::kAuto}};
  form.thinking = form.syntax.thinking_after("");
  return form;
}

inline Outcome parse_answer(const std::string& template_name, const std::string& answer,
                            bool in_thinking = false) {
  ChatForm form = chat_form(chat_template(template_name));
  if (in_thinking) form.thinking = ThinkingMode::kBegun;
  return parse_answer(form, answer);
}

}  // namespace hearth::tests
