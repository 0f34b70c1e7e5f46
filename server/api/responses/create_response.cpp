// Parses a request's body and submits its sequences to the engine.
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/api/answer/engine_errors.h"
#include "server/api/answer/respond.h"
#include "server/api/chat_dialect.h"
#include "server/api/responses/background.h"
#include "server/api/responses/compaction.h"
#include "server/api/responses/conversation.h"
#include "server/api/responses/response_request.h"
#include "server/api/responses/response_shape.h"
#include "server/api/responses/responses.h"
#include "server/api/responses/truncation.h"

namespace hearth {
namespace {

std::string place_of(size_t i) { return "input[" + std::to_string(i) + "]"; }

/// Returns the status for a response that is not stored. OpenAI's API uses 400. A proxy with several replicas
/// sends X-Ask-Others; it asks the next replica if the status is 404 (docs/shipping.md).
int status_of_missing(const HttpRequest& request) {
  return request.header("X-Ask-Others").empty() ? 400 : 404;
}

/// Replaces references to items by the stored items.
void resolve_references(ResponseStore& store, Json& items, int status_of_missing) {
  std::set<std::string> ids;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i]["type"] != "item_reference") continue;
    // Each id is allowed once, because a request could refer to an item of megabytes a hundred thousand
    // times.
    if (!ids.insert(items[i]["id"].get<std::string>()).second)
      refuse_param(place_of(i) + ".id", "'" + place_of(i) + ".id' names the item " +
                                            describe(items[i]["id"]) + " again; name it once.");
  }
  if (ids.empty()) return;
  const std::map<std::string, Json> kept = store.items(ids);
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i]["type"] != "item_reference") continue;
    const auto found = kept.find(items[i]["id"].get<std::string>());
    if (found == kept.end()) {
      throw RequestError({.status = status_of_missing,
                          .message = "'" + place_of(i) + ".id' is " + describe(items[i]["id"]) +
                                     ", and no item with this id is kept here; send the item itself.",
                          .param = place_of(i) + ".id",
                          .code = {}});
    }
    items[i] = found->second;
  }
}

/// Gives ids to items that have none.
void name_items(const ApiContext& api, Json& items) {
  for (Json& item : items) {
    if (item.contains("id")) continue;
    const Json& type = item["type"];
    item["id"] = api.new_id(type == "message"            ? "msg_"
                            : type == "reasoning"        ? "rs_"
                            : type == "compaction"       ? "cmp_"
                            : type == "custom_tool_call" ? "ctc_"
                                                         : "fc_");
  }
}

/// Returns the stored responses of the conversation that this request continues, oldest first. previous_id:
/// the id of the last of these responses; empty: the request continues no conversation. Throws RequestError
/// if a response is missing or incomplete.
std::vector<KeptResponse> earlier(ResponseStore& store, const std::string& previous_id,
                                  int status_of_missing) {
  if (previous_id.empty()) return {};
  std::string missing;
  std::vector<KeptResponse> kept = store.conversation(previous_id, missing);
  if (!missing.empty()) {
    throw RequestError({.status = status_of_missing,
                        .message = "Previous response with id " + describe(Json(missing)) +
                                   " not found: it was not stored, was deleted, or is too old. Send the "
                                   "whole conversation as 'input'.",
                        .param = "previous_response_id",
                        .code = "previous_response_not_found"});
  }
  if (kept.back().control != nullptr) {
    refuse_param("previous_response_id",
                 "The response " + describe(Json(previous_id)) +
                     " is still being generated; wait until it is complete, or cancel it.");
  }
  return kept;
}

/// Sets asked.chat to the messages of the whole conversation. Returns the user's messages, as items.
Json assemble(const ApiContext& api, ResponseRequest& asked, int status_of_missing) {
  resolve_references(api.responses(), asked.input, status_of_missing);
  name_items(api, asked.input);
  Conversation conversation(asked.instructions);
  Json users = Json::array();
  const auto add = [&](const Json& item, const std::string& param) {
    conversation.add(item, param);
    if (item["type"] == "message" && item["role"] == "user") users.push_back(item);
  };
  for (const KeptResponse& before : earlier(api.responses(), asked.previous_id, status_of_missing)) {
    for (const Json& item : *before.input) add(item, "previous_response_id");
    for (const Json& item : (*before.response)["output"]) add(item, "previous_response_id");
  }
  for (size_t i = 0; i < asked.input.size(); ++i) add(asked.input[i], place_of(i));
  asked.chat.messages = conversation.take();
  return users;
}

void make_room(const ApiContext& api, ResponseRequest& asked) {
  if (asked.truncate) drop_oldest_turns(api, asked.chat);
}

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

/// Errors from code for chats contain the names of a chat's parameters. Replaces these by names of the
/// Responses API.
ApiError in_own_words(ApiError error) {
  if (error.param == "messages") {
    error.param = "input";
    replace_all(error.message, "'messages'", "'input'");
  }
  if (error.param.starts_with("messages[")) {
    replace_all(error.message, "'" + error.param + "'", "'input'");
    error.param = "input";
  }
  // Tools of the Responses API have no inner object "function".
  if (error.param.starts_with("tools[")) {
    replace_all(error.param, "].function.", "].");
    replace_all(error.message, "].function.", "].");
  }
  return error;
}

/// Calls steps(), the part of handling a request after parsing. Converts the parameter names in its errors to
/// those of the Responses API.
template <typename Steps>
auto in_own_words(Steps steps) {
  try {
    return steps();
  } catch (const RequestError& error) {
    throw RequestError(in_own_words(error.error()));
  }
}

/// Continues the answer in the background. Returns the response in its current state.
Reply leave_in_background(const ApiContext& api, const std::string& id, Reply reply) {
  auto* const answer = std::get_if<std::unique_ptr<PendingAnswer>>(&reply);
  if (answer == nullptr) return reply;  // refused, or failed at once
  const std::optional<KeptResponse> kept = api.responses().find(id);
  if (!kept)
    refuse_param("background", "The response is too large to be kept, so nobody could ask for it later.");
  if (!api.background().start(std::move(*answer)))
    return refusal_response(Refusal::kQueueFull, "input", api.model().engine->status(), ErrorStyle::kOpenAi);
  return json_response(*kept->response);
}

}  // namespace

void create_response(const ApiContext& api, const HttpRequest& request, std::string_view path_model,
                     ResponseWriter& writer) {
  read_and_answer(writer, ErrorStyle::kOpenAi, [&]() -> Reply {
    // 1. Parse and check the parameters.
    const Json body = parse_json_body(request.body);
    std::string model = api.model_name(body, path_model);
    ResponseRequest asked = parse_response_request(body, api.limits());
    return in_own_words([&] {
      // 2. Convert items to messages.
      assemble(api, asked, status_of_missing(request));
      make_room(api, asked);
      // 3. Decide how to answer.
      ResponseHead head{.id = api.new_id("resp_"),
                        .created = api.world().unix_seconds(),
                        .model = std::move(model),
                        .echo = std::move(asked.echo)};
      const ChatRequest& chat = asked.chat;
      ResponseShape::Asked shown{
          .n_logprobs = chat.logprobs ? std::optional<int>(chat.top_logprobs) : std::nullopt,
          .store = asked.store,
          .previous_id = asked.previous_id,
          .input = std::move(asked.input),
          .called = std::move(asked.called)};
      const std::string id = head.id;
      Reply reply = respond_to_chat(api, request, chat,
                                    std::make_unique<ResponseShape>(api, std::move(head), std::move(shown)));
      return asked.background ? leave_in_background(api, id, std::move(reply)) : std::move(reply);
    });
  });
}

void compact_response(const ApiContext& api, const HttpRequest& request, std::string_view path_model,
                      ResponseWriter& writer) {
  read_and_answer(writer, ErrorStyle::kOpenAi, [&]() -> Reply {
    const Json body = parse_json_body(request.body);
    api.model_name(body, path_model);  // throws if the request names a model that is not served
    ResponseRequest asked = parse_response_request(body, api.limits());
    return in_own_words([&] {
      Json users = assemble(api, asked, status_of_missing(request));
      ask_for_summary(asked.chat, api.model().context_tokens);
      drop_oldest_turns(api, asked.chat);
      return respond_to_chat(api, request, asked.chat,
                             std::make_unique<CompactionShape>(api, std::move(users)));
    });
  });
}

HttpResponse count_input_tokens(const ApiContext& api, const HttpRequest& request,
                                std::string_view path_model) {
  return guarded(ErrorStyle::kOpenAi, [&] {
    const Json body = parse_json_body(request.body);
    api.model_name(body, path_model);  // throws if the request names a model that is not served
    ResponseRequest asked = parse_response_request(body, api.limits());
    return in_own_words([&] {
      assemble(api, asked, status_of_missing(request));
      make_room(api, asked);
      const std::string rendered = api.dialect().render(asked.chat).prompt;
      refuse_hopeless(rendered, api.longest_token_bytes(), api.model().context_tokens, "input");
      const PreparedPrompt prompt = prepare_chat_prompt(rendered, true, api.tokenizer());
      return json_response({{"object", "response.input_tokens"}, {"input_tokens", prompt.tokens.size()}});
    });
  });
}

}  // namespace hearth
