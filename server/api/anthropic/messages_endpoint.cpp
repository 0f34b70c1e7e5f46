// See the header.
#include "server/api/anthropic/messages_endpoint.h"

#include <memory>
#include <string>
#include <utility>

#include "server/api/answer/respond.h"
#include "server/api/anthropic/message_shape.h"
#include "server/api/anthropic/messages_request.h"
#include "server/api/chat_dialect.h"

namespace hearth {
namespace {

/// Returns the number of prompt tokens of the conversation. Throws RequestError.
size_t count_tokens(const ApiContext& api, const ChatRequest& asked) {
  const std::string rendered = api.dialect().render(asked).prompt;
  refuse_hopeless(rendered, api.longest_token_bytes(), api.model().context_tokens, "messages");
  return prepare_chat_prompt(rendered, asked.add_generation_prompt, api.tokenizer()).tokens.size();
}

}  // namespace

void create_message(const ApiContext& api, const HttpRequest& request, std::string_view path_model,
                    ResponseWriter& writer) {
  read_and_answer(writer, ErrorStyle::kAnthropic, [&]() -> Reply {
    const Json body = parse_json_body(request.body);
    std::string model = api.model_name(body, path_model);
    const MessagesRequest asked = parse_messages_request(body, api.limits());
    return respond_to_chat(
        api, request, asked.chat,
        std::make_unique<MessageShape>(api.new_id("msg_"), std::move(model), asked.shows_thinking));
  });
}

HttpResponse count_message_tokens(const ApiContext& api, const HttpRequest& request,
                                  std::string_view path_model) {
  return guarded(ErrorStyle::kAnthropic, [&] {
    const Json body = parse_json_body(request.body);
    api.model_name(body, path_model);  // throws if the request names a model that is not served
    return json_response(
        {{"input_tokens", count_tokens(api, parse_messages_request(body, api.limits()).chat)}});
  });
}

}  // namespace hearth
