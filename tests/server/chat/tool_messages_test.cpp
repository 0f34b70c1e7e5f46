// Histories with calls: the messages read from a request, and those passed to templates with and without
// tools.
#include "server/chat/messages.h"
#include "server/chat/tools/tool_description.h"
#include "server/json/api_error.h"
#include "tests/server/chat/tool_answers.h"

namespace hearth::tests {
namespace {

Json messages(const std::string& text) { return read_messages(Json::parse(text)); }

std::string refused(const std::string& text) {
  try {
    messages(text);
  } catch (const RequestError& error) {
    return error.error().param;
  }
  return "taken";
}

constexpr const char* kHistory = R"([
  {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
  {"role": "assistant", "content": null, "reasoning_content": "A tool.", "tool_calls": [
    {"id": "call_abcdefghijklmnop", "type": "function",
     "function": {"name": "get_weather", "arguments": "{\"city\": \"Bern\"}"}}]},
  {"role": "tool", "tool_call_id": "call_abcdefghijklmnop", "content": [{"type": "text", "text": "gray"}]},
  {"role": "assistant", "content": [{"type": "output_text", "text": "Gray."}]}])";

TEST_CASE("messages get the members that templates rely on") {
  const Json read = messages(kHistory);
  CHECK(read[1]["content"].is_null());
  CHECK(read[1]["reasoning_content"] == "A tool.");
  CHECK(read[2]["name"] == "get_weather");
  CHECK(read[2]["content"] == "gray");
  CHECK(read[3]["content"] == "Gray.");
  const Json bare = messages(
      R"([{"role": "assistant", "tool_calls": [{"id": null, "function": {"name": "f", "arguments": null}}]}])");
  CHECK(bare[0]["content"].is_null());
  CHECK(bare[0]["tool_calls"].dump() == R"([{"function":{"name":"f","arguments":"{}"},"type":"function"}])");
}

TEST_CASE("a bad history is refused by name") {
  const auto call = [](const std::string& members) {
    return R"([{"role": "assistant", "tool_calls": [{)" + members + "}]}]";
  };
  CHECK(refused(call(R"("id": 5, "function": {"name": "f"})")) == "messages[0].tool_calls[0].id");
  CHECK(refused(call(R"("type": "custom", "function": {"name": "f"})")) == "messages[0].tool_calls[0].type");
  CHECK(refused(call(R"("function": "f")")) == "messages[0].tool_calls[0].function");
  CHECK(refused(call(R"("function": {"name": ""})")) == "messages[0].tool_calls[0].function.name");
  CHECK(refused(call(R"("function": {"name": "f", "arguments": [1]})")) ==
        "messages[0].tool_calls[0].function.arguments");
  CHECK(refused(R"([{"role": "assistant", "content": "x", "reasoning_content": 5}])") ==
        "messages[0].reasoning_content");
  CHECK(refused(R"([{"role": "tool", "content": {"a": 1}}])") == "messages[0].content");
  CHECK(refused(R"([{"role": "user", "content": []}])") == "messages[0].content");
}

TEST_CASE("thinking may come as a text, as parts, or among the parts of the content") {
  const auto thought = [](const std::string& members) {
    const Json read =
        messages(R"([{"role": "user", "content": "a"}, {"role": "assistant", )" + members + "}]")[1];
    return read.value("reasoning_content", std::string("none")) + "|" + read["content"].get<std::string>();
  };
  CHECK(thought(R"("content": "b", "reasoning_content": "hm")") == "hm|b");
  CHECK(thought(R"("content": "b", "reasoning_content": [{"type": "text", "text": "hm"}, "so"])") ==
        "hm\nso|b");
  CHECK(thought(R"("content": "b", "reasoning_content": [{"type": "thinking", "thinking": "hm"}])") ==
        "hm|b");
  CHECK(thought(R"("content": "b", "reasoning_content": [{"type": "reasoning", "text": "hm"}])") == "hm|b");
  CHECK(thought(R"("content": "b", "reasoning_content": [])") == "|b");
  CHECK(thought(R"("content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                              {"type": "text", "text": "b"}])") == "hm|b");
  CHECK(thought(R"("content": [{"type": "reasoning", "reasoning": "hm"}])") == "hm|");
  CHECK(thought(R"("content": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "b"}],
                   "reasoning_content": "hm")") == "hm|b");
  CHECK(refused(R"([{"role": "assistant", "content": "x", "reasoning_content": [{"type": "thinking"}]}])") ==
        "messages[0].reasoning_content[0]");
  CHECK(refused(R"([{"role": "assistant", "content": "x", "reasoning_content": [5]}])") ==
        "messages[0].reasoning_content[0]");
  CHECK(refused(R"([{"role": "user", "content": [{"type": "thinking", "thinking": "x"}]}])") ==
        "messages[0].content[0].type");
}

TEST_CASE("every template renders a history with a call in its own form") {
  const Json read = messages(kHistory);
  for (const char* name :
       {"qwen25_tools",    "hermes2",         "hermes3_compact", "qwen3",       "qwen3_coder",
        "glm45",           "llama31",         "llama4",          "mistral_v3",  "mistral_v13",
        "functionary_v31", "command_r_tools", "command_r7b",     "deepseek_v3", "deepseek_v31",
        "kimi_k2",         "gpt_oss",         "minimax_m2",      "granite_30",  "content_parts_tools",
        "internlm2",       "hunyuan"}) {
    INFO(name);
    const std::string prompt = chat_template(name).render(read, tools(), true);
    CHECK_THAT(prompt, ContainsSubstring("Bern"));
    CHECK_THAT(prompt, ContainsSubstring("Gray."));
    CHECK_THAT(prompt, !ContainsSubstring("None"));
    CHECK_THAT(prompt, !ContainsSubstring("\\\"city\\\""));
    CHECK_THAT(prompt, !ContainsSubstring("{'city'"));
  }
}

TEST_CASE("ids that a template refuses become nine letters and digits, equal for call and result") {
  const std::string prompt = chat_template("mistral_v3").render(messages(kHistory), nullptr, true);
  const size_t id = prompt.find("\"id\": \"");
  REQUIRE(id != std::string::npos);
  const std::string made = prompt.substr(id + 7, 9);
  CHECK_THAT(prompt, ContainsSubstring("\"call_id\": \"" + made + "\""));
  CHECK(made.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz") == std::string::npos);
  Json kept = messages(kHistory);
  kept[1]["tool_calls"][0]["id"] = kept[2]["tool_call_id"] = "Ab3456789";
  CHECK_THAT(chat_template("mistral_v3").render(kept, nullptr, true),
             ContainsSubstring("\"id\": \"Ab3456789\""));
}

TEST_CASE("reasoning is passed under the template's name for it") {
  CHECK_THAT(chat_template("gpt_oss").render(messages(kHistory), nullptr, true),
             ContainsSubstring("<|channel|>analysis<|message|>A tool.<|end|>"));
  CHECK_THAT(chat_template("reasoning_tags").render(messages(kHistory), nullptr, true),
             ContainsSubstring("<reasoning>A tool.</reasoning>"));
}

TEST_CASE("a template without tools gets a description of them in words") {
  Json read = messages(kHistory);
  const Json rewritten = with_tools_in_text(read, tools(), plain_tool_syntax());
  const std::string prompt = chat_template("chatml").render(rewritten, nullptr, true);
  CHECK_THAT(prompt, ContainsSubstring("\"name\":\"get_weather\""));
  CHECK_THAT(
      prompt,
      ContainsSubstring(
          "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bern\"}}\n</tool_call>"));
  CHECK_THAT(prompt, ContainsSubstring("<tool_response>\ngray\n</tool_response>"));
  CHECK(rewritten[0]["role"] == "user");  // no system message is added: some templates refuse one
  read.insert(read.begin(), Json{{"role", "system"}, {"content", "Be kind."}});
  CHECK(with_tools_in_text(read, tools(), plain_tool_syntax())[0]["content"].get<std::string>().starts_with(
      "Be kind.\n\n"));
  CHECK_THAT(with_tools_in_text(read, nullptr, plain_tool_syntax()).dump(), !ContainsSubstring("<tools>"));
}

TEST_CASE("past calls are written where a template shows tools but no calls") {
  for (const auto& [name, written] :
       {std::pair{"granite_33",
                  "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bern\"}}]"},
        {"phi4_mini",
         "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bern\"}}]<|/tool_call|>"},
        {"lfm2", "<|tool_call_start|>[get_weather(city=\"Bern\")]<|tool_call_end|>"},
        {"functiongemma",
         "<start_function_call>call:get_weather{city:<escape>Bern<escape>}<end_function_call>"}}) {
    INFO(name);
    const ChatTemplate chat = chat_template(name);
    const ToolSyntax syntax = derive_tool_syntax(chat);
    REQUIRE(syntax.calls_in_text);
    const Json history = with_calls_in_text(messages(kHistory), syntax);
    CHECK(history[2] == messages(kHistory)[2]);
    const std::string prompt = chat.render(history, tools(), true);
    CHECK_THAT(prompt, ContainsSubstring(written));
    const Outcome outcome = parse_answer(name, written);
    REQUIRE(outcome.calls.size() == 1);
    CHECK(Json::parse(outcome.calls[0].arguments) == Json{{"city", "Bern"}});
  }
  CHECK_FALSE(derive_tool_syntax(chat_template("qwen3")).calls_in_text);
}

TEST_CASE("the parser accepts the example call of the prompt, and past calls") {
  const ChatForm form = chat_form(chat_template("chatml"));
  const ToolSyntax& syntax = form.syntax.calls;
  const std::string told = describe_tools(tools(), syntax);
  const size_t begin = told.find(syntax.call_begin);
  REQUIRE(begin != std::string::npos);
  const std::string example = told.substr(begin, told.find("\nThe results") - begin);
  CHECK(parse_answer(form, example).calls ==
        std::vector<ParsedCall>{{"the function's name", "made0", R"({"parameter": "value"})", true}});
  Json read = messages(kHistory);
  read[1]["tool_calls"].push_back(read[1]["tool_calls"][0]);
  read[1]["content"] = "I look.";
  const Json written = with_tools_in_text(read, tools(), syntax)[1];
  const Outcome outcome = parse_answer(form, written["content"].get<std::string>());
  CHECK(outcome.text == "I look.");
  REQUIRE(outcome.calls.size() == 2);
  CHECK(outcome.calls[1].arguments == R"({"city": "Bern"})");
}

TEST_CASE("the results of one turn become one message") {
  const Json rewritten =
      with_tools_in_text(Json::parse(R"([{"role": "tool", "content": "a"}, {"role": "tool", "content": "b"},
    {"role": "user", "content": "?"}])"),
                         nullptr, plain_tool_syntax());
  REQUIRE(rewritten.size() == 2);
  CHECK(rewritten[0]["content"] ==
        "<tool_response>\na\n</tool_response>\n<tool_response>\nb\n</tool_response>");
}

}  // namespace
}  // namespace hearth::tests
