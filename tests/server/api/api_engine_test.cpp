// The API with the real engine and a scripted model: text that depends on the whole history, and many
// concurrent clients.
#include <algorithm>
#include <atomic>
#include <list>
#include <set>
#include <stdexcept>
#include <thread>

#include "engine/engine.h"
#include "tests/server/api/api_bench.h"
#include "tests/support/catch.h"
#include "tests/support/scripted_model.h"

namespace hearth {
namespace {

using nlohmann::json;

/// Logits that depend on all previous tokens; only letters and spaces are likely, so that text can be
/// compared.
void letters(std::span<const int32_t> history, std::span<float> logits) {
  ScriptedModel::hashed()(history, logits);
  for (size_t token = 0; token < logits.size(); ++token) {
    const bool plain = (token >= 'a' && token <= 'z') || token == ' ' || token == ApiVocabulary::kEos;
    if (!plain) logits[token] -= 30;
  }
}

struct EngineBench : ApiBench {
  ScriptedModel scripted;
  Engine real;

  explicit EngineBench(ScriptedModel::Script script = letters, ScriptedModel::BeforeStep before_step = {},
                       const EngineOptions& options = {.n_slots = 3,
                                                       .context_tokens = 64,
                                                       .queue_capacity = 16,
                                                       .prefill_chunk = 8})
      : scripted({.limits = {.max_tokens = 64,
                             .max_logit_rows = 32,
                             .n_vocab = ApiVocabulary::kFirstWord,
                             .block_tokens = 4,
                             .n_blocks = 128},
                  .script = std::move(script),
                  .before_step = std::move(before_step)}),
        real(scripted, options) {
    model.engine = &real;
  }
};

std::string streamed_text(const Answered& answer, json* usage = nullptr) {
  if (!answer.finished) throw std::runtime_error("the stream was broken off");
  std::string text;
  for (const json& event : sse_data(answer.body)) {
    if (!event.is_object()) continue;
    for (const json& choice : event["choices"]) {
      text +=
          choice.contains("delta") ? choice["delta"].value("content", "") : choice["text"].get<std::string>();
    }
    if (usage != nullptr) *usage = event["usage"];
  }
  return text;
}

TEST_CASE("chat over the engine answers alike whole and streamed") {
  EngineBench bench(ScriptedModel::answering(bytes_of("Paris é."), ApiVocabulary::kEos));
  const std::string body = R"({"messages": [{"role": "user", "content": "Capital?"}], "temperature": 0)";
  const json whole = whole_body(bench.chat(body + "}"));
  CHECK(whole["choices"][0]["message"]["content"] == "Paris é.");
  CHECK(whole["choices"][0]["finish_reason"] == "stop");
  CHECK(whole["usage"]["completion_tokens"] == 9);
  json usage;
  CHECK(streamed_text(bench.chat(body + R"(, "stream": true, "stream_options": {"include_usage": true}})"),
                      &usage) == "Paris é.");
  CHECK(usage["completion_tokens"] == 9);
  CHECK(usage["prompt_tokens"] == whole["usage"]["prompt_tokens"]);
  CHECK(usage["prompt_tokens_details"]["cached_tokens"] > 0);
}

TEST_CASE("a stop string over the engine ends the sequence early and frees its slot") {
  EngineBench bench(ScriptedModel::answering(bytes_of("one, two, tHree"), ApiVocabulary::kEos));
  const json answer = whole_body(
      bench.completions(R"({"prompt": "<", "stop": [", t"], "temperature": 0, "max_tokens": 40})"));
  CHECK(answer["choices"][0]["text"] == "one");
  CHECK(answer["choices"][0]["finish_reason"] == "stop");
  CHECK(answer["usage"]["completion_tokens"] == 6);
  CHECK(bench.real.drain(std::chrono::steady_clock::now() + std::chrono::seconds(60)));
  CHECK(bench.completions(R"({"prompt": "<"})").status == 503);
}

TEST_CASE("scoring over the engine: the echo has log-probabilities, and no tokens are generated") {
  EngineBench bench;
  const auto score = [&](const std::string& prompt, int max_tokens) {
    return whole_body(bench.completions("{\"prompt\": \"" + prompt + "\", \"echo\": true, \"logprobs\": 2, " +
                                        "\"temperature\": 0, \"max_tokens\": " + std::to_string(max_tokens) +
                                        "}"))["choices"][0];
  };
  const json generated = score("hello w", 5);
  const std::string text = generated["text"];
  REQUIRE(text.size() == 12);
  REQUIRE(generated["logprobs"]["tokens"].size() == 12);
  // Generated text, scored as a prompt: it is greedy, so each token is the most likely one.
  const json scored = score(text, 0);
  CHECK(scored["text"] == text);
  CHECK(scored["finish_reason"] == "length");
  CHECK(scored["logprobs"]["tokens"] == generated["logprobs"]["tokens"]);
  CHECK(scored["logprobs"]["text_offset"] == generated["logprobs"]["text_offset"]);
  for (size_t i = 7; i < 12; ++i) {
    const double logprob = scored["logprobs"]["token_logprobs"][i];
    CHECK(logprob == Approx(generated["logprobs"]["token_logprobs"][i].get<double>()));
    for (const json& other : scored["logprobs"]["top_logprobs"][i]) CHECK(other.get<double>() <= logprob);
  }
  CHECK(scored["logprobs"]["token_logprobs"][0].is_null());
}

TEST_CASE("many clients at once get the same answers as each alone") {
  EngineBench bench;
  const auto body = [](int i, bool stream) {
    return std::string(R"({"prompt": "client )") + static_cast<char>('a' + i % 5) + R"(", "seed": )" +
           std::to_string(i) + R"(, "max_tokens": 12, "stop": "e", "stream": )" +
           (stream ? "true}" : "false}");
  };
  std::vector<std::string> alone;
  for (int i = 0; i < 8; ++i)
    alone.push_back(whole_body(bench.completions(body(i, false)))["choices"][0]["text"]);
  CHECK(std::set<std::string>(alone.begin(), alone.end()).size() > 4);
  // The bench's clock belongs to one thread, so these use the real one.
  const ApiContext service(bench.model);
  std::vector<std::string> together(alone.size());
  {
    std::vector<std::jthread> clients;
    for (size_t i = 0; i < alone.size(); ++i) {
      clients.emplace_back([&, i] {
        const bool stream = i % 2 == 0;
        RecordingClient client;
        completions(service, ApiBench::post(body(static_cast<int>(i), stream)), {}, client);
        const Answered answer(client);
        together[i] =
            stream ? streamed_text(answer) : whole_body(answer)["choices"][0]["text"].get<std::string>();
      });
    }
  }
  CHECK(together == alone);
}

/// Clients that ask for the same at once, each on its own thread, as on HTTP threads.
struct Crowd {
  explicit Crowd(const ServedModel& model)
      : service(model) {}  // with the real clock: the bench's is for one thread

  void ask(const std::string& body) {
    RecordingClient& client = clients.emplace_back();
    threads.emplace_back([this, body, &client] { completions(service, ApiBench::post(body), {}, client); });
  }

  const ApiContext service;
  std::list<RecordingClient> clients;
  std::vector<std::jthread> threads;
};

TEST_CASE("clients that leave, in prefill or while waiting, leave nothing in the engine") {
  EngineBench bench;
  for (const char* stream : {"true", "false"}) {
    Crowd crowd(bench.model);
    for (int i = 0; i < 6; ++i) {  // three run, three wait
      RecordingClient& gone = crowd.clients.emplace_back();
      gone.alive = [] { return false; };
      gone.on_write = [](std::string_view) { return false; };
      crowd.threads.emplace_back([&crowd, &gone, stream] {
        const std::string body = std::string(R"({"prompt": [10,11,12,13,14,15,16,17,18,19,20], "n": 1,
          "max_tokens": 50, "ignore_eos": true, "stream": )") +
                                 stream + "}";
        completions(crowd.service, ApiBench::post(body), {}, gone);
      });
    }
  }
  CHECK(whole_body(bench.completions(R"({"prompt": "still here"})"))["choices"].size() == 1);
  CHECK(bench.real.drain(std::chrono::steady_clock::now() + std::chrono::seconds(60)));
  CHECK(bench.real.status().n_running == 0);
}

TEST_CASE("an engine failure is a 500 for accepted requests, an error in streams, and 503 from then on") {
  std::atomic<int> n_allowed{0}, n_steps{0};
  EngineBench bench(letters,
                    [&](const Batch&) {
                      for (int seen = n_allowed; n_steps >= seen; seen = n_allowed) n_allowed.wait(seen);
                      if (++n_steps == 3) throw std::runtime_error("the device is gone");
                    },
                    {.n_slots = 2, .context_tokens = 64, .queue_capacity = 16, .prefill_chunk = 8});
  Crowd crowd(bench.model);
  for (const char* stream : {"false", "true", "false", "true"})
    crowd.ask(std::string(R"({"prompt": "p", "ignore_eos": true, "max_tokens": 30, "stream": )") + stream +
              "}");
  // Two run, two wait.
  while (bench.real.status().n_running + bench.real.status().n_waiting < 4) std::this_thread::yield();
  n_allowed = 3;
  n_allowed.notify_all();
  crowd.threads.clear();
  for (const RecordingClient& client : crowd.clients) {
    const Answered answer(client);
    json error;
    CHECK(answer.finished);
    if (answer.begun) {
      error = sse_data(answer.body).back().at("error");
      CHECK_THAT(answer.body, !ContainsSubstring("[DONE]"));
    } else {
      CHECK(answer.status == 500);
      CHECK(header_of(answer, "x-should-retry") == "false");
      error = json::parse(answer.body)["error"];
    }
    CHECK(error["code"] == "engine_failed");
    CHECK_THAT(error["message"].get<std::string>(), ContainsSubstring("the device is gone"));
  }
  const Answered later = bench.completions(R"({"prompt": "p"})");
  CHECK(later.status == 503);
  CHECK_THAT(later.body, ContainsSubstring("engine_failed"));
}

TEST_CASE("a full queue is 429 at once") {
  std::atomic<bool> open{false};
  EngineBench bench(letters, [&](const Batch&) { open.wait(false); },
                    {.n_slots = 1, .context_tokens = 64, .queue_capacity = 1, .prefill_chunk = 8});
  Crowd crowd(bench.model);
  const std::string body = R"({"prompt": "p", "max_tokens": 2})";
  crowd.ask(body);
  while (bench.real.status().n_running < 1) std::this_thread::yield();
  crowd.ask(body);
  while (bench.real.status().n_waiting < 1) std::this_thread::yield();
  CHECK(bench.completions(body).status == 429);
  open = true;
  open.notify_all();
  crowd.threads.clear();
  for (const RecordingClient& client : crowd.clients)
    CHECK(whole_body(Answered(client))["object"] == "text_completion");
}

TEST_CASE("best_of over the engine ranks the generated choices") {
  EngineBench bench;
  const std::string body = R"({"prompt": "p", "seed": 3, "max_tokens": 6, "logprobs": 0)";
  const auto mean = [](const json& choice) {
    double sum = 0;
    for (const json& logprob : choice["logprobs"]["token_logprobs"]) sum += logprob.get<double>();
    const size_t n = choice["logprobs"]["token_logprobs"].size();
    return n == 0 ? -1e9 : sum / static_cast<double>(n);
  };
  const json all = whole_body(bench.completions(body + R"(, "n": 5})"));
  double best = -1e9;
  for (const json& choice : all["choices"]) best = std::max(best, mean(choice));
  const json picked = whole_body(bench.completions(body + R"(, "best_of": 5})"));
  REQUIRE(picked["choices"].size() == 1);
  CHECK(mean(picked["choices"][0]) == Approx(best));
}

}  // namespace
}  // namespace hearth
