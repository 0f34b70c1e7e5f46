// See the header.
#include "server/api/ollama/generate.h"

#include <memory>
#include <optional>
#include <utility>

#include "server/api/answer/respond.h"
#include "server/api/chat_dialect.h"
#include "server/api/constraint_compiler.h"
#include "server/api/ollama/ollama_fields.h"
#include "server/api/ollama/ollama_shape.h"
#include "server/api/ollama/wire.h"
#include "server/api/request/fill_in_middle_prompt.h"
#include "server/api/request/unsupported_fields.h"

namespace hearth {
namespace {

constexpr RefusedField kRefusedByOllama[] = {
    {"template", "[]", "templates run on the server, so only its owner sets one (--chat-template-file)"},
    {"context", "[]", "send the conversation to /api/chat"},
    {"images", "[]", "the model reads text"},
};

Json messages_of(const RequestFields& fields, const std::string& prompt) {
  Json messages = Json::array();
  const std::string system = fields.string("system").value_or("");
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", prompt}});
  return messages;
}

/// Returns the prompt with the model's begin token. With a suffix, returns a fill-in-the-middle prompt.
PreparedPrompt prepare(const ApiContext& api, const OllamaGenerateRequest& asked) {
  refuse_hopeless(asked.prompt, api.longest_token_bytes(), api.model().context_tokens, "prompt");
  refuse_hopeless(asked.suffix, api.longest_token_bytes(), api.model().context_tokens, "suffix");
  if (asked.suffix.empty()) return prepare_prompt(asked.prompt, true, api.tokenizer());
  return prepare_fim_prompt({.prefix = asked.prompt, .suffix = asked.suffix, .begun = {}}, api.tokenizer());
}

/// Continues the prompt without the chat template.
Reply respond_raw(const ApiContext& api, const HttpRequest& request, const OllamaGenerateRequest& asked,
                  std::unique_ptr<AnswerShape> shape) {
  AnswerSpec spec;
  spec.prompts.push_back(prepare(api, asked));
  spec.stream = asked.chat.generation.stream;
  spec.with_logprobs = asked.chat.logprobs;
  spec.stop = asked.chat.generation.stop;
  const SequenceTemplate common{.generation = &asked.chat.generation,
                                .n_top_logprobs = asked.chat.logprobs ? asked.chat.top_logprobs : -1,
                                .prompt_logprobs = false,
                                .constraint = api.constraints().compile(asked.chat.generation.format)};
  const LengthRule length{.asked = asked.chat.max_tokens,
                          .default_tokens = api.model().max_tokens_default,
                          .prompt_param = "prompt"};
  return respond(api, request, std::move(spec), std::move(shape), common, length);
}

}  // namespace

OllamaGenerateRequest parse_ollama_generate(const Json& body, const RequestLimits& limits) {
  const RequestFields fields(body);
  refuse_fields(fields, kRefusedByOllama);
  OllamaGenerateRequest request;
  request.chat = read_ollama_fields(fields, limits);
  request.prompt = fields.string("prompt").value_or("");
  request.suffix = fields.string("suffix").value_or("");
  request.raw = fields.boolean("raw").value_or(false) || !request.suffix.empty();
  request.chat.messages = messages_of(fields, request.prompt);
  if (request.raw && request.chat.messages.size() > 1)
    refuse_param(
        "system",
        "'system' has no place in a prompt that is 'raw' or has a 'suffix'; write it into the prompt.");
  return request;
}

void ollama_generate(const ApiContext& api, const HttpRequest& request, std::string_view,
                     ResponseWriter& writer) {
  read_and_answer(writer, ErrorStyle::kOllama, [&]() -> Reply {
    const Json body = parse_json_body(request.body);
    OllamaHead head{OllamaAnswer::kGenerate, ollama_model_name(api, body), api.world().unix_seconds()};
    OllamaGenerateRequest asked = parse_ollama_generate(body, api.limits());
    if (asked.prompt.empty() && asked.suffix.empty()) return json_response(ollama_load_answer(head));
    if (!asked.suffix.empty()) {
      require_fim(api.tokenizer(), "suffix");
      end_at_fim_tokens(asked.chat.generation, api.tokenizer());
    }
    check_thinking(api.dialect(), RequestFields(body), head.model);
    const ChatRequest& chat = asked.chat;
    const std::optional<int> n_logprobs = chat.logprobs ? std::optional(chat.top_logprobs) : std::nullopt;
    auto shape = std::make_unique<OllamaShape>(std::move(head), api.tokenizer(), n_logprobs);
    if (asked.raw) return respond_raw(api, request, asked, std::move(shape));
    return respond_to_chat(api, request, chat, std::move(shape));
  });
}

}  // namespace hearth
