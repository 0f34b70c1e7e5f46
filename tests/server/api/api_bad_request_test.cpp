// Bad requests: each is refused with 400 and the name of the parameter at fault.
#include <string>
#include <vector>

#include "server/api/openai/chat_request.h"
#include "server/api/openai/completion_request.h"
#include "server/json/api_error.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

constexpr RequestLimits kLimits{.n_vocab = 100};

struct BadRequest {
  const char* members;  // of the body, besides a good prompt or good messages
  const char* param;
};

/// Returns the refusal, after checking the properties that all refusals share.
ApiError refusal_of(const std::string& body, bool chat) {
  try {
    const Json json = parse_json_body(body);
    if (chat) {
      parse_chat_request(json, kLimits);
    } else {
      parse_completion_request(json, kLimits);
    }
  } catch (const RequestError& refused) {
    CHECK(refused.error().status == 400);
    CHECK_FALSE(refused.error().message.empty());
    CHECK(refused.error().message.size() < 500);
    return refused.error();
  }
  FAIL("accepted: " << body);
  return {};
}

void check_all(const std::vector<BadRequest>& requests, const std::string& good, bool chat) {
  for (const BadRequest& request : requests) {
    INFO(request.members);
    const std::string body = "{" + good + request.members + "}";
    CHECK(refusal_of(body, chat).param == request.param);
  }
}

const std::vector<BadRequest> kBothEndpoints = {
    {R"("model": 5)", "model"},
    {R"("model": ["a"])", "model"},
    {R"("model": true)", "model"},
    {R"("temperature": "hot")", "temperature"},
    {R"("temperature": -0.1)", "temperature"},
    {R"("temperature": 2.01)", "temperature"},
    {R"("temperature": true)", "temperature"},
    {R"("temperature": [1])", "temperature"},
    {R"("temperature": 1e300)", "temperature"},
    {R"("top_p": -0.5)", "top_p"},
    {R"("top_p": 1.5)", "top_p"},
    {R"("top_p": "1")", "top_p"},
    {R"("top_k": 1.5)", "top_k"},
    {R"("top_k": -2)", "top_k"},
    {R"("top_k": 99999999999)", "top_k"},
    {R"("min_p": 2)", "min_p"},
    {R"("min_p": {})", "min_p"},
    {R"("presence_penalty": 2.5)", "presence_penalty"},
    {R"("presence_penalty": "0")", "presence_penalty"},
    {R"("frequency_penalty": -3)", "frequency_penalty"},
    {R"("frequency_penalty": false)", "frequency_penalty"},
    {R"("repetition_penalty": 0)", "repetition_penalty"},
    {R"("repetition_penalty": -1)", "repetition_penalty"},
    {R"("repeat_penalty": "x")", "repeat_penalty"},
    {R"("repeat_penalty": 1e30)", "repeat_penalty"},
    {R"("prediction": "text")", "prediction"},
    {R"("prediction": {"content": "text"})", "prediction.type"},
    {R"("prediction": {"type": "text", "content": "text"})", "prediction.type"},
    {R"("prediction": {"type": "content"})", "prediction.content"},
    {R"("prediction": {"type": "content", "content": 5})", "prediction.content"},
    {R"("prediction": {"type": "content", "content": ["text"]})", "prediction.content[0]"},
    {R"("prediction": {"type": "content", "content": [{"type": "image_url"}]})",
     "prediction.content[0].type"},
    {R"("prediction": {"type": "content", "content": [{"type": "text"}]})", "prediction.content[0].text"},
    {R"("seed": 1.5)", "seed"},
    {R"("seed": "1")", "seed"},
    {R"("seed": 18446744073709551616)", "seed"},
    {R"("seed": 1e30)", "seed"},
    {R"("n": 0)", "n"},
    {R"("n": -1)", "n"},
    {R"("n": 129)", "n"},
    {R"("n": 1.5)", "n"},
    {R"("n": "2")", "n"},
    {R"("n": [])", "n"},
    {R"("stop": 5)", "stop"},
    {R"("stop": [1])", "stop"},
    {R"("typical_p": 2)", "typical_p"},
    {R"("mirostat": 1)", "mirostat"},
    {R"("xtc_probability": "a")", "xtc_probability"},
    {R"("dry_multiplier": -1)", "dry_multiplier"},
    {R"("dry_sequence_breakers": [""])", "dry_sequence_breakers"},
    {R"("dynatemp_exponent": 0)", "dynatemp_exponent"},
    {R"("min_tokens": -1)", "min_tokens"},
    {R"("bad_words": ["x"])", "bad_words"},
    {R"("chat_template": "x")", "chat_template"},
    {R"("prompt_logprobs": 3)", "prompt_logprobs"},
    {R"("stop": [null])", "stop"},
    {R"("stop": {"a": "b"})", "stop"},
    {R"("stop_token_ids": 5)", "stop_token_ids"},
    {R"("stop_token_ids": [100])", "stop_token_ids"},
    {R"("stop_token_ids": ["5"])", "stop_token_ids"},
    {R"("ignore_eos": 1)", "ignore_eos"},
    {R"("logit_bias": [[5]])", "logit_bias"},
    {R"("logit_bias": [5])", "logit_bias"},
    {R"("logit_bias": [["5", 1]])", "logit_bias"},
    {R"("logit_bias": [[100, 1]])", "logit_bias"},
    {R"("logit_bias": [[5, true]])", "logit_bias"},
    {R"("repeat_last_n": -2)", "repeat_last_n"},
    {R"("n_predict": "5")", "n_predict"},
    {R"("user": 5)", "user"},
    {R"("metadata": "x")", "metadata"},
    {R"("store": 1)", "store"},
    {R"("verbosity": "loud")", "verbosity"},
    {R"("web_search_options": {"search_context_size": "low"})", "web_search_options"},
    {R"("bad_words": ["x"])", "bad_words"},
    {R"("guidance_scale": 1.5)", "guidance_scale"},
    {R"("function_call": {"name": "f"})", "function_call"},
    {R"("grammar_lazy": true)", "grammar_lazy"},
    {R"("logprob_token_ids": [1])", "logprob_token_ids"},
    {R"("parse_tool_calls": false)", "parse_tool_calls"},
    {R"("prompt_embeds": "AAAA")", "prompt_embeds"},
    {R"("reasoning_in_content": true)", "reasoning_in_content"},
    {R"("repetition_detection": {"max_pattern_size": 5})", "repetition_detection"},
    {R"("truncation_side": "right")", "truncation_side"},
    {R"("vllm_xargs": {"a": 1})", "vllm_xargs"},
    {R"("stream": true, "stream_options": {"continuous_usage_stats": 1})",
     "stream_options.continuous_usage_stats"},
    {R"("skip_special_tokens": false)", "skip_special_tokens"},
    {R"("top_n_sigma": 1)", "top_n_sigma"},
    {R"("tfs_z": 0.5)", "tfs_z"},
    {R"("samplers": "kfp")", "samplers"},
    {R"("samplers": ["top_k", "tfs_z"])", "samplers"},
    {R"("samplers": [5])", "samplers"},
    {R"("t_max_predict_ms": 500)", "t_max_predict_ms"},
    {R"("documents": [{"text": "a"}])", "documents"},
    {R"("prompt_logprobs": 1)", "prompt_logprobs"},
    {R"("logit_bias": 5)", "logit_bias"},
    {R"("logit_bias": {"x": 1})", "logit_bias"},
    {R"("logit_bias": {"": 1})", "logit_bias"},
    {R"("logit_bias": {"5 ": 1})", "logit_bias"},
    {R"("logit_bias": {"-1": 1})", "logit_bias"},
    {R"("logit_bias": {"100": 1})", "logit_bias"},
    {R"("logit_bias": {"99999999999999999999": 1})", "logit_bias"},
    {R"("logit_bias": {"5": 101})", "logit_bias"},
    {R"("logit_bias": {"5": -100.5})", "logit_bias"},
    {R"("logit_bias": {"5": "1"})", "logit_bias"},
    {R"("logit_bias": {"5": null})", "logit_bias"},
    {R"("stream": "true")", "stream"},
    {R"("stream": 1)", "stream"},
    {R"("stream_options": {})", "stream_options"},
    {R"("stream": false, "stream_options": {"include_usage": true})", "stream_options"},
    {R"("stream": true, "stream_options": true)", "stream_options"},
    {R"("stream": true, "stream_options": {"include_usage": 1})", "stream_options.include_usage"},
    {R"("repeat_penalty": 1e-38)", "repeat_penalty"},
    {R"("truncate_prompt_tokens": 0)", "truncate_prompt_tokens"},
    {R"("truncate_prompt_tokens": -2)", "truncate_prompt_tokens"},
    {R"("truncate_prompt_tokens": "all")", "truncate_prompt_tokens"},
    {R"("max_tokens": -2)", "max_tokens"},
    {R"("max_tokens": "16")", "max_tokens"},
    {R"("max_tokens": 1.5)", "max_tokens"},
    {R"("max_tokens": 1e300)", "max_tokens"},
    {R"("user": "u", "n": 3, "user": "u")", "user"},
};

TEST_CASE("bad parameters of both endpoints are refused by name") {
  check_all(kBothEndpoints, R"("prompt": "p", )", false);
  check_all(kBothEndpoints, R"("messages": [{"role": "user", "content": "c"}], )", true);
}

TEST_CASE("bad parameters of completions are refused by name") {
  check_all({{R"("prompt": 5)", "prompt"},
             {R"("prompt": true)", "prompt"},
             {R"("prompt": {})", "prompt"},
             {R"("prompt": [])", "prompt"},
             {R"("prompt": [[]])", "prompt"},
             {R"("prompt": [[1], []])", "prompt"},
             {R"("prompt": ["a", 1])", "prompt"},
             {R"("prompt": [1, "a"])", "prompt"},
             {R"("prompt": [[1], "a"])", "prompt"},
             {R"("prompt": [null])", "prompt"},
             {R"("prompt": [true])", "prompt"},
             {R"("prompt": [{}])", "prompt"},
             {R"("prompt": [1.5])", "prompt"},
             {R"("prompt": [100])", "prompt"},
             {R"("prompt": [-1])", "prompt"},
             {R"("prompt": [1e19])", "prompt"},
             {R"("prompt": [99999999999999999999999])", "prompt"},
             {R"("prompt": [[[1]]])", "prompt"},
             {R"("prompt": [[1, null]])", "prompt"},
             {R"("best_of": 0.5)", "best_of"},
             {R"("best_of": -1)", "best_of"},
             {R"("best_of": 21)", "best_of"},
             {R"("best_of": "2")", "best_of"},
             {R"("best_of": 2, "n": 3)", "best_of"},
             {R"("best_of": 2, "stream": true)", "best_of"},
             {R"("echo": "yes")", "echo"},
             {R"("echo": 0)", "echo"},
             {R"("logprobs": true)", "logprobs"},
             {R"("logprobs": 6)", "logprobs"},
             {R"("logprobs": -1)", "logprobs"},
             {R"("logprobs": "1")", "logprobs"},
             {R"("suffix": "tail", "echo": true)", "echo"},
             {R"("suffix": 5)", "suffix"},
             {R"("add_special_tokens": "no")", "add_special_tokens"}},
            "", false);
  std::string prompts = "\"a\"";
  for (int i = 0; i < 20; ++i) prompts += ", \"a\"";
  CHECK(refusal_of("{\"n\": 128, \"prompt\": [" + prompts + "]}", false).param == "n");
}

TEST_CASE("bad parameters of chat are refused by name") {
  check_all(
      {{R"("max_tokens": 0)", "max_tokens"},
       {R"("max_completion_tokens": 0)", "max_completion_tokens"},
       {R"("max_completion_tokens": "5")", "max_completion_tokens"},
       {R"("max_completion_tokens": 2.5)", "max_completion_tokens"},
       {R"("echo": true)", "echo"},
       {R"("best_of": 2)", "best_of"},
       {R"("suffix": "x")", "suffix"},
       {R"("logprobs": 1)", "logprobs"},
       {R"("logprobs": "true")", "logprobs"},
       {R"("top_logprobs": 5)", "top_logprobs"},
       {R"("logprobs": false, "top_logprobs": 5)", "top_logprobs"},
       {R"("logprobs": true, "top_logprobs": 21)", "top_logprobs"},
       {R"("logprobs": true, "top_logprobs": -1)", "top_logprobs"},
       {R"("logprobs": true, "top_logprobs": true)", "top_logprobs"},
       {R"("response_format": "json")", "response_format"},
       {R"("response_format": {})", "response_format"},
       {R"("response_format": {"type": "json_schema"})", "response_format.json_schema"},
       {R"("response_format": {"type": "json_schema", "json_schema": {"name": "x"}})",
        "response_format.json_schema.schema"},
       {R"("response_format": {"type": "json_schema", "json_schema": {"name": 5, "schema": {}}})",
        "response_format.json_schema.name"},
       {R"("response_format": {"type": "json_object"}, "guided_regex": "a")", "guided_regex"},
       {R"("guided_json": 5)", "guided_json"},
       {R"("guided_choice": [])", "guided_choice"},
       {R"("guided_choice": ["a", ""])", "guided_choice"},
       {R"("structured_outputs": {"structural_tag": {}})", "structured_outputs.structural_tag"},
       {R"("format": "xml")", "format"},
       {R"("reasoning_effort": "extreme")", "reasoning_effort"},
       {R"("enable_thinking": "no")", "enable_thinking"},
       {R"("thinking": true)", "thinking"},
       {R"("thinking": {"type": "much"})", "thinking.type"},
       {R"("reasoning": "low")", "reasoning"},
       {R"("reasoning": {"effort": "extreme"})", "reasoning.effort"},
       {R"("reasoning": {"max_tokens": "5"})", "reasoning.max_tokens"},
       {R"("reasoning_budget": -2)", "reasoning_budget"},
       {R"("thinking_budget": "5")", "thinking_budget"},
       {R"("thinking_budget_tokens": 1.5)", "thinking_budget_tokens"},
       {R"("thinking_token_budget": true)", "thinking_token_budget"},
       {R"("thinking": {"type": "enabled", "budget_tokens": -2})", "thinking.budget_tokens"},
       {R"("reasoning": {"exclude": true})", "reasoning.exclude"},
       {R"("continue_final_message": true)", "continue_final_message"},
       {R"("parallel_tool_calls": "x")", "parallel_tool_calls"},
       {R"("tools": [{"type": "function", "function": {"name": "f", "parameters": []}}])",
        "tools[0].function.parameters"},
       {R"("tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": {"type": "function", "function": {"name": "g"}})",
        "tool_choice"},
       {R"("tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": {"type": "allowed_tools", "tools": []})",
        "tool_choice.tools"},
       {R"("response_format": {"type": "xml"})", "response_format"},
       {R"("response_format": {"type": 5})", "response_format.type"},
       {R"("tools": {})", "tools"},
       {R"("tools": ["a"])", "tools[0]"},
       {R"("tools": [{"type": "retrieval"}])", "tools[0].type"},
       {R"("tools": [{"type": "function"}])", "tools[0].function"},
       {R"("tools": [{"type": "function", "function": {}}])", "tools[0].function"},
       {R"("tools": [{"type": "function", "function": {"name": 1}}])", "tools[0].function.name"},
       {R"("tool_choice": "required")", "tool_choice"},
       {R"("tool_choice": "maybe")", "tool_choice"},
       {R"("tool_choice": 1)", "tool_choice"},
       {R"("tool_choice": {"type": "function", "function": {"name": "f"}})", "tool_choice"},
       {R"("functions": [{"name": "f"}])", "functions"},
       {R"("modalities": ["text", "audio"])", "modalities"},
       {R"("chat_template_kwargs": [])", "chat_template_kwargs"},
       {R"("add_generation_prompt": "no")", "add_generation_prompt"}},
      R"("messages": [{"role": "user", "content": "c"}], )", true);
}

TEST_CASE("bad messages are refused with the place of the fault") {
  check_all(
      {{R"("model": "m")", "messages"},
       {R"("messages": null)", "messages"},
       {R"("messages": "hi")", "messages"},
       {R"("messages": {})", "messages"},
       {R"("messages": [])", "messages"},
       {R"("messages": ["hi"])", "messages[0]"},
       {R"("messages": [null])", "messages[0]"},
       {R"("messages": [{"content": "x"}])", "messages[0].role"},
       {R"("messages": [{"role": "robot", "content": "x"}])", "messages[0].role"},
       {R"("messages": [{"role": 1, "content": "x"}])", "messages[0].role"},
       {R"("messages": [{"role": "user"}])", "messages[0].content"},
       {R"("messages": [{"role": "user", "content": null}])", "messages[0].content"},
       {R"("messages": [{"role": "assistant", "content": null}])", "messages[0].content"},
       {R"("messages": [{"role": "user", "content": 5}])", "messages[0].content"},
       {R"("messages": [{"role": "user", "content": {}}])", "messages[0].content"},
       {R"("messages": [{"role": "user", "content": [5]}])", "messages[0].content[0]"},
       {R"("messages": [{"role": "user", "content": [{"text": "x"}]}])", "messages[0].content[0].type"},
       {R"("messages": [{"role": "user", "content": [{"type": "text"}]}])", "messages[0].content[0].text"},
       {R"("messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}])",
        "messages[0].content[0].text"},
       {R"("messages": [{"role": "user", "content": "a"}, {"role": "user", "content":
                 [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "u"}}]}])",
        "messages[1].content[1].type"},
       {R"("messages": [{"role": "user", "content": "x", "name": 5}])", "messages[0].name"},
       {R"("messages": [{"role": "tool", "content": "x", "tool_call_id": 5}])", "messages[0].tool_call_id"},
       {R"("messages": [{"role": "assistant", "content": "x", "tool_calls": {}}])", "messages[0].tool_calls"},
       {R"("messages": [{"role": "assistant", "tool_calls": ["x"]}])", "messages[0].tool_calls[0]"},
       {R"("messages": [{"role": "assistant", "tool_calls": [{}]}])", "messages[0].tool_calls[0].function"},
       {R"("messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}])",
        "messages[0].tool_calls[0].function.name"},
       {R"("messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 5}}]}])",
        "messages[0].tool_calls[0].function.arguments"}},
      "", true);
}

TEST_CASE("a body that is no JSON object is refused") {
  const std::string deep(100, '[');
  const std::vector<std::string> bodies = {
      "",
      " ",
      "{",
      "[]",
      "null",
      "\"text\"",
      "5",
      "not json",
      "{\"prompt\": \"a\"",
      "{\"prompt\": \"a\",}",
      "{\"prompt\": 'a'}",
      "{\"prompt\": \"a\"} trailing",
      "{\"temperature\": NaN}",
      "{\"temperature\": Infinity}",
      "{\"temperature\": 1e999}",
      "{\"temperature\": 01}",
      "{\"prompt\": \"\xFF\"}",
      "{\"prompt\": \"\xC3\"}",
      "{\"prompt\": \"\xED\xA0\x80\"}",
      "{\"prompt\": \"\\ud800\"}",
      "{\"prompt\": \"\\udc00\"}",
      "{\"prompt\": \"\\ud800\\u0041\"}",
      "{\"prompt\": \"a\nb\"}",
      "{\"prompt\": [" + deep,
      "{\"x\": {\"y\": 1, \"y\": 2}}",
      std::string("\0", 1),
      std::string("{\"prompt\": \"a\"}\0", 16),
  };
  for (const std::string& body : bodies) {
    INFO(body);
    const ApiError refusal = refusal_of(body, false);
    // The text must be valid in a JSON body whatever bytes it repeats.
    CHECK(Json::parse(error_json(refusal))["error"]["type"] == "invalid_request_error");
  }
  CHECK(refusal_of("{\"n\": 1, \"n\": 1}", false).param == "n");
}

TEST_CASE("nesting and numbers of values are refused above their limits, and not below") {
  const auto nested = [](int depth) {
    return "{\"x\": " + std::string(static_cast<size_t>(depth - 1), '[') +
           std::string(static_cast<size_t>(depth - 1), ']') + ", \"prompt\": \"a\"}";
  };
  CHECK_NOTHROW(parse_json_body(nested(kMaxJsonDepth)));
  CHECK_THAT(refusal_of(nested(kMaxJsonDepth + 1), false).message, ContainsSubstring("nested deeper"));
  std::string many = "{\"x\": [0";
  for (size_t i = 3; i < kMaxJsonValues; ++i) many += ",0";
  CHECK_NOTHROW(parse_json_body(many + "]}"));
  CHECK_THAT(refusal_of(many + ",0]}", false).message, ContainsSubstring("JSON values"));
}

TEST_CASE("every list and text that is copied or searched is bounded") {
  const auto list = [](size_t n, const std::string& item) {
    std::string text = "[" + item;
    for (size_t i = 1; i < n; ++i) text += "," + item;
    return text + "]";
  };
  const auto refused = [](const std::string& member, bool chat, const std::string& param) {
    const std::string rest = chat ? R"("messages": [{"role": "user", "content": "a"}])" : R"("prompt": "a")";
    const std::string body =
        "{" + (member.starts_with("\"prompt\"") ? std::string() : rest + ", ") + member + "}";
    const ApiError refusal = refusal_of(body, chat);
    CAPTURE(member.substr(0, 40));
    CHECK(refusal.status == 400);
    CHECK(refusal.param == param);
    CHECK(refusal.message.size() < 500);
  };
  const std::string tool = R"({"type":"function","function":{"name":"f"}})";
  refused(R"("prompt": )" + list(2049, "\"a\""), false, "prompt");
  refused(R"("n": 128, "best_of": 129)", false, "best_of");
  refused(R"("stop": )" + list(65, "\"a\""), false, "stop");
  refused(R"("stop": ["a", ")" + std::string(1025, 'a') + R"("])", false, "stop");
  refused(R"("stop_token_ids": )" + list(257, "5"), false, "stop_token_ids");
  refused(R"("dry_sequence_breakers": )" + list(65, "\"a\""), false, "dry_sequence_breakers");
  refused(R"("guided_choice": )" + list(10'001, "\"a\""), false, "guided_choice");
  refused(R"("tools": )" + list(1025, tool), true, "tools");
}

}  // namespace
}  // namespace hearth
