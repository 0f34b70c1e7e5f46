// See the header.
#include "server/api/llamacpp/native_completions.h"

#include <memory>
#include <string>
#include <utility>

#include "server/api/answer/respond.h"
#include "server/api/constraint_compiler.h"
#include "server/api/llamacpp/mixed_text.h"
#include "server/api/llamacpp/native_request.h"
#include "server/api/llamacpp/native_shape.h"

namespace hearth {
namespace {

Reply respond_native(const ApiContext& api, const HttpRequest& request, std::string model,
                     const NativeRequest& asked, PreparedPrompt prompt, std::string_view prompt_param) {
  AnswerSpec spec;
  spec.prompts.push_back(std::move(prompt));
  spec.stream = asked.generation.stream;
  spec.stop = asked.generation.stop;
  spec.with_logprobs = asked.n_probs > 0 || asked.return_tokens;
  auto shape = std::make_unique<NativeShape>(std::move(model), api.tokenizer(), asked);
  const SequenceTemplate common{.generation = &asked.generation,
                                .n_top_logprobs = asked.n_probs > 0 ? asked.n_probs : -1,
                                .prompt_logprobs = false,
                                .constraint = api.constraints().compile(asked.generation.format)};
  const LengthRule length{
      .asked = asked.n_predict, .default_tokens = api.model().context_tokens, .prompt_param = prompt_param};
  return respond(api, request, std::move(spec), std::move(shape), common, length);
}

PreparedPrompt prompt_of(const Json& body, bool truncated, const ApiContext& api) {
  const MixedTextOptions options{.add_special = true, .within_context = !truncated};
  PreparedPrompt prompt;
  prompt.tokens = read_mixed_text(RequestFields(body), "prompt", options, api);
  return prompt.tokens.empty() ? prepare_prompt(std::string(), true, api.tokenizer()) : prompt;
}

void refuse_hopeless_parts(const FimText& text, const ApiContext& api) {
  const auto check = [&](const std::string& part, const char* param) {
    refuse_hopeless(part, api.longest_token_bytes(), api.model().context_tokens, param);
  };
  check(text.prefix, "input_prefix");
  check(text.suffix, "input_suffix");
  check(text.begun, "prompt");
  std::string extra;
  for (const FimFile& file : text.files) extra += file.name + file.text;
  check(extra, "input_extra");
}

}  // namespace

void native_completion(const ApiContext& api, const HttpRequest& request, std::string_view path_model,
                       ResponseWriter& writer) {
  read_and_answer(writer, ErrorStyle::kOpenAi, [&]() -> Reply {
    const Json body = parse_json_body(request.body);
    std::string model = api.model_name(body, path_model);
    const NativeRequest asked = parse_native_request(body, api.limits());
    PreparedPrompt prompt = prompt_of(body, asked.generation.keep_prompt_tokens.has_value(), api);
    return respond_native(api, request, std::move(model), asked, std::move(prompt), "prompt");
  });
}

void infill(const ApiContext& api, const HttpRequest& request, std::string_view path_model,
            ResponseWriter& writer) {
  read_and_answer(writer, ErrorStyle::kOpenAi, [&]() -> Reply {
    const Json body = parse_json_body(request.body);
    std::string model = api.model_name(body, path_model);
    NativeRequest asked = parse_native_request(body, api.limits());
    require_fim(api.tokenizer(), "input_suffix");
    const FimText text = parse_infill_text(body, api.tokenizer());
    refuse_hopeless_parts(text, api);
    end_at_fim_tokens(asked.generation, api.tokenizer());
    return respond_native(api, request, std::move(model), asked, prepare_fim_prompt(text, api.tokenizer()),
                          "input_prefix");
  });
}

}  // namespace hearth
