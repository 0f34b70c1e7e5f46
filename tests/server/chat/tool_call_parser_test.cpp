// Answers in every syntax, as documented by the makers of each family: parsed whole and in pieces of every
// length.
#include "server/chat/tools/tool_call_parser.h"

#include "server/chat/tools/probe_text.h"
#include "tests/server/chat/tool_answers.h"

namespace hearth::tests {
namespace {

const std::string kBern = R"({"city": "Bern", "days": 2})";

struct Scripted {
  std::string chat_template, answer;
  Outcome expected;
};

std::vector<ParsedCall> made_calls(const std::string& arguments = kBern) {
  return {{"get_weather", "made0", arguments, true}, {"now", "made1", "{}", true}};
}

/// The JSON for arguments that were written in Python's notation.
const std::string kCompactBern = R"({"city":"Bern","days":2})";

const std::vector<Scripted>& scripted_answers() {
  static const std::vector<Scripted> kAnswers{
      {"qwen25_tools",
       "I look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bern\", \"days\": "
       "2}}\n</tool_call>\n"
       "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
       {"I look.", "", made_calls()}},
      {"hermes3_compact",
       "<tool_call>{\"arguments\": {\"city\": \"Bern\", \"days\": 2}, \"name\": \"get_weather\"}</tool_call>"
       "<tool_call>{\"name\": \"now\"}</tool_call> Done.",
       {"Done.", "", made_calls()}},
      {"qwen3",
       "<think>\nBern, so a call: <tool_call>\n</think>\n\n<tool_call>\n{\"name\": \"get_weather\", "
       "\"arguments\": "
       "{\"city\": \"Bern\", \"days\": 2}}\n</tool_call>",
       {"", "Bern, so a call: <tool_call>", {{"get_weather", "made0", kBern, true}}}},
      {"qwen3_coder",
       "<tool_call>\n<function=get_weather>\n<parameter=city>\nBern\n</parameter>\n<parameter=days>\n2\n</"
       "parameter>\n"
       "</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
       {"", "", made_calls()}},
      {"glm45",
       "\n<think>Hm.</think>\nYes.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Bern</"
       "arg_value>\n"
       "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>",
       {"Yes.", "Hm.", made_calls()}},
      {"minimax_m2",
       "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
       "name=\"city\">Bern</parameter>\n<parameter "
       "name=\"days\">2</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>",
       {"", "", made_calls()}},
      {"seed_oss",
       "<seed:think>So.</seed:think><seed:tool_call>\n<function=get_weather>\n<parameter=city>Bern</"
       "parameter>\n"
       "<parameter=days>2</parameter>\n</function>\n</seed:tool_call>",
       {"", "So.", {{"get_weather", "made0", kBern, true}}}},
      {"llama31",
       "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Bern\", \"days\": 2}}",
       {"", "", {{"get_weather", "made0", kBern, true}}}},
      {"llama33_ipython",
       "{\"type\": \"function\", \"name\": \"get_weather\", \"parameters\": {\"city\": \"Bern\", \"days\": "
       "2}}; "
       "{\"type\": \"function\", \"name\": \"now\", \"parameters\": {}}",
       {"", "", made_calls()}},
      {"llama4", "[get_weather(city=\"Bern\", days=2), now()]", {"", "", made_calls(kCompactBern)}},
      {"lfm2",
       "Wait: <|tool_call_start|>[get_weather(city='Bern', days=2), now()]<|tool_call_end|>",
       {"Wait:", "", made_calls(kCompactBern)}},
      {"lfm25",
       "<|tool_call_start|>[get_weather(city='Bern', days=2), now()]<|tool_call_end|>",
       {"", "", made_calls(kCompactBern)}},
      {"gemma4",
       "<|channel>thought\nHm.\n<channel|>Wait:<|tool_call>call:get_weather{city:<|\"|>Bern<|\"|>,days:2}"
       "<tool_call|><|tool_call>call:now{}<tool_call|>",
       {"Wait:", "Hm.", made_calls(kCompactBern)}},
      {"functiongemma",
       "<start_function_call>call:get_weather{city:<escape>Bern<escape>,days:2}<end_function_call>"
       "<start_function_call>call:now{}<end_function_call>",
       {"", "", made_calls(kCompactBern)}},
      {"mistral_v3",
       "[TOOL_CALLS] [{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bern\", \"days\": 2}, \"id\": "
       "\"Xy3456789\"},"
       " {\"name\": \"now\", \"arguments\": {}, \"id\": \"Zz3456789\"}]",
       {"", "", {{"get_weather", "Xy3456789", kBern, true}, {"now", "Zz3456789", "{}", true}}}},
      {"mistral_nemo",
       "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}]",
       {"", "", {{"now", "made0", "{}", true}}}},
      {"mistral_v11_call_id",
       "Well.[TOOL_CALLS]get_weather[CALL_ID]Xy3456789[ARGS]" + kBern +
           "[TOOL_CALLS]now[CALL_ID]Zz3456789[ARGS]{}",
       {"Well.", "", {{"get_weather", "Xy3456789", kBern, true}, {"now", "Zz3456789", "{}", true}}}},
      {"magistral",
       "[THINK]Bern?[/THINK][TOOL_CALLS]get_weather[ARGS]" + kBern + "[TOOL_CALLS]now[ARGS]{}",
       {"", "Bern?", made_calls()}},
      {"functionary_v31",
       "Now: <function=get_weather>" + kBern + "</function><function=now>{}</function>",
       {"Now:", "", made_calls()}},
      {"functionary_v32",
       "all\nI look.\n>>>get_weather\n" + kBern + ">>>now\n{}",
       {"I look.", "", made_calls()}},
      {"functionary_v32", "get_weather\n" + kBern, {"", "", {{"get_weather", "made0", kBern, true}}}},
      {"functionary_v2",
       "get_weather\n<|content|>" + kBern + "\n<|from|>assistant\n<|recipient|>now\n<|content|>{}",
       {"", "", made_calls()}},
      {"command_r_tools",
       "Action: ```json\n[\n    {\n        \"tool_name\": \"get_weather\",\n        \"parameters\": " +
           kBern +
           "\n    },\n    {\n        \"tool_name\": \"now\",\n        \"parameters\": {}\n    }\n]```",
       {"", "", made_calls()}},
      {"command_r7b",
       "<|START_THINKING|>I call.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", "
       "\"tool_name\": "
       "\"get_weather\", \"parameters\": " +
           kBern +
           "},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"now\", "
           "\"parameters\": {}}\n]<|END_ACTION|>",
       {"", "I call.", made_calls()}},
      {"deepseek_v3",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n" + kBern +
           "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<"
           "｜tool▁call▁end｜>"
           "<｜tool▁calls▁end｜>",
       {"", "", made_calls()}},
      {"deepseek_v31",
       "Gut — los.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>" + kBern +
           "<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><"
           "｜tool▁calls▁end｜>",
       {"Gut — los.", "", made_calls()}},
      {"kimi_k2",
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>" +
           kBern +
           "<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|"
           ">"
           "<|tool_calls_section_end|>",
       {"",
        "",
        {{"get_weather", "functions.get_weather:0", kBern, true}, {"now", "functions.now:1", "{}", true}}}},
      {"gpt_oss",
       "<|channel|>analysis<|message|>A tool.<|end|><|start|>assistant<|channel|>commentary<|message|>I "
       "look.<|end|>"
       "<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" +
           kBern + "<|call|>",
       {"I look.", "A tool.", {{"get_weather", "made0", kBern, true}}}},
      {"gpt_oss",
       " to=functions.now<|channel|>commentary json<|message|>{}",
       {"", "", {{"now", "made0", "{}", true}}}},
      {"gpt_oss", "<|channel|>final<|message|>It is gray. <|x|>", {"It is gray. <|x|>", "", {}}},
      {"minimax_m1",
       "<tool_calls>\n{\"name\": \"get_weather\", \"arguments\": " + kBern +
           "}\n{\"name\": \"now\", \"arguments\": {}}\n</tool_calls>",
       {"", "", made_calls()}},
      {"granite_33",
       "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": " + kBern +
           "}, {\"name\": \"now\", \"arguments\": {}}]",
       {"", "", made_calls()}},
      {"granite_4",
       "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
       {"", "", {{"now", "made0", "{}", true}}}},
      {"phi4_mini",
       "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": " + kBern +
           "}, {\"name\": \"now\", \"arguments\": {}}]<|/tool_call|>",
       {"", "", made_calls()}},
      {"internlm2",
       "Ok<|action_start|><|plugin|>\n{\"name\": \"get_weather\", \"parameters\": " + kBern +
           "}<|action_end|>",
       {"Ok", "", {{"get_weather", "made0", kBern, true}}}},
      {"hunyuan",
       "<tool_calls><tool_call>get_weather\n```json\n" + kBern +
           "\n```</tool_call>\n<tool_call>now\n```json\n{}\n```</tool_call></tool_calls>",
       {"", "", made_calls()}},
      {"nemotron_nano_v2",
       "<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": " + kBern +
           "}, {\"name\": \"now\", \"arguments\": {}}]</TOOLCALL>",
       {"", "", made_calls()}},
      {"apertus",
       "<|tools_prefix|>[{\"get_weather\": " + kBern + "}, {\"now\": {}}]<|tools_suffix|>",
       {"", "", made_calls()}},
      {"xlam",
       "[{\"name\": \"get_weather\", \"arguments\": " + kBern + "}, {\"name\": \"now\", \"arguments\": {}}]",
       {"", "", made_calls()}},
      {"glm4", "get_weather\n" + kBern, {"", "", {{"get_weather", "made0", kBern, true}}}},
      {"nested_openai",
       "<calls>[{\"id\": \"a1\", \"type\": \"function\", \"function\": {\"name\": \"get_weather\", "
       "\"arguments\": \"{\\\"city\\\": "
       "\\\"Bern\\\", \\\"days\\\": 2}\"}}]</calls>",
       {"", "", {{"get_weather", "a1", kBern, true}}}},
      {"chatml",
       "Sure.\n<tool_call>\n{\"name\": \"now\", \"arguments\": null}\n</tool_call>",
       {"Sure.", "", {{"now", "made0", "{}", true}}}},
  };
  return kAnswers;
}

TEST_CASE("calls are found in every syntax, however the answer is cut") {
  for (const Scripted& scripted : scripted_answers()) {
    INFO(scripted.chat_template << ": " << scripted.answer);
    CHECK(parse_answer(scripted.chat_template, scripted.answer) == scripted.expected);
  }
}

TEST_CASE("an answer of text stays text in every syntax") {
  const std::string said =
      "  In 2 steps: a < b, x[0] = {\"a\": 1}; \"quoted\" — 天気 🙂.\n\nNext <tool> [TOOL] <|x|> >> "
      "end "
      "\n";
  for (const Scripted& scripted : scripted_answers()) {
    INFO(scripted.chat_template);
    const Outcome outcome = parse_answer(scripted.chat_template, said);
    CHECK(outcome.calls.empty());
    CHECK(outcome.reasoning.empty());
    CHECK(probe::trim(outcome.text) == probe::trim(said));
  }
  CHECK(parse_answer("qwen25_tools", said).text == said);
}

Json call_message(const Json& content) {
  Json calls = Json::array();
  const auto add_call = [&](const char* id, const char* name, Json arguments) {
    Json function = {{"name", name}, {"arguments", std::move(arguments)}};
    calls.push_back({{"id", id}, {"type", "function"}, {"function", std::move(function)}});
  };
  add_call("functions.get_weather:0", "get_weather", {{"city", "Zürich & \"Bern\""}, {"days", 3}});
  return {{"role", "assistant"}, {"content", content}, {"tool_calls", std::move(calls)}};
}

/// The calls of a rendered message, without the end of the turn.
std::string rendered_answer(const ChatTemplate& chat, const ToolSyntax& syntax) {
  Json messages = Json::array({{{"role", "user"}, {"content", "Weather?"}}});
  const std::string prompt = chat.render(messages, nullptr, true);
  messages.push_back(call_message(nullptr));
  const std::string rendered = chat.render(messages, nullptr, false);
  std::string answer = rendered.substr(probe::common_prefix(rendered, prompt));
  std::string close(probe::trim(syntax.call_end + syntax.section_end));
  if (close.empty()) close = "}";
  const size_t end = answer.rfind(close);
  REQUIRE(end != std::string::npos);
  answer.resize(end + close.size());
  return answer;
}

TEST_CASE("a call rendered by the template is parsed back") {
  for (const Scripted& scripted : scripted_answers()) {
    INFO(scripted.chat_template);
    const ChatTemplate chat = chat_template(scripted.chat_template);
    const ChatForm form = chat_form(chat);
    if (form.syntax.calls.source != ToolSyntax::Source::kTemplate) continue;
    const std::string answer = rendered_answer(chat, form.syntax.calls);
    INFO(answer);
    const Outcome outcome = parse_answer(form, answer);
    REQUIRE(outcome.calls.size() == 1);
    CHECK(outcome.calls[0].name == "get_weather");
    CHECK(outcome.calls[0].whole);
    CHECK(Json::parse(outcome.calls[0].arguments) == Json{{"city", "Zürich & \"Bern\""}, {"days", 3}});
    CHECK(outcome.text.empty());
  }
}

TEST_CASE("text that only looks like a call stays text, with nothing lost") {
  for (const std::string answer :
       {"<tool_call>\n{\"name\": 5}\n</tool_call>", "<tool_call>{\"arguments\": {\"a\": 1}}</tool_call>",
        "See <tool_call> and <tool_call>x", "<tool_call>{\"name\": \"f\", \"arguments\": [1]}", "a <tool_x",
        "a <", "<tool_call>{\"name\": \"f\", \"arguments\": 5}", "<tool_call>{\"name\": \"\"}"}) {
    INFO(answer);
    const Outcome expected{answer, "", {}};
    CHECK(parse_answer("qwen25_tools", answer) == expected);
  }
  const Outcome after{"<tool_call> is how I", "", {{"now", "made0", "{}", true}}};
  CHECK(parse_answer("qwen25_tools",
                     "<tool_call> is how I <tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>") ==
        after);
}

TEST_CASE("an answer that ends inside a tag or before a call's name has nothing of it") {
  for (const std::string cut :
       {"<tool_call>", "<tool_c", "<tool_call>\n{\"na", "<tool_call>{\"name\": \"f\""}) {
    INFO(cut);
    CHECK(parse_answer("qwen25_tools", "I look. " + cut) == Outcome{"I look.", "", {}});
    CHECK(parse_answer("qwen25_tools", cut) == Outcome{"", "", {}});
  }
  // One character is text, unless the answer may only have calls.
  CHECK(parse_answer("qwen25_tools", "1 <") == Outcome{"1 <", "", {}});
  ChatForm only_calls = chat_form(chat_template("qwen25_tools"));
  only_calls.choice.mode = ToolMode::kRequired;
  CHECK(parse_answer(only_calls, "<") == Outcome{"", "", {}});
  // Without an opener, the text may be something else than a call.
  CHECK(parse_answer("llama31", "{\"na") == Outcome{"{\"na", "", {}});
  CHECK(parse_answer("functionary_v32", "Hello") == Outcome{"Hello", "", {}});
}

TEST_CASE("a call whose name comes last may be cut short too") {
  const std::string answer = "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\" oops";
  CHECK(parse_answer("qwen25_tools", answer) == Outcome{"oops", "", {{"f", "made0", "{\"a\": 1}", false}}});
}

TEST_CASE("text that only looks like harmony's header stays text") {
  const std::string long_header = "<|channel|>" + std::string(300, 'x') + "<|message|>a";
  CHECK(parse_answer("gpt_oss", long_header) == Outcome{long_header, "", {}});
  CHECK(parse_answer("gpt_oss", "Just text. <|chan") == Outcome{"Just text. <|chan", "", {}});
  const std::string no_json = "<|channel|>commentary to=functions.f<|message|>hello";
  CHECK(parse_answer("gpt_oss", no_json) == Outcome{no_json, "", {}});
}

TEST_CASE("a call that is cut short keeps its arguments, and the rest is text") {
  const Outcome cut{"", "", {{"f", "made0", "{\"a\": [1, ", false}}};
  CHECK(parse_answer("qwen25_tools", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1, ") == cut);
  const Outcome bad{"oops} x", "", {{"f", "made0", "{\"a\": ", false}}};
  CHECK(parse_answer("qwen25_tools", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": oops} x") == bad);
  const Outcome no_close{"", "", {{"f", "made0", "{}", true}}};
  CHECK(parse_answer("qwen25_tools", "<tool_call>{\"name\": \"f\", \"arguments\": {}}") == no_close);
  CHECK(parse_answer("qwen25_tools", "<tool_call>{\"name\": \"f\", \"arguments\": {}}\n</tool") ==
        Outcome{"", "", {{"f", "made0", "{}", true}}});
  const Outcome half{"", "", {{"get_weather", "made0", "{\"city\": \"Bern\"", false}}};
  CHECK(
      parse_answer(
          "qwen3_coder",
          "<tool_call>\n<function=get_weather>\n<parameter=city>\nBern\n</parameter>\n<parameter=days>\n2") ==
      half);
}

TEST_CASE("thinking ends where the model closes it, or with the answer") {
  CHECK(parse_answer("qwen3_always_thinking", "Hm.\n</think>\n\nYes.", true) == Outcome{"Yes.", "Hm.", {}});
  CHECK(parse_answer("qwen3_always_thinking", "Hm. </thin", true) == Outcome{"", "Hm. </thin", {}});
  CHECK(parse_answer("qwen3", "<think>\n\n</think>\n\nYes.") == Outcome{"Yes.", "", {}});
  CHECK(parse_answer("qwen3", "A <think> tag.") == Outcome{"A <think> tag.", "", {}});
  CHECK(parse_answer("qwen3", "<thin") == Outcome{"<thin", "", {}});
}

TEST_CASE("parameters without quotes are typed by the tool's schema") {
  const auto call = [](const std::string& key, const std::string& value) {
    const Outcome outcome =
        parse_answer("qwen3_coder", "<tool_call>\n<function=get_weather>\n<parameter=" + key + ">\n" + value +
                                        "\n</parameter>\n</function>\n</tool_call>");
    REQUIRE(outcome.calls.size() == 1);
    return outcome.calls[0].arguments;
  };
  CHECK(call("city", "12") == R"({"city": "12"})");
  CHECK(call("days", "12") == R"({"days": 12})");
  CHECK(call("days", "True") == R"({"days": true})");
  CHECK(call("options", "{\"a\": [1]}") == R"({"options": {"a":[1]}})");
  CHECK(call("other", "some <b> words\nand \"more\"") == R"({"other": "some <b> words\nand \"more\""})");
  CHECK(call("city", " two\nlines \n") == R"({"city": " two\nlines \n"})");
  CHECK(call("deep", std::string(5000, '[')) == "{\"deep\": \"" + std::string(5000, '[') + "\"}");
}

TEST_CASE("a value whose closing tag is followed by something else goes on, and ends with the answer") {
  const std::string begin = "<tool_call>\n<function=get_weather>\n<parameter=city>\n";
  const auto arguments = [&](const std::string& rest) {
    const Outcome outcome = parse_answer("qwen3_coder", begin + rest);
    REQUIRE(outcome.calls.size() == 1);
    return outcome.calls[0].arguments;
  };
  // The last tag is missing: the first closing tag ends the value, as it does in the template's own form.
  CHECK(arguments("Bern</parameter>\n</tool_call>") == R"({"city": "Bern")");
  CHECK(arguments("a</parameter>b\n</parameter>\n</function>\n</tool_call>") ==
        R"({"city": "a</parameter>b"})");
  CHECK(arguments("a</parameter>b</parameter>\n</function>\n</tool_call>") ==
        R"({"city": "a</parameter>b"})");
  // In a syntax whose closing tags have no line of their own, the first one closes.
  const Outcome inline_tags = parse_answer(
      "minimax_m2",
      "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">a</parameter>b");
  REQUIRE(inline_tags.calls.size() == 1);
  CHECK(inline_tags.calls[0].arguments == R"({"city": "a")");
}

TEST_CASE("without tools only thinking is parsed") {
  ChatForm form = chat_form(chat_template("qwen3"));
  form.choice = {};
  const std::string call = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
  CHECK(parse_answer(form, "<think>a</think>" + call) == Outcome{call, "a", {}});
}

TEST_CASE("with calls allowed only at the start, later ones are text") {
  ChatForm form = chat_form(chat_template("qwen3"));
  form.format.kind = AnswerFormat::Kind::kJsonObject;
  const std::string call = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
  CHECK(parse_answer(form, "{\"a\": 1} " + call) == Outcome{"{\"a\": 1} " + call, "", {}});
  const Outcome outcome = parse_answer(form, "<think>a</think>\n" + call);
  CHECK(outcome.reasoning == "a");
  CHECK(outcome.calls.size() == 1);
  CHECK(outcome.text.empty());
}

TEST_CASE("ids are made from a seed") {
  CHECK(make_call_id(1, 0, false) == make_call_id(1, 0, false));
  CHECK(make_call_id(1, 0, false) != make_call_id(1, 1, false));
  CHECK(make_call_id(1, 0, false) != make_call_id(2, 0, false));
  CHECK(make_call_id(1, 0, false).size() == 29);
  CHECK(make_call_id(1, 0, true).size() == 9);
  // The second id is not the first shifted by one letter.
  CHECK(make_call_id(1, 0, false).substr(6) != make_call_id(1, 1, false).substr(5, 23));
}

TEST_CASE("arguments are passed on while they are generated") {
  const ChatForm form = chat_form(chat_template("qwen25_tools"));
  ToolCallParser parser(form, [](int) { return std::string("id"); });
  CHECK(parser.push("<tool_call>\n{\"name\": \"f\", \"arguments\": ").empty());
  const std::vector<ToolEvent> begun = parser.push("{\"a\"");
  REQUIRE(begun.size() == 2);
  CHECK(begun[0].kind == ToolEvent::Kind::kCallBegin);
  CHECK(begun[1].text == "{\"a\"");
  REQUIRE(parser.push(": 1").size() == 1);
}

}  // namespace
}  // namespace hearth::tests
