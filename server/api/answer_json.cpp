// Members are in the order in which OpenAI sends them, and null where its clients expect the member to be
// there.
#include "server/api/answer_json.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/tokenizer/utf8.h"

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

/// In a completion, choices and pieces of choices have the same members.
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

/// A call with its name; arguments are still to come.
Json call_json(const ToolEvent& begin) {
  return {{"id", begin.id}, {"type", "function"}, {"function", {{"name", begin.text}, {"arguments", ""}}}};
}

Json indexed(int index, const Json& call) {
  Json json = {{"index", index}};
  json.update(call);
  return Json::array({json});
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

void ChatMessage::add(const ToolEvent& part) {
  switch (part.kind) {
    case ToolEvent::Kind::kText:
      text += part.text;
      break;
    case ToolEvent::Kind::kReasoning:
      reasoning += part.text;
      break;
    case ToolEvent::Kind::kCallBegin:
      calls.push_back(call_json(part));
      break;
    case ToolEvent::Kind::kArguments:
      calls.back()["function"]["arguments"].get_ref<std::string&>() += part.text;
      break;
    case ToolEvent::Kind::kCallEnd:
      break;
  }
}

Json message_choice(int index, const ChatMessage& message, Json logprobs, const char* finish_reason) {
  const bool only_calls = message.text.empty() && !message.calls.empty();
  Json json = Json::object();
  json["index"] = index;
  json["message"] = {{"role", "assistant"},
                     {"content", only_calls ? Json(nullptr) : Json(message.text)},
                     {"refusal", nullptr}};
  if (!message.reasoning.empty()) json["message"]["reasoning_content"] = message.reasoning;
  if (!message.calls.empty()) json["message"]["tool_calls"] = message.calls;
  json["logprobs"] = std::move(logprobs);
  json["finish_reason"] = finish_json(finish_reason);
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

Json part_choice(int index, const ToolEvent& part, Json logprobs) {
  Json delta = Json::object();
  if (part.kind == ToolEvent::Kind::kText) {
    delta["content"] = part.text;
  } else if (part.kind == ToolEvent::Kind::kReasoning) {
    delta["reasoning_content"] = part.text;
  } else if (part.kind == ToolEvent::Kind::kCallBegin) {
    delta["tool_calls"] = indexed(part.index, call_json(part));
  } else {
    delta["tool_calls"] = indexed(part.index, {{"function", {{"arguments", part.text}}}});
  }
  return delta_choice(index, std::move(delta), std::move(logprobs), nullptr);
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

std::string sse_event(std::string_view data) {
  std::string event = "data: ";
  event += data;
  event += "\n\n";
  return event;
}

// Log-probabilities. Not every token is text, so both shapes need a notation for bytes.

namespace {

/// OpenAI's stand-in for minus infinity, which a banned token may have.
constexpr double kLeastLogprob = -9999.0;

double sendable(float logprob) {
  return std::isfinite(logprob) ? std::max<double>(logprob, kLeastLogprob) : kLeastLogprob;
}

/// The bytes with every byte that is not ASCII written as \xNN, in lower case.
std::string escaped(const std::string& bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const unsigned byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

bool is_utf8(const std::string& bytes) { return utf8_valid_prefix(bytes) == bytes.size(); }

std::string legacy_name(const Tokenizer& tokenizer, int32_t token) {
  std::string bytes = token_bytes(tokenizer, token);
  return is_utf8(bytes) ? bytes : "bytes:" + escaped(bytes);
}

Json chat_token(const Tokenizer& tokenizer, int32_t token, float logprob) {
  const std::string bytes = token_bytes(tokenizer, token);
  Json numbers = Json::array();
  for (const char c : bytes) numbers.push_back(static_cast<unsigned char>(c));
  return {{"token", is_utf8(bytes) ? bytes : escaped(bytes)},
          {"logprob", sendable(logprob)},
          {"bytes", std::move(numbers)}};
}

}  // namespace

std::string token_bytes(const Tokenizer& tokenizer, int32_t token) {
  std::string bytes;
  if (token >= 0 && token < tokenizer.n_vocab()) tokenizer.append_bytes(token, true, bytes);
  return bytes;
}

Json chat_logprobs(const Tokenizer& tokenizer, std::span<const PlacedToken> tokens, int n_top) {
  Json content = Json::array();
  for (const PlacedToken& token : tokens) {
    Json entry = chat_token(tokenizer, token.event.token, token.event.logprob);
    Json top = Json::array();
    for (const TokenLogprob& other : token.event.top) {
      if (top.size() == static_cast<size_t>(n_top)) break;
      top.push_back(chat_token(tokenizer, other.token, other.logprob));
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

LegacyLogprobs::LegacyLogprobs(const Tokenizer& tokenizer, int n_top)
    : tokenizer_(&tokenizer), n_top_(n_top) {}

void LegacyLogprobs::add_first(int32_t token, int64_t offset) {
  tokens_.push_back(legacy_name(*tokenizer_, token));
  logprobs_.push_back(nullptr);
  top_.push_back(nullptr);
  offsets_.push_back(offset);
}

void LegacyLogprobs::add(const TokenEvent& event, int64_t offset) {
  const std::string name = legacy_name(*tokenizer_, event.token);
  Json alternatives = Json::object();
  int n = 0;
  for (const TokenLogprob& other : event.top) {
    if (n++ == n_top_) break;
    // Different ids may spell the same text; the more likely one, which comes first, stands for it.
    alternatives.emplace(legacy_name(*tokenizer_, other.token), sendable(other.logprob));
  }
  alternatives.emplace(name, sendable(event.logprob));
  tokens_.push_back(name);
  logprobs_.push_back(sendable(event.logprob));
  top_.push_back(std::move(alternatives));
  offsets_.push_back(offset);
}

Json LegacyLogprobs::take() {
  return {{"tokens", std::move(tokens_)},
          {"token_logprobs", std::move(logprobs_)},
          {"top_logprobs", std::move(top_)},
          {"text_offset", std::move(offsets_)}};
}

}  // namespace hearth
