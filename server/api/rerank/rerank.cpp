// See the header.
#include "server/api/rerank/rerank.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "server/api/answer/respond.h"
#include "server/api/openai/embeddings.h"
#include "server/api/request/prompt_tokens.h"
#include "server/api/rerank/pair_tokens.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

void require_ranks(const EmbeddingTarget& target) {
  if (target.ranks()) return;
  refuse_param("model",
               "The model '" + target.names.front() +
                   "' does not rank texts; load a reranker with --model or --embedding-model, such as "
                   "a GGUF file of bge-reranker-v2-m3 or Qwen3-Reranker.");
}

PairLimits limits_of(const RerankRequest& asked, const EmbeddingTarget& target) {
  PairLimits limits;
  if (asked.max_tokens_per_doc) limits.document = static_cast<size_t>(*asked.max_tokens_per_doc);
  if (asked.n_kept_tokens) {
    limits.pair =
        static_cast<size_t>(*asked.n_kept_tokens < 0 ? target.context_tokens : *asked.n_kept_tokens);
  }
  return limits;
}

[[noreturn]] void refuse_long_pair(size_t index, size_t n_tokens, int context_tokens) {
  refuse_param("documents[" + std::to_string(index) + "]",
               "This model's maximum context length is " + std::to_string(context_tokens) +
                   " tokens. However, the query and document " + std::to_string(index) + " have " +
                   std::to_string(n_tokens) +
                   ". Please shorten them, or send 'truncate_prompt_tokens': -1 to rank the beginning of the "
                   "document that fits.",
               "context_length_exceeded");
}

GenerationRequest make_pairs(const RerankRequest& asked, const EmbeddingTarget& target) {
  const PairLimits limits = limits_of(asked, target);
  refuse_hopeless(asked.query, target.longest_token_bytes, target.context_tokens, "query");
  GenerationRequest request;
  for (const std::string& document : asked.documents) {
    if (!limits.document && !limits.pair)
      refuse_hopeless(document, target.longest_token_bytes, target.context_tokens,
                      "documents[" + std::to_string(request.sequences.size()) + "]");
    PairTokens pair = pair_tokens(target, asked.query, document, limits);
    if (pair.tokens.size() > static_cast<size_t>(target.context_tokens))
      refuse_long_pair(request.sequences.size(), pair.tokens.size(), target.context_tokens);
    SequenceRequest sequence;
    sequence.prompt = std::move(pair.tokens);
    sequence.second_text = pair.second_text;
    sequence.max_tokens = 0;
    sequence.embedding = target.pooling;
    request.sequences.push_back(std::move(sequence));
  }
  return request;
}

}  // namespace

double relevance_of(const std::vector<float>& scores, bool raw) {
  const double logit = scores.size() == 2 ? double{scores[0]} - double{scores[1]} : double{scores.front()};
  return raw ? logit : 1.0 / (1.0 + std::exp(-logit));
}

std::string rerank_json(const RerankRequest& asked, const std::vector<std::vector<float>>& scores,
                        const std::string& id, std::string_view model, int64_t n_prompt_tokens) {
  std::vector<double> relevance;
  for (const std::vector<float>& one : scores) relevance.push_back(relevance_of(one, asked.raw_scores));
  std::vector<size_t> order(relevance.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return relevance[i]; });
  order.resize(std::min(order.size(), asked.top_n.value_or(order.size())));
  Json results = Json::array();
  for (const size_t i : order) {
    Json result = {{"index", i}, {"relevance_score", relevance[i]}};
    if (asked.return_documents) result["document"] = {{"text", asked.documents[i]}};
    results.push_back(std::move(result));
  }
  return json_text({{"id", id},
                    {"object", "list"},
                    {"model", model},
                    {"results", std::move(results)},
                    {"usage", {{"prompt_tokens", n_prompt_tokens}, {"total_tokens", n_prompt_tokens}}}});
}

void rerank(const ApiContext& api, const HttpRequest& http, std::string_view path_model,
            ResponseWriter& writer) {
  read_and_answer(writer, ErrorStyle::kOpenAi, [&]() -> Reply {
    const Json body = parse_json_body(http.body);
    const auto [target, name] = api.rank_target(body, path_model);
    require_ranks(*target);
    RerankRequest asked = parse_rerank_request(body);
    GenerationRequest request = make_pairs(asked, *target);
    EmbeddingAnswer::Spec spec;
    spec.model = name;
    spec.body = [asked = std::move(asked), id = api.new_id("rerank-"), model = name](
                    std::vector<std::vector<float>> scores, const GenerationRecord& cost) {
      return rerank_json(asked, scores, id, model, cost.n_prompt);
    };
    return respond_with_results(api, http, *target, std::move(request), std::move(spec), "documents");
  });
}

}  // namespace hearth
