// Reads the parameters of completions according to OpenAI's specification.
#include "server/api/openai/completion_request.h"

#include <algorithm>
#include <limits>

#include "server/api/request/unsupported_fields.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

constexpr int kMaxBestOf = 20;
constexpr int kMaxLogprobs = 5;

int read_best_of(const RequestFields& fields, const GenerationFields& generation) {
  const int best_of = static_cast<int>(fields.integer("best_of", 0, kMaxBestOf).value_or(0));
  if (best_of == 0) return generation.n;  // OpenAI's API allows 0; here it means n
  if (best_of < generation.n) {
    refuse_param("best_of", "'best_of' is " + std::to_string(best_of) +
                                " and must not be less than 'n', which is " + std::to_string(generation.n) +
                                ".");
  }
  if (generation.stream && best_of > generation.n) {
    refuse_param("best_of",
                 "'best_of' greater than 'n' cannot be streamed: the best is known only at the end.");
  }
  return best_of;
}

void read_suffix(const RequestFields& fields, CompletionRequest& request) {
  request.suffix = fields.string("suffix").value_or("");
  if (request.suffix.empty()) return;
  for (const Prompt& prompt : request.prompts) {
    if (!std::holds_alternative<std::string>(prompt))
      refuse_param("suffix", "'suffix' needs a 'prompt' that is text; token ids cannot be set around a gap.");
  }
  if (request.echo) refuse_param("echo", "'echo' and 'suffix' exclude each other; leave one out.");
}

}  // namespace

CompletionRequest parse_completion_request(const Json& body, const RequestLimits& limits) {
  const RequestFields fields(body);
  check_foreign_fields(fields, false);
  CompletionRequest request;
  request.generation = read_generation_fields(fields, limits);
  const Json* prompt = fields.find("prompt");
  request.prompts =
      prompt == nullptr ? std::vector<Prompt>{std::string()} : read_prompts(*prompt, "prompt", limits);
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const std::optional<int64_t> n_predict = fields.integer("n_predict", -1, kMax);
  request.max_tokens = fields.integer("max_tokens", -1, kMax);
  if (!request.max_tokens) request.max_tokens = n_predict;
  // In llama.cpp's API, -1 means up to the end of the context.
  if (request.max_tokens == -1) request.max_tokens = kMax;
  request.best_of = read_best_of(fields, request.generation);
  request.echo = fields.boolean("echo").value_or(false);
  if (const std::optional<int64_t> logprobs = fields.integer("logprobs", 0, kMaxLogprobs)) {
    request.logprobs = static_cast<int>(*logprobs);
  }
  read_suffix(fields, request);
  request.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
  const size_t n_sequences = request.prompts.size() * static_cast<size_t>(request.best_of);
  if (n_sequences > kMaxSequences) {
    refuse_param("n", "The request asks for " + std::to_string(n_sequences) + " completions; at most " +
                          std::to_string(kMaxSequences) +
                          " are allowed. Send fewer prompts or a smaller 'n'.");
  }
  check_copies(request.generation, n_sequences);
  return request;
}

}  // namespace hearth
