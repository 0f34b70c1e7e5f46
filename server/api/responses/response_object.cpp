// See the header.
#include "server/api/responses/response_object.h"

#include <utility>

namespace hearth {
namespace {

using Kind = SaidItem::Kind;

/// OpenAI's clients accept a fixed list of error codes. Only server_error fits failures that occur after the
/// status was sent.
Json error_object(const ApiError& error) { return {{"code", "server_error"}, {"message", error.message}}; }

Json call_json(const OutputItem& item, const char* status, const std::string& arguments) {
  Json json = {{"id", item.id},
               {"type", item.is_custom() ? "custom_tool_call" : "function_call"},
               {"status", status},
               {"call_id", item.said.id},
               {"name", item.tool ? item.tool->name : item.said.name},
               {item.is_custom() ? "input" : "arguments", arguments}};
  if (item.tool && !item.tool->space.empty()) json["namespace"] = item.tool->space;
  return json;
}

/// Returns an item with these parts.
Json item_of(const OutputItem& item, const char* status, Json parts) {
  if (item.said.kind == Kind::kReasoning) {
    return {{"id", item.id},
            {"type", "reasoning"},
            {"status", status},
            {"summary", Json::array()},
            {"content", std::move(parts)}};
  }
  return {{"id", item.id},
          {"type", "message"},
          {"status", status},
          {"role", "assistant"},
          {"content", std::move(parts)}};
}

}  // namespace

const char* status_name(ResponseStatus status) {
  switch (status) {
    case ResponseStatus::kCompleted:
      return "completed";
    case ResponseStatus::kIncomplete:
      return "incomplete";
    case ResponseStatus::kFailed:
      return "failed";
    case ResponseStatus::kCancelled:
      return "cancelled";
    case ResponseStatus::kInProgress:
      break;
  }
  return "in_progress";
}

Json response_usage(const Usage& usage) {
  return {{"input_tokens", usage.n_prompt},
          {"input_tokens_details", {{"cached_tokens", usage.n_cached}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.n_completion},
          {"output_tokens_details", {{"reasoning_tokens", usage.n_reasoning}}},
          {"total_tokens", usage.n_prompt + usage.n_completion}};
}

Json response_json(const ResponseHead& head, const ResponseState& state) {
  Json json = Json::object();
  json["id"] = head.id;
  json["object"] = "response";
  json["created_at"] = head.created;
  json["status"] = status_name(state.status);
  json["completed_at"] = state.completed ? Json(*state.completed) : Json(nullptr);
  json["error"] = state.error != nullptr ? error_object(*state.error) : Json(nullptr);
  const bool is_short = state.status == ResponseStatus::kIncomplete;
  json["incomplete_details"] = is_short ? Json({{"reason", "max_output_tokens"}}) : Json(nullptr);
  json["model"] = head.model;
  json["output"] = state.output;
  json.update(head.echo);
  json["usage"] = state.usage ? response_usage(*state.usage) : Json(nullptr);
  return json;
}

const char* id_prefix(const OutputItem& item) {
  switch (item.said.kind) {
    case Kind::kReasoning:
      return "rs_";
    case Kind::kCall:
      return item.is_custom() ? "ctc_" : "fc_";
    case Kind::kText:
      break;
  }
  return "msg_";
}

Json part_json(const OutputItem& item) {
  if (item.said.kind == Kind::kReasoning) return {{"type", "reasoning_text"}, {"text", item.said.text}};
  return {{"type", "output_text"},
          {"text", item.said.text},
          {"annotations", Json::array()},
          {"logprobs", item.logprobs}};
}

Json item_json(const OutputItem& item, const char* status) {
  if (item.said.kind == Kind::kCall) return call_json(item, status, item.said.text);
  return item_of(item, status, Json::array({part_json(item)}));
}

Json begun_item_json(const OutputItem& item) {
  if (item.said.kind == Kind::kCall) return call_json(item, "in_progress", "");
  return item_of(item, "in_progress", Json::array());
}

}  // namespace hearth
