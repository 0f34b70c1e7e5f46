// The JSON of the Responses API: a response and its output items.
//
// Pure functions. Members and their order are those of OpenAI's API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/api/answer/answer_shape.h"
#include "server/api/responses/response_tools.h"
#include "server/json/json.h"

namespace hearth {

/// The members that stay the same while the response is generated.
struct ResponseHead {
  std::string id;       // resp_...
  int64_t created = 0;  // Unix seconds
  std::string model;    // the name in the request
  Json echo;            // as in ResponseRequest
};

enum class ResponseStatus { kInProgress, kCompleted, kIncomplete, kFailed, kCancelled };
const char* status_name(ResponseStatus status);

struct ResponseState {
  ResponseStatus status = ResponseStatus::kInProgress;
  Json output = Json::array();            // finished items
  std::optional<Usage> usage = {};        // absent while unknown
  std::optional<int64_t> completed = {};  // Unix seconds; completed responses only
  const ApiError* error = nullptr;        // failed responses only
};
Json response_json(const ResponseHead& head, const ResponseState& state);

/// An output item: a message, thinking, or a tool call.
struct OutputItem {
  SaidItem said;                  // the content so far; for a call, `said.id` is the call_id
  std::string id;                 // msg_..., rs_..., fc_... or ctc_...
  Json logprobs = Json::array();  // of a message's tokens
  /// A call: the tool, if the call is not a plain function call. A custom tool's `said.text` is its input.
  std::optional<CalledTool> tool = {};

  bool is_custom() const { return tool && tool->is_custom; }
};
/// Returns the prefix of the ids of such items.
const char* id_prefix(const OutputItem& item);
/// Returns the JSON of usage.
Json response_usage(const Usage& usage);
/// Returns the content part of an item. REQUIRES: the item is not a call.
Json part_json(const OutputItem& item);
/// Returns an item. status: "completed" or "incomplete".
Json item_json(const OutputItem& item, const char* status);
/// Returns the item without content, for the event that announces it.
Json begun_item_json(const OutputItem& item);

}  // namespace hearth
