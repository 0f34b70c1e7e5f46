// The exact shapes of answers, as OpenAI's clients parse them: golden JSON for played engine events.
#include <limits>

#include "tests/server/api/api_bench.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

using nlohmann::json;

constexpr const char* kZeroId = "00000000000000000000000000000000";

/// Both shapes of one answer "Hi" with two cached prompt tokens.
TEST_CASE("a completion sent whole has OpenAI's shape") {
  ApiBench bench;
  bench.engine.play = play_hi;
  const Answered response = bench.completions(R"({"model": "org/tiny", "prompt": "Say"})");
  CHECK(response.status == 200);
  CHECK(response.content_type == "application/json");
  CHECK(whole_body(response) == json::parse(R"({"id": "cmpl-)" + std::string(kZeroId) + R"(",
      "object": "text_completion", "created": 1700000000, "model": "org/tiny", "system_fingerprint": "fp_test",
      "choices": [{"text": "Hi", "index": 0, "logprobs": null, "finish_reason": "stop"}],
      "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 2}}})"));
  const SequenceRequest& sequence = bench.engine.requests.at(0).sequences.at(0);
  CHECK(sequence.max_tokens == 16);
  CHECK(sequence.end_tokens == std::vector<int32_t>{ApiVocabulary::kEos});
  CHECK(sequence.n_top_logprobs == -1);
}

TEST_CASE("a streamed completion has the expected bytes") {
  ApiBench bench;
  bench.engine.play = play_hi;
  RecordingClient client;
  const Answered response = bench.completions(
      R"({"prompt": "Say", "stream": true, "stream_options": {"include_usage": true}})", client);
  CHECK(response.content_type == "text/event-stream");
  CHECK(header_of(response, "Cache-Control") == "no-cache");
  CHECK(header_of(response, "X-Accel-Buffering") == "no");
  CHECK(response.finished);
  const std::string head = R"(data: {"id":"cmpl-)" + std::string(kZeroId) +
                           R"(","object":"text_completion","created":1700000000,"model":"tiny",)"
                           R"("system_fingerprint":"fp_test","choices":)";
  CHECK(client.received ==
        head +
            R"([{"text":"H","index":0,"logprobs":null,"finish_reason":null}],"usage":null})"
            "\n\n" +
            head +
            R"([{"text":"i","index":0,"logprobs":null,"finish_reason":null}],"usage":null})"
            "\n\n" +
            head +
            R"([{"text":"","index":0,"logprobs":null,"finish_reason":"stop"}],"usage":null})"
            "\n\n" +
            head +
            R"([],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,)"
            R"("prompt_tokens_details":{"cached_tokens":2}}})"
            "\n\ndata: [DONE]\n\n");
}

TEST_CASE("a chat answer sent whole has OpenAI's shape, with log-probabilities") {
  ApiBench bench;
  bench.engine.play = [](TokenStream& stream) {
    play_text(stream, 0, "H", {{'H', -0.25F}, {0xC3, -2.0F}, {'x', -std::numeric_limits<float>::infinity()}});
    play_end(stream, 0, FinishReason::kLength);
  };
  const Answered response = bench.chat(
      R"({"messages": [{"role": "user", "content": "Say"}], "logprobs": true, "top_logprobs": 3, "max_tokens": 1})");
  CHECK(whole_body(response) == json::parse(R"({"id": "chatcmpl-)" + std::string(kZeroId) + R"(",
      "object": "chat.completion", "created": 1700000000, "model": "tiny", "system_fingerprint": "fp_test",
      "choices": [{"index": 0, "message": {"role": "assistant", "content": "H", "refusal": null},
        "logprobs": {"content": [{"token": "H", "logprob": -0.25, "bytes": [72], "top_logprobs": [
            {"token": "H", "logprob": -0.25, "bytes": [72]},
            {"token": "\\xc3", "logprob": -2.0, "bytes": [195]},
            {"token": "x", "logprob": -9999.0, "bytes": [120]}]}], "refusal": null},
        "finish_reason": "length"}],
      "usage": {"prompt_tokens": 20, "completion_tokens": 1, "total_tokens": 21,
                "prompt_tokens_details": {"cached_tokens": 0}}})"));
  CHECK(bench.engine.requests.at(0).sequences.at(0).n_top_logprobs == 3);
}

TEST_CASE("a streamed chat answer has the role first, an empty delta last, and usage only on request") {
  ApiBench bench;
  bench.engine.play = play_hi;
  RecordingClient client;
  const Answered response = bench.chat(
      R"({"messages": [{"role": "user", "content": "Say"}], "stream": true, "model": "tiny"})", client);
  CHECK(response.finished);
  const std::string head = R"(data: {"id":"chatcmpl-)" + std::string(kZeroId) +
                           R"(","object":"chat.completion.chunk","created":1700000000,"model":"tiny",)"
                           R"("system_fingerprint":"fp_test","choices":[{"index":0,"delta":)";
  const std::string going_on = R"(,"logprobs":null,"finish_reason":null}]})"
                               "\n\n";
  CHECK(client.received == head + R"({"role":"assistant","content":"","refusal":null})" + going_on +  //
                               head + R"({"content":"H"})" + going_on +                               //
                               head + R"({"content":"i"})" + going_on +                               //
                               head + R"({},"logprobs":null,"finish_reason":"stop"}]})" +
                               "\n\ndata: [DONE]\n\n");
  CHECK(client.writes.front().find("assistant") != std::string::npos);
}

/// Plays a prompt's log-probabilities -1, -2, ... from its second token on, in two pieces.
void play_prompt(TokenStream& stream, std::string_view text, const std::vector<TokenLogprob>& top) {
  PromptEvent first, rest;
  for (size_t i = 1; i < text.size(); ++i) {
    TokenEvent event{
        .token = static_cast<unsigned char>(text[i]), .logprob = -static_cast<float>(i), .top = top};
    (i == 1 ? first : rest).tokens.push_back(std::move(event));
  }
  stream.push({.sequence = 0, .what = std::move(first)});
  stream.push({.sequence = 0, .what = std::move(rest)});
}

TEST_CASE("echo with log-probabilities scores the prompt") {
  ApiBench bench;
  bench.engine.play = [](TokenStream& stream) {
    play_prompt(stream, "aé", {{'b', -0.5F}});  // é is two tokens, and neither is text by itself
    play_end(stream, 0, FinishReason::kLength);
  };
  const std::string body = R"({"prompt": "aé", "max_tokens": 0, "echo": true, "logprobs": 1)";
  const json logprobs = json::parse(R"({"tokens": ["a", "bytes:\\xc3", "bytes:\\xa9"],
      "token_logprobs": [null, -1.0, -2.0],
      "top_logprobs": [null, {"b": -0.5, "bytes:\\xc3": -1.0}, {"b": -0.5, "bytes:\\xa9": -2.0}],
      "text_offset": [0, 1, 1]})");

  const json whole = whole_body(bench.completions(body + "}"));
  CHECK(whole["choices"] ==
        json::array({{{"text", "aé"}, {"index", 0}, {"logprobs", logprobs}, {"finish_reason", "length"}}}));
  CHECK(whole["usage"]["completion_tokens"] == 0);
  const SequenceRequest& sequence = bench.engine.requests.at(0).sequences.at(0);
  CHECK(sequence.max_tokens == 0);
  CHECK(sequence.prompt_logprobs);
  CHECK(sequence.n_top_logprobs == 1);

  RecordingClient client;
  CHECK(bench.completions(body + R"(, "stream": true})", client).finished);
  const std::vector<json> events = sse_data(client.received);
  REQUIRE(events.size() == 3);
  CHECK(events[0]["choices"][0]["text"] == "aé");
  CHECK(events[0]["choices"][0]["logprobs"] == logprobs);
  CHECK(events[1]["choices"][0]["finish_reason"] == "length");
}

TEST_CASE("offsets continue from the echoed prompt; without echo they begin at 0") {
  for (const bool echo : {true, false}) {
    ApiBench bench;
    bench.engine.play = [echo](TokenStream& stream) {
      if (echo) play_prompt(stream, "éa", {});
      play_text(stream, 0, "xy");
      play_end(stream, 0, FinishReason::kStop);
    };
    const json choice =
        whole_body(bench.completions(std::string(R"({"prompt": "éa", "logprobs": 0, "echo": )") +
                                     (echo ? "true}" : "false}")))["choices"][0];
    CHECK(choice["text"] == (echo ? "éaxy" : "xy"));
    CHECK(choice["logprobs"]["text_offset"] == (echo ? json{0, 0, 1, 2, 3} : json{0, 1}));
    CHECK(choice["logprobs"]["top_logprobs"].back() == json{{"y", -0.5}});
  }
}

TEST_CASE("a begin token that the server put there is scored but not echoed") {
  ApiBench bench({}, true);
  bench.engine.play = [](TokenStream& stream) {
    play_prompt(stream,
                "\x01"
                "ab",
                {});
    play_end(stream, 0, FinishReason::kLength);
  };
  const json choice = whole_body(
      bench.completions(R"({"prompt": "ab", "logprobs": 0, "echo": true, "max_tokens": 0})"))["choices"][0];
  CHECK(choice["text"] == "ab");
  CHECK(choice["logprobs"]["tokens"] == json{"<s>", "a", "b"});
  CHECK(choice["logprobs"]["text_offset"] == json{0, 0, 1});
}

TEST_CASE("log-probabilities in a stream come with the text of their tokens") {
  ApiBench bench;
  bench.engine.play = [](TokenStream& stream) {
    play_text(stream, 0, "é.END");
    play_end(stream, 0, FinishReason::kCancelled);
  };
  RecordingClient client;
  CHECK(bench.completions(R"({"prompt": "p", "logprobs": 0, "stream": true, "stop": ".END"})", client)
            .finished);
  const std::vector<json> events = sse_data(client.received);
  REQUIRE(events.size() == 3);
  CHECK(events[0]["choices"][0]["text"] == "é");
  CHECK(events[0]["choices"][0]["logprobs"]["tokens"] == json{"bytes:\\xc3", "bytes:\\xa9"});
  CHECK(events[1]["choices"][0]["finish_reason"] == "stop");
}

TEST_CASE("the list of models has OpenAI's shape") {
  ApiBench bench;
  const ApiContext service(bench.model, bench.world());
  const json sparsity = {{"mode", "predicted"},          {"reason", "asked for"},
                         {"active_share", 0.25},         {"proposed_share", 0.5},
                         {"predictor_threshold", -1.5},  {"bytes_per_token", 1001},
                         {"dense_bytes_per_token", 2000}};
  const json tiny = {{"id", "tiny"},         {"aliases", json::array({"org/tiny"})},
                     {"object", "model"},    {"created", 1600000000},
                     {"owned_by", "hearth"}, {"max_model_len", 64},
                     {"device", "CPU"},      {"embedding", {{"dimensions", 0}, {"pooling", "last"}}},
                     {"generates", true},    {"ranks", false},
                     {"sparsity", sparsity}};
  json other = tiny;
  other["id"] = "org/tiny";
  other["aliases"] = json::array({"tiny"});
  CHECK(json::parse(list_models(service).body) == json{{"object", "list"}, {"data", {tiny, other}}});
  CHECK(json::parse(retrieve_model(service, "org/tiny").body) == other);
  const HttpResponse unknown = retrieve_model(service, "gpt-4");
  CHECK(unknown.status == 404);
  CHECK(json::parse(unknown.body)["error"]["code"] == "model_not_found");
}

}  // namespace
}  // namespace hearth
