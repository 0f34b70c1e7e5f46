// See the header.
#include "server/api/ollama/chat.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/api/answer/respond.h"
#include "server/api/chat_dialect.h"
#include "server/api/ollama/history.h"
#include "server/api/ollama/ollama_fields.h"
#include "server/api/ollama/ollama_shape.h"
#include "server/api/ollama/wire.h"

namespace hearth {
namespace {

/// If the last message has the role assistant and is not empty, the answer continues it.
void read_continuation(ChatRequest& request) {
  const Json& last = request.messages.back();
  if (last["role"] != "assistant" || last.contains("tool_calls") || !last["content"].is_string()) return;
  const std::string text = last["content"].get<std::string>();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return;
  request.continue_last = true;
  request.add_generation_prompt = false;
}

}  // namespace

ChatRequest parse_ollama_chat(const Json& body, const RequestLimits& limits) {
  const RequestFields fields(body);
  ChatRequest request = read_ollama_fields(fields, limits);
  const Json* messages = fields.array("messages");
  request.messages = read_ollama_messages(messages == nullptr ? Json::array() : *messages);
  request.choice = read_tool_choice(fields);
  read_continuation(request);
  return request;
}

void ollama_chat(const ApiContext& api, const HttpRequest& request, std::string_view,
                 ResponseWriter& writer) {
  read_and_answer(writer, ErrorStyle::kOllama, [&]() -> Reply {
    const Json body = parse_json_body(request.body);
    const RequestFields fields(body);
    OllamaHead head{OllamaAnswer::kChat, ollama_model_name(api, body), api.world().unix_seconds()};
    const Json* messages = fields.array("messages");
    if (messages == nullptr || messages->empty()) return json_response(ollama_load_answer(head));
    const ChatRequest asked = parse_ollama_chat(body, api.limits());
    check_thinking(api.dialect(), fields, head.model);
    const std::optional<int> n_logprobs = asked.logprobs ? std::optional(asked.top_logprobs) : std::nullopt;
    return respond_to_chat(api, request, asked,
                           std::make_unique<OllamaShape>(std::move(head), api.tokenizer(), n_logprobs));
  });
}

}  // namespace hearth
