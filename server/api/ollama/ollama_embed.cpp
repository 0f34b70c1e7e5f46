// Reads inputs as in /v1/embeddings. Writes answers in the format of Ollama's API.
#include "server/api/ollama/ollama_embed.h"

#include <string>
#include <utility>
#include <vector>

#include "server/api/answer/respond.h"
#include "server/api/ollama/wire.h"
#include "server/api/openai/embeddings.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

using Vectors = std::vector<std::vector<float>>;

/// Returns the model that embeds, and the model name for the answer. A name in the request may have a tag.
std::pair<const EmbeddingTarget*, std::string> target_of(const ApiContext& api, const Json& body) {
  const std::string asked = asked_model(body);
  if (const EmbeddingTarget* target = target_named(api, asked)) return {target, asked};
  return api.embedding_target({{"model", asked}}, {});
}

/// Returns the vectors as JSON arrays, separated by commas. n_dimensions: the length to which vectors are
/// shortened; 0: none.
std::string vectors_json(Vectors vectors, size_t n_dimensions) {
  std::string out;
  for (std::vector<float>& values : vectors) {
    if (n_dimensions > 0) values = shortened(std::move(values), n_dimensions);
    if (!out.empty()) out += ',';
    append_vector(out, values, false);
    std::vector<float>().swap(values);
  }
  return out;
}

std::string embed_json(const std::string& model, const std::string& vectors, const GenerationRecord& cost) {
  return R"({"model":)" + json_text(Json(model)) + R"(,"embeddings":[)" + vectors + R"(],"total_duration":)" +
         std::to_string(nanoseconds(cost.queue_seconds + cost.prefill_seconds)) + R"(,"load_duration":)" +
         std::to_string(nanoseconds(cost.queue_seconds)) + R"(,"prompt_eval_count":)" +
         std::to_string(cost.n_prompt) + "}";
}

/// make_body: returns the body for the model's name, the JSON of the vectors and the cost.
template <typename MakeBody>
void respond_to(const ApiContext& api, const HttpRequest& request, ResponseWriter& writer, const char* member,
                MakeBody make_body) {
  read_and_answer(writer, ErrorStyle::kOllama, [&]() -> Reply {
    const Json body = parse_json_body(request.body);
    auto [target, name] = target_of(api, body);
    EmbeddingRequest asked = parse_ollama_embed(
        body, member, {.n_vocab = target->tokenizer->n_vocab(), .tokenizer = target->tokenizer},
        target->n_dimensions);
    if (asked.inputs.empty()) {
      HttpResponse loaded;
      loaded.body = make_body(name, std::string(), GenerationRecord());
      return loaded;
    }
    EmbeddingAnswer::Spec spec;
    spec.model = name;
    spec.errors = ErrorStyle::kOllama;
    spec.body = [make_body, name = name, n = static_cast<size_t>(asked.dimensions.value_or(0))](
                    Vectors vectors, const GenerationRecord& cost) {
      return make_body(name, vectors_json(std::move(vectors), n), cost);
    };
    return respond_with_embeddings(api, request, *target, std::move(asked), std::move(spec));
  });
}

}  // namespace

EmbeddingRequest parse_ollama_embed(const Json& body, const char* member, const RequestLimits& limits,
                                    int n_dimensions) {
  const RequestFields fields(body);
  fields.object("options");  // checks only the type, because no option concerns embeddings
  const Json* input = fields.find(member);
  if (std::string_view(member) == "prompt") fields.string(member);  // checks that it is one text
  const bool truncate = fields.boolean("truncate").value_or(true);
  EmbeddingRequest request;
  if (input == nullptr || *input == "" || (input->is_array() && input->empty())) return request;
  Json form = {{"input", *input}};
  if (const Json* dimensions = fields.find("dimensions")) form["dimensions"] = *dimensions;
  request = parse_embedding_request(form, limits, n_dimensions);
  if (truncate) request.n_kept_tokens = -1;
  request.keeps_start = true;
  return request;
}

void ollama_embed(const ApiContext& api, const HttpRequest& request, std::string_view,
                  ResponseWriter& writer) {
  respond_to(api, request, writer, "input", embed_json);
}

void ollama_embeddings(const ApiContext& api, const HttpRequest& request, std::string_view,
                       ResponseWriter& writer) {
  respond_to(api, request, writer, "prompt",
             [](const std::string&, const std::string& vector, const GenerationRecord&) {
               return R"({"embedding":)" + (vector.empty() ? std::string("[]") : vector) + "}";
             });
}

}  // namespace hearth
