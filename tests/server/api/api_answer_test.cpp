// Tests the conversion of requests to engine requests, and the answers in every case of failure.
#include "server/api/answer/answer.h"
#include "tests/server/api/api_bench.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

using nlohmann::json;

constexpr const char* kChat = R"({"messages": [{"role": "user", "content": "Say"}]})";

TEST_CASE("choices are ordered by prompt, each with its own seed") {
  ApiBench bench;
  bench.engine.play = [](TokenStream& stream) {
    for (int sequence = 5; sequence >= 0; --sequence) play_text(stream, sequence, std::to_string(sequence));
    for (int sequence = 0; sequence < 6; ++sequence) play_end(stream, sequence, FinishReason::kStop, 1);
  };
  const std::string body = R"({"prompt": ["ab", "c"], "n": 3, "seed": 7)";
  const json answer = whole_body(bench.completions(body + "}"));
  REQUIRE(answer["choices"].size() == 6);
  for (int i = 0; i < 6; ++i) {
    CHECK(answer["choices"][static_cast<size_t>(i)]["index"] == i);
    CHECK(answer["choices"][static_cast<size_t>(i)]["text"] == std::to_string(i));
  }
  // A prompt counts once, however many choices it has.
  CHECK(answer["usage"] == json{{"prompt_tokens", 3},
                                {"completion_tokens", 6},
                                {"total_tokens", 9},
                                {"prompt_tokens_details", {{"cached_tokens", 2}}}});
  const std::vector<SequenceRequest>& sequences = bench.engine.requests.at(0).sequences;
  for (size_t i = 0; i < 6; ++i) {
    CHECK(sequences[i].prompt.size() == (i < 3 ? 2 : 1));
    CHECK(sequences[i].sampling.seed == 7 + i % 3);
  }
  RecordingClient client;
  CHECK(bench.completions(body + R"(, "stream": true})", client).finished);
  std::vector<std::string> texts(6);
  for (const json& event : sse_data(client.received)) {
    if (!event.is_object()) continue;
    for (const json& choice : event["choices"]) texts[choice["index"].get<size_t>()] += choice["text"];
  }
  CHECK(texts == std::vector<std::string>{"0", "1", "2", "3", "4", "5"});
}

TEST_CASE("a prediction goes to the engine as tokens, and the usage counts those accepted and rejected") {
  ApiBench bench;
  bench.engine.now.speculates = true;
  bench.engine.play = [](TokenStream& stream) {
    for (int sequence = 0; sequence < 2; ++sequence) {
      play_text(stream, sequence, "abc");
      FinishedEvent event{.error = {}};
      event.drafts = {.n_drafted = 9, .n_accepted = 5, .n_predicted = 6, .n_foreseen = 4};
      stream.push({.sequence = sequence, .what = event});
    }
  };
  const std::string body =
      R"({"messages": [{"role": "user", "content": "hi"}], "n": 2, "max_tokens": 9, "prediction":
          {"type": "content", "content": "abd<s>"})";
  const json details = {{"accepted_prediction_tokens", 8}, {"rejected_prediction_tokens", 4}};
  CHECK(whole_body(bench.chat(body + "}"))["usage"]["completion_tokens_details"] == details);
  for (const SequenceRequest& sequence :
       bench.engine.requests.at(0).sequences)  // control tokens in the prompt are text
    CHECK(*sequence.prediction == std::vector<int32_t>{'a', 'b', 'd', '<', 's', '>'});
  RecordingClient client;
  CHECK(
      bench.chat(body + R"(, "stream": true, "stream_options": {"include_usage": true}})", client).finished);
  const std::vector<json> events = sse_data(client.received);
  CHECK(events.at(events.size() - 2)["usage"]["completion_tokens_details"] == details);

  const std::string longer(100, 'x');  // longer than the context of 64 tokens
  bench.completions(R"({"prompt": "p", "prediction": {"type": "content", "content": ")" + longer + "\"}}");
  CHECK(bench.engine.requests.back().sequences.at(0).prediction->size() == 64);
}

TEST_CASE("an engine without drafts gets no prediction, and the usage says that none was used") {
  ApiBench bench;
  bench.engine.play = [](TokenStream& stream) { play_end(stream, 0, FinishReason::kStop); };
  const json answer = whole_body(
      bench.completions(R"({"prompt": "p", "prediction": {"type": "content", "content": "abc"}})"));
  CHECK(answer["usage"]["completion_tokens_details"] ==
        json{{"accepted_prediction_tokens", 0}, {"rejected_prediction_tokens", 0}});
  CHECK(bench.engine.requests.at(0).sequences.at(0).prediction == nullptr);
}

TEST_CASE("best_of answers with the choices of highest mean log-probability") {
  ApiBench bench;
  bench.engine.play = [](TokenStream& stream) {
    const std::vector<std::string> texts = {"abcd", "a", "abc", ""};  // the mean decreases with the length
    for (int i = 0; i < 4; ++i) {
      play_text(stream, i, texts[static_cast<size_t>(i)]);
      play_end(stream, i, FinishReason::kStop);
    }
  };
  const json answer = whole_body(bench.completions(R"({"prompt": "p", "n": 2, "best_of": 4})"));
  REQUIRE(answer["choices"].size() == 2);
  CHECK(answer["choices"][0]["text"] == "a");
  CHECK(answer["choices"][1]["text"] == "abc");
  CHECK(answer["choices"][1]["index"] == 1);
  CHECK(answer["choices"][0]["logprobs"].is_null());
  CHECK(answer["usage"]["completion_tokens"] == 8);  // all that were generated
  CHECK(bench.engine.requests.at(0).sequences.at(3).n_top_logprobs == 0);
}

TEST_CASE("a stop string ends its sequence only, and later text is not sent") {
  for (const bool streamed : {false, true}) {
    ApiBench bench;
    bench.engine.play = [](TokenStream& stream) {
      play_text(stream, 0, "one\nTWO");
      play_text(stream, 1, "one");
    };
    const std::string body =
        std::string(R"({"prompt": "p", "n": 2, "stop": ["\nT", "zzz"], "stream": )") +
        (streamed ? R"(true, "stream_options": {"include_usage": true}})" : R"(false, "user": "u"})");
    RecordingClient client;
    bool played = false;
    client.alive = [&] {  // called once the played events are used up
      CHECK(bench.engine.stream->cancelled(0));
      CHECK_FALSE(bench.engine.stream->cancelled(1));
      if (!std::exchange(played, true)) {
        play_end(*bench.engine.stream, 0, FinishReason::kCancelled);
        play_text(*bench.engine.stream, 1, "\n");
        play_end(*bench.engine.stream, 1, FinishReason::kLength);
      }
      return true;
    };
    CHECK(bench.completions(body, client).finished);
    CHECK(played);
    std::vector<std::string> texts(2), reasons(2);
    json usage;
    for (const json& event :
         streamed ? sse_data(client.received) : std::vector<json>{json::parse(client.received)}) {
      if (!event.is_object()) continue;
      for (const json& choice : event["choices"]) {
        texts[choice["index"].get<size_t>()] += choice["text"];
        if (!choice["finish_reason"].is_null())
          reasons[choice["index"].get<size_t>()] += choice["finish_reason"];
      }
      usage = event["usage"];
    }
    CHECK(texts ==
          std::vector<std::string>{"one", "one\n"});  // withheld for "\nT" at the limit, and not lost
    CHECK(reasons == std::vector<std::string>{"stop", "length"});
    CHECK(usage["completion_tokens"] == 5 + 4);
  }
}

TEST_CASE("a client that leaves cancels its request, whether it streams or not") {
  for (const std::string stream : {"false", "true"}) {
    ApiBench bench;
    RecordingClient client;
    int n_asked = 0;
    client.alive = [&] {
      CHECK_FALSE(bench.engine.stream->cancelled(0));
      return ++n_asked < 3;
    };
    const Answered answer = bench.completions(R"({"prompt": "p", "stream": )" + stream + "}", client);
    CHECK(n_asked == 3);
    CHECK(bench.engine.stream->cancelled(0));
    CHECK(client.released);
    // The beginning of a stream is not mistaken for a whole answer. If a whole answer was not sent, the log
    // gives the reason.
    CHECK(answer.finished == (stream == "false"));
    if (stream == "false") CHECK(answer.status == 499);
  }
}

TEST_CASE("a client that leaves while tokens arrive quickly is noticed too") {
  ApiBench bench;
  bench.tick = std::chrono::seconds(1);
  bench.engine.play = [](TokenStream& stream) { play_text(stream, 0, "0123456789"); };
  RecordingClient client;
  client.alive = [] { return false; };
  CHECK(bench.completions(R"({"prompt": "p"})", client).status == 499);
  CHECK(bench.engine.stream->cancelled(0));
  RecordingClient other;
  other.on_write = [](std::string_view) { return false; };
  CHECK_FALSE(bench.completions(R"({"prompt": "p", "stream": true})", other).finished);
  CHECK(bench.engine.stream->cancelled(0));
}

TEST_CASE("an answer that never runs cancels its request") {
  ApiBench bench;
  const auto stream = std::make_shared<TokenStream>(1);
  { const Answer answer(AnswerSpec{}, nullptr, bench.vocabulary, stream, bench.world().now); }
  CHECK(stream->cancelled(0));
}

TEST_CASE("the log's record of a client that left has the times that the engine reported") {
  for (const bool streamed : {false, true}) {
    ApiBench bench;
    RecordingClient client;
    client.alive = [&] {
      // The engine's last event is still to come when the client is found to have left.
      if (!bench.engine.stream->cancelled(0)) play_end(*bench.engine.stream, 0, FinishReason::kCancelled);
      return false;
    };
    const Answered answer = bench.completions(
        std::string(R"({"prompt": "p", "stream": )") + (streamed ? "true}" : "false}"), client);
    CHECK(answer.status == (streamed ? 200 : 499));
    CHECK(answer.finished != streamed);
    CHECK(bench.engine.stream->cancelled(0));
    REQUIRE(client.reported);
    CHECK(client.reported->ended == std::string_view("client left"));
    CHECK(client.reported->has_times);
    CHECK(client.reported->queue_seconds == 1);
    CHECK(client.reported->prefill_seconds == 2);
    CHECK(client.reported->decode_seconds == 3);
  }
}

TEST_CASE("silence is filled with bytes that parsers skip") {
  for (const bool streamed : {false, true}) {
    ApiBench bench;
    bench.model.blank_line_interval = std::chrono::seconds(streamed ? 0 : 10);
    bench.tick = std::chrono::seconds(3);
    RecordingClient client;
    int n_pings = 0;
    client.on_write = [&](std::string_view bytes) {
      if (bytes == (streamed ? ": ping\n\n" : "\n") && ++n_pings == 2) {
        play_text(*bench.engine.stream, 0, "x");
        play_end(*bench.engine.stream, 0, FinishReason::kStop);
      }
      return true;
    };
    const Answered answer = bench.completions(
        std::string(R"({"prompt": "p", "stream": )") + (streamed ? "true}" : "false}"), client);
    CHECK(answer.finished);
    CHECK(answer.begun);
    CHECK(n_pings == 2);
    if (streamed) {
      CHECK(sse_data(answer.body).size() == 3);
    } else {
      CHECK(answer.content_type == "application/json");
      CHECK(json::parse(answer.body)["choices"][0]["text"] == "x");
    }
  }
}

TEST_CASE("tokens that show nothing do not count as output, and silence is filled while they arrive") {
  ApiBench bench;
  bench.model.blank_line_interval = std::chrono::seconds(10);
  bench.tick = std::chrono::seconds(3);
  bench.engine.play = [](TokenStream& stream) {
    play_text(stream, 0, std::string(20, 'x'));
    play_end(stream, 0, FinishReason::kStop);
  };
  const Answered whole = bench.completions(R"({"prompt": "p"})");
  CHECK(whole.begun);
  CHECK(whole.finished);
  CHECK(whole.body.starts_with("\n\n"));
  CHECK(json::parse(whole.body)["choices"][0]["text"] == std::string(20, 'x'));
  // A possible beginning of a stop string is withheld.
  bench.engine.play = [](TokenStream& stream) { play_text(stream, 0, std::string(20, 'x')); };
  const Answered stream =
      bench.completions(R"({"prompt": "p", "stream": true, "stop": ")" + std::string(30, 'x') + "\"}");
  CHECK(stream.finished);
  CHECK(stream.body.find(": ping") < stream.body.find("xx"));
}

TEST_CASE("a failure before the first byte is a 500 that tells clients not to retry") {
  ApiBench bench;
  bench.engine.play = [](TokenStream& stream) { play_end(stream, 0, FinishReason::kFailed, 0, "no memory"); };
  const Answered response = bench.chat(kChat);
  CHECK(response.status == 500);
  CHECK(header_of(response, "x-should-retry") == "false");
  const json error = error_of(response);
  CHECK(error["type"] == "server_error");
  CHECK_THAT(error["message"].get<std::string>(), ContainsSubstring("no memory"));
  bench.engine.play = [](TokenStream& stream) { play_end(stream, 0, FinishReason::kCancelled); };
  const Answered stopping = bench.chat(kChat);
  CHECK(stopping.status == 503);
  CHECK_FALSE(header_of(stopping, "Retry-After").empty());
}

TEST_CASE("a later failure is an error in a stream, and a status for an answer sent whole") {
  ApiBench bench;
  for (const FinishReason reason : {FinishReason::kFailed, FinishReason::kCancelled}) {
    bench.engine.play = [reason](TokenStream& stream) {
      play_text(stream, 0, "half");
      play_end(stream, 0, reason, 0, "a fault");
    };
    const Answered failure = bench.completions(R"({"prompt": "p"})");
    CHECK(failure.status == (reason == FinishReason::kFailed ? 500 : 503));
    CHECK(header_of(failure, "x-should-retry") == (reason == FinishReason::kFailed ? "false" : ""));
    CHECK(header_of(failure, "Retry-After").empty() == (reason == FinishReason::kFailed));
    CHECK(error_of(failure)["code"] ==
          (reason == FinishReason::kFailed ? "engine_failed" : "server_stopping"));
    CHECK_FALSE(failure.begun);
    CHECK(bench.engine.stream->cancelled(0));
    const Answered stream = bench.completions(R"({"prompt": "p", "stream": true})");
    CHECK(stream.finished);
    const std::vector<json> events = sse_data(stream.body);
    REQUIRE(events.size() == 5);
    const json& error = events.back().at("error");
    CHECK(error["type"] == (reason == FinishReason::kFailed ? "server_error" : "unavailable_error"));
    CHECK(bench.engine.stream->cancelled(0));
  }
}

TEST_CASE("an answer sent whole sends its status at its end, with its length") {
  ApiBench bench;
  RecordingClient client;
  bench.engine.play = [](TokenStream& stream) {
    play_text(stream, 0, "all");
    play_end(stream, 0, FinishReason::kStop);
  };
  const Answered whole = bench.completions(R"({"prompt": "p"})", client);
  CHECK(whole.status == 200);
  CHECK(json::parse(whole.body)["choices"][0]["text"] == "all");
  CHECK_FALSE(whole.begun);
  CHECK(client.reported->ended == std::string_view("complete"));
  CHECK(bench.completions(R"({"prompt": "p", "stream": true})").begun);

  // Silence does not end the wait, because a byte sent early would restart clients' read timeouts.
  RecordingClient patient;
  bench.tick = std::chrono::seconds(60);
  int looks = 0;
  patient.alive = [&] {
    if (++looks == 3) {
      play_text(*bench.engine.stream, 0, "late");
      play_end(*bench.engine.stream, 0, FinishReason::kStop);
    }
    return true;
  };
  bench.engine.play = [](TokenStream&) {};
  const Answered late = bench.completions(R"({"prompt": "p"})", patient);
  CHECK(json::parse(late.body)["choices"][0]["text"] == "late");
  CHECK_FALSE(late.begun);
}

TEST_CASE("with --keepalive-seconds an answer sent whole begins after that much silence") {
  ApiBench bench;
  bench.model.blank_line_interval = std::chrono::seconds(10);
  bench.tick = std::chrono::seconds(6);
  RecordingClient client;
  // Once bytes have been sent to show that the server lives, a failure can only cut the answer off.
  bench.engine.play = [](TokenStream& stream) { play_text(stream, 0, "h"); };
  client.on_write = [&](std::string_view) {
    play_end(*bench.engine.stream, 0, FinishReason::kFailed, 0, "a fault");
    return true;
  };
  const Answered answer = bench.completions(R"({"prompt": "p"})", client);
  CHECK(answer.begun);
  CHECK_FALSE(answer.finished);
  CHECK(answer.body == "\n");
  CHECK(client.reported->ended == std::string_view("failed"));
}

TEST_CASE("each refusal of the engine has its own status") {
  ApiBench bench;
  bench.engine.refusal = Refusal::kQueueFull;
  Answered response = bench.chat(kChat);
  CHECK(response.status == 429);
  CHECK(header_of(response, "Retry-After") == "1");
  CHECK(error_of(response)["type"] == "rate_limit_error");
  bench.engine.now.n_waiting = 100;
  bench.engine.now.n_slots = 4;
  bench.engine.now.mean_service_seconds = 0.5;
  CHECK(header_of(bench.chat(kChat), "Retry-After") == "13");  // 100 requests of 0.5 s in 4 slots take 12.5 s
  bench.engine.refusal = Refusal::kStopping;
  response = bench.chat(kChat);
  CHECK(response.status == 503);
  CHECK_FALSE(header_of(response, "Retry-After").empty());
  CHECK(header_of(response, "x-should-retry").empty());
  bench.engine.failed = true;
  response = bench.completions(R"({"prompt": "p"})");
  CHECK(response.status == 503);
  CHECK_FALSE(header_of(response, "Retry-After").empty());
  CHECK(error_of(response)["code"] == "engine_failed");
  bench.engine.failed = false;
  bench.engine.refusal = Refusal::kContextExceeded;
  response = bench.completions(R"({"prompt": "p"})");
  CHECK(response.status == 400);
  CHECK(error_of(response)["code"] == "context_length_exceeded");
}

TEST_CASE("an unknown model is 404 and names the served ones; with the option any name is accepted") {
  ApiBench bench;
  bench.engine.play = [](TokenStream& stream) { play_end(stream, 0, FinishReason::kStop); };
  const Answered response = bench.completions(R"({"model": "gpt-4", "prompt": 5})");
  CHECK(response.status == 404);
  const json error = error_of(response);
  CHECK(error["type"] == "not_found_error");
  CHECK(error["param"] == "model");
  CHECK(error["code"] == "model_not_found");
  CHECK_THAT(error["message"].get<std::string>(),
             ContainsSubstring("gpt-4") && ContainsSubstring("'tiny', 'org/tiny'"));
  CHECK(whole_body(bench.chat(kChat))["model"] == "tiny");
  bench.model.any_name = true;
  CHECK(whole_body(bench.completions(R"({"model": "gpt-4", "prompt": "p"})"))["model"] == "gpt-4");
  CHECK(retrieve_model(ApiContext(bench.model, bench.world()), "gpt-4").status == 200);
}

TEST_CASE("a prompt that does not fit the context is refused with the numbers") {
  ApiBench bench;
  bench.engine.play = [](TokenStream& stream) { play_end(stream, 0, FinishReason::kStop); };
  const auto prompt = [](int n, const std::string& rest) {
    return "{\"prompt\": \"" + std::string(static_cast<size_t>(n), 'x') + "\"" + rest + "}";
  };
  json error = error_of(bench.completions(prompt(64, "")));
  CHECK(error["code"] == "context_length_exceeded");
  CHECK(error["param"] == "prompt");
  CHECK_THAT(error["message"].get<std::string>(), ContainsSubstring("64 tokens"));
  error = error_of(bench.completions(prompt(64, ", \"max_tokens\": 1")));
  CHECK(error["param"] == "prompt");
  CHECK(bench.engine.requests.empty());
  // A requested length is limited by the context.
  for (const char* length : {"5", "9223372036854775807", "-1"}) {
    whole_body(bench.completions(prompt(60, std::string(", \"max_tokens\": ") + length)));
    CHECK(bench.engine.requests.back().sequences[0].max_tokens == 4);
  }
  whole_body(bench.completions(prompt(60, ", \"max_tokens\": 4")));
  CHECK(bench.engine.requests.back().sequences[0].max_tokens == 4);
  whole_body(bench.completions(prompt(60, "")));  // the context limits the default
  CHECK(bench.engine.requests.back().sequences[0].max_tokens == 4);
  whole_body(bench.completions(prompt(64, ", \"max_tokens\": 0, \"echo\": true")));
  CHECK(bench.engine.requests.back().sequences[0].max_tokens == 0);
  whole_body(bench.chat(kChat));  // [user]Say[assistant] and the rest of the context
  CHECK(bench.engine.requests.back().sequences[0].max_tokens == 64 - 20);
  const std::string many =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"" + std::string(60, 'x') + "\"}]}";
  error = error_of(bench.chat(many));
  CHECK(error["code"] == "context_length_exceeded");
  CHECK(error["param"] == "messages");
  for (const std::string length :
       {"\"max_tokens\": 99", "\"max_completion_tokens\": 99", "\"max_tokens\": -1"}) {
    whole_body(bench.chat(R"({"messages": [{"role": "user", "content": "Say"}], )" + length + "}"));
    CHECK(bench.engine.requests.back().sequences[0].max_tokens == 64 - 20);
  }
  bench.model.max_tokens_default = 7;
  whole_body(bench.chat(kChat));
  CHECK(bench.engine.requests.back().sequences[0].max_tokens == 7);
}

TEST_CASE("the chat template gets messages, tools and variables, and its exceptions are 400") {
  ApiBench bench;
  bench.model.context_tokens = 4096;
  bench.engine.play = [](TokenStream& stream) { play_end(stream, 0, FinishReason::kStop); };
  whole_body(bench.chat(
      R"({"messages": [{"role": "developer", "content": "s"}, {"role": "user", "content": "<|turn|>"}],
      "tools": [{"type": "function", "function": {"name": "f"}}], "chat_template_kwargs": {"mood": "calm"}})"));
  CHECK(
      bench.vocabulary.decode(bench.engine.requests.back().sequences[0].prompt, true) ==
      R"([system]s[user]<|turn|><tools>[{"type": "function", "function": {"name": "f"}}]<mood calm>[assistant])");
  const Answered refused = bench.chat(R"({"messages": [{"role": "user", "content": "bad"}]})");
  CHECK(refused.status == 400);
  const json error = error_of(refused);
  CHECK(error["param"] == "messages");
  CHECK_THAT(error["message"].get<std::string>(), ContainsSubstring("bad words are not taken"));
  bench.model.chat_template = nullptr;
  CHECK(bench.chat(kChat).status == 400);
}

TEST_CASE("a request's settings do not affect the next request") {
  ApiBench bench;
  bench.engine.play = [](TokenStream& stream) { play_end(stream, 0, FinishReason::kStop); };
  const ApiContext service(bench.model, bench.world());
  for (
      const char* body :
      {R"({"prompt": "p", "logit_bias": {"5": 50}, "stop": "x", "temperature": 0, "top_k": 3, "ignore_eos": true})",
       R"({"prompt": "p"})"}) {
    RecordingClient client;
    completions(service, ApiBench::post(body), {}, client);
    CHECK(client.finished);
  }
  const SequenceRequest& first = bench.engine.requests[0].sequences[0];
  CHECK(first.sampling.logit_bias == std::vector<std::pair<int32_t, float>>{{5, 50.0F}});
  CHECK(first.end_tokens.empty());
  const SequenceRequest& second = bench.engine.requests[1].sequences[0];
  CHECK(second.sampling.logit_bias.empty());
  CHECK(second.sampling.temperature == 1);
  CHECK(second.sampling.top_k == 0);
  CHECK(second.end_tokens.size() == 1);
}

TEST_CASE("tokens that the model must not generate are suppressed whatever the request says") {
  ApiBench bench;
  bench.vocabulary.set_suppressed({ApiVocabulary::kTurn, 7});
  bench.engine.play = [](TokenStream& stream) { play_end(stream, 0, FinishReason::kStop); };
  for (const char* body :
       {R"({"prompt": "p"})", R"({"prompt": "p", "logit_bias": {"7": 50}, "ignore_eos": true})"}) {
    CHECK(bench.completions(body).status == 200);
    CHECK(bench.engine.requests.back().sequences[0].suppressed_tokens ==
          std::vector<int32_t>{ApiVocabulary::kTurn, 7});
  }
}

}  // namespace
}  // namespace hearth
