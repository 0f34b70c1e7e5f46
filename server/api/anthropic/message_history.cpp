// Each kind of message and block has a function. Errors name a member by its full path, for example
// messages[0].content[1].type.
#include "server/api/anthropic/message_history.h"

#include <string>
#include <string_view>
#include <utility>

#include "server/chat/messages.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

[[noreturn]] void refuse_member(const RequestFields& fields, std::string_view name,
                                std::string_view expected) {
  const std::string param = fields.param(name);
  const Json* found = fields.find(name);
  std::string message = "'" + param + "' must be ";
  message.append(expected).append(", found ").append(found == nullptr ? "nothing" : describe(*found));
  refuse_param(param, message + ".");
}

std::string required_text(const RequestFields& fields, std::string_view name) {
  const std::optional<std::string> text = fields.string(name);
  if (!text) refuse_member(fields, name, "a string");
  return *text;
}

/// Calls read(fields, type) for each block of the array.
template <typename Read>
void for_each_block(const Json& blocks, const std::string& param, Read read) {
  if (!blocks.is_array()) {
    refuse_param(param,
                 "'" + param + "' must be a string or an array of blocks, found " + describe(blocks) + ".");
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const std::string place = param + "[" + std::to_string(i) + "]";
    if (!blocks[i].is_object())
      refuse_param(place, "'" + place + "' must be an object, found " + describe(blocks[i]) + ".");
    const RequestFields block(blocks[i], place + ".");
    read(block, required_text(block, "type"));
  }
}

[[noreturn]] void refuse_block(const RequestFields& block, const std::string& type, std::string_view taken) {
  const std::string param = block.param("type");
  std::string message = "'" + param + "' is " + describe(Json(type)) + "; this server takes blocks of type ";
  refuse_param(param, message.append(taken).append(" here: the model reads text."));
}

/// Claude Code begins its system text with a block for Anthropic's billing, which differs in each request. In
/// the prompt, it would be of no use to a model, and no request could reuse the cached text of another one.
bool is_for_billing(std::string_view text) { return text.starts_with("x-anthropic-billing-header"); }

/// Reads content that is a string or an array of text blocks. The texts of blocks are joined by newlines.
/// Leaves blocks for billing out.
std::string read_text(const Json& content, const std::string& param) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for_each_block(content, param, [&](const RequestFields& block, const std::string& type) {
    if (type != "text") refuse_block(block, type, "text");
    const std::string one = required_text(block, "text");
    if (is_for_billing(one)) return;
    if (!text.empty()) text += '\n';
    text += one;
  });
  return text;
}

void add_line(Json& text, const std::string& line) {
  if (!text.is_string() || text == "") {
    text = line;
  } else {
    text.get_ref<std::string&>().append("\n").append(line);
  }
}

/// Returns the last message if it has this role. Otherwise, appends a message and returns it.
Json& turn_of(const char* role, Json& out) {
  if (out.empty() || out.back()["role"] != role) out.push_back({{"role", role}, {"content", ""}});
  return out.back();
}

void read_result(const RequestFields& block, Json& out) {
  const Json* content = block.find("content");
  std::string text = content == nullptr ? std::string() : read_text(*content, block.param("content"));
  if (block.boolean("is_error").value_or(false)) text.insert(0, "Error: ");
  out.push_back({{"role", "tool"},
                 {"tool_call_id", required_text(block, "tool_use_id")},
                 {"content", std::move(text)}});
}

void read_user(const Json& content, const std::string& param, Json& out) {
  if (content.is_string()) return add_line(turn_of("user", out)["content"], content.get<std::string>());
  for_each_block(content, param, [&](const RequestFields& block, const std::string& type) {
    if (type == "tool_result") return read_result(block, out);
    if (type != "text") refuse_block(block, type, "text and tool_result");
    add_line(turn_of("user", out)["content"], required_text(block, "text"));
  });
}

Json read_call(const RequestFields& block) {
  const Json* input = block.object("input");
  const std::string name = required_text(block, "name");
  if (name.empty()) refuse_member(block, "name", "the tool's name");
  Json function = {{"name", name}, {"arguments", input == nullptr ? Json::object() : *input}};
  return {{"id", required_text(block, "id")}, {"type", "function"}, {"function", std::move(function)}};
}

void read_assistant(const Json& content, const std::string& param, Json& out) {
  Json& turn = turn_of("assistant", out);
  if (content.is_string()) return add_line(turn["content"], content.get<std::string>());
  for_each_block(content, param, [&](const RequestFields& block, const std::string& type) {
    if (type == "text") {
      add_line(turn["content"], required_text(block, "text"));
    } else if (type == "thinking") {
      add_line(turn["reasoning_content"], required_text(block, "thinking"));
    } else if (type == "tool_use") {
      turn["tool_calls"].push_back(read_call(block));
    } else if (type != "redacted_thinking") {
      refuse_block(block, type, "text, thinking, redacted_thinking and tool_use");
    }
  });
}

void read_message(const Json& message, const std::string& param, Json& out) {
  if (!message.is_object())
    refuse_param(param, "'" + param + "' must be an object, found " + describe(message) + ".");
  const RequestFields fields(message, param + ".");
  const std::string role = fields.string("role").value_or("");
  const Json* content = fields.find("content");
  if (content == nullptr) refuse_member(fields, "content", "a string or an array of blocks");
  if (role == "user") return read_user(*content, fields.param("content"), out);
  if (role == "assistant") return read_assistant(*content, fields.param("content"), out);
  if (role != "system") refuse_member(fields, "role", "'user' or 'assistant'");
  out.push_back({{"role", "system"}, {"content", read_text(*content, fields.param("content"))}});
}

/// Templates test whether a message has content. The content of a message with calls but without text is
/// therefore null instead of "".
void settle_content(Json& message) {
  if (message.contains("tool_calls") && message["content"] == "") message["content"] = nullptr;
}

}  // namespace

Json read_conversation(const RequestFields& fields) {
  Json out = Json::array();
  if (const Json* system = fields.find("system")) {
    const std::string text = read_text(*system, fields.param("system"));
    if (!text.empty()) out.push_back({{"role", "system"}, {"content", text}});
  }
  const Json* messages = fields.array("messages");
  if (messages == nullptr || messages->empty())
    refuse_member(fields, "messages", "an array of at least one message");
  for (size_t i = 0; i < messages->size(); ++i)
    read_message((*messages)[i], fields.param("messages") + "[" + std::to_string(i) + "]", out);
  for (Json& message : out) settle_content(message);
  return read_messages(out);
}

}  // namespace hearth
