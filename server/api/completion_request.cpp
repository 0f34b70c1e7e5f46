// Parameters of completions, each as OpenAI's specification has it.
#include "server/api/completion_request.h"

#include <algorithm>
#include <limits>

#include "server/api/error.h"

namespace hearth {
namespace {

/// OpenAI's limit on an array of prompts. Here it bounds all sequences of a request, those of best_of
/// included, because each has a copy of its prompt.
constexpr size_t kMaxSequences = 2048;
constexpr int kMaxBestOf = 20;
constexpr int kMaxLogprobs = 5;

[[noreturn]] void refuse_prompt(const Json& found) {
  refuse_param(
      "prompt",
      "'prompt' must be a string, an array of strings, an array of token ids or an array of such arrays "
      "(none of the arrays empty, kinds not mixed), found " +
          describe(found) + ".");
}

std::vector<Prompt> read_prompts(const RequestFields& fields, const RequestLimits& limits) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) return {std::string()};
  if (prompt->is_string()) return {prompt->get<std::string>()};
  if (!prompt->is_array() || prompt->empty()) refuse_prompt(*prompt);
  if (prompt->front().is_number()) return {read_token_ids(*prompt, "prompt", limits)};
  if (prompt->size() > kMaxSequences) {
    refuse_param("prompt", "'prompt' has " + std::to_string(prompt->size()) + " prompts; at most " +
                               std::to_string(kMaxSequences) + " are allowed in one request.");
  }
  std::vector<Prompt> prompts;
  const bool texts = prompt->front().is_string();
  for (const Json& item : *prompt) {
    if (texts ? !item.is_string() : !item.is_array() || item.empty()) refuse_prompt(item);
    if (texts) {
      prompts.emplace_back(item.get<std::string>());
    } else {
      prompts.emplace_back(read_token_ids(item, "prompt", limits));
    }
  }
  return prompts;
}

int read_best_of(const RequestFields& fields, const GenerationFields& generation) {
  const int best_of = static_cast<int>(fields.integer("best_of", 0, kMaxBestOf).value_or(0));
  if (best_of == 0) return generation.n;  // absent, or OpenAI's minimum, which cannot mean no answer at all
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

}  // namespace

CompletionRequest parse_completion_request(const Json& body, const RequestLimits& limits) {
  const RequestFields fields(body);
  CompletionRequest request;
  request.generation = read_generation_fields(fields, limits);
  request.prompts = read_prompts(fields, limits);
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  request.max_tokens = fields.integer("max_tokens", -1, kMax);
  if (request.max_tokens == -1) request.max_tokens = kMax;  // llama.cpp's: all the room there is
  request.best_of = read_best_of(fields, request.generation);
  request.echo = fields.boolean("echo").value_or(false);
  if (const std::optional<int64_t> logprobs = fields.integer("logprobs", 0, kMaxLogprobs)) {
    request.logprobs = static_cast<int>(*logprobs);
  }
  if (!fields.string("suffix").value_or("").empty()) {
    refuse_param("suffix", "'suffix' is not supported: this server cannot fill in the middle. Leave it out.");
  }
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
