// See the header.
#include "server/api/rerank/rerank_request.h"

#include <algorithm>

#include "server/api/request/prompts.h"
#include "server/api/request/unsupported_fields.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

/// Parameters of other servers that would change the scores, and are therefore refused.
constexpr RefusedField kRefusedInRerank[] = {
    {"rank_fields", R"([["text"]])", "send each document as one text"},
    {"max_chunks_per_doc", "[1]", "a document is not cut into parts; send the parts as documents"},
    {"truncation_side", R"(["right"])", "the beginning of a document is kept"},
    {"return_embeddings", "[false]", "send the texts to /v1/embeddings, with a model that embeds"},
};

std::string read_document(const Json& document, const std::string& where) {
  const Json* text = &document;
  if (document.is_object()) {
    const auto found = document.find("text");
    text = found == document.end() ? nullptr : &*found;
  }
  if (text == nullptr || !text->is_string()) {
    refuse_param("documents", "'" + where + "' must be a string or an object with the string 'text', found " +
                                  describe(document) + ".");
  }
  if (text->get_ref<const std::string&>().empty())
    refuse_param("documents", "'" + where + "' is an empty text, which cannot be ranked; leave it out.");
  return text->get<std::string>();
}

std::vector<std::string> read_documents(const RequestFields& fields) {
  const Json* array = fields.array("documents");
  if (array == nullptr || array->empty()) {
    refuse_param("documents", std::string("'documents' is ") + (array == nullptr ? "missing" : "empty") +
                                  "; send an array of the texts to rank.");
  }
  if (array->size() > kMaxSequences) {
    refuse_param("documents", "'documents' has " + std::to_string(array->size()) + " texts; at most " +
                                  std::to_string(kMaxSequences) + " are allowed in one request.");
  }
  std::vector<std::string> documents;
  for (const Json& document : *array)
    documents.push_back(read_document(document, "documents[" + std::to_string(documents.size()) + "]"));
  return documents;
}

}  // namespace

RerankRequest parse_rerank_request(const Json& body) {
  const RequestFields fields(body);
  refuse_fields(fields, kRefusedInRerank);
  RerankRequest request;
  request.query = fields.string("query").value_or("");
  if (request.query.empty())
    refuse_param("query", "'query' is missing or empty; send the text for which documents are ranked.");
  request.documents = read_documents(fields);
  if (const std::optional<int64_t> n = fields.integer("top_n", 1, kMost))
    request.top_n = static_cast<size_t>(*n);
  request.return_documents = fields.boolean("return_documents").value_or(false);
  request.raw_scores = fields.boolean("raw_scores").value_or(false) ||
                       !fields.boolean("use_activation").value_or(true);  // vLLM's name
  request.max_tokens_per_doc = fields.integer("max_tokens_per_doc", 1, kMost);
  request.n_kept_tokens = fields.integer("truncate_prompt_tokens", -1, kMost);
  if (request.n_kept_tokens == 0)
    refuse_param("truncate_prompt_tokens",
                 "'truncate_prompt_tokens' is 0, which leaves nothing to rank; send "
                 "a number of tokens, or -1 for as many as fit.");
  return request;
}

}  // namespace hearth
