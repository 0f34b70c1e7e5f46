// See the header.
#include "server/api/responses/response_shape.h"

#include <exception>
#include <utility>

#include "server/api/openai/token_logprobs.h"

namespace hearth {
namespace {

using Kind = SaidItem::Kind;

constexpr const char* kCompleted = "completed";
constexpr const char* kIncomplete = "incomplete";

ResponseStatus status_of(const FinishedChoice& choice) {
  if (choice.cancelled) return ResponseStatus::kCancelled;
  return choice.end == ChoiceEnd::kLength ? ResponseStatus::kIncomplete : ResponseStatus::kCompleted;
}

/// Returns the status of the item that was current when the answer ended.
const char* last_status(const FinishedChoice& choice) {
  return status_of(choice) == ResponseStatus::kCompleted ? kCompleted : kIncomplete;
}

/// Returns a new item whose first part is `said`.
SaidItem begun(const ToolEvent& said) {
  switch (said.kind) {
    case ToolEvent::Kind::kText:
      return {.kind = Kind::kText};
    case ToolEvent::Kind::kReasoning:
      return {.kind = Kind::kReasoning};
    default:
      return {.kind = Kind::kCall, .name = said.text, .id = said.id};
  }
}

}  // namespace

ResponseShape::ResponseShape(const ApiContext& api, ResponseHead head, Asked asked)
    : api_(api), head_(std::move(head)), asked_(std::move(asked)) {}

ResponseShape::~ResponseShape() {
  if (!asked_.store || !is_accepted_ || has_ended_) return;
  try {
    leave();
  } catch (const std::exception&) {  // out of memory
    api_.responses().erase(head_.id);
  }
}

/// Called if the client disconnected, or if the request failed before its status was sent.
void ResponseShape::leave() {
  if (!has_begun_) {
    api_.responses().erase(head_.id);
    return;
  }
  close(kIncomplete);
  ended({.status = ResponseStatus::kCancelled});
}

std::shared_ptr<AnswerControl> ResponseShape::accepted() {
  is_accepted_ = true;
  if (!asked_.store) return nullptr;
  auto control = std::make_shared<AnswerControl>();
  api_.responses().put(head_.id, {.previous_id = asked_.previous_id,
                                  .input = std::make_shared<const Json>(std::move(asked_.input)),
                                  .response = std::make_shared<const Json>(response_json(head_, {})),
                                  .control = control});
  return control;
}

std::string ResponseShape::event(const char* type, Json data) {
  Json json = {{"type", type}, {"sequence_number", n_events_++}};
  json.update(data);
  return std::string("event: ").append(type).append("\n").append(sse_event(json_text(json)));
}

/// Returns an event about the current item.
std::string ResponseShape::item_event(const char* type, Json data) {
  Json json = {{"item_id", item_->id}, {"output_index", output_.size()}};
  if (item_->said.kind != Kind::kCall) json["content_index"] = 0;
  json.update(data);
  return event(type, std::move(json));
}

std::string ResponseShape::begin() {
  has_begun_ = true;
  const Json response = response_json(head_, {});
  std::string events = event("response.created", {{"response", response}});
  events += event("response.in_progress", {{"response", response}});
  return events;
}

Json ResponseShape::logprobs(std::span<const PlacedToken> tokens) const {
  if (!asked_.n_logprobs) return Json::array();
  return chat_logprobs(api_.tokenizer(), tokens, *asked_.n_logprobs)["content"];
}

OutputItem ResponseShape::new_item(SaidItem said) const {
  OutputItem item{.said = std::move(said), .id = {}};
  const auto called = asked_.called.find(item.said.name);
  if (item.said.kind == Kind::kCall && called != asked_.called.end()) item.tool = called->second;
  item.id = api_.new_id(id_prefix(item));
  return item;
}

std::string ResponseShape::open(SaidItem said) {
  std::string events = item_ ? close(kCompleted) : "";
  const Kind kind = said.kind;
  item_ = new_item(std::move(said));
  custom_ = {};
  events += event("response.output_item.added",
                  {{"output_index", output_.size()}, {"item", begun_item_json(*item_)}});
  if (kind != Kind::kCall) events += item_event("response.content_part.added", {{"part", part_json(*item_)}});
  return events;
}

/// Adds to the arguments of a call, or to the input of a custom tool.
std::string ResponseShape::add_arguments(const std::string& text) {
  if (text.empty()) return {};
  item_->said.text += text;
  return item_event(
      item_->is_custom() ? "response.custom_tool_call_input.delta" : "response.function_call_arguments.delta",
      {{"delta", text}});
}

std::string ResponseShape::add_text(const std::string& text, std::span<const PlacedToken> tokens) {
  if (item_->said.kind == Kind::kCall) return add_arguments(item_->is_custom() ? custom_.push(text) : text);
  item_->said.text += text;
  switch (item_->said.kind) {
    case Kind::kReasoning:
      return item_event("response.reasoning_text.delta", {{"delta", text}});
    case Kind::kCall:
    case Kind::kText:
      break;
  }
  Json entries = logprobs(tokens);
  for (const Json& entry : entries) item_->logprobs.push_back(entry);
  return item_event("response.output_text.delta", {{"delta", text}, {"logprobs", std::move(entries)}});
}

std::string ResponseShape::close(const char* status) {
  if (!item_) return {};
  std::string events;
  if (item_->is_custom()) {
    events = add_arguments(custom_.finish());
    events += item_event("response.custom_tool_call_input.done", {{"input", item_->said.text}});
  } else if (item_->said.kind == Kind::kCall) {
    events = item_event(
        "response.function_call_arguments.done",
        {{"name", item_->tool ? item_->tool->name : item_->said.name}, {"arguments", item_->said.text}});
  } else {
    const bool is_text = item_->said.kind == Kind::kText;
    Json done = {{"text", item_->said.text}};
    if (is_text) done["logprobs"] = item_->logprobs;
    events =
        item_event(is_text ? "response.output_text.done" : "response.reasoning_text.done", std::move(done));
    events += item_event("response.content_part.done", {{"part", part_json(*item_)}});
  }
  const Json item = item_json(*item_, status);
  events += event("response.output_item.done", {{"output_index", output_.size()}, {"item", item}});
  output_.push_back(item);
  item_.reset();
  return events;
}

std::string ResponseShape::part(const ChoicePart& part) {
  using Event = ToolEvent::Kind;
  const ToolEvent& said = part.said;
  if (said.kind == Event::kCallEnd) return close(said.whole ? kCompleted : kIncomplete);
  const bool begins = !item_ || said.kind == Event::kCallBegin ||
                      (said.kind != Event::kArguments && item_->said.kind != begun(said).kind);
  std::string events = begins ? open(begun(said)) : "";
  if (said.kind != Event::kCallBegin) events += add_text(said.text, part.tokens);
  return events;
}

std::string ResponseShape::end(const FinishedChoice& choice) {
  finished_ = choice;
  // Clients expect at least one item, so an empty answer consists of an empty message.
  std::string events = !item_ && output_.empty() && !choice.cancelled ? open({}) : "";
  return events + close(last_status(choice));
}

std::string ResponseShape::finish(const AnswerTotals& totals) {
  const ResponseStatus status = status_of(finished_);
  const Json response = ended({.status = status, .usage = totals.usage});
  return event(status == ResponseStatus::kCompleted ? "response.completed" : "response.incomplete",
               {{"response", response}});
}

std::string ResponseShape::failure(const ApiError& error) {
  std::string events = close(kIncomplete);
  events += event("error", {{"code", error.code}, {"message", error.message}, {"param", nullptr}});
  return events + event("response.failed",
                        {{"response", ended({.status = ResponseStatus::kFailed, .error = &error})}});
}

std::string ResponseShape::whole(std::span<const WholeChoice> choices, const AnswerTotals& totals) {
  const WholeChoice& choice = choices.front();  // a response has one choice
  std::span<const PlacedToken> tokens = choice.tokens;
  const char* status = last_status(choice.finished);
  for (const SaidItem& said : choice.said) {
    OutputItem item = new_item(said);
    if (item.is_custom()) {
      CustomInput input;
      item.said.text = input.push(said.text);
      item.said.text += input.finish();
    }
    if (said.kind == Kind::kText) item.logprobs = logprobs(tokens.first(said.n_tokens));
    tokens = tokens.subspan(said.n_tokens);
    const bool is_cut = (&said == &choice.said.back() && said.kind != Kind::kCall) || !said.whole;
    output_.push_back(item_json(item, is_cut ? status : kCompleted));
  }
  if (output_.empty() && !choice.finished.cancelled) output_.push_back(item_json(new_item({}), status));
  return json_text(ended({.status = status_of(choice.finished), .usage = totals.usage}));
}

/// Returns the final response, and stores it if requested.
Json ResponseShape::ended(ResponseState state) {
  state.output = output_;
  if (state.status == ResponseStatus::kCompleted) state.completed = api_.world().unix_seconds();
  Json response = response_json(head_, state);
  if (asked_.store) api_.responses().end(head_.id, std::make_shared<const Json>(response));
  has_ended_ = true;
  return response;
}

}  // namespace hearth
