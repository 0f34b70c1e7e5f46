// A bench to put the handlers on without sockets and, if wished, without an engine: played events, a recording
// client, a still clock. Used by the api_*_test files.
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
#include "tests/support/catch.h"

namespace hearth {

/// Takes requests like the engine; the test says what comes back.
struct PlayedEngine : TokenGenerator {
  std::vector<GenerationRequest> requests;
  std::shared_ptr<TokenStream> stream;  // of the last request
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

/// One token for every byte of the text, the k-th with log-probability -0.25 * (k + 1) and these
/// alternatives.
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

/// A client that keeps what it gets.
class RecordingClient final : public ResponseSink {
 public:
  std::string received;
  std::vector<std::string> writes;
  std::optional<GenerationRecord> reported;
  std::function<bool()> alive = [] { return true; };
  std::function<bool(std::string_view)> on_write = [](std::string_view) { return true; };

  bool write(std::string_view bytes) override {
    received += bytes;
    writes.emplace_back(bytes);
    return on_write(bytes);
  }
  bool client_alive() override { return alive(); }
  void report(const GenerationRecord& record) override { reported = record; }
};

/// The error that an endpoint of OpenAI's answers with.
inline nlohmann::json error_of(const HttpResponse& response) {
  CHECK_FALSE(response.produce);
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

/// A report in which every field that is shown has a value of its own.
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

struct ApiBench {
  ApiVocabulary vocabulary;
  ChatTemplate chat_template = ChatTemplate::parse(kBenchTemplate, "<s>", "</s>");
  PlayedEngine engine;
  std::mutex time_mutex;
  std::chrono::steady_clock::time_point time{};
  std::chrono::seconds tick{0};  // added each time the clock is read
  ServedModel model{.names = {"tiny", "org/tiny"},
                    .any_name = false,
                    .created = 1600000000,
                    .owned_by = "hearth",
                    .fingerprint = "fp_test",
                    .context_tokens = 64,
                    .device = "CPU",
                    .sparsity = played_sparsity(),
                    .tokenizer = &vocabulary,
                    .chat_template = &chat_template,
                    .engine = &engine};

  explicit ApiBench(std::vector<std::string> words = {}, bool adds_bos = false)
      : vocabulary(std::move(words), adds_bos) {}
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
  HttpResponse completions(std::string body) {
    return hearth::completions(ApiContext(model, world()), post(std::move(body)));
  }
  HttpResponse chat(std::string body) {
    return hearth::chat_completions(ApiContext(model, world()), post(std::move(body)));
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

/// The data of server-sent events, comments left out; "[DONE]" as a JSON string.
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

/// The body of an answer that is sent whole. Throws if it was broken off.
inline nlohmann::json whole_body(const HttpResponse& response) {
  if (!response.produce) return nlohmann::json::parse(response.body);
  RecordingClient client;
  if (!response.produce(client)) throw std::runtime_error("the answer was broken off");
  return nlohmann::json::parse(client.received);
}

}  // namespace hearth
