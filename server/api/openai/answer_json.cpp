// See the header.
#include "server/api/openai/answer_json.h"

#include <utility>

namespace hearth {

Json head_json(const AnswerHead& head, const char* object) {
  Json json = Json::object();
  json["id"] = head.id;
  json["object"] = object;
  json["created"] = head.created;
  json["model"] = head.model;
  json["system_fingerprint"] = head.fingerprint;
  return json;
}

Json usage_json(const Usage& usage) {
  Json json = Json::object();
  json["prompt_tokens"] = usage.n_prompt;
  json["completion_tokens"] = usage.n_completion;
  json["total_tokens"] = usage.n_prompt + usage.n_completion;
  json["prompt_tokens_details"] = {{"cached_tokens", usage.n_cached}};
  if (usage.prediction) {
    json["completion_tokens_details"] = {{"accepted_prediction_tokens", usage.prediction->n_accepted},
                                         {"rejected_prediction_tokens", usage.prediction->n_rejected}};
  }
  if (usage.n_reasoning > 0) json["completion_tokens_details"]["reasoning_tokens"] = usage.n_reasoning;
  return json;
}

std::string chunk_event(const AnswerHead& head, const char* object, Json choice, bool with_usage) {
  Json data = head_json(head, object);
  data["choices"] = Json::array({std::move(choice)});
  if (with_usage) data["usage"] = nullptr;
  return sse_event(json_text(data));
}

std::string last_events(const AnswerHead& head, const char* object, const Usage& usage, bool with_usage) {
  std::string events;
  if (with_usage) {
    Json data = head_json(head, object);
    data["choices"] = Json::array();
    data["usage"] = usage_json(usage);
    events = sse_event(json_text(data));
  }
  return events + sse_event("[DONE]");
}

}  // namespace hearth
