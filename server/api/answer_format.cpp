// Members are in the order OpenAI sends them; null where its clients expect the member to be there.
#include "server/api/answer_format.h"

#include <utility>

namespace hearth {
namespace {

Json finish_json(const char* reason) { return reason == nullptr ? Json(nullptr) : Json(reason); }

Json head_json(const AnswerHead& head, const char* object) {
  Json json = Json::object();
  json["id"] = head.id;
  json["object"] = object;
  json["created"] = head.created;
  json["model"] = head.model;
  json["system_fingerprint"] = head.fingerprint;
  return json;
}

/// Completions have one shape for choices and pieces of them.
Json completion_choice(ChoicePart part) {
  Json json = Json::object();
  json["text"] = std::move(part.text);
  json["index"] = part.index;
  json["logprobs"] = std::move(part.logprobs);
  json["finish_reason"] = finish_json(part.finish_reason);
  return json;
}

Json delta_choice(int index, Json delta, Json logprobs, const char* finish_reason) {
  Json json = Json::object();
  json["index"] = index;
  json["delta"] = std::move(delta);
  json["logprobs"] = std::move(logprobs);
  json["finish_reason"] = finish_json(finish_reason);
  return json;
}

}  // namespace

Json usage_json(const Usage& usage) {
  Json json = Json::object();
  json["prompt_tokens"] = usage.n_prompt;
  json["completion_tokens"] = usage.n_completion;
  json["total_tokens"] = usage.n_prompt + usage.n_completion;
  json["prompt_tokens_details"] = {{"cached_tokens", usage.n_cached}};
  return json;
}

Json whole_choice(const AnswerHead& head, ChoicePart part) {
  if (!head.chat) return completion_choice(std::move(part));
  Json json = Json::object();
  json["index"] = part.index;
  json["message"] = {{"role", "assistant"}, {"content", std::move(part.text)}, {"refusal", nullptr}};
  json["logprobs"] = std::move(part.logprobs);
  json["finish_reason"] = finish_json(part.finish_reason);
  return json;
}

Json whole_answer(const AnswerHead& head, Json choices, const Usage& usage) {
  Json json = head_json(head, head.chat ? "chat.completion" : "text_completion");
  json["choices"] = std::move(choices);
  json["usage"] = usage_json(usage);
  return json;
}

Json role_choice(int index) {
  return delta_choice(index, {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}}, nullptr,
                      nullptr);
}

Json piece_choice(const AnswerHead& head, ChoicePart part) {
  if (!head.chat) return completion_choice(std::move(part));
  Json delta = Json::object();
  delta["content"] = std::move(part.text);
  return delta_choice(part.index, std::move(delta), std::move(part.logprobs), part.finish_reason);
}

Json end_choice(const AnswerHead& head, int index, const char* finish_reason) {
  if (!head.chat)
    return completion_choice({.index = index, .text = {}, .logprobs = {}, .finish_reason = finish_reason});
  return delta_choice(index, Json::object(), nullptr, finish_reason);
}

Json chunk(const AnswerHead& head, Json choices) {
  Json json = head_json(head, head.chat ? "chat.completion.chunk" : "text_completion");
  json["choices"] = std::move(choices);
  return json;
}

std::string json_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string sse_event(const Json& data) {
  std::string event = "data: ";
  event += json_text(data);
  event += "\n\n";
  return event;
}

}  // namespace hearth
