// /v1/rerank without an engine: which pairs the engine is given, what clients get from the scores, and what
// is refused.
#include "server/api/rerank/rerank.h"

#include <cmath>

#include "server/api/openai/embeddings.h"
#include "server/api/rerank/pair_tokens.h"
#include "tests/server/api/api_bench.h"
#include "tests/support/catch.h"

namespace hearth::rerank_test {
namespace {

using nlohmann::json;

/// A model that ranks: encodes bytes, with a begin token.
struct RankBench : ApiBench {
  RankBench() : ApiBench({}, /*adds_bos=*/true) {
    model.looks_ahead = true;
    model.n_scores = 1;
    model.pooling = Pooling::kFirst;
  }
  Answered rank(std::string body) {
    RecordingClient client = ending_client();
    rerank(ApiContext(model, world()), post(std::move(body)), {}, client);
    return Answered(client);
  }
  std::string refusal(std::string body) {
    const Answered answer = rank(std::move(body));
    CHECK(answer.status == 400);
    return error_of(answer)["message"];
  }
};

void play_scores(TokenStream& stream, const std::vector<std::vector<float>>& scores) {
  for (int i = static_cast<int>(scores.size()) - 1; i >= 0; --i) {
    stream.push({.sequence = i, .what = EmbeddingEvent{scores[static_cast<size_t>(i)]}});
    play_end(stream, i, FinishReason::kStop);
  }
}

}  // namespace

TEST_CASE("reranking: the most relevant document comes first, and equal ones keep their order") {
  RankBench bench;
  bench.engine.play = [](TokenStream& stream) { play_scores(stream, {{-1}, {2}, {-1}, {0}}); };
  const Answered answer = bench.rank(
      R"({"query": "ab", "documents": ["c", {"text": "de", "id": 5}, "f", "g"], "return_documents": true})");
  CHECK(answer.status == 200);
  const json body = whole_body(answer);
  CHECK(body["id"].get<std::string>().starts_with("rerank-"));
  CHECK(body["object"] == "list");
  CHECK(body["model"] == "tiny");
  CHECK(body["usage"] == json{{"prompt_tokens", 17}, {"total_tokens", 17}});
  REQUIRE(body["results"].size() == 4);
  const std::vector<int> order = {1, 3, 0, 2};
  for (size_t i = 0; i < order.size(); ++i) CHECK(body["results"][i]["index"] == order[i]);
  CHECK(body["results"][0]["document"] == json{{"text", "de"}});
  CHECK(body["results"][0]["relevance_score"].get<double>() == Approx(1 / (1 + std::exp(-2.0))));
  CHECK(body["results"][1]["relevance_score"] == 0.5);
}

TEST_CASE("reranking: top_n shortens the list, and raw scores are logits") {
  RankBench bench;
  bench.engine.play = [](TokenStream& stream) { play_scores(stream, {{-1}, {2}, {3}}); };
  const std::string body = R"({"query": "q", "documents": ["a", "b", "c"], "top_n": 2, )";
  for (const char* raw : {R"("raw_scores": true})", R"("use_activation": false})"}) {
    const json results = whole_body(bench.rank(body + raw))["results"];
    CHECK(results ==
          json::parse(R"([{"index": 2, "relevance_score": 3.0}, {"index": 1, "relevance_score": 2.0}])"));
  }
  CHECK(whole_body(bench.rank(R"({"query": "q", "documents": ["a", "b", "c"], "top_n": 9})"))["results"]
            .size() == 3);
}

TEST_CASE("reranking: of two scores, the difference of yes and no is the logit") {
  CHECK(relevance_of({3.0f, 1.0f}, true) == 2.0);
  CHECK(relevance_of({3.0f, 1.0f}, false) == Approx(std::exp(3.0) / (std::exp(3.0) + std::exp(1.0))));
  CHECK(relevance_of({-800.0f}, false) == 0.0);
  CHECK(relevance_of({800.0f}, false) == 1.0);
}

TEST_CASE("reranking: each document is a sequence with the query before it") {
  RankBench bench;
  bench.engine.play = [](TokenStream& stream) { play_scores(stream, {{0}, {0}}); };
  bench.rank(R"({"query": "ab", "documents": ["c", "de"]})");
  const GenerationRequest& request = bench.engine.requests.at(0);
  REQUIRE(request.sequences.size() == 2);
  CHECK(request.sequences[0].prompt == std::vector<int32_t>{ApiVocabulary::kBos, 'a', 'b', 'c'});
  CHECK(request.sequences[1].prompt == std::vector<int32_t>{ApiVocabulary::kBos, 'a', 'b', 'd', 'e'});
  CHECK(request.sequences[1].second_text == 3);
  CHECK(request.sequences[0].embedding == Pooling::kFirst);
  CHECK(request.sequences[0].max_tokens == 0);
}

TEST_CASE("reranking: documents are cut at their end, the query never") {
  RankBench bench;  // context 64
  bench.engine.play = [](TokenStream& stream) { play_scores(stream, {{0}}); };
  const std::string text(100, 'x');
  const auto prompt = [&](const std::string& more) {
    bench.rank(R"({"query": "ab", "documents": [")" + text + R"("], )" + more + "}");
    return bench.engine.requests.back().sequences.at(0).prompt;
  };
  CHECK(prompt(R"("max_tokens_per_doc": 2)") ==
        std::vector<int32_t>{ApiVocabulary::kBos, 'a', 'b', 'x', 'x'});
  CHECK(prompt(R"("truncate_prompt_tokens": -1)").size() == 64);
  CHECK(prompt(R"("truncate_prompt_tokens": 4)") == std::vector<int32_t>{ApiVocabulary::kBos, 'a', 'b', 'x'});
  CHECK(prompt(R"("truncate_prompt_tokens": 1)") == std::vector<int32_t>{ApiVocabulary::kBos, 'a', 'b'});
  const Answered refused = bench.rank(R"({"query": "ab", "documents": ["a", ")" + text + "\"]}");
  CHECK(refused.status == 400);
  CHECK(error_of(refused)["code"] == "context_length_exceeded");
  CHECK_THAT(error_of(refused)["message"].get<std::string>(), ContainsSubstring("document 1 have 103"));
  CHECK(error_of(bench.rank(R"({"query": ")" + text + R"(", "documents": ["a"]})"))["code"] ==
        "context_length_exceeded");
}

TEST_CASE("reranking: a template's control tokens are not those of texts") {
  RankBench bench;
  bench.model.looks_ahead = false;
  bench.model.n_scores = 2;
  bench.model.rank_template = "Q{query}|D{document}.";
  const auto tokens = [&](const std::string& query, const std::string& document, const PairLimits& limits) {
    return pair_tokens(bench.model, query, document, limits).tokens;
  };
  const auto bytes = [](std::string_view text) { return std::vector<int32_t>(text.begin(), text.end()); };
  CHECK(tokens("ab", "cd", {}) == bytes("Qab|Dcd."));
  CHECK(tokens("{document}", "{query}", {}) == bytes("Q{document}|D{query}."));  // texts are not filled
  CHECK(tokens("ab", "cdef", {.document = 1, .pair = {}}) == bytes("Qab|Dc."));
  CHECK(tokens("ab", "cdef", {.document = {}, .pair = 9}) == bytes("Qab|Dcde."));
  CHECK(tokens("ab", "cdef", {.document = {}, .pair = 2}) == bytes("Qab|D."));
}

TEST_CASE("reranking: what cannot be ranked is refused with a sentence") {
  RankBench bench;
  for (const auto& [body, part] : std::vector<std::pair<std::string, std::string>>{
           {R"({"documents": ["a"]})", "'query' is missing or empty"},
           {R"({"query": "", "documents": ["a"]})", "'query' is missing or empty"},
           {R"({"query": 5, "documents": ["a"]})", "'query'"},
           {R"({"query": "a"})", "'documents' is missing"},
           {R"({"query": "a", "documents": []})", "'documents' is empty"},
           {R"({"query": "a", "documents": "b"})", "'documents'"},
           {R"({"query": "a", "documents": ["b", ""]})", "'documents[1]' is an empty text"},
           {R"({"query": "a", "documents": [{"text": ""}]})", "'documents[0]' is an empty text"},
           {R"({"query": "a", "documents": [{"image": "b"}]})", "'documents[0]' must be a string"},
           {R"({"query": "a", "documents": ["b", 7]})", "found the number 7"},
           {R"({"query": "a", "documents": ["b"], "top_n": 0})", "'top_n'"},
           {R"({"query": "a", "documents": ["b"], "truncate_prompt_tokens": 0})", "leaves nothing"},
           {R"({"query": "a", "documents": ["b"], "rank_fields": ["title"]})", "'rank_fields'"},
       }) {
    INFO(body);
    CHECK_THAT(bench.refusal(body), ContainsSubstring(part));
  }
  std::string many = R"({"query": "a", "documents": ["b")";
  for (int i = 0; i < 2048; ++i) many += R"(,"b")";
  CHECK_THAT(bench.refusal(many + "]}"), ContainsSubstring("has 2049 texts"));
  CHECK(bench.engine.requests.empty());
}

TEST_CASE("reranking: of two models, the one that ranks does, and the other embeds") {
  RankBench bench;
  ApiVocabulary other_vocabulary;
  PlayedEngine other;
  other.play = [](TokenStream& stream) { play_scores(stream, {{1}}); };
  bench.engine.play = other.play;
  bench.model.embedder = {.names = {"other"},
                          .context_tokens = 9,
                          .n_dimensions = 1,
                          .device = {},
                          .tokenizer = &other_vocabulary,
                          .engine = &other};
  const std::string rank = R"({"query": "a", "documents": ["b"])", embed = R"({"input": "a")";
  const auto ask = [&](bool ranks, const std::string& model) {
    const std::string body =
        (ranks ? rank : embed) + (model.empty() ? "}" : R"(, "model": ")" + model + "\"}");
    RecordingClient client = bench.ending_client();
    (ranks ? rerank : embeddings)(ApiContext(bench.model, bench.world()), bench.post(body), {}, client);
    return Answered(client);
  };
  CHECK(whole_body(ask(true, ""))["model"] == "tiny");
  CHECK(whole_body(ask(false, ""))["model"] == "other");
  CHECK_THAT(error_of(ask(true, "other"))["message"].get<std::string>(),
             ContainsSubstring("'other' does not rank texts"));
  CHECK_THAT(error_of(ask(false, "tiny"))["message"].get<std::string>(),
             ContainsSubstring("'tiny' ranks documents") && ContainsSubstring("/v1/rerank"));
  std::swap(bench.model.n_scores, bench.model.embedder->n_scores);
  bench.model.looks_ahead = false;
  CHECK(whole_body(ask(true, ""))["model"] == "other");
  CHECK(whole_body(ask(false, ""))["model"] == "tiny");
  CHECK_THAT(
      error_of(bench.completions(R"({"prompt": "a", "model": "other"})"))["message"].get<std::string>(),
      ContainsSubstring("ranks texts and does nothing else"));
  bench.model.embedder.reset();
  CHECK_THAT(error_of(ask(true, ""))["message"].get<std::string>(), ContainsSubstring("load a reranker"));
}

TEST_CASE("reranking: a model that ranks neither completes nor chats") {
  RankBench bench;
  for (const Answered& refused : {bench.completions(R"({"prompt": "a"})"),
                                  bench.chat(R"({"messages": [{"role": "user", "content": "a"}]})")}) {
    CHECK(refused.status == 400);
    CHECK_THAT(error_of(refused)["message"].get<std::string>(), ContainsSubstring("/v1/rerank"));
  }
}

}  // namespace hearth::rerank_test
