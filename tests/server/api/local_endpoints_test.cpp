// Endpoints for clients of other local servers: tokens of texts, rendered templates, facts about the server,
// llama.cpp's own completions.
#include "server/api/llamacpp/native_completions.h"
#include "server/api/llamacpp/server_facts.h"
#include "server/api/llamacpp/tokenize.h"
#include "tests/server/api/api_bench.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

using nlohmann::json;
template <typename Handler>
json answer(ApiBench& bench, Handler handler, const std::string& body = {}) {
  const auto response = bench.call(handler, body);  // HttpResponse or Answered
  INFO(response.body);
  CHECK(response.status == 200);
  return json::parse(response.body);
}

template <typename Handler>
json refusal(ApiBench& bench, Handler handler, const std::string& body) {
  const auto response = bench.call(handler, body);  // HttpResponse or Answered
  CHECK(response.status == 400);
  return json::parse(response.body)["error"];
}

TEST_CASE("/tokenize gives the tokens of a text in llama.cpp's form") {
  ApiBench bench({"one", "\xC3"}, true);
  CHECK(answer(bench, tokenize, R"({"content": "one<s>"})") == json{{"tokens", {260, 256}}});
  CHECK(answer(bench, tokenize, R"({"content": "a", "add_special": true})") == json{{"tokens", {256, 'a'}}});
  CHECK(answer(bench, tokenize, R"({"content": "<s>", "parse_special": false})")["tokens"].size() == 3);
  CHECK(answer(bench, tokenize, R"({"content": ["a", 260, "b"]})") == json{{"tokens", {'a', 260, 'b'}}});
  CHECK(answer(bench, tokenize, R"({"content": "", "model": "tiny"})") == json{{"tokens", json::array()}});
  CHECK(answer(bench, tokenize, R"({"content": "oneé", "with_pieces": true})") ==
        json::parse(R"({"tokens": [{"id": 260, "piece": "one"}, {"id": 195, "piece": [195]},
                                   {"id": 169, "piece": [169]}]})"));
}

TEST_CASE("/tokenize gives the tokens of a text or a conversation in vLLM's form") {
  ApiBench bench({"one"}, true);
  CHECK(answer(bench, tokenize, R"({"prompt": "one", "return_token_strs": true})") ==
        json::parse(
            R"({"count": 2, "max_model_len": 64, "tokens": [256, 260], "token_strs": ["<s>", "one"]})"));
  CHECK(answer(bench, tokenize, R"({"prompt": "one", "add_special_tokens": false})") ==
        json::parse(R"({"count": 1, "max_model_len": 64, "tokens": [260], "token_strs": null})"));
  const json chat =
      answer(bench, tokenize,
             R"({"messages": [{"role": "user", "content": "one"}], "add_generation_prompt": false})");
  CHECK(chat["count"] == 7);  // [user] and the word, no begin token
  CHECK(chat["tokens"].back() == 260);
}

TEST_CASE("input that cannot be tokenized is refused with the parameter's name") {
  ApiBench bench;
  CHECK(refusal(bench, tokenize, "{}")["param"] == "content");
  CHECK(refusal(bench, tokenize, R"({"content": "a", "prompt": "b"})")["param"] == "prompt");
  CHECK(refusal(bench, tokenize, R"({"content": 5})")["param"] == "content");
  CHECK(refusal(bench, tokenize, R"({"content": [999]})")["param"] == "content");
  CHECK(refusal(bench, tokenize, R"({"prompt": ["a"]})")["param"] == "prompt");
  CHECK(refusal(bench, detokenize, "{}")["param"] == "tokens");
  CHECK(refusal(bench, detokenize, R"({"tokens": [-1]})")["param"] == "tokens");
  CHECK(bench.call(tokenize, R"({"content": "a", "model": "other"})").status == 404);
}

TEST_CASE("requests whose answer would have hundreds of megabytes are refused") {
  ApiBench bench;
  const std::string text(300'000, 'a');
  CHECK(refusal(bench, tokenize, json{{"content", text}, {"with_pieces", true}}.dump())["param"] ==
        "content");
  CHECK(refusal(bench, tokenize, json{{"content", {"b", text}}}.dump())["param"] == "content");
  CHECK(refusal(bench, tokenize, json{{"prompt", text}}.dump())["param"] == "prompt");
  CHECK(refusal(bench, tokenize,
                json{{"messages", {{{"role", "user"}, {"content", text}}}}}.dump())["param"] == "messages");
  CHECK(refusal(bench, detokenize, json{{"tokens", std::vector<int>(300'000, 5)}}.dump())["param"] ==
        "tokens");
}

TEST_CASE("/detokenize gives the text of tokens, with control tokens as they are spelled") {
  ApiBench bench({"one"});
  CHECK(answer(bench, detokenize, R"({"tokens": [256, 260, 33]})") ==
        json{{"content", "<s>one!"}, {"prompt", "<s>one!"}});
}

TEST_CASE("/apply-template gives a conversation as the template writes it") {
  ApiBench bench;
  CHECK(
      answer(
          bench, apply_template,
          R"({"messages": [{"role": "user", "content": "Say"}], "chat_template_kwargs": {"mood": "dry"}})") ==
      json{{"prompt", "[user]Say<mood dry>[assistant]"}});
  CHECK(refusal(bench, apply_template, R"({"messages": [{"role": "user", "content": "bad"}]})")["code"] ==
        "chat_template_error");
}

TEST_CASE("/props and /slots give the server's facts") {
  ApiBench bench;
  bench.engine.now.n_slots = 2;
  bench.engine.now.n_running = 1;
  const json facts = answer(bench, props);
  CHECK(facts["total_slots"] == 2);
  CHECK(facts["default_generation_settings"]["n_ctx"] == 64);
  CHECK(facts["default_generation_settings"]["params"]["temperature"] == 1);
  CHECK(facts["chat_template"] == kBenchTemplate);
  CHECK(facts["bos_token"] == "<s>");
  CHECK(facts["speculation"] == json{{"on", false}, {"drafted_tokens", 0}, {"accepted_tokens", 0}});
  CHECK(facts["modalities"] == json{{"vision", false}, {"audio", false}});
  CHECK(answer(bench, slots) ==
        json::parse(R"([{"id": 0, "n_ctx": 64, "speculative": false, "is_processing": true},
                        {"id": 1, "n_ctx": 64, "speculative": false, "is_processing": false}])"));
  bench.engine.now.speculates = true;
  bench.engine.now.n_drafted_tokens = 7;
  bench.engine.now.n_accepted_tokens = 4;
  CHECK(answer(bench, slots)[1]["speculative"] == true);
  CHECK(answer(bench, props)["speculation"] ==
        json{{"on", true}, {"drafted_tokens", 7}, {"accepted_tokens", 4}});
  const json info = answer(bench, tokenizer_info);
  CHECK(info["eos_token"] == "</s>");
  CHECK(info["chat_template"] == kBenchTemplate);
  CHECK(info["added_tokens_decoder"]["259"] == json{{"content", "<|turn|>"}, {"special", true}});
}

TEST_CASE("a server of a model without a template says so") {
  ApiBench bench;
  bench.model.chat_template = nullptr;
  CHECK(answer(bench, props)["chat_template"].is_null());
  CHECK(answer(bench, tokenizer_info)["chat_template"].is_null());
}

TEST_CASE("llama.cpp's completion sent whole has its shape") {
  ApiBench bench;
  bench.engine.play = play_hi;
  CHECK(answer(bench, native_completion,
               R"({"prompt": "Say", "n_predict": 5, "seed": -1, "return_tokens": true,
                   "logit_bias": [[72, 1.5], [120, false]]})") ==
        json::parse(R"({"index": 0, "content": "Hi", "tokens": [72, 105], "stop": true, "model": "tiny",
            "tokens_predicted": 2, "tokens_evaluated": 3, "tokens_cached": 2, "stop_type": "eos",
            "stopping_word": "", "timings": {"cache_n": 2, "prompt_n": 1, "prompt_ms": 2000.0,
            "prompt_per_token_ms": 2000.0, "prompt_per_second": 0.5, "predicted_n": 2, "predicted_ms": 3000.0,
            "predicted_per_token_ms": 1500.0, "predicted_per_second": 0.6666666666666666}})"));
  const SequenceRequest& sequence = bench.engine.requests.at(0).sequences.at(0);
  CHECK(sequence.max_tokens == 5);
  CHECK(sequence.sampling.logit_bias == std::vector<std::pair<int32_t, float>>{{72, 1.5F}, {'x', -100.0F}});
}

TEST_CASE("llama.cpp's timings count drafts if the engine drafts") {
  ApiBench bench;
  bench.engine.now.speculates = true;
  bench.engine.play = [](TokenStream& stream) {
    FinishedEvent event{.error = {}};
    event.drafts = {.n_drafted = 9, .n_accepted = 5};
    stream.push({.sequence = 0, .what = event});
  };
  const json timings = answer(bench, native_completion, R"({"prompt": "Say"})")["timings"];
  CHECK(timings["draft_n"] == 9);
  CHECK(timings["draft_n_accepted"] == 5);
}

TEST_CASE("llama.cpp's completion without a length may fill the context") {
  ApiBench bench;
  bench.call(native_completion, R"({"prompt": ["a", 98, "c"]})");
  CHECK(bench.engine.requests.at(0).sequences.at(0).prompt == std::vector<int32_t>{'a', 'b', 'c'});
  CHECK(bench.engine.requests.at(0).sequences.at(0).max_tokens == 61);
  bench.call(native_completion, R"({"n_predict": -1})");
  CHECK(bench.engine.requests.at(1).sequences.at(0).prompt ==
        std::vector<int32_t>{ApiVocabulary::kEndOfText});
}

TEST_CASE("llama.cpp's streamed completion has objects without [DONE], the totals last") {
  ApiBench bench;
  bench.engine.play = [](TokenStream& stream) { play_text(stream, 0, "Hi.END"); };
  RecordingClient client;
  client.alive = [&bench] {  // asked once the played events are used up
    play_end(*bench.engine.stream, 0, FinishReason::kCancelled);
    return true;
  };
  const Answered response = bench.call(
      native_completion, R"({"prompt": "Say", "stream": true, "stop": [".END"], "n_probs": 1})", client);
  CHECK(response.content_type == "text/event-stream");
  CHECK(response.finished);
  const std::vector<json> events = sse_data(response.body);
  REQUIRE(events.size() == 3);
  CHECK(events[0]["content"] == "H");
  CHECK(events[0]["stop"] == false);
  CHECK(events[0]["completion_probabilities"][0]["logprob"] == -0.25);
  CHECK(events[0]["completion_probabilities"][0]["id"] == 'H');
  CHECK(events[2]["stop"] == true);
  CHECK(events[2]["content"] == "");
  CHECK(events[2]["stop_type"] == "word");
  CHECK(events[2]["stopping_word"] == ".END");
  CHECK(events[2]["timings"]["predicted_n"] == 6);
}

TEST_CASE("response_fields selects members of an answer by their paths") {
  ApiBench bench;
  bench.engine.play = play_hi;
  CHECK(
      answer(
          bench, native_completion,
          R"({"prompt": "a", "response_fields": ["content", "timings/predicted_n", "no/such", "content/x"]})") ==
      json{{"content", "Hi"}, {"predicted_n", 2}});
}

TEST_CASE("/slots says on request whether a slot is free") {
  ApiBench bench;
  bench.engine.now.n_slots = 2;
  const auto status = [&](const char* query) {
    HttpRequest request;
    request.query = query;
    return slots(ApiContext(bench.model, bench.world()), request).status;
  };
  for (const int n_running : {0, 1, 2}) {
    bench.engine.now.n_running = n_running;
    CHECK(status("fail_on_no_slot=1") == (n_running == 2 ? 503 : 200));
    CHECK(status("fail_on_no_slot=0") == 200);
    CHECK(status("") == 200);
  }
}

TEST_CASE("unsupported parameters of llama.cpp are refused by name") {
  for (const char* param : {"n_indent", "min_keep", "top_n_sigma", "n_cmpl"}) {
    ApiBench bench;
    CHECK(refusal(bench, native_completion, json{{"prompt", "a"}, {param, 5}}.dump())["param"] == param);
    CHECK(bench.call(native_completion, json{{"prompt", "a"}, {param, 0}}.dump()).status == 200);
  }
  ApiBench bench;
  CHECK(bench.call(native_completion, R"({"repeat_penalty": 1.1, "repeat_last_n": 8})").status == 200);
  CHECK(bench.engine.requests.back().sequences.at(0).sampling.repetition_last_n == 8);
  CHECK(refusal(bench, native_completion, R"({"logit_bias": [[1]]})")["param"] == "logit_bias");
  CHECK(bench.call(native_completion, R"({"t_max_predict_ms": 500})").status == 200);
  CHECK(refusal(bench, native_completion, R"({"image_data": [{"id": 1}]})")["param"] == "image_data");
  CHECK(refusal(bench, native_completion, R"({"n": 2})")["param"] == "n");
  CHECK(refusal(bench, native_completion, R"({"post_sampling_probs": true})")["param"] ==
        "post_sampling_probs");
}

}  // namespace
}  // namespace hearth
