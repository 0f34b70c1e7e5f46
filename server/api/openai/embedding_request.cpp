// Reads the parameters of embeddings according to OpenAI's specification, and vLLM's extensions.
#include "server/api/openai/embedding_request.h"

#include <limits>
#include <string>

#include "server/api/request/unsupported_fields.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

std::vector<Prompt> read_inputs(const RequestFields& fields, const RequestLimits& limits) {
  const Json* input = fields.find("input");
  if (input == nullptr) {
    refuse_param(
        "input",
        "'input' is missing; send a string, an array of strings, an array of token ids or an array of such "
        "arrays.");
  }
  std::vector<Prompt> inputs = read_prompts(*input, "input", limits);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string* text = std::get_if<std::string>(&inputs[i]);
    if (text == nullptr || !text->empty()) continue;
    const std::string which = input->is_string() ? "'input'" : "'input[" + std::to_string(i) + "]'";
    refuse_param("input", which + " is an empty string, which has no meaning to embed; leave it out.");
  }
  return inputs;
}

std::optional<int64_t> read_n_kept(const RequestFields& fields) {
  const std::optional<int64_t> n =
      fields.integer("truncate_prompt_tokens", -1, std::numeric_limits<int64_t>::max());
  if (n == 0) {
    refuse_param(
        "truncate_prompt_tokens",
        "'truncate_prompt_tokens' is 0, which would leave nothing to embed; send how many of the last tokens "
        "to keep, or -1 for as many as fit.");
  }
  return n;
}

/// Parameters of other servers that would change the vectors, and are therefore refused.
constexpr RefusedField kRefusedInEmbeddings[] = {
    {"normalize", "[true]", "vectors always have length 1"},
    {"embd_normalize", "[2]", "vectors always have the Euclidean length 1"},
    {"messages", "[]", "send the text as 'input'"},
    {"truncation_side", R"(["left"])", "'truncate_prompt_tokens' keeps the end of a text"},
    {"use_activation", "[true]", "vectors always have length 1"},
};

}  // namespace

EmbeddingRequest parse_embedding_request(const Json& body, const RequestLimits& limits, int n_dimensions) {
  const RequestFields fields(body);
  refuse_fields(fields, kRefusedInEmbeddings);
  EmbeddingRequest request;
  request.inputs = read_inputs(fields, limits);
  request.base64 = fields.word("encoding_format", {"float", "base64"}) == "base64";
  if (const std::optional<int64_t> n = fields.integer("dimensions", 1, n_dimensions)) {
    request.dimensions = static_cast<int>(*n);
  }
  request.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  request.n_kept_tokens = read_n_kept(fields);
  return request;
}

}  // namespace hearth
