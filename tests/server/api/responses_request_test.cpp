// The contents of a responses request: every form of input, and what is refused, by the parameter at fault.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/api/responses_bench.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

using nlohmann::json;

TEST_CASE("items become messages that the template knows") {
  ResponsesBench bench;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("Hello")", "[user]Hello"},
      {R"([{"role": "user", "content": "a"}])", "[user]a"},
      {R"([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]}])",
       "[user]a\nb"},
      {R"([{"role": "developer", "content": "one"}, {"role": "system", "content": "two"}, {"role": "user", "content": "a"}])",
       "[system]one\n\ntwo[user]a"},
      {R"([{"role": "user", "content": "a"}, {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "b", "annotations": [], "logprobs": []}]}, {"role": "user", "content": "c"}])",
       "[user]a[assistant]b[user]c"},
      {R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
           {"role": "user", "content": "c"}])",
       "[user]a[assistant]no[user]c"},
      // Thinking, text and calls form one message of the assistant; the results follow.
      {R"([{"role": "user", "content": "a"},
           {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
           {"role": "assistant", "content": "b"},
           {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{\"x\": 1}"},
           {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
           {"type": "function_call_output", "call_id": "c1", "output": "one"},
           {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]}])",
       "[user]a[assistant]<think>hm</think>b<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": "
       "1}}</tool_call>"
       "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>[tool]one[tool]two"},
      // A summary replaces thinking that has no content.
      {R"([{"role": "user", "content": "a"}, {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
           {"role": "assistant", "content": "b"}, {"type": "reasoning", "summary": []}, {"role": "assistant", "content": "c"}])",
       "[user]a[assistant]<think>hm</think>b[assistant]c"},
  };
  for (const auto& [input, prompt] : cases) {
    INFO(input);
    CHECK(bench.ask("", input)["status"] == "completed");
    CHECK(bench.prompt() == prompt + "[assistant]");
  }
}

TEST_CASE("settings reach the engine, extensions included") {
  ResponsesBench bench;
  bench.ask(
      R"("top_k": 7, "min_p": 0.5, "seed": 5, "stop": ["END"], "temperature": 0.5, "top_p": 0.75, "max_output_tokens": 5)");
  const SequenceRequest& sequence = bench.engine.requests.back().sequences[0];
  CHECK(sequence.sampling.top_k == 7);
  CHECK(sequence.sampling.min_p == 0.5F);
  CHECK(sequence.sampling.seed == 5);
  CHECK(sequence.sampling.temperature == 0.5F);
  CHECK(sequence.sampling.top_p == 0.75F);
  CHECK(sequence.max_tokens == 5);
  // A length above the available room is reduced to it.
  bench.ask(R"("max_output_tokens": 1000000)");
  CHECK(bench.engine.requests.back().sequences[0].max_tokens < 2000);
  bench.says("one END two");
  CHECK(bench.ask(R"("stop": "END")")["output"][0]["content"][0]["text"] == "one ");
}

TEST_CASE("formats of the text are enforced, and so is a tool that must be called") {
  ResponsesBench bench;
  for (
      const char* format :
      {R"("text": {"format": {"type": "json_object"}})",
       R"("text": {"format": {"type": "json_schema", "name": "x", "strict": true, "schema": {"type": "integer"}}})"}) {
    const json response = bench.ask(format);
    CHECK(bench.engine.requests.back().sequences[0].constraint != nullptr);
    CHECK(response["text"]["format"] == json::parse(std::string("{") + format + "}")["text"]["format"]);
  }
  bench.ask(R"("text": {"format": {"type": "text"}})");
  CHECK(bench.engine.requests.back().sequences[0].constraint == nullptr);
  for (
      const char* choice :
      {R"("required")", R"({"type": "function", "name": "weather"})",
       R"({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "weather"}]})"}) {
    const json response = bench.ask(std::string(kResponseTools) + R"(, "tool_choice": )" + choice);
    CHECK(response["tool_choice"] == json::parse(choice));
    CHECK(bench.engine.requests.back().sequences[0].constraint != nullptr);
    CHECK_THAT(bench.prompt(), ContainsSubstring("weather"));
  }
  bench.ask(std::string(kResponseTools) + R"(, "tool_choice": "none")");
  CHECK_THAT(bench.prompt(), !ContainsSubstring("weather"));
}

TEST_CASE("other members that clients send are accepted") {
  ResponsesBench bench;
  for (const char* rest :
       {R"("background": false)", R"("stream_options": null)", R"("conversation": null)",
        R"("max_tokens": null)", R"("n": 1)",
        R"("include": ["file_search_call.results", "web_search_call.action.sources"])",
        R"("prompt_cache_retention": "24h")", R"("text": {"verbosity": "high", "format": null})",
        R"("reasoning": {"effort": null, "generate_summary": "concise"})",
        R"("tools": [], "parallel_tool_calls": false)", R"("metadata": null)", R"("moderation": null)"}) {
    INFO(rest);
    CHECK(bench.ask(rest)["status"] == "completed");
  }
  CHECK(bench.stream(R"("stream_options": {"include_obfuscation": false})").back().name ==
        "response.completed");
}

TEST_CASE("an error is a 400 that names the parameter as this API does") {
  ResponsesBench bench;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({})", "input"},
      {R"({"input": 3})", "input"},
      {R"({"input": []})", "input"},
      {R"({"input": ["a"]})", "input[0]"},
      {R"({"input": [{}]})", "input[0].type"},
      {R"({"input": [{"type": "web_search_call", "id": "x"}]})", "input"},
      {R"({"input": [{"type": "custom_tool_call", "call_id": "c", "name": "f"}]})", "input[0].input"},
      {R"({"input": [{"type": "custom_tool_call_output", "call_id": "c", "output": "x"}]})",
       "input[0].call_id"},
      {R"({"input": [{"type": "compaction", "encrypted_content": "gAAAA"}]})", "input[0].encrypted_content"},
      {R"({"input": [{"type": "compaction"}]})", "input[0].encrypted_content"},
      {R"({"input": [{"no": "type"}]})", "input[0].type"},
      {R"({"input": [{"type": "function_call_output", "call_id": "c", "output": [{}]}]})",
       "input[0].output[0].type"},
      {R"({"input": [{"role": "tool", "content": "a"}]})", "input[0].role"},
      {R"({"input": [{"role": "user"}]})", "input[0].content"},
      {R"({"input": [{"role": "user", "content": {}}]})", "input[0].content"},
      {R"({"input": [{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]})",
       "input[1].content[0].type"},
      {R"({"input": [{"role": "user", "content": [{"type": "input_file"}]}]})", "input[0].content[0].type"},
      {R"({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]})", "input[0].content[0].type"},
      {R"({"input": [{"role": "user", "content": [{"type": "input_text"}]}]})", "input[0].content[0].text"},
      {R"({"input": [{"role": "user", "content": [7]}]})", "input[0].content[0]"},
      {R"({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]})", "input[0].call_id"},
      {R"({"input": [{"type": "function_call", "call_id": "c", "arguments": "{}"}]})", "input[0].name"},
      {R"({"input": [{"type": "function_call", "call_id": "c", "name": "f"}]})", "input[0].arguments"},
      {R"({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]})", "input[0].call_id"},
      {R"({"input": [{"type": "function_call_output", "call_id": "c"}]})", "input[0].output"},
      {R"({"input": [{"type": "reasoning", "summary": [], "encrypted_content": 5}]})",
       "input[0].encrypted_content"},
      {R"({"input": [{"type": "reasoning", "summary": [{"type": "text", "text": "a"}]}]})",
       "input[0].summary[0].type"},
      {R"({"input": [{"type": "item_reference", "id": "msg_unknown"}]})", "input[0].id"},
      {R"({"input": [{"type": "item_reference"}]})", "input[0].id"},
      {R"({"input": [{"type": "item_reference", "id": "msg_a"}, {"role": "user", "content": "b"},
                     {"type": "item_reference", "id": "msg_a"}]})",
       "input[2].id"},
      {R"({"input": "a", "thinking": {"type": "much"}})", "thinking.type"},
      {R"({"input": "a", "background": 1})", "background"},
      {R"({"input": "a", "background": true, "store": false})", "background"},
      {R"({"input": "a", "background": true, "stream": true})", "background"},
      {R"({"input": "a", "conversation": "conv_1"})", "conversation"},
      {R"({"input": "a", "prompt": {"id": "p"}})", "prompt"},
      {R"({"input": "a", "context_management": [{"type": "compaction"}]})", "context_management"},
      {R"({"input": "a", "messages": [{}]})", "messages"},
      {R"({"input": "a", "max_tokens": 4})", "max_tokens"},
      {R"({"input": "a", "n": 2})", "n"},
      {R"({"input": "a", "max_output_tokens": 0})", "max_output_tokens"},
      {R"({"input": "a", "temperature": 3})", "temperature"},
      {R"({"input": "a", "top_logprobs": 21})", "top_logprobs"},
      {R"({"input": "a", "include": ["everything"]})", "include"},
      {R"({"input": "a", "include": [1]})", "include"},
      {R"({"input": "a", "text": {"format": {}}})", "text.format.type"},
      {R"({"input": "a", "text": {"format": {"type": "yaml"}}})", "text.format.type"},
      {R"({"input": "a", "text": {"format": {"type": "json_schema", "name": "x"}}})", "text.format.schema"},
      {R"({"input": "a", "text": {"format": {"type": "json_schema", "name": "x", "schema": {"$ref": "http://x/y"}}}})",
       "text.format.schema"},
      {R"({"input": "a", "text": {"format": {"type": "json_object"}}, "guided_regex": "a"})", "text.format"},
      {R"({"input": "a", "text": {"verbosity": "loud"}})", "text.verbosity"},
      {R"({"input": "a", "text": "plain"})", "text"},
      {R"({"input": "a", "reasoning": {"effort": "huge"}})", "reasoning.effort"},
      {R"({"input": "a", "reasoning": {"summary": "long"}})", "reasoning.summary"},
      {R"({"input": "a", "truncation": "oldest"})", "truncation"},
      {R"({"input": "a", "metadata": {"a": 1}})", "metadata"},
      {R"({"input": "a", "metadata": {"1":"","2":"","3":"","4":"","5":"","6":"","7":"","8":"","9":"","10":"","11":"","12":"",
           "13":"","14":"","15":"","16":"","17":""}})",
       "metadata"},
      {R"({"input": "a", "tools": [{"type": "web_search"}], "tool_choice": "required"})", "tool_choice"},
      {R"({"input": "a", "tools": [{}]})", "tools[0].type"},
      {R"({"input": "a", "tools": [{"type": "custom"}]})", "tools[0].name"},
      {R"({"input": "a", "tools": [{"type": "namespace", "tools": []}]})", "tools[0].name"},
      {R"({"input": "a", "tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function"}]}]})",
       "tools[0].tools[0].name"},
      {R"({"input": "a", "tools": [{"type": "custom", "name": "f", "format": {"type": "xml"}}]})",
       "tools[0].format.type"},
      {R"({"input": "a", "tools": [{"type": "custom", "name": "f", "format": {"type": "grammar"}}]})",
       "tools[0].format.syntax"},
      {R"({"input": "a", "tools": [{"type": "custom", "name": "f",
            "format": {"type": "grammar", "syntax": "regex"}}]})",
       "tools[0].format.definition"},
      {R"({"input": "a", "tools": [{"type": "custom", "name": "f",
            "format": {"type": "grammar", "syntax": "regex", "definition": "[a"}}]})",
       "tools[0].format.definition"},
      {R"({"input": "a", "tools": [{"type": "custom", "name": "f",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: start"}}]})",
       "tools[0].format.definition"},
      {R"({"input": "a", "tools": [{"type": "function"}]})", "tools[0].name"},
      {R"({"input": "a", "tools": [{"type": "function", "name": "f", "parameters": 3}]})",
       "tools[0].parameters"},
      {R"({"input": "a", "tools": [{"type": "function", "name": "f", "strict": true, "parameters": {"$ref": "http://x/y"}}]})",
       "tools[0].parameters"},
      {R"({"input": "a", "tools": ["f"]})", "tools[0]"},
      {R"({"input": "a", "tool_choice": {"type": "web_search_preview"}})", "tool_choice.type"},
      {R"({"input": "a", "tool_choice": "required"})", "tool_choice"},
      {R"({"input": "a", "stream_options": {}})", "stream_options"},
      {R"({"input": "a", "previous_response_id": "resp_unknown"})", "previous_response_id"},
      {R"({"input": "a", "previous_response_id": 4})", "previous_response_id"},
      {R"({"input": "a", "store": "yes"})", "store"},
  };
  for (const auto& [body, param] : cases) {
    INFO(body);
    const json error = bench.error(body);
    CHECK(error["param"] == param);
    CHECK(error["type"] == "invalid_request_error");
    CHECK_THAT(error["message"].get<std::string>(),
               !ContainsSubstring("messages[") && !ContainsSubstring("function."));
  }
  CHECK(bench.engine.requests.empty());
  CHECK(bench.api().responses().size() == 0);
}

TEST_CASE("an input that is too long is refused as the input") {
  ResponsesBench bench;
  const json error = bench.error(R"({"input": ")" + std::string(2100, 'a') + R"("})");
  CHECK(error["param"] == "input");
  CHECK(error["code"] == "context_length_exceeded");
  ResponsesBench mute;
  mute.model.chat_template = nullptr;
  CHECK(mute.error(R"({"input": "a"})")["param"] == "input");
  ResponsesBench strict;
  strict.chat_template = ChatTemplate::parse(kBenchTemplate, "<s>", "</s>");
  const json refused = strict.error(R"({"input": "bad"})");
  CHECK(refused["param"] == "input");
  CHECK(refused["code"] == "chat_template_error");
}

TEST_CASE("truncation auto drops as few of the oldest turns as possible") {
  ResponsesBench bench;
  bench.model.context_tokens = 200;  // a byte is a token; a quarter is left for the answer
  std::string input = R"([{"role": "system", "content": "S"})";
  for (char turn = 'a'; turn <= 'h'; ++turn) {
    input += R"(, {"role": "user", "content": ")" + std::string(20, turn) +
             R"("}, {"role": "assistant", "content": "!"})";
  }
  input += R"(, {"role": "user", "content": "last"}])";
  CHECK(bench.error(R"({"input": )" + input + "}")["code"] == "context_length_exceeded");
  const json response = bench.ask(R"("truncation": "auto")", input);
  CHECK(response["truncation"] == "auto");
  const std::string prompt = bench.prompt();
  CHECK(prompt.starts_with("[system]S[user]"));
  CHECK(prompt.ends_with("[user]last[assistant]"));
  CHECK(prompt.size() <= 150);
  const size_t one_turn = std::string("[user]" + std::string(20, 'x') + "[assistant]!").size();
  CHECK(prompt.size() + one_turn > 150);
  CHECK_THAT(prompt, ContainsSubstring(std::string(20, 'h')));
  CHECK_THAT(prompt, !ContainsSubstring(std::string(20, 'a')));
  // A conversation that fits stays whole; one that cannot be made to fit is refused.
  bench.ask(R"("truncation": "auto")",
            R"([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])");
  CHECK(bench.prompt() == "[user]a[user]b[assistant]");
  const std::string one = R"({"truncation": "auto", "input": ")" + std::string(300, 'a') + R"("})";
  CHECK(bench.error(one)["code"] == "context_length_exceeded");
}

TEST_CASE("input tokens are counted without generating any") {
  ResponsesBench bench;
  const HttpResponse counted =
      count_input_tokens(bench.api(), ApiBench::post(R"({"input": "Hello", "instructions": "S"})"), {});
  CHECK(json::parse(counted.body) ==
        json({{"object", "response.input_tokens"},
              {"input_tokens", std::string("[system]S[user]Hello[assistant]").size()}}));
  CHECK(bench.engine.requests.empty());
  CHECK(count_input_tokens(bench.api(), ApiBench::post(R"({"input": []})"), {}).status == 400);
}

}  // namespace
}  // namespace hearth
