// The JSON objects of the Responses API: a response, and its output items.
//
// Pure functions of plain data. The members are those that OpenAI sends, in OpenAI's order where OpenAI
// defines one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/api/answer/answer_shape.h"
#include "server/json/json.h"

namespace hearth {

/// The members that do not change while the response is generated.
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
  std::optional<Usage> usage = {};        // absent: not yet known
  std::optional<int64_t> completed = {};  // Unix seconds; completed responses only
  const ApiError* error = nullptr;        // failed responses only
};
Json response_json(const ResponseHead& head, const ResponseState& state);

/// An output item: a message, thinking, or a call.
struct OutputItem {
  SaidItem said;                  // the item's content so far; a call's `id` is its call_id
  std::string id;                 // msg_..., rs_... or fc_...
  Json logprobs = Json::array();  // log-probabilities of a message's tokens
};
/// The prefix of an item's id.
const char* id_prefix(SaidItem::Kind kind);
/// Returns the content part with the item's text. REQUIRES: the item is not a call.
Json part_json(const OutputItem& item);
/// status: "completed" or "incomplete".
Json item_json(const OutputItem& item, const char* status);
/// Returns the item as it is announced, without content.
Json begun_item_json(const OutputItem& item);

}  // namespace hearth
