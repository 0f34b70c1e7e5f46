// A bench that runs the handlers without sockets and, if wanted, without an engine: played events, a
// recording client, a stopped clock. The api_*_test files use it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api/openai/completions.h"
#include "server/api/openai/models.h"
#include "server/chat/chat_template.h"
#include "tests/server/api/api_vocabulary.h"
#include "tests/server/http/recording_client.h"
#include "tests/support/catch.h"

namespace hearth {

/// Accepts requests like the engine. The test decides the answers.
struct PlayedEngine : TokenGenerator {
  std::vector<GenerationRequest> requests;
  std::shared_ptr<TokenStream> stream;  // the stream of the last request
  std::function<void(TokenStream&)> play = [](TokenStream&) {};
  std::optional<Refusal> refusal;
  bool failed = false;
  EngineStatus now;

  std::variant<std::shared_ptr<TokenStream>, Refusal> submit(GenerationRequest request) override {
    if (refusal) return *refusal;
    stream = std::make_shared<TokenStream>(static_cast<int>(request.sequences.size()));
    requests.push_back(std::move(request));
    play(*stream);
    return stream;
  }
  EngineStatus status() const override {
    EngineStatus status = now;
    status.failed = failed;
    return status;
  }
};

/// Sends one token for every byte of the text. Token k has the log-probability -0.25 * (k + 1) and the
/// alternatives `top`.
inline void play_text(TokenStream& stream, int sequence, std::string_view text,
                      const std::vector<TokenLogprob>& top = {}) {
  float logprob = 0;
  for (const char c : text) {
    logprob -= 0.25F;
    TokenEvent event{.token = static_cast<unsigned char>(c), .logprob = logprob, .top = top};
    stream.push({.sequence = sequence, .what = std::move(event)});
  }
}

inline void play_end(TokenStream& stream, int sequence, FinishReason reason, int n_cached = 0,
                     std::string error = {}) {
  FinishedEvent event{.queue_seconds = 1, .prefill_seconds = 2, .decode_seconds = 3, .error = {}};
  event.reason = reason;
  event.n_cached_tokens = n_cached;
  event.error = std::move(error);
  stream.push({.sequence = sequence, .what = std::move(event)});
}

inline void play_hi(TokenStream& stream) {
  play_text(stream, 0, "Hi");
  play_end(stream, 0, FinishReason::kStop, 2);
}

/// A client that records its answer.
struct Answered : HttpResponse {
  bool begun = false;     // the body was written
  bool finished = false;  // false: the answer was broken off

  explicit Answered(const RecordingClient& client)
      : HttpResponse(client.head), begun(client.begun), finished(client.finished) {
    body = client.received;
  }
};

/// Returns the error in an answer of an endpoint of OpenAI's API.
inline nlohmann::json error_of(const HttpResponse& response) {
  CHECK(response.content_type == "application/json");
  const nlohmann::json error = nlohmann::json::parse(response.body)["error"];
  CHECK(error.size() == 4);
  return error;
}

inline constexpr const char* kBenchTemplate =
    "{% for m in messages %}{% if m.role == 'robot' or m.content == 'bad' %}"
    "{{ raise_exception('bad words are not taken') }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if tools %}<tools>{{ tools | tojson }}{% endif %}{% if mood %}<mood {{ mood }}>{% endif %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

/// A report in which every shown field has a different value.
inline SparsityReport played_sparsity() {
  SparsityReport report;
  report.mode = Sparsity::kPredicted;
  report.reason = "asked for";
  report.activity.n_tokens = 8;
  report.activity.proposed = 0.5;
  report.activity.active = 0.25;
  report.bytes_per_token = 1000.6;
  report.dense_bytes_per_token = 2000;
  report.predictor_threshold = -1.5;
  return report;
}

/// Handlers: one that writes its answer, and one that returns it.
using WritingHandler = void (*)(const ApiContext&, const HttpRequest&, std::string_view, ResponseWriter&);
using WholeHandler = HttpResponse (*)(const ApiContext&, const HttpRequest&, std::string_view);

struct ApiBench {
  ApiVocabulary vocabulary;
  ChatTemplate chat_template = ChatTemplate::parse(kBenchTemplate, "<s>", "</s>");
  PlayedEngine engine;
  std::mutex time_mutex;
  std::chrono::steady_clock::time_point time{};
  std::chrono::seconds tick{0};  // added whenever the clock is read
  ServedModel model;

  explicit ApiBench(std::vector<std::string> words = {}, bool adds_bos = false)
      : vocabulary(std::move(words), adds_bos) {
    model.names = {"tiny", "org/tiny"};
    model.created = 1600000000;
    model.fingerprint = "fp_test";
    model.context_tokens = 64;
    model.device = "CPU";
    model.sparsity = played_sparsity();
    model.tokenizer = &vocabulary;
    model.chat_template = &chat_template;
    model.engine = &engine;
  }
  ApiBench(const ApiBench&) = delete;
  ApiBench& operator=(const ApiBench&) = delete;

  ApiWorld world() {
    return {.unix_seconds = [] { return int64_t{1700000000}; },
            .now =
                [this] {
                  const std::lock_guard lock(time_mutex);  // engines have a thread of their own
                  return time += tick;
                },
            .random_bits = [] { return uint64_t{0}; }};
  }
  Answered completions(std::string body) { return call(hearth::completions, std::move(body)); }
  Answered completions(std::string body, RecordingClient& client) {
    return call(hearth::completions, std::move(body), client);
  }
  Answered chat(std::string body) { return call(hearth::chat_completions, std::move(body)); }
  Answered chat(std::string body, RecordingClient& client) {
    return call(hearth::chat_completions, std::move(body), client);
  }

  /// Returns the answer of a handler that writes. After the played events, the open sequences end.
  Answered call(WritingHandler handler, std::string body) {
    RecordingClient client = ending_client();
    return call(handler, std::move(body), client);
  }
  Answered call(WritingHandler handler, std::string body, RecordingClient& client) {
    handler(ApiContext(model, world()), post(std::move(body)), {}, client);
    return Answered(client);
  }
  /// Returns the answer of a handler that returns its answer.
  HttpResponse call(WholeHandler handler, std::string body) {
    return handler(ApiContext(model, world()), post(std::move(body)), {});
  }

  /// A client that ends the played engine's sequences when it is first asked whether it is alive.
  RecordingClient ending_client() {
    RecordingClient client;
    client.alive = [this, ended = false]() mutable {
      if (engine.stream == nullptr || std::exchange(ended, true)) return true;
      for (size_t i = 0; i < engine.requests.back().sequences.size(); ++i)
        play_end(*engine.stream, static_cast<int>(i), FinishReason::kStop);
      return true;
    };
    return client;
  }

  static HttpRequest post(std::string body) {
    HttpRequest request;
    request.method = "POST";
    request.body = std::move(body);
    return request;
  }
};

inline std::string header_of(const HttpResponse& response, std::string_view name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return {};
}

/// Returns the data of server-sent events, without comments; "[DONE]" becomes a JSON string.
inline std::vector<nlohmann::json> sse_data(std::string_view body) {
  std::vector<nlohmann::json> events;
  while (!body.empty()) {
    const size_t end = body.find("\n\n");
    if (end == std::string_view::npos) throw std::runtime_error("an event without its end");
    const std::string_view event = body.substr(0, end);
    body.remove_prefix(end + 2);
    if (event.substr(0, 1) == ":") continue;
    if (event.substr(0, 6) != "data: ") throw std::runtime_error("an event without data");
    const std::string_view data = event.substr(6);
    events.push_back(data == "[DONE]" ? nlohmann::json("[DONE]") : nlohmann::json::parse(data));
  }
  return events;
}

/// Returns the body of an answer that is sent whole. Throws if the answer was cut off.
inline nlohmann::json whole_body(const Answered& answer) {
  if (!answer.finished) throw std::runtime_error("the answer was broken off");
  return nlohmann::json::parse(answer.body);
}

}  // namespace hearth
