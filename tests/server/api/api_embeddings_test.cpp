// /v1/embeddings without an engine: what the engine is given, what clients get from its vectors, and
// everything that can go wrong.
#include <cmath>
#include <cstring>

#include "server/api/openai/embedding_json.h"
#include "server/api/openai/embeddings.h"
#include "tests/server/api/api_bench.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

using nlohmann::json;

struct EmbeddingBench : ApiBench {
  explicit EmbeddingBench(bool adds_bos = false) : ApiBench({}, adds_bos) {
    model.n_dimensions = 4;
    model.pooling = Pooling::kMean;
  }
  Answered embed(std::string body, std::string_view path_model = {}) {
    RecordingClient client = ending_client();
    return embed(std::move(body), client, path_model);
  }
  Answered embed(std::string body, RecordingClient& client, std::string_view path_model = {}) {
    embeddings(ApiContext(model, world()), post(std::move(body)), path_model, client);
    return Answered(client);
  }
};

void play_vector(TokenStream& stream, int sequence, std::vector<float> values) {
  stream.push({.sequence = sequence, .what = EmbeddingEvent{std::move(values)}});
  play_end(stream, sequence, FinishReason::kStop);
}

/// The body of an answer, obtained through before_status like the transport does.
json answer_of(const Answered& answer) {
  CHECK(answer.status == 200);
  CHECK_FALSE(answer.begun);
  return whole_body(answer);
}

TEST_CASE("base64 of floats encodes their bytes, little-endian") {
  CHECK(base64_of({}).empty());
  const std::vector<float> values = {1.0f, -2.0f, 0.0f, 0.1f};
  CHECK(base64_of(std::span(values).first(1)) == "AACAPw==");
  CHECK(base64_of(std::span(values).first(2)) == "AACAPwAAAMA=");
  CHECK(base64_of(std::span(values).first(3)) == "AACAPwAAAMAAAAAA");
  CHECK(base64_of(values) == "AACAPwAAAMAAAAAAzczMPQ==");
}

TEST_CASE("a shortened vector has length 1 again, an uncut one keeps its bits") {
  CHECK(shortened({3.0f, 4.0f, 12.0f}, 2) == std::vector<float>{0.6f, 0.8f});
  CHECK(shortened({3.0f, 4.0f}, 2) == std::vector<float>{3.0f, 4.0f});
  CHECK(shortened({0.0f, 0.0f, 1.0f}, 2) == std::vector<float>{0.0f, 0.0f});
  CHECK(shortened({-1e-30f, 1.0f}, 1) == std::vector<float>{-1.0f});
}

TEST_CASE("numbers in the answer parse to the same floats") {
  const std::vector<float> values = {0.1f, -1.0f / 3, 1e-30f, 0.0f, 1.0f};
  const json answer = json::parse(embeddings_json({values}, {}, "a \"name\"", 7));
  CHECK(answer["model"] == "a \"name\"");
  const json& numbers = answer["data"][0]["embedding"];
  REQUIRE(numbers.size() == values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const float read = std::stof(numbers[i].dump());
    CHECK(std::memcmp(&read, &values[i], sizeof read) == 0);
  }
}

TEST_CASE("every input becomes a sequence that is embedded as the model says") {
  EmbeddingBench bench(/*adds_bos=*/true);
  bench.embed(R"({"input": ["ab", "c"]})");
  bench.embed(R"({"input": [[97, 98], [99.0]]})");
  bench.embed(R"({"input": [7, 8]})");
  bench.embed(R"({"input": "ab", "add_special_tokens": false})");
  const auto prompts = [&](size_t request) {
    std::vector<std::vector<int32_t>> all;
    for (const SequenceRequest& sequence : bench.engine.requests.at(request).sequences) {
      CHECK(sequence.embedding == Pooling::kMean);
      CHECK(sequence.max_tokens == 0);
      all.push_back(sequence.prompt);
    }
    return all;
  };
  using Prompts = std::vector<std::vector<int32_t>>;
  CHECK(prompts(0) == Prompts{{ApiVocabulary::kBos, 97, 98}, {ApiVocabulary::kBos, 99}});
  CHECK(prompts(1) == Prompts{{97, 98}, {99}});
  CHECK(prompts(2) == Prompts{{7, 8}});
  CHECK(prompts(3) == Prompts{{97, 98}});
}

TEST_CASE("vectors are in the order of the inputs, whenever they were computed") {
  EmbeddingBench bench;
  bench.engine.play = [](TokenStream& stream) {
    for (int i = 2; i >= 0; --i) play_vector(stream, i, {static_cast<float>(i), 0, 0, 1});
  };
  const json answer = answer_of(bench.embed(R"({"input": ["abc", "d", "ef"], "model": "org/tiny"})"));
  CHECK(answer["object"] == "list");
  CHECK(answer["model"] == "org/tiny");
  CHECK(answer["usage"] == json{{"prompt_tokens", 6}, {"total_tokens", 6}});
  REQUIRE(answer["data"].size() == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(answer["data"][static_cast<size_t>(i)] ==
          json{{"object", "embedding"}, {"index", i}, {"embedding", {i, 0, 0, 1}}});
  }
}

TEST_CASE("dimensions and base64 apply to the vector that is sent") {
  EmbeddingBench bench;
  bench.engine.play = [](TokenStream& stream) { play_vector(stream, 0, {0.6f, 0, 0, 0.8f}); };
  CHECK(answer_of(bench.embed(
            R"({"input": "a", "dimensions": 1, "encoding_format": "base64"})"))["data"][0]["embedding"] ==
        "AACAPw==");
  CHECK(answer_of(bench.embed(R"({"input": "a", "dimensions": 2})"))["data"][0]["embedding"] == json{1, 0});
  CHECK(answer_of(bench.embed(R"({"input": "a", "dimensions": 4})"))["data"][0]["embedding"].size() == 4);
}

TEST_CASE("truncation keeps the requested number of last tokens, or as many as fit") {
  EmbeddingBench bench(/*adds_bos=*/true);  // context 64
  const std::string text(100, 'x');
  bench.embed(R"({"input": "abcdef", "truncate_prompt_tokens": 2})");
  bench.embed(R"({"input": ")" + text + R"(", "truncate_prompt_tokens": -1})");
  bench.embed(R"({"input": [1, 2, 3], "truncate_prompt_tokens": 9223372036854775807})");
  CHECK(bench.engine.requests.at(0).sequences[0].prompt == std::vector<int32_t>{'e', 'f'});
  CHECK(bench.engine.requests.at(1).sequences[0].prompt == std::vector<int32_t>(64, 'x'));
  CHECK(bench.engine.requests.at(2).sequences[0].prompt == std::vector<int32_t>{1, 2, 3});
  for (const char* more : {"", R"(, "truncate_prompt_tokens": 65)"}) {
    const Answered refused = bench.embed(R"({"input": ["a", ")" + text + "\"]" + more + "}");
    CHECK(refused.status == 400);
    CHECK(error_of(refused)["code"] == "context_length_exceeded");
    CHECK(error_of(refused)["param"] == "input");
  }
  CHECK_THAT(error_of(bench.embed(R"({"input": ["a", ")" + text + R"("]})"))["message"].get<std::string>(),
             ContainsSubstring("input 1 has 101"));
}

TEST_CASE("an input without a token is refused") {
  class Silent final : public Tokenizer {
   public:
    std::vector<int32_t> encode(std::string_view, bool, bool) const override { return {}; }
    void append_bytes(int32_t, bool, std::string&) const override {}
    int n_vocab() const override { return 5; }
    int32_t bos() const override { return -1; }
    int32_t eos() const override { return -1; }
    const std::vector<int32_t>& end_tokens() const override { return none_; }
    const std::vector<int32_t>& suppressed_tokens() const override { return none_; }
    bool is_control(int32_t) const override { return false; }
    std::string_view spelling(int32_t) const override { return {}; }
    const FimTokens& fim() const override { return fim_; }
    bool strips_leading_space() const override { return false; }

   private:
    std::vector<int32_t> none_;
    FimTokens fim_;
  };
  EmbeddingBench bench;
  const Silent silent;
  bench.model.embedder = {.names = {"silent"},
                          .context_tokens = 9,
                          .n_dimensions = 4,
                          .device = {},
                          .tokenizer = &silent,
                          .engine = &bench.engine};
  const Answered refused = bench.embed(R"({"input": ["a"]})");
  CHECK(refused.status == 400);
  CHECK(error_of(refused)["param"] == "input");
}

TEST_CASE("a failed text fails the answer, with a status") {
  for (const FinishReason reason : {FinishReason::kFailed, FinishReason::kCancelled}) {
    EmbeddingBench bench;
    bench.engine.play = [reason](TokenStream& stream) {
      play_vector(stream, 0, {1, 0, 0, 0});
      play_end(stream, 1, reason, 0, "a fault");
    };
    RecordingClient client;
    const Answered failure = bench.embed(R"({"input": ["a", "b"]})", client);
    CHECK(failure.status == (reason == FinishReason::kFailed ? 500 : 503));
    CHECK(error_of(failure)["code"] ==
          (reason == FinishReason::kFailed ? "engine_failed" : "server_stopping"));
    CHECK(header_of(failure, "Retry-After").empty() == (reason == FinishReason::kFailed));
    CHECK(bench.engine.stream->cancelled(0));
    CHECK(client.reported->ended == std::string_view("failed"));
  }
}

TEST_CASE("each refusal of the engine to embed has its own status") {
  EmbeddingBench bench;
  for (const auto& [refusal, status] :
       {std::pair{Refusal::kQueueFull, 429}, std::pair{Refusal::kStopping, 503},
        std::pair{Refusal::kContextExceeded, 400}}) {
    bench.engine.refusal = refusal;
    CHECK(bench.embed(R"({"input": "a"})").status == status);
  }
}

TEST_CASE("a client that leaves cancels its embeddings, and the log has the times") {
  EmbeddingBench bench;
  RecordingClient client;
  client.alive = [&] {
    if (!bench.engine.stream->cancelled(0)) play_end(*bench.engine.stream, 0, FinishReason::kCancelled);
    return false;
  };
  CHECK(bench.embed(R"({"input": "abc"})", client).status == 499);
  CHECK(client.released);
  CHECK(bench.engine.stream->cancelled(0));
  CHECK(client.reported->ended == std::string_view("client left"));
  CHECK(client.reported->n_prompt == 3);
  CHECK(client.reported->n_generated == 0);
  CHECK(client.reported->prefill_seconds == 2);
}

TEST_CASE(
    "with --keepalive-seconds blank lines come before the vectors, and a failure then breaks the answer "
    "off") {
  for (const bool fails : {false, true}) {
    EmbeddingBench bench;
    bench.model.blank_line_interval = std::chrono::seconds(10);
    bench.tick = std::chrono::seconds(6);
    RecordingClient client;
    int n_lines = 0;
    client.on_write = [&](std::string_view bytes) {
      if (bytes != "\n" || ++n_lines < 2) return true;
      if (fails)
        play_end(*bench.engine.stream, 0, FinishReason::kFailed, 0, "a fault");
      else
        play_vector(*bench.engine.stream, 0, {0, 1, 0, 0});
      return true;
    };
    const Answered answer = bench.embed(R"({"input": "a"})", client);
    CHECK(answer.begun);
    CHECK(answer.finished == !fails);
    CHECK(n_lines >= 2);
    CHECK(client.reported->ended == std::string_view(fails ? "failed" : "complete"));
    if (fails) {
      CHECK(client.received.find_first_not_of('\n') == std::string::npos);
    } else {
      CHECK(json::parse(client.received)["data"][0]["embedding"] == json{0, 1, 0, 0});
    }
  }
}

struct PairBench : EmbeddingBench {
  PairBench() {
    small.play = [](TokenStream& stream) { play_vector(stream, 0, {1, 0}); };
    engine.play = [](TokenStream& stream) { play_vector(stream, 0, {0, 0, 0, 1}); };
    model.embedder = {.names = {"small", "text-embedding-3-small"},
                      .created = 1650000000,
                      .context_tokens = 9,
                      .n_dimensions = 2,
                      .pooling = Pooling::kLast,
                      .device = "CPU, 1 thread",
                      .tokenizer = &small_vocabulary,
                      .engine = &small};
  }
  /// The name of the model that answers, and the length of its vectors.
  std::pair<std::string, size_t> asked_for(const std::string& name, std::string_view path_model = {}) {
    const std::string member = name.empty() ? "" : R"(, "model": ")" + name + "\"";
    const json answer = answer_of(embed(R"({"input": "a")" + member + "}", path_model));
    return {answer["model"], answer["data"][0]["embedding"].size()};
  }

  ApiVocabulary small_vocabulary;
  PlayedEngine small;
};

TEST_CASE("names choose between the model and the embedding model") {
  PairBench bench;
  using Chosen = std::pair<std::string, size_t>;
  CHECK(bench.asked_for("") == Chosen{"small", 2});
  CHECK(bench.asked_for("small") == Chosen{"small", 2});
  CHECK(bench.asked_for("text-embedding-3-small") == Chosen{"text-embedding-3-small", 2});
  CHECK(bench.asked_for("tiny") == Chosen{"tiny", 4});
  CHECK(bench.asked_for("", "org/tiny") == Chosen{"org/tiny", 4});
  CHECK(bench.asked_for("", "small") == Chosen{"small", 2});
  const Answered unknown = bench.embed(R"({"input": "a", "model": "other"})");
  CHECK(unknown.status == 404);
  for (const char* name : {"'tiny'", "'org/tiny'", "'small'", "'text-embedding-3-small'"}) {
    CHECK_THAT(error_of(unknown)["message"].get<std::string>(), ContainsSubstring(name));
  }
  bench.model.any_name = true;
  CHECK(bench.asked_for("other") == Chosen{"other", 2});
  CHECK(bench.asked_for("tiny") == Chosen{"tiny", 4});
}

TEST_CASE("limits are those of the model that embeds") {
  PairBench bench;
  CHECK(error_of(bench.embed(R"({"input": "a", "dimensions": 3})"))["param"] == "dimensions");
  CHECK(bench.embed(R"({"input": "a", "dimensions": 3, "model": "tiny"})").status == 200);
  CHECK(error_of(bench.embed(R"({"input": "0123456789"})"))["code"] == "context_length_exceeded");
  CHECK(bench.embed(R"({"input": "0123456789", "model": "tiny"})").status == 200);
}

TEST_CASE("the embedding model neither chats nor completes, even if any name is accepted") {
  PairBench bench;
  for (const bool any_name : {false, true}) {
    bench.model.any_name = any_name;
    for (const Answered& refused :
         {bench.completions(R"({"prompt": "a", "model": "small"})"),
          bench.chat(
              R"({"messages": [{"role": "user", "content": "a"}], "model": "text-embedding-3-small"})")}) {
      CHECK(refused.status == 400);
      CHECK(error_of(refused)["param"] == "model");
      CHECK_THAT(error_of(refused)["message"].get<std::string>(), ContainsSubstring("embeds texts"));
    }
  }
}

TEST_CASE("the list of models has both, and says what they embed") {
  PairBench bench;
  const ApiContext context(bench.model, bench.world());
  const json list = json::parse(list_models(context).body)["data"];
  REQUIRE(list.size() == 4);
  CHECK(list[0]["id"] == "tiny");
  CHECK(list[0]["embedding"] == json{{"dimensions", 4}, {"pooling", "mean"}});
  CHECK(list[2] == json{{"id", "small"},
                        {"aliases", json::array({"text-embedding-3-small"})},
                        {"object", "model"},
                        {"created", 1650000000},
                        {"owned_by", "hearth"},
                        {"max_model_len", 9},
                        {"device", "CPU, 1 thread"},
                        {"embedding", {{"dimensions", 2}, {"pooling", "last"}}},
                        {"ranks", false},
                        {"generates", false}});
  CHECK(json::parse(retrieve_model(context, "text-embedding-3-small").body)["max_model_len"] == 9);
  CHECK(retrieve_model(context, "other").status == 404);
}

}  // namespace
}  // namespace hearth
