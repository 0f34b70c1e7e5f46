// Good requests: defaults, the limits of ranges, and fields of other servers that have no meaning here.
#include "server/api/openai/chat_request.h"
#include "server/api/openai/completion_request.h"
#include "server/api/request/prompt_tokens.h"
#include "tests/server/api/api_vocabulary.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

constexpr RequestLimits kReadLimits{.n_vocab = 100};

CompletionRequest completion(const std::string& body) {
  return parse_completion_request(parse_json_body(body), kReadLimits);
}
ChatRequest chat(const std::string& members) {
  return parse_chat_request(
      parse_json_body(R"({"messages": [{"role": "user", "content": "hi"}])" + members + "}"), kReadLimits);
}

TEST_CASE("absent and null parameters have OpenAI's defaults") {
  const std::string nulls =
      R"({"prompt": null, "model": null, "max_tokens": null, "temperature": null, "top_p": null, "n": null,
          "best_of": null, "stop": null, "logit_bias": null, "logprobs": null, "echo": null, "seed": null,
          "stream": null, "stream_options": null, "suffix": null, "presence_penalty": null,
          "frequency_penalty": null, "top_k": null, "min_p": null, "repetition_penalty": null, "user": null})";
  for (const std::string& body : {std::string("{}"), nulls}) {
    const CompletionRequest request = completion(body);
    CHECK(std::get<std::string>(request.prompts.at(0)).empty());
    CHECK(request.generation.model.empty());
    CHECK_FALSE(request.max_tokens);
    CHECK(request.generation.sampling.temperature == 1);
    CHECK(request.generation.sampling.top_p == 1);
    CHECK(request.generation.sampling.top_k == 0);
    CHECK(request.generation.sampling.repetition_penalty == 1);
    CHECK(request.generation.n == 1);
    CHECK(request.best_of == 1);
    CHECK(request.generation.stop.empty());
    CHECK_FALSE(request.generation.seed);
    CHECK_FALSE(request.logprobs);
    CHECK_FALSE(request.generation.stream);
  }
}

TEST_CASE("parameters of other servers are accepted at their neutral values") {
  const std::string members =
      R"("user": "u", "store": true, "metadata": {"a": "b"}, "service_tier": "auto", "prediction": {}, "verbosity": "low",
         "bad_words": [], "length_penalty": 1.0, "use_beam_search": false, "guidance_scale": 1, "tfs_z": 1.0, "top_a": 0,
         "epsilon_cutoff": 0, "eta_cutoff": 0.0, "skip_special_tokens": true, "cache_prompt": true, "id_slot": -1,
         "function_call": "auto", "grammar_lazy": false, "logprob_token_ids": [], "parse_tool_calls": true,
         "prompt_embeds": null, "reasoning_budget": -1, "repetition_detection": {}, "truncation_side": "left", "vllm_xargs": {},
         "stream": true, "stream_options": {"continuous_usage_stats": true, "include_obfuscation": false},
         "top_n_sigma": -1, "negative_prompt": "", "reasoning_format": "auto", "nobody_knows_this": 5)";
  CHECK(completion("{" + members + "}").generation.n == 1);
  CHECK(chat(", " + members).generation.n == 1);
}

TEST_CASE("a prediction is a text, or text parts that are joined") {
  CHECK(chat(R"(, "prediction": {"type": "content", "content": "ab"})").generation.prediction == "ab");
  CHECK(chat(R"(, "prediction": {"type": "content", "content":
            [{"type": "text", "text": "ab"}, {"type": "text", "text": "c"}]})")
            .generation.prediction == "abc");
  CHECK(completion(R"({"prediction": {"type": "content", "content": ""}})").generation.prediction == "");
  CHECK_FALSE(chat(R"(, "prediction": null)").generation.prediction);
  CHECK_FALSE(chat(R"(, "prediction": {})").generation.prediction);
}

TEST_CASE("llama.cpp's names for length, bias and window are accepted") {
  const CompletionRequest request =
      completion(R"({"n_predict": 7, "logit_bias": [[5, 1.5], [6, false]], "repeat_last_n": 64})");
  CHECK(request.max_tokens == 7);
  CHECK(request.generation.sampling.repetition_last_n == 64);
  CHECK(request.generation.sampling.logit_bias ==
        std::vector<std::pair<int32_t, float>>{{5, 1.5F}, {6, -100.0F}});
  CHECK(completion(R"({"n_predict": 7, "max_tokens": 3})").max_tokens == 3);
  CHECK(chat(R"(, "n_predict": 7)").max_tokens == 7);
  CHECK_FALSE(chat(R"(, "n_predict": -1)").max_tokens);
}

TEST_CASE("samplers that are not listed are switched off") {
  const std::string asked =
      R"("temperature": 0.5, "top_k": 40, "top_p": 0.9, "min_p": 0.1, "typical_p": 0.7, "repeat_penalty": 1.2,
         "presence_penalty": 1, "dry_multiplier": 1, "xtc_probability": 0.5, "dynatemp_range": 0.1)";
  const SamplingParams some =
      completion("{" + asked + R"(, "samplers": ["top_k", "top_p", "infill"]})").generation.sampling;
  CHECK(some.top_k == 40);
  CHECK(some.top_p == 0.9F);
  CHECK(some.temperature == 1);
  CHECK(some.min_p == 0);
  CHECK(some.typical_p == 1);
  CHECK(some.repetition_penalty == 1);
  CHECK(some.presence_penalty == 0);
  CHECK(some.dry.multiplier == 0);
  CHECK(some.xtc_probability == 0);
  CHECK(some.dynatemp_range == 0);
  const SamplingParams others =
      completion("{" + asked +
                 R"(, "samplers": ["dry", "penalties", "temperature", "typ_p", "min_p", "xtc"]})")
          .generation.sampling;
  CHECK(others.top_k == 0);
  CHECK(others.top_p == 1);
  CHECK(others.temperature == 0.5F);
  CHECK(others.min_p == 0.1F);
  CHECK(others.typical_p == 0.7F);
  CHECK(others.repetition_penalty == 1.2F);
  CHECK(others.dry.multiplier == 1);
  CHECK(others.xtc_probability == 0.5F);
}

TEST_CASE("values at the ends of their ranges are accepted") {
  const CompletionRequest request = completion(
      R"({"prompt": [0, 99.0], "max_tokens": 0, "temperature": 2, "top_p": 0, "top_k": -1, "min_p": 1,
          "presence_penalty": -2, "frequency_penalty": 2, "n": 20, "best_of": 20, "logprobs": 5, "echo": true,
          "seed": -9223372036854775808, "stop": ["a", "b", "c", "\u0000"], "logit_bias": {"0": -100, "99": 100},
          "suffix": "", "stream": false})");
  CHECK(std::get<std::vector<int32_t>>(request.prompts.at(0)) == std::vector<int32_t>{0, 99});
  CHECK(request.max_tokens == 0);
  CHECK(request.generation.sampling.top_k == 1);  // the meaning of top_p 0
  CHECK(request.generation.sampling.top_p == 1);
  CHECK(request.generation.sampling.min_p < 1);
  CHECK(request.best_of == 20);
  CHECK(request.generation.seed == uint64_t{1} << 63);
  CHECK(request.generation.stop.size() == 4);
  CHECK(request.generation.sampling.logit_bias.size() == 2);
  CHECK(completion(R"({"temperature": 1e-30})").generation.sampling.temperature == 0);
  CHECK(completion(R"({"max_tokens": 9223372036854775807})").max_tokens == 9223372036854775807);
  CHECK(completion(R"({"n": 3, "best_of": 0})").best_of == 3);
}

TEST_CASE("numbers above 0 stay above 0, however small") {
  const SamplingParams sampling =
      completion(R"({"dynatemp_exponent": 5e-324, "typical_p": 1e-320})").generation.sampling;
  CHECK(sampling.dynatemp_exponent > 0);
  CHECK(sampling.typical_p > 0);
}

TEST_CASE("prompts come in four forms") {
  CHECK(completion(R"({"prompt": "a"})").prompts.size() == 1);
  CHECK(completion(R"({"prompt": ["a", "", "c"]})").prompts.size() == 3);
  CHECK(completion(R"({"prompt": [1, 2, 3]})").prompts.size() == 1);
  CHECK(completion(R"({"prompt": [[1], [2, 3]]})").prompts.size() == 2);
}

TEST_CASE("unknown parameters are ignored") {
  CHECK_NOTHROW(chat(R"(, "user": "me", "store": true, "metadata": {"a": "b"}, "service_tier": "auto",
      "parallel_tool_calls": true, "reasoning_effort": "low", "verbosity": "low", "made_up": [1, {"x": null}],
      "response_format": {"type": "text"}, "tool_choice": "auto", "tools": [], "modalities": ["text"])"));
}

TEST_CASE("thinking can be switched by other servers' names for it") {
  const auto variables = [](const std::string& member) { return chat(", " + member).template_arguments; };
  const Json on = {{"enable_thinking", true}, {"thinking", true}};
  const Json off = {{"enable_thinking", false}, {"thinking", false}};
  CHECK(variables(R"("enable_thinking": true)") == on);
  CHECK(variables(R"("enable_thinking": false)") == off);
  CHECK(variables(R"("thinking": {"type": "enabled", "budget_tokens": 100})") == on);
  CHECK(variables(R"("thinking": {"type": "disabled"})") == off);
  CHECK(variables(R"("reasoning": {"enabled": false})") == off);
  CHECK(variables(R"("reasoning": {"effort": "low"})") == Json({{"reasoning_effort", "low"}}));
  CHECK(variables(R"("reasoning": {"effort": "none"})") ==
        Json({{"reasoning_effort", "none"}, {"enable_thinking", false}, {"thinking", false}}));
  CHECK(variables(R"("reasoning": {}, "thinking": null)") == Json::object());
  CHECK(variables(R"("enable_thinking": true, "chat_template_kwargs": {"enable_thinking": false})") ==
        Json({{"enable_thinking", false}, {"thinking", true}}));
}

TEST_CASE("max_completion_tokens overrides its older name") {
  CHECK_FALSE(chat("").max_tokens);
  CHECK(chat(R"(, "max_tokens": 5)").max_tokens == 5);
  CHECK(chat(R"(, "max_completion_tokens": 6)").max_tokens == 6);
  CHECK(chat(R"(, "max_completion_tokens": 6, "max_tokens": 5)").max_tokens == 6);
  CHECK(chat(R"(, "max_completion_tokens": null, "max_tokens": 5)").max_tokens == 5);
}

TEST_CASE("tools are shown to the template unless tool_choice is none") {
  const std::string tools = R"(, "tools": [{"type": "function", "function": {"name": "f", "z": 1, "a": 2}}])";
  CHECK(chat(tools).choice.tools.dump() == R"([{"type":"function","function":{"name":"f","z":1,"a":2}}])");
  CHECK(chat(tools).choice.mode == ToolMode::kAuto);
  CHECK(chat(tools + R"(, "tool_choice": "none")").choice.tools.is_null());
  CHECK(chat("").choice.tools.is_null());
  CHECK(chat(tools + R"(, "tool_choice": "required")").choice.mode == ToolMode::kRequired);
  const ToolChoice named =
      chat(tools + R"(, "tool_choice": {"type": "function", "function": {"name": "f"}})").choice;
  CHECK(named.mode == ToolMode::kRequired);
  CHECK(named.allowed == std::vector<std::string>{"f"});
  CHECK_FALSE(named.parallel);  // one call, whatever parallel_tool_calls is
  const ToolChoice allowed =
      chat(tools + R"(, "parallel_tool_calls": false, "tool_choice": {"type": "allowed_tools",
      "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]}})")
          .choice;
  CHECK(allowed.mode == ToolMode::kAuto);
  CHECK(allowed.allowed == std::vector<std::string>{"f"});
  CHECK_FALSE(allowed.parallel);
}

TEST_CASE("messages reach the template in plain form") {
  const ChatRequest request = parse_chat_request(parse_json_body(R"({"messages": [
      {"role": "developer", "content": "be kind"},
      {"role": "user", "name": null, "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
      {"role": "assistant", "tool_calls": [{"id": "1", "type": "function",
          "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
      {"role": "tool", "tool_call_id": "1", "content": "42"},
      {"role": "assistant", "content": "x", "tool_calls": null, "reasoning_content": "r"}]})"),
                                                 kReadLimits);
  CHECK(request.messages.dump() ==
        R"([{"role":"system","content":"be kind"},{"role":"user","content":"a\nb"},)"
        R"({"role":"assistant","tool_calls":[{"id":"1","type":"function","function":)"
        R"({"name":"f","arguments":"{\"x\": 1}"}}],"content":null},)"
        R"({"role":"tool","tool_call_id":"1","content":"42","name":"f"},)"
        R"({"role":"assistant","content":"x","reasoning_content":"r"}])");
}

TEST_CASE("text prompts get the begin token only if the model wants one and the text has none") {
  const ApiVocabulary plain;
  const ApiVocabulary with_begin({}, true);
  CHECK(prepare_prompt(Prompt("hi"), true, plain).tokens == std::vector<int32_t>{'h', 'i'});
  const PreparedPrompt hidden = prepare_prompt(Prompt("hi"), true, with_begin);
  CHECK(hidden.tokens == std::vector<int32_t>{ApiVocabulary::kBos, 'h', 'i'});
  CHECK(hidden.n_hidden == 1);
  CHECK(prepare_prompt(Prompt("hi"), false, with_begin).tokens.size() == 2);
  const PreparedPrompt spelled = prepare_prompt(Prompt("<s>hi"), false, with_begin);
  CHECK(spelled.tokens == std::vector<int32_t>{ApiVocabulary::kBos, 'h', 'i'});
  CHECK(spelled.n_hidden == 0);
}

TEST_CASE("messages start at control tokens that follow an end token") {
  const ApiVocabulary vocabulary;
  const auto starts = [&](std::string_view text) {
    return message_starts(vocabulary.encode(text, false, true), vocabulary);
  };
  CHECK(starts("just text").empty());
  CHECK(starts("<|turn|>a</s>").empty());
  CHECK(starts("<s><|turn|>a</s><|turn|>b") == std::vector<int>{4});
  CHECK(starts("<|turn|>a</s>\n<|turn|>b</s>\n<|turn|>") == std::vector<int>{4, 8});
  CHECK(starts("<|turn|>a</s> \n<|turn|>b").empty());  // two tokens between them
  CHECK(starts("<|turn|>a</s></s>b").empty());
  CHECK(starts("<|turn|>a</s><|turn|>b</s><|turn|>c</s><|turn|>d</s><|turn|>") ==
        std::vector<int>{3, 6, 9, 12});
  CHECK(ends_of_prefixes({3, 6, 9, 12, 15}) == std::vector<int>{3, 12, 15});
  CHECK(ends_of_prefixes({3, 6, 9}) == std::vector<int>{3, 6, 9});
  CHECK(ends_of_prefixes({}).empty());
}

TEST_CASE("an empty prompt becomes the model's start of text") {
  const PreparedPrompt empty = prepare_prompt(Prompt(""), true, ApiVocabulary());
  CHECK(empty.tokens == std::vector<int32_t>{ApiVocabulary::kEndOfText});
  CHECK(empty.text.empty());
  CHECK(empty.starts_text);
  CHECK(prepare_prompt(Prompt(""), true, ApiVocabulary({}, true)).tokens ==
        std::vector<int32_t>{ApiVocabulary::kBos});
}

}  // namespace
}  // namespace hearth
