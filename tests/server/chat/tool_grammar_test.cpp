// The language of answers: the texts that each mode permits, and that the parser finds the intended calls.
#include "server/chat/tools/tool_grammar.h"

#include "server/chat/tools/probe_text.h"
#include "server/chat/tools/tool_schemas.h"
#include "tests/server/chat/tool_answers.h"
#include "tests/support/grammar_matcher.h"

namespace hearth::tests {
namespace {

ValueExpr exactly(const std::string& text) {
  return [text](Grammar& grammar) { return grammar.literal(text); };
}

const std::string kBernArguments = R"({"city": "Bern", "days": 2})";

/// A request without its model's syntax.
struct Request {
  ChatForm form;
  std::vector<GrammarTool> tools;
};

Request request(ToolMode mode) {
  return {
      .form = {.choice = {.tools = tools(), .mode = mode}},
      .tools = {{"get_weather", exactly(kBernArguments), {{"city", true, {}}, {"days", false, exactly("2")}}},
                {"now", exactly("{}"), {}}}};
}

struct Built {
  ChatForm form;
  Grammar grammar;
  bool has(const std::string& text) const { return test::GrammarMatcher(grammar).matches(text); }
};

Built build(const std::string& name, Request request) {
  request.form.syntax = derive_chat_syntax(chat_template(name));
  Grammar grammar = build_tool_grammar(request.form, request.tools);
  return {std::move(request.form), std::move(grammar)};
}

std::string hermes(const std::string& name, const std::string& arguments) {
  return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call>";
}

TEST_CASE("auto allows text and calls, but no unfinished calls") {
  const Built built = build("qwen25_tools", request(ToolMode::kAuto));
  CHECK(built.has(""));
  CHECK(built.has("Just text < with [brackets] {\"a\": 1} äöü"));
  CHECK(built.has(hermes("now", "{}")));
  CHECK(built.has("I look.\n" + hermes("get_weather", kBernArguments)));
  CHECK(built.has(hermes("get_weather", kBernArguments) + "\n" + hermes("now", "{}")));
  CHECK_FALSE(built.has(hermes("unknown", "{}")));
  CHECK_FALSE(built.has(hermes("get_weather", "{}")));
  CHECK_FALSE(built.has("<tool_call>"));
  CHECK(built.has(hermes("now", "{}") + "\nDone."));  // an answer may end after white space or text
  CHECK(built.has(hermes("now", "{}") + "\n"));
  CHECK_FALSE(built.has(hermes("now", "{}") + "\n<tool_call>"));
  CHECK(built.has("Use `<tool_call>` tags, as in <tool_call> b"));
  CHECK_FALSE(built.has("a <tool_call> {"));   // this begins a call
  CHECK_FALSE(built.has("a\n<tool_call> b"));  // at the start of a line, the tag does
  CHECK_FALSE(built.has("\t<tool_call> b"));
  CHECK(built.has("I look: " + hermes("now", "{}")));  // but a call may also begin within a line
}

TEST_CASE("none allows only text, required only calls") {
  const Built none = build("qwen25_tools", request(ToolMode::kNone));
  CHECK(none.has("text"));
  CHECK_FALSE(none.has(hermes("now", "{}")));
  const Built required = build("qwen25_tools", request(ToolMode::kRequired));
  CHECK(required.has("\n" + hermes("now", "{}")));
  CHECK_FALSE(required.has("text"));
  CHECK_FALSE(required.has(""));
  Request named = request(ToolMode::kRequired);
  named.form.choice.allowed = {"now"};
  CHECK(build("qwen25_tools", named).has(hermes("now", "{}")));
  CHECK_FALSE(build("qwen25_tools", named).has(hermes("get_weather", kBernArguments)));
  Request single = request(ToolMode::kRequired);
  single.form.choice.parallel = false;
  CHECK_FALSE(build("qwen25_tools", single).has(hermes("now", "{}") + "\n" + hermes("now", "{}")));
  named.form.choice.allowed = {"gone"};
  CHECK_THROWS_AS(build("qwen25_tools", named), ConstraintError);
}

TEST_CASE("thinking comes before calls") {
  Request thinking = request(ToolMode::kRequired);
  thinking.form.thinking = ThinkingMode::kMayBegin;
  const Built may = build("qwen3", thinking);
  CHECK(may.has(hermes("now", "{}")));
  CHECK(may.has("<think>\nHm, <tool_call>\n</think>\n\n" + hermes("now", "{}")));
  CHECK_FALSE(may.has("<think>\nHm."));
  thinking.form.thinking = ThinkingMode::kBegun;
  const Built begun = build("qwen3", thinking);
  CHECK(begun.has("Hm.\n</think>\n\n" + hermes("now", "{}")));
  CHECK_FALSE(begun.has(hermes("now", "{}")));
  thinking.form.choice.mode = ToolMode::kNone;
  CHECK(
      build("gpt_oss", thinking)
          .has("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes."));
}

/// Two calls in the syntax, written by hand.
struct Sample {
  std::string chat_template, answer;
};

TEST_CASE("two calls in every syntax are in its grammar, and mean the same to the parser") {
  const std::vector<Sample> samples{
      {"qwen3_coder",
       "<tool_call>\n<function=get_weather>\n<parameter=city>\nBern\n</parameter>\n<parameter=days>\n2\n</"
       "parameter>\n</function>\n"
       "</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>"},
      {"glm45",
       "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Bern</arg_value>\n<arg_key>days</"
       "arg_key>\n<arg_value>2</arg_value>"
       "\n</tool_call>\n<tool_call>now\n</tool_call>"},
      {"minimax_m2",
       "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter "
       "name=\"city\">Bern</parameter>\n<parameter name=\"days\">2"
       "</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>"},
      {"llama4", "[get_weather(city=\"Bern\", days=2), now()]"},
      {"lfm2", "<|tool_call_start|>[get_weather(city=\"Bern\", days=2), now()]<|tool_call_end|>"},
      {"llama33_ipython",
       "{\"type\": \"function\", \"name\": \"get_weather\", \"parameters\": " + kBernArguments +
           "}; {\"type\": \"function\", \"name\": \"now\", \"parameters\": {}}"},
      {"mistral_v3",
       "[TOOL_CALLS] [{\"name\": \"get_weather\", \"arguments\": " + kBernArguments +
           ", \"id\": \"abcdefgh1\"}, {\"name\": \"now\", \"arguments\": {}, \"id\": \"abcdefgh2\"}]"},
      {"mistral_v11_call_id", "[TOOL_CALLS]get_weather[CALL_ID]abcdefgh1[ARGS]" + kBernArguments +
                                  "[TOOL_CALLS]now[CALL_ID]abcdefgh2[ARGS]{}"},
      {"functionary_v31",
       "<function=get_weather>" + kBernArguments + "</function><function=now>{}</function>"},
      {"functionary_v32", "get_weather\n" + kBernArguments + ">>>now\n{}"},
      {"command_r7b",
       "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": " +
           kBernArguments +
           "},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"now\", \"parameters\": {}}\n]<|END_ACTION|>"},
      {"deepseek_v3",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n" +
           kBernArguments +
           "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<"
           "｜tool▁call▁end｜>"
           "<｜tool▁calls▁end｜>"},
      {"kimi_k2",
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>" +
           kBernArguments +
           "<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|"
           ">"
           "<|tool_calls_section_end|>"},
      {"minimax_m1", "<tool_calls>\n{\"name\": \"get_weather\", \"arguments\": " + kBernArguments +
                         "}\n{\"name\": \"now\", \"arguments\": {}}\n</tool_calls>"},
      {"apertus",
       "<|tools_prefix|>[{\"get_weather\": " + kBernArguments + "}, {\"now\": {}}]<|tools_suffix|>"},
  };
  for (const Sample& sample : samples) {
    INFO(sample.chat_template << ": " << sample.answer);
    CHECK(build(sample.chat_template, request(ToolMode::kAuto)).has(sample.answer));
    const Built required = build(sample.chat_template, request(ToolMode::kRequired));
    CHECK(required.has(sample.answer));
    CHECK_FALSE(required.has(sample.answer + "x"));
    CHECK_FALSE(required.has(sample.answer.substr(0, sample.answer.size() - 1)));
    const Outcome outcome = parse_answer(sample.chat_template, sample.answer);
    REQUIRE(outcome.calls.size() == 2);
    CHECK(Json::parse(outcome.calls[0].arguments) == Json::parse(kBernArguments));
    CHECK(outcome.calls[1].name == "now");
    CHECK(outcome.text.empty());
  }
}

TEST_CASE("a call without a begin marker is distinguished from text") {
  const Built llama = build("llama31", request(ToolMode::kAuto));
  CHECK(llama.has("{\"name\": \"now\", \"parameters\": {}}"));
  CHECK(llama.has("{\"city\": 1}"));
  CHECK_FALSE(llama.has(" { \"name\": \"Bob\"}"));
  const Built python = build("llama4", request(ToolMode::kAuto));
  CHECK(python.has("[1, 2]"));
  CHECK(python.has("[now()]"));
  CHECK_FALSE(python.has("[now(]"));
  CHECK_FALSE(python.has("[ now (]"));  // the parser ignores white space
}

TEST_CASE("white space before a call that must come ends") {
  const Built built = build("qwen25_tools", request(ToolMode::kRequired));
  CHECK(built.has(std::string(16, '\n') + hermes("now", "{}")));
  CHECK_FALSE(built.has(std::string(17, '\n') + hermes("now", "{}")));
}

TEST_CASE("a text parameter has a form of its own in syntaxes without quotes") {
  Request formatted = request(ToolMode::kRequired);
  formatted.tools[0].parameters[0] = {"city", true, exactly("\"Bern\""), [](Grammar& grammar) {
                                        return GrammarParameter::Parts{.texts = grammar.literal("Bern"),
                                                                       .others = grammar.literal("1")};
                                      }};
  const auto tagged = [](const std::string& city) {
    return "<tool_call>\n<function=get_weather>\n<parameter=city>\n" + city +
           "\n</parameter>\n</function>\n</tool_call>";
  };
  const Built built = build("qwen3_coder", formatted);
  CHECK(built.has(tagged("Bern")));
  CHECK_FALSE(built.has(tagged("\"Bern\"")));
  CHECK_FALSE(built.has(tagged("Ulm")));
  CHECK(built.has(tagged("1")));
  CHECK(build("llama4", formatted).has("[get_weather(city=\"Bern\")]"));
}

/// An object with one number: {"a": 1}.
Request with_format(ToolMode mode) {
  Request formatted = request(mode);
  formatted.form.format = {AnswerFormat::Kind::kJsonSchema,
                           R"({"properties": {"a": {"type": ["integer", "string"]}}, "required": ["a"]})",
                           {}};
  return formatted;
}

TEST_CASE("with a format the answer is either calls or a text in the format") {
  const Built built = build("qwen25_tools", with_format(ToolMode::kAuto));
  CHECK(built.has("{\"a\": 1}"));
  CHECK(built.has(hermes("now", "{}")));
  CHECK(built.has(hermes("get_weather", kBernArguments) + "\n" + hermes("now", "{}")));
  CHECK_FALSE(built.has("Just text"));
  CHECK_FALSE(built.has(""));
  CHECK_FALSE(built.has("{\"a\": 1}\n" + hermes("now", "{}")));
  CHECK_FALSE(built.has("{\"b\": 1}"));
  const Built required = build("qwen25_tools", with_format(ToolMode::kRequired));
  CHECK(required.has(hermes("now", "{}")));
  CHECK_FALSE(required.has("{\"a\": 1}"));
  const Built none = build("qwen25_tools", with_format(ToolMode::kNone));
  CHECK(none.has("{\"a\": 1}"));
  CHECK_FALSE(none.has(hermes("now", "{}")));
}

TEST_CASE("formats work with calls without begin marker, calls opened by the prompt, and channels") {
  const Built llama = build("llama31", with_format(ToolMode::kAuto));
  CHECK(llama.has("{\"a\": 1}"));
  CHECK(llama.has("{\"name\": \"now\", \"parameters\": {}}"));
  CHECK_FALSE(llama.has("text"));
  const Built harmony = build("gpt_oss", with_format(ToolMode::kAuto));
  CHECK(harmony.has("<|channel|>final<|message|>{\"a\": 1}"));
  CHECK(harmony.has("<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}"));
  CHECK_FALSE(harmony.has("<|channel|>final<|message|>Yes."));
  const Built functionary = build("functionary_v2", with_format(ToolMode::kAuto));
  REQUIRE(functionary.form.syntax.calls.prompt_opens_call);
  const std::string after_name = functionary.form.syntax.calls.pieces[1].text;
  CHECK(functionary.has("all" + after_name + "{\"a\": 1}"));
  CHECK(functionary.has("now" + after_name + "{}"));
  CHECK_FALSE(functionary.has("all" + after_name + "Yes."));
  CHECK(build("functionary_v2", with_format(ToolMode::kNone)).has("all" + after_name + "{\"a\": 1}"));
  CHECK_FALSE(build("functionary_v2", with_format(ToolMode::kNone)).has("all" + after_name + "Yes."));
}

TEST_CASE("a regular format excludes texts that the parser would take for a call") {
  Request formatted = request(ToolMode::kAuto);
  formatted.form.format = {AnswerFormat::Kind::kChoice, {}, {"yes", "<tool_call> no"}};
  const Built built = build("qwen25_tools", formatted);
  CHECK(built.has("yes"));
  CHECK_FALSE(built.has("<tool_call> no"));
  formatted.form.choice.mode = ToolMode::kNone;
  CHECK(build("qwen25_tools", formatted).has("<tool_call> no"));
}

TEST_CASE("a text in a format may contain a call's begin marker") {
  const Built built = build("qwen25_tools", with_format(ToolMode::kAuto));
  const std::string text = "{\"a\": \"<tool_call>\\n{\\\"name\\\": \\\"now\\\"\"}";
  REQUIRE(built.has(text));
  for (const size_t piece : {size_t{1}, size_t{7}, text.size()}) {
    const Outcome outcome = parse_in_pieces(built.form, text, piece);
    CHECK(outcome.text == text);
    CHECK(outcome.calls.empty());
    const Outcome called = parse_in_pieces(built.form, " " + hermes("now", "{}"), piece);
    CHECK(called.calls.size() == 1);
    CHECK(called.text.empty());
  }
}

TEST_CASE("parameters keep their order, and only optional ones may be missing") {
  const Built built = build("llama4", request(ToolMode::kRequired));
  CHECK(built.has("[get_weather(city=\"B\\\"ern\")]"));
  CHECK_FALSE(built.has("[get_weather(days=2)]"));
  CHECK_FALSE(built.has("[get_weather(days=2, city=\"x\")]"));
  Request optional = request(ToolMode::kRequired);
  optional.tools[0].parameters[0].required = false;
  CHECK(build("llama4", optional).has("[get_weather(days=2)]"));
  CHECK(build("llama4", optional).has("[get_weather()]"));
}

TEST_CASE("a parameter in tags that may be a text takes the text as it is") {
  Request request_of_unions = request(ToolMode::kRequired);
  const Json schema = Json::parse(R"({"type": "object", "$defs": {"name": {"type": "string"}}, "properties": {
    "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "who": {"$ref": "#/$defs/name"},
    "list": {"type": ["string", "array"], "items": {"type": "integer"}}, "unit": {"enum": ["C", 1]},
    "fact": {"type": "boolean", "nullable": true}}})");
  request_of_unions.form.choice.tools =
      Json::array({{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", schema}}}}});
  request_of_unions.tools = grammar_tools(request_of_unions.form.choice.tools, false);
  const Built built = build("qwen3_coder", request_of_unions);
  const auto called = [](const std::string& name, const std::string& value) {
    return "<tool_call>\n<function=f>\n<parameter=" + name + ">\n" + value +
           "\n</parameter>\n</function>\n</tool_call>";
  };
  const auto read = [&](const std::string& name, const std::string& value) {
    INFO(name << " is " << value);
    CHECK(built.has(called(name, value)));
    const Outcome outcome = parse_answer(built.form, called(name, value));
    REQUIRE(outcome.calls.size() == 1);
    return Json::parse(outcome.calls[0].arguments)[name];
  };
  CHECK(read("note", "be quick") == "be quick");
  CHECK(read("note", "null check added") == "null check added");
  CHECK(read("note", "null").is_null());
  CHECK(read("note", "12") == "12");
  CHECK(read("note", "\"quoted\"") == "\"quoted\"");
  CHECK(read("who", "true") == "true");
  CHECK(read("list", "[1, 2]") == Json::array({1, 2}));
  CHECK(read("list", "[x]") == "[x]");
  CHECK(read("unit", "C") == "C");
  CHECK(read("unit", "1") == 1);
  CHECK(read("fact", "false") == false);
  CHECK(read("fact", "null").is_null());
  CHECK_FALSE(built.has(called("unit", "F")));
  CHECK_FALSE(built.has(called("fact", "no")));
}

TEST_CASE("values between marks conform to the schema, and mean the same to the parser") {
  Request marked = request(ToolMode::kRequired);
  const Json schema = Json::parse(R"({"type": "object", "required": ["city"], "properties": {
    "city": {"type": "string", "maxLength": 9}, "unit": {"enum": ["C", "F", 1]},
    "tags": {"type": "array", "items": {"type": "string"}},
    "more": {"type": "object", "properties": {"a b": {"type": "boolean"}}, "additionalProperties": {"type": "null"}}
  }})");
  marked.form.choice.tools =
      Json::array({{{"type", "function"}, {"function", {{"name", "get_weather"}, {"parameters", schema}}}}});
  marked.tools = grammar_tools(marked.form.choice.tools, false, "<|\"|>");
  const Built built = build("gemma4", marked);
  const auto called = [](const std::string& members) {
    return "<|tool_call>call:get_weather{" + members + "}<tool_call|>";
  };
  const std::string city = "city:<|\"|>Bern<|\"|>";
  CHECK(built.has(called(city)));
  CHECK(built.has(called(city) + called(city)));
  CHECK(built.has(called("city:<|\"|>a \"b\"\n<|<|\"|>")));
  CHECK_FALSE(built.has(called("city:<|\"|>more than nine<|\"|>")));
  CHECK_FALSE(built.has(called("city:\"Bern\"")));
  CHECK_FALSE(built.has(called("city:<|\"|>a<|\"|>b<|\"|>")));
  CHECK_FALSE(built.has(called("days:2")));
  CHECK(built.has(called(city + ",unit:<|\"|>C<|\"|>")));
  CHECK(built.has(called(city + ",unit:1")));
  CHECK_FALSE(built.has(called(city + ",unit:C")));
  const std::string nested =
      city + ",tags:[<|\"|>x<|\"|>,<|\"|><|\"|>],more:{<|\"|>a b<|\"|>:true,other:null}";
  CHECK(built.has(called(nested)));
  CHECK_FALSE(built.has(called(city + ",more:{<|\"|>a b<|\"|>:null}")));
  const Outcome outcome = parse_answer(built.form, called(nested));
  REQUIRE(outcome.calls.size() == 1);
  CHECK(outcome.calls[0].arguments == R"({"city":"Bern","tags":["x",""],"more":{"a b":true,"other":null}})");
}

TEST_CASE("a tool without a schema that can be enforced takes any members between marks") {
  Request loose = request(ToolMode::kRequired);
  loose.tools = grammar_tools(tools(), true, "<|\"|>");
  const Built built = build("gemma4", loose);
  CHECK(built.has("<|tool_call>call:get_weather{any:[1,{x:<|\"|>y<|\"|>}],Zürich:true}<tool_call|>"));
  CHECK(built.has("<|tool_call>call:now{}<tool_call|>"));
  CHECK_FALSE(built.has("<|tool_call>call:now{{}<tool_call|>"));
}

TEST_CASE("harmony: a final message, or a call behind thinking and words") {
  Request automatic = request(ToolMode::kAuto);
  automatic.form.thinking = ThinkingMode::kMayBegin;
  const Built built = build("gpt_oss", automatic);
  const std::string call = "<|channel|>commentary to=functions.now <|constrain|>json<|message|>{}";
  CHECK(built.has("<|channel|>final<|message|>Yes."));
  CHECK(built.has(call));
  CHECK(built.has("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant" + call));
  CHECK_FALSE(built.has("Yes."));
  automatic.form.choice.mode = ToolMode::kRequired;
  CHECK_FALSE(build("gpt_oss", automatic).has("<|channel|>final<|message|>Yes."));
}

TEST_CASE("a grammar lists the tags that may be control tokens") {
  const auto tags = [](const char* name) { return derive_chat_syntax(chat_template(name)).tags(); };
  using Tags = std::vector<std::string>;
  CHECK(tags("qwen3") == Tags{"<think>", "</think>", "<tool_call>", "</tool_call>"});
  CHECK(tags("gemma4") == Tags{"<|channel>", "<channel|>", "<|tool_call>", "<|\"|>", "<tool_call|>"});
  CHECK(tags("mistral_v11_call_id") == Tags{"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"});
  CHECK(tags("deepseek_v31") == Tags{"<think>", "</think>", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>",
                                     "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"});
  CHECK(tags("llama31").empty());
  CHECK(tags("gpt_oss").size() == 5);
}

TEST_CASE("text that mentions the tags of calls means text to the parser") {
  const std::vector<Sample> samples{
      {"qwen25_tools", "Use `<tool_call>` tags, as in <tool_call> b"},
      {"qwen3_coder", "Write <tool_call> and then <tool_call>\n<fun, in that order."},
      {"minimax_m1", "Begin with <tool_calls>, end with </tool_calls>."}};
  for (const Sample& sample : samples) {
    INFO(sample.chat_template);
    const Built built = build(sample.chat_template, request(ToolMode::kAuto));
    CHECK(built.has(sample.answer));
    CHECK(parse_answer(built.form, sample.answer) == Outcome{sample.answer, "", {}});
  }
  // In these syntaxes, text that begins with the opener is always a call.
  CHECK_FALSE(build("glm45", request(ToolMode::kAuto)).has("a <tool_call> b"));
}

TEST_CASE("the tag that closes a value may stand in its last line, or be a part of the value") {
  Request texts = request(ToolMode::kRequired);
  texts.tools = grammar_tools(tools(), false);
  const Built built = build("qwen3_coder", texts);
  const auto called = [](const std::string& city) {
    return "<tool_call>\n<function=get_weather>\n<parameter=city>\n" + city + "</function>\n</tool_call>";
  };
  const auto read = [&](const std::string& written) {
    INFO(written);
    CHECK(built.has(called(written)));
    const Outcome outcome = parse_answer(built.form, called(written));
    REQUIRE(outcome.calls.size() == 1);
    CHECK(outcome.calls[0].whole);
    CHECK(outcome.text.empty());
    return Json::parse(outcome.calls[0].arguments);
  };
  CHECK(read("Bern\n</parameter>\n") == Json{{"city", "Bern"}});
  CHECK(read("Bern</parameter>\n") == Json{{"city", "Bern"}});
  CHECK(read("Bern</parameter>\n<parameter=days>\n2</parameter>\n") == Json{{"city", "Bern"}, {"days", 2}});
  CHECK(read("p = \"</parameter>\"\n</parameter>\n") == Json{{"city", "p = \"</parameter>\""}});
  CHECK(read("</parameter>\n") == Json{{"city", ""}});
  CHECK_FALSE(built.has(called("</parameter>x</parameter>\n")));  // an empty value, for the parser
  CHECK_FALSE(built.has(called("a\n</parameter>b\n</parameter>\n")));
}

TEST_CASE("harmony's calls have several forms, and mean the same to the parser") {
  Request automatic = request(ToolMode::kAuto);
  automatic.form.thinking = ThinkingMode::kMayBegin;
  const Built built = build("gpt_oss", automatic);
  const std::string thought = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
  for (const std::string header :
       {"<|channel|>commentary to=functions.now <|constrain|>json<|message|>",
        "<|channel|>commentary to=functions.now json<|message|>", "<|channel|>commentary to=now<|message|>",
        " to=functions.now<|channel|>commentary <|constrain|>json<|message|>",
        " to=now<|channel|>commentary json<|message|>",
        "<|channel|>analysis to=functions.now code<|message|>",
        " to=functions.now<|channel|>analysis<|message|>",
        "<|channel|>commentary to=functions.now<|constrain|>json<|message|>"}) {
    for (const std::string& before : {std::string(), thought}) {
      const std::string answer = before + header + "{}";
      INFO(answer);
      CHECK(built.has(answer));
      CHECK(parse_answer(built.form, answer) ==
            Outcome{"", before.empty() ? "" : "Hm.", {{"now", "made0", "{}", true}}});
    }
  }
  CHECK_FALSE(built.has("<|channel|>commentary to=unknown<|message|>{}"));
  CHECK_FALSE(built.has("<|channel|>final to=functions.now<|message|>{}"));
  // A recipient that is no tool of the request is not called.
  const std::string elsewhere = "<|channel|>commentary to=browser<|message|>{}";
  CHECK(parse_answer(built.form, elsewhere) == Outcome{"{}", "", {}});
}

TEST_CASE("a schema may be enforced in place of the one that the model sees") {
  const Json schema = {{"type", "object"},
                       {"properties", {{"input", {{"type", "string"}, {"pattern", "^a+$"}}}}},
                       {"required", {"input"}}};
  Request replaced = request(ToolMode::kRequired);
  replaced.tools = grammar_tools(tools(), false, {}, {{"now", schema}});
  const Built built = build("qwen25_tools", replaced);
  CHECK(built.has(hermes("now", R"({"input": "aa"})")));
  CHECK_FALSE(built.has(hermes("now", R"({"input": "b"})")));
  CHECK_FALSE(built.has(hermes("now", "{}")));
  CHECK(built.has(hermes("get_weather", R"({"city": "Bern"})")));
}

}  // namespace
}  // namespace hearth::tests
