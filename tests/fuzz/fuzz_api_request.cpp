// Any bytes as the body of a completion and of a chat request: parsed, or refused with a 400 that can be
// sent; nothing else. What is accepted must be within the engine's ranges.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/api/chat_request.h"
#include "server/api/completion_request.h"
#include "server/api/error.h"

namespace hearth {
namespace {

constexpr RequestLimits kLimits{.n_vocab = 1000};

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const GenerationFields& fields) {
  const SamplingParams& sampling = fields.sampling;
  require(sampling.temperature >= 0 && sampling.temperature <= 2 && sampling.top_k >= 0);
  require(sampling.top_p > 0 && sampling.top_p <= 1 && sampling.min_p >= 0 && sampling.min_p < 1);
  require(sampling.repetition_penalty > 0 && sampling.repetition_penalty <= 100);
  for (const auto& [token, bias] : sampling.logit_bias) {
    require(token >= 0 && token < kLimits.n_vocab && bias >= -100 && bias <= 100);
  }
  for (const std::string& stop : fields.stop) require(!stop.empty());
  require(fields.stop.size() <= 4 && fields.n >= 1 && fields.n <= 128);
}

void check(const CompletionRequest& request) {
  check(request.generation);
  require(!request.prompts.empty() && request.best_of >= request.generation.n);
  require(request.prompts.size() * static_cast<size_t>(request.best_of) <= 2048);
  for (const Prompt& prompt : request.prompts) {
    const auto* ids = std::get_if<std::vector<int32_t>>(&prompt);
    require(ids == nullptr || !ids->empty());
  }
}

void check(const ChatRequest& request) {
  check(request.generation);
  require(request.messages.is_array() && !request.messages.empty() && request.template_arguments.is_object());
}

template <typename Parse>
void parse_or_refuse(std::string_view body, Parse parse) {
  try {
    check(parse(parse_json_body(body), kLimits));
  } catch (const RequestError& refused) {
    require(refused.error().status == 400 && !refused.error().message.empty());
    require(Json::accept(error_json(refused.error())));
  }
}

}  // namespace
}  // namespace hearth

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  hearth::parse_or_refuse(body, hearth::parse_completion_request);
  hearth::parse_or_refuse(body, hearth::parse_chat_request);
  return 0;
}
