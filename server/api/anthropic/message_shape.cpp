// See the header.
#include "server/api/anthropic/message_shape.h"

#include <utility>

namespace hearth {
namespace {

/// Returns a server-sent event. The event's name repeats the type in the data, because some of Anthropic's
/// clients read only the name.
std::string event(const Json& data) {
  std::string text = "event: ";
  text += data["type"].get_ref<const std::string&>();
  text += "\ndata: ";
  text += json_text(data);
  text += "\n\n";
  return text;
}

const char* stop_reason(const FinishedChoice& finished) {
  switch (finished.end) {
    case ChoiceEnd::kLength:
      return "max_tokens";
    case ChoiceEnd::kToolCalls:
      return "tool_use";
    case ChoiceEnd::kStop:
      break;
  }
  return finished.stop_string.empty() ? "end_turn" : "stop_sequence";
}

Json stop_sequence(const FinishedChoice& finished) {
  return finished.end != ChoiceEnd::kStop || finished.stop_string.empty() ? Json(nullptr)
                                                                          : Json(finished.stop_string);
}

/// input_tokens excludes tokens from the prefix cache, as in Anthropic's API. Writing to the cache is free,
/// so cache_creation_input_tokens is 0.
Json usage_json(const Usage& usage) {
  return {{"input_tokens", usage.n_prompt - usage.n_cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.n_cached},
          {"output_tokens", usage.n_completion}};
}

Json text_block(const std::string& text) { return {{"type", "text"}, {"text", text}}; }

/// Anthropic signs the thinking of its models. Here the signature is empty.
Json thinking_block(const std::string& text) {
  return {{"type", "thinking"}, {"thinking", text}, {"signature", ""}};
}

Json call_block(const std::string& id, const std::string& name, Json input) {
  return {{"type", "tool_use"}, {"id", id}, {"name", name}, {"input", std::move(input)}};
}

}  // namespace

MessageShape::MessageShape(std::string id, std::string model, bool shows_thinking)
    : id_(std::move(id)), model_(std::move(model)), shows_thinking_(shows_thinking) {}

std::string_view MessageShape::ping() const { return "event: ping\ndata: {\"type\":\"ping\"}\n\n"; }

/// finished: null while the answer is unfinished.
Json MessageShape::message(Json content, const FinishedChoice* finished, const Usage& usage) const {
  return {{"id", id_},
          {"type", "message"},
          {"role", "assistant"},
          {"model", model_},
          {"content", std::move(content)},
          {"stop_reason", finished == nullptr ? Json(nullptr) : Json(stop_reason(*finished))},
          {"stop_sequence", finished == nullptr ? Json(nullptr) : stop_sequence(*finished)},
          {"usage", usage_json(usage)}};
}

// The number of cached tokens is known only at the end. The usage in finish() replaces the usage sent here.
std::string MessageShape::begin() {
  return event(
      {{"type", "message_start"}, {"message", message(Json::array(), nullptr, {.n_prompt = n_prompt_})}});
}

std::string MessageShape::open(Block kind, Json block) {
  std::string events = close();
  open_ = kind;
  events +=
      event({{"type", "content_block_start"}, {"index", n_blocks_++}, {"content_block", std::move(block)}});
  return events;
}

/// Returns the events that continue the message in a block of this kind. If the current block has another
/// kind, the first events close the current block and open a new one. If the delta `what` is not null, its
/// event follows.
std::string MessageShape::continue_as(Block kind, Json empty_block, Json what) {
  std::string events = open_ == kind ? std::string() : open(kind, std::move(empty_block));
  if (!what.is_null()) events += delta(std::move(what));
  return events;
}

std::string MessageShape::delta(Json delta) const {
  return event({{"type", "content_block_delta"}, {"index", n_blocks_ - 1}, {"delta", std::move(delta)}});
}

std::string MessageShape::close() {
  if (open_ == Block::kNone) return {};
  std::string events;
  if (open_ == Block::kThinking) events += delta({{"type", "signature_delta"}, {"signature", ""}});
  open_ = Block::kNone;
  return events + event({{"type", "content_block_stop"}, {"index", n_blocks_ - 1}});
}

std::string MessageShape::part(const ChoicePart& part) {
  const ToolEvent& said = part.said;
  switch (said.kind) {
    case ToolEvent::Kind::kText:
      return continue_as(Block::kText, text_block(""), {{"type", "text_delta"}, {"text", said.text}});
    case ToolEvent::Kind::kReasoning:
      return continue_as(
          Block::kThinking, thinking_block(""),
          shows_thinking_ ? Json{{"type", "thinking_delta"}, {"thinking", said.text}} : Json());
    case ToolEvent::Kind::kCallBegin:
      return open(Block::kCall, call_block(said.id, said.text, Json::object()));
    case ToolEvent::Kind::kArguments:
      return delta({{"type", "input_json_delta"}, {"partial_json", said.text}});
    case ToolEvent::Kind::kCallEnd:
      break;
  }
  return close();
}

std::string MessageShape::end(const FinishedChoice& choice) {
  finished_ = choice;
  return close();
}

std::string MessageShape::finish(const AnswerTotals& totals) {
  const Json delta = {{"stop_reason", stop_reason(finished_)}, {"stop_sequence", stop_sequence(finished_)}};
  return event({{"type", "message_delta"}, {"delta", delta}, {"usage", usage_json(totals.usage)}}) +
         event({{"type", "message_stop"}});
}

std::string MessageShape::failure(const ApiError& error) {
  return "event: error\ndata: " + error_json(error, ErrorStyle::kAnthropic) + "\n\n";
}

/// Returns the blocks of an unstreamed answer. Omits calls whose arguments are incomplete: `input` must be a
/// JSON object, and the client could not see that members are missing.
Json MessageShape::content_of(std::span<const SaidItem> said) const {
  Json content = Json::array();
  for (const SaidItem& item : said) {
    if (item.kind == SaidItem::Kind::kText) {
      content.push_back(text_block(item.text));
    } else if (item.kind == SaidItem::Kind::kReasoning) {
      content.push_back(thinking_block(shows_thinking_ ? item.text : std::string()));
    } else if (std::optional<Json> input = arguments_object(item)) {
      content.push_back(call_block(item.id, item.name, std::move(*input)));
    }
  }
  return content;
}

std::string MessageShape::whole(std::span<const WholeChoice> choices, const AnswerTotals& totals) {
  const WholeChoice& choice = choices.front();
  return json_text(message(content_of(choice.said), &choice.finished, totals.usage));
}

}  // namespace hearth
