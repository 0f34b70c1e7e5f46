// Answers with a required form: formats, tool calls and thinking, through the whole API with a scripted
// engine.
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "engine/engine.h"
#include "tests/server/api/api_bench.h"
#include "tests/support/catch.h"
#include "tests/support/scripted_model.h"

namespace hearth {
namespace {

using nlohmann::json;

/// A model that thinks and calls tools in the style of Hermes.
constexpr const char* kToolTemplate =
    "{% if tools %}[tools]{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}]"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{\"name\": {{ c.function.name | tojson }}, \"arguments\": "
    "{{ c.function.arguments | tojson }}}</tool_call>{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

constexpr const char* kTools =
    R"("tools": [{"type": "function", "function": {"name": "weather", "strict": true, "parameters": {"type": "object",
       "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
       "required": ["city", "days"], "additionalProperties": false}}}])";

struct ToolBench : ApiBench {
  explicit ToolBench(std::string_view said, FinishReason reason = FinishReason::kStop) {
    chat_template = ChatTemplate::parse(kToolTemplate, "<s>", "</s>");
    model.context_tokens = 1000;
    engine.play = [said = std::string(said), reason](TokenStream& stream) {
      play_text(stream, 0, said);
      play_end(stream, 0, reason);
    };
  }
  json ask(const std::string& rest) {
    return whole_body(chat(R"({"messages": [{"role": "user", "content": "Say"}], )" + rest + "}"));
  }
};

const std::string kSaid =
    R"(<think>hm, stop?</think>Let me see.<tool_call>{"name": "weather", "arguments": {"city": "Ulm", "days": 2}}</tool_call>)";

TEST_CASE("a call becomes tool_calls, thinking becomes reasoning_content; stop strings apply to neither") {
  ToolBench bench(kSaid);
  const json answer = bench.ask(std::string(kTools) + R"(, "stop": "stop?")");
  const json& choice = answer["choices"][0];
  CHECK(choice["finish_reason"] == "tool_calls");
  const json& message = choice["message"];
  CHECK(message["content"] == "Let me see.");
  CHECK(message["reasoning_content"] == "hm, stop?");
  REQUIRE(message["tool_calls"].size() == 1);
  const json& call = message["tool_calls"][0];
  CHECK(call["type"] == "function");
  CHECK_FALSE(call["id"].get<std::string>().empty());
  CHECK(call["function"]["name"] == "weather");
  CHECK(json::parse(call["function"]["arguments"].get<std::string>()) ==
        json({{"city", "Ulm"}, {"days", 2}}));
  CHECK(bench.engine.requests.back().sequences[0].constraint != nullptr);
  // Only a call gives no content; a cut-off call ends with "length".
  ToolBench only(kSaid.substr(kSaid.find("<tool_call>")));
  CHECK(only.ask(kTools)["choices"][0]["message"]["content"].is_null());
  ToolBench cut(kSaid.substr(0, kSaid.size() - 15), FinishReason::kLength);
  CHECK(cut.ask(kTools)["choices"][0]["finish_reason"] == "length");
}

TEST_CASE("a streamed call has id, type and name first, then the arguments in pieces, then the reason") {
  ToolBench bench(kSaid);
  const Answered answer = bench.chat(
      R"({"messages": [{"role": "user", "content": "Say"}], "stream": true, )" + std::string(kTools) + "}");
  REQUIRE(answer.finished);
  std::string content, reasoning, arguments, reason;
  int n_begins = 0;
  for (const json& event : sse_data(answer.body)) {
    if (!event.is_object() || event["choices"].empty()) continue;
    const json& choice = event["choices"][0];
    const json& delta = choice["delta"];
    if (choice["finish_reason"].is_string()) reason = choice["finish_reason"];
    content += delta.value("content", "");
    reasoning += delta.value("reasoning_content", "");
    if (!delta.contains("tool_calls")) continue;
    const json& call = delta["tool_calls"][0];
    CHECK(call["index"] == 0);
    if (call.contains("id")) {
      ++n_begins;
      CHECK(arguments.empty());
      CHECK(call["function"]["name"] == "weather");
      CHECK(call["type"] == "function");
    }
    arguments += call["function"]["arguments"].get<std::string>();
  }
  CHECK(n_begins == 1);
  CHECK(content == "Let me see.");
  CHECK(reasoning == "hm, stop?");
  CHECK(json::parse(arguments) == json({{"city", "Ulm"}, {"days", 2}}));
  CHECK(reason == "tool_calls");
}

TEST_CASE("a stop string ends the answer's text") {
  ToolBench bench("<think>one END two</think>three END four");
  const json answer = bench.ask(R"("stop": ["END"])");
  CHECK(answer["choices"][0]["message"]["content"] == "three ");
  CHECK(answer["choices"][0]["message"]["reasoning_content"] == "one END two");
  CHECK(answer["choices"][0]["finish_reason"] == "stop");
}

TEST_CASE("a schema that cannot be enforced is refused with the place in it") {
  ToolBench bench("");
  const auto refused = [&](const std::string& rest) {
    return error_of(bench.chat(R"({"messages": [{"role": "user", "content": "Say"}], )" + rest + "}"));
  };
  json error = refused(R"("response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema":
      {"type": "object", "properties": {"a": {"type": "string", "format": "made-up"}}}}})");
  CHECK(error["param"] == "response_format.json_schema.schema");
  CHECK_THAT(error["message"].get<std::string>(), ContainsSubstring("#/properties/a/format"));
  error = refused(R"("tools": [{"type": "function", "function": {"name": "f", "strict": true, "parameters":
      {"type": "object", "properties": {"a": {"type": "string", "format": "made-up"}}}}}])");
  CHECK(error["param"] == "tools[0].function.parameters");
  CHECK(refused(R"("guided_regex": "(")")["param"] == "guided_regex");
  CHECK(refused(R"("grammar": "root ::= (")")["param"] == "grammar");
  CHECK(bench.engine.requests.empty());
}

TEST_CASE("a tool that is not strict can be called even if its schema cannot be enforced") {
  ToolBench bench(R"(<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>)");
  const json answer = bench.ask(R"("tools": [{"type": "function", "function": {"name": "f", "parameters":
      {"type": "object", "properties": {"a": {"format": "made-up", "type": "string"}}}}}])");
  CHECK(answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == R"({"a": 1})");
}

TEST_CASE("an answer continues the last message on request") {
  ToolBench bench(" Ulm");
  const auto prompt = [&] {
    std::string text;
    for (const int32_t token : bench.engine.requests.back().sequences[0].prompt)
      text += static_cast<char>(token);
    return text;
  };
  whole_body(bench.chat(
      R"({"messages": [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "It is in"}],
      "continue_final_message": true, "add_generation_prompt": false})"));
  CHECK(prompt() == "[user]Where?[assistant]It is in");
  whole_body(bench.chat(R"({"messages": [{"role": "user", "content": "Where?"},
      {"role": "assistant", "content": "It is in", "prefix": true}]})"));
  CHECK(prompt() == "[user]Where?[assistant]It is in");
}

/// Random logits over every byte, so that only a constraint gives the text a form.
struct ConstrainedBench : ToolBench {
  ScriptedModel scripted;
  Engine real;

  ConstrainedBench()
      : ToolBench(""),
        scripted({.limits = {.max_tokens = 600,
                             .max_logit_rows = 32,
                             .n_vocab = ApiVocabulary::kFirstWord,
                             .block_tokens = 4,
                             .n_blocks = 2000},
                  .script = ScriptedModel::hashed(),
                  .before_step = {}}),
        real(scripted, {.n_slots = 3, .context_tokens = 1000, .queue_capacity = 16, .prefill_chunk = 64}) {
    // Without thinking, which a model with random logits would not end.
    const std::string_view thinks =
        "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}";
    std::string source = kToolTemplate;
    source.erase(source.find(thinks), thinks.size());
    chat_template = ChatTemplate::parse(source, "<s>", "</s>");
    model.engine = &real;
  }
};

TEST_CASE("formats are enforced whatever the model prefers") {
  ConstrainedBench bench;
  for (int seed = 0; seed < 20; ++seed) {
    const std::string rest = R"(, "max_tokens": 400, "seed": )" + std::to_string(seed);
    const auto content = [&](const std::string& format) {
      const json choice = bench.ask(format + rest)["choices"][0];
      INFO(choice.dump());
      CHECK(choice["finish_reason"] == "stop");
      return choice["message"]["content"].get<std::string>();
    };
    CHECK(std::set<std::string>{"yes", "no"}.contains(content(R"("guided_choice": ["yes", "no"])")));
    CHECK(std::regex_match(content(R"("guided_regex": "[a-c]{3}-\\d{2}")"), std::regex("[a-c]{3}-[0-9]{2}")));
    const json value =
        json::parse(content(R"("response_format": {"type": "json_schema", "json_schema": {"name": "n",
        "schema": {"type": "object", "properties": {"a": {"enum": [1, "x", null]}, "b": {"type": "integer",
        "minimum": 10, "maximum": 99}}, "required": ["a", "b"], "additionalProperties": false}}})"));
    CHECK(value.size() == 2);
    CHECK(value["b"] >= 10);
    CHECK(value["b"] <= 99);
    const json call =
        bench.ask(std::string(kTools) + R"(, "parallel_tool_calls": false, "tool_choice": "required")" +
                  rest)["choices"][0];
    if (call["finish_reason"] == "length") continue;  // a city whose name does not end
    CHECK(call["finish_reason"] == "tool_calls");
    const json arguments =
        json::parse(call["message"]["tool_calls"][0]["function"]["arguments"].get<std::string>());
    CHECK(arguments["days"] >= 1);
    CHECK(arguments["days"] <= 9);
  }
}

TEST_CASE("with a format and tools the answer is calls or a text in the format") {
  ConstrainedBench bench;
  std::string asked = kTools;
  asked += R"(, "response_format": {"type": "json_schema", "json_schema": {"name": "n",
      "schema": {"type": "object", "properties": {"a": {"enum": [1, "<tool_call>"]}}, "required": ["a"],
      "additionalProperties": false}}}, "max_tokens": 400, "seed": )";
  int n_texts = 0, n_calls = 0;
  for (int seed = 0; seed < 60; ++seed) {
    const json choice = bench.ask(asked + std::to_string(seed))["choices"][0];
    INFO(choice.dump());
    const json& message = choice["message"];
    if (choice["finish_reason"] == "stop") {
      const json value = json::parse(message["content"].get<std::string>());
      CHECK((value == json({{"a", 1}}) || value == json({{"a", "<tool_call>"}})));
      CHECK_FALSE(message.contains("tool_calls"));
      ++n_texts;
    } else if (choice["finish_reason"] == "tool_calls") {
      CHECK(message["content"].is_null());
      const json arguments =
          json::parse(message["tool_calls"][0]["function"]["arguments"].get<std::string>());
      CHECK(arguments["days"] >= 1);
      CHECK(arguments["days"] <= 9);
      ++n_calls;
    }
  }
  CHECK(n_texts > 5);
  CHECK(n_calls > 5);
}

TEST_CASE("with a grammar and tools the answer is calls or a text of the grammar") {
  ConstrainedBench bench;
  std::string asked = kTools;
  asked += R"(, "guided_grammar": "root ::= [ab] root | tail\ntail ::= \"!\"", "max_tokens": 400, "seed": )";
  int n_texts = 0;
  for (int seed = 0; seed < 100; ++seed) {
    const json choice = bench.ask(asked + std::to_string(seed))["choices"][0];
    INFO(choice.dump());
    if (choice["finish_reason"] != "stop") continue;
    CHECK(std::regex_match(choice["message"]["content"].get<std::string>(), std::regex("[ab]*!")));
    ++n_texts;
  }
  CHECK(n_texts > 0);
}

/// A model that writes each parameter in its own tags.
struct TaggedBench : ConstrainedBench {
  TaggedBench() {
    chat_template = ChatTemplate::parse(
        "{% if tools %}[tools]{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}]{{ "
        "m.content or '' }}"
        "{% for c in m.tool_calls or [] %}<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in "
        "c.function.arguments.items() %}<parameter={{ k }}>\n{{ v if v is string else v | tojson "
        "}}\n</parameter>\n"
        "{% endfor %}</function>\n</tool_call>{% endfor %}{% endfor %}{% if add_generation_prompt "
        "%}[assistant]{% endif %}",
        "<s>", "</s>");
  }
  /// The arguments of one call.
  json arguments(const std::string& parameters, bool strict, int seed) {
    const json choice =
        ask(R"("tools": [{"type": "function", "function": {"name": "weather", "strict": )" +
            std::string(strict ? "true" : "false") + R"(, "parameters": )" + parameters +
            R"(}}], "tool_choice": "required", "parallel_tool_calls": false, "max_tokens": 400, "seed": )" +
            std::to_string(seed))["choices"][0];
    INFO(choice.dump());
    REQUIRE(choice["finish_reason"] == "tool_calls");
    return json::parse(choice["message"]["tool_calls"][0]["function"]["arguments"].get<std::string>());
  }
};

TEST_CASE("parameters in tags follow their schemas, wherever the schemas are defined") {
  TaggedBench bench;
  const std::string schema = R"({"type": "object", "additionalProperties": false,
      "$defs": {"Unit": {"enum": ["kelvin", "celsius"]}}, "required": ["city", "unit", "days", "code"],
      "properties": {"city": {"type": "string", "enum": ["Ulm", "Bern"]}, "unit": {"$ref": "#/$defs/Unit"},
                     "days": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 9}, {"type": "null"}]},
                     "code": {"type": "string", "pattern": "^[A-Z]{2}$"}}})";
  for (int seed = 0; seed < 10; ++seed) {
    const json arguments = bench.arguments(schema, true, seed);
    INFO(arguments.dump());
    CHECK(std::set<json>{"Ulm", "Bern"}.contains(arguments["city"]));
    CHECK(std::set<json>{"kelvin", "celsius"}.contains(arguments["unit"]));
    CHECK((arguments["days"].is_null() || (arguments["days"] >= 1 && arguments["days"] <= 9)));
    CHECK(std::regex_match(arguments["code"].get<std::string>(), std::regex("[A-Z]{2}")));
  }
}

TEST_CASE("parameters in tags keep their types even if their schema cannot be enforced") {
  TaggedBench bench;
  const std::string schema = R"({"type": "object", "if": {}, "required": ["days", "sunny"],
      "properties": {"days": {"type": "integer"}, "sunny": {"type": "boolean"}}})";
  for (int seed = 0; seed < 5; ++seed) {
    const json arguments = bench.arguments(schema, false, seed);
    INFO(arguments.dump());
    CHECK(arguments["days"].is_number());
    CHECK(arguments["sunny"].is_boolean());
  }
}

/// A template that writes past calls in its own tags, but does not show tools.
constexpr const char* kSilentTemplate =
    "{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
    "<|call|>{{ c.function.name }}<|sep|>{{ c.function.arguments | tojson }}<|done|>{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

TEST_CASE("with a template without tools the call that the prompt asks for is parsed, and no other allowed") {
  const std::string told =
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Ulm\", \"days\": 2}}\n</tool_call>";
  ToolBench bench(told);
  bench.chat_template = ChatTemplate::parse(kSilentTemplate, "<s>", "</s>");
  const json message = bench.ask(kTools)["choices"][0]["message"];
  CHECK(message["content"].is_null());
  REQUIRE(message["tool_calls"].size() == 1);
  CHECK(message["tool_calls"][0]["function"]["name"] == "weather");
  const std::string history = R"({"messages": [{"role": "user", "content": "Say"}, {"role": "assistant",
      "content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "weather",
      "arguments": "{\"city\": \"Ulm\", \"days\": 2}"}}]}, {"role": "tool", "tool_call_id": "a",
      "content": "gray"}], "tool_choice": "required", )";
  bench.chat(history + kTools + "}");
  const SequenceRequest& sequence = bench.engine.requests.back().sequences[0];
  const std::string prompt = bench.vocabulary.decode(sequence.prompt, true);
  CHECK_THAT(prompt, ContainsSubstring("in this form, and nothing after it:\n<tool_call>\n{\"name\""));
  CHECK_THAT(prompt, ContainsSubstring("[assistant]" + told));
  CHECK_THAT(prompt, !ContainsSubstring("<|call|>"));
  ConstraintState state(sequence.constraint);
  for (const int32_t token : bench.vocabulary.encode(told, false, false)) REQUIRE(state.accept(token));
  CHECK(state.may_end());
}

TEST_CASE("with a format and tools an error names the parameter at fault") {
  ToolBench bench("");
  const auto param = [&](const std::string& rest) {
    return error_of(
        bench.chat(R"({"messages": [{"role": "user", "content": "Say"}], )" + rest + "}"))["param"];
  };
  std::string asked = kTools;
  CHECK(param(asked.append(R"(, "guided_regex": "(")")) == "guided_regex");
  asked = kTools;
  CHECK(param(asked.append(R"(, "guided_grammar": "root ::= x")")) == "guided_grammar");
  CHECK(
      param(
          R"("guided_choice": ["a"], "tools": [{"type": "function", "function": {"name": "f", "strict": true,
      "parameters": {"type": "object", "properties": {"a": {"format": "made-up", "type": "string"}}}}}])") ==
      "tools[0].function.parameters");
}

}  // namespace
}  // namespace hearth
