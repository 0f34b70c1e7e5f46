// The objects of the Responses API: a response, and the items of its output.
//
// Pure functions of plain data. Members are those that OpenAI sends, in its order as far as it has one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/api/answer/answer_shape.h"
#include "server/json/json.h"

namespace hearth {

/// What does not change while the response is made.
struct ResponseHead {
  std::string id;       // resp_...
  int64_t created = 0;  // Unix seconds
  std::string model;    // the name the client used
  Json echo;            // ResponseRequest::echo
};

enum class ResponseStatus { kInProgress, kCompleted, kIncomplete, kFailed, kCancelled };
const char* status_name(ResponseStatus status);

struct ResponseState {
  ResponseStatus status = ResponseStatus::kInProgress;
  Json output = Json::array();            // finished items
  std::optional<Usage> usage = {};        // absent: not known yet
  std::optional<int64_t> completed = {};  // Unix seconds; of a completed one
  const ApiError* error = nullptr;        // of a failed one
};
Json response_json(const ResponseHead& head, const ResponseState& state);

/// An item of the output: a message, thinking, or a call.
struct OutputItem {
  SaidItem said;                  // what has been said of it so far; of a call, `id` is its call_id
  std::string id;                 // msg_..., rs_... or fc_...
  Json logprobs = Json::array();  // of a message's tokens
};
/// The beginning of an item's id.
const char* id_prefix(SaidItem::Kind kind);
/// The part that holds the item's text. REQUIRES: not a call.
Json part_json(const OutputItem& item);
/// status: "completed" or "incomplete".
Json item_json(const OutputItem& item, const char* status);
/// The item as it is announced, without what it says.
Json begun_item_json(const OutputItem& item);

}  // namespace hearth
