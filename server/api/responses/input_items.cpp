// Each item type has a function. Errors for unsupported content (images, files, audio) name the content's
// type.
#include "server/api/responses/input_items.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "server/json/api_error.h"

namespace hearth {
namespace {

constexpr std::array<std::string_view, 4> kRoles = {"user", "assistant", "system", "developer"};

[[noreturn]] void refuse_type(const RequestFields& fields, std::string_view name, std::string_view must) {
  const Json* found = fields.find(name);
  const std::string param = fields.param(name);
  refuse_param(param, "'" + param + "' must be " + std::string(must) + ", found " +
                          (found == nullptr ? "nothing" : describe(*found)) + ".");
}

std::string required_text(const RequestFields& fields, std::string_view name) {
  std::optional<std::string> text = fields.string(name);
  if (!text || text->empty()) refuse_type(fields, name, "a string that is not empty");
  return std::move(*text);
}

/// Returns the text of a part. types: the allowed types of parts.
std::string part_text(const Json& part, const std::string& param, std::span<const std::string_view> types) {
  if (!part.is_object())
    refuse_param(param, "'" + param + "' must be an object, found " + describe(part) + ".");
  const RequestFields fields(part, param + ".");
  const std::string type = fields.string("type").value_or("");
  if (std::ranges::find(types, type) == types.end()) {
    refuse_param(fields.param("type"), "'" + fields.param("type") + "' is " + describe(Json(type)) +
                                           "; this server takes parts of type '" +
                                           std::string(types.front()) + "' here: the model reads text only.");
  }
  const char* member = type == "refusal" ? "refusal" : "text";
  std::optional<std::string> text = fields.string(member);
  if (!text) refuse_type(fields, member, "a string");
  return std::move(*text);
}

/// Checks and returns the array of parts in the member `name`. Returns an empty array if the member is
/// absent.
Json read_parts(const RequestFields& fields, std::string_view name, std::string_view type) {
  Json parts = Json::array();
  const Json* sent = fields.array(name);
  if (sent == nullptr) return parts;
  const std::array<std::string_view, 1> types = {type};
  for (size_t i = 0; i < sent->size(); ++i) {
    const std::string place = fields.param(name) + "[" + std::to_string(i) + "]";
    parts.push_back({{"type", type}, {"text", part_text((*sent)[i], place, types)}});
  }
  return parts;
}

Json content_part(bool of_assistant, std::string text) {
  if (!of_assistant) return {{"type", "input_text"}, {"text", std::move(text)}};
  return {{"type", "output_text"}, {"text", std::move(text)}, {"annotations", Json::array()}};
}

Json read_content(const RequestFields& fields, bool of_assistant) {
  const Json* content = fields.find("content");
  if (content != nullptr && content->is_string())
    return Json::array({content_part(of_assistant, content->get<std::string>())});
  if (content == nullptr || !content->is_array())
    refuse_type(fields, "content", "a string or an array of parts");
  static constexpr std::array<std::string_view, 3> kInput = {"input_text", "text", "output_text"};
  static constexpr std::array<std::string_view, 4> kOutput = {"output_text", "text", "input_text", "refusal"};
  Json parts = Json::array();
  for (size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    const std::string place = fields.param("content") + "[" + std::to_string(i) + "]";
    std::string text = of_assistant ? part_text(part, place, kOutput) : part_text(part, place, kInput);
    if (part["type"] == "refusal") {
      parts.push_back({{"type", "refusal"}, {"refusal", std::move(text)}});
    } else {
      parts.push_back(content_part(of_assistant, std::move(text)));
    }
  }
  return parts;
}

Json read_message(const RequestFields& fields) {
  const std::string role = fields.string("role").value_or("");
  if (std::ranges::find(kRoles, role) == kRoles.end())
    refuse_type(fields, "role", "user, assistant, system or developer");
  Json item = {{"type", "message"}, {"role", role}, {"status", "completed"}};
  item["content"] = read_content(fields, role == "assistant");
  return item;
}

/// Reads a call. input: the member with what the call was given.
Json read_call(const RequestFields& fields, const char* type, const char* input, std::string_view must) {
  std::optional<std::string> text = fields.string(input);
  if (!text) refuse_type(fields, input, must);
  Json item = {{"type", type},
               {"call_id", required_text(fields, "call_id")},
               {"name", required_text(fields, "name")},
               {input, std::move(*text)},
               {"status", "completed"}};
  if (const std::string space = fields.string("namespace").value_or(""); !space.empty())
    item["namespace"] = space;
  return item;
}

Json read_function_call(const RequestFields& fields) {
  return read_call(fields, "function_call", "arguments", "JSON text");
}

Json read_custom_call(const RequestFields& fields) {
  return read_call(fields, "custom_tool_call", "input", "a text");
}

/// Reads the parts of a tool's result. Parts that are no text, such as images, become a remark, so that the
/// model knows about them: the result of a tool that shows an image should not end an agent's work.
Json read_result_parts(const RequestFields& fields) {
  Json parts = Json::array();
  const Json& sent = *fields.array("output");
  for (size_t i = 0; i < sent.size(); ++i) {
    const std::string place = fields.param("output") + "[" + std::to_string(i) + "]";
    if (!sent[i].is_object())
      refuse_param(place, "'" + place + "' must be an object, found " + describe(sent[i]) + ".");
    const RequestFields part(sent[i], place + ".");
    const std::string type = part.string("type").value_or("");
    if (type.empty()) refuse_type(part, "type", "'input_text'");
    static constexpr std::array<std::string_view, 3> kTexts = {"input_text", "output_text", "text"};
    std::string text = "(A part of type " + type + ", which this model cannot read.)";
    if (std::ranges::find(kTexts, type) != kTexts.end()) text = part_text(sent[i], place, kTexts);
    parts.push_back({{"type", "input_text"}, {"text", std::move(text)}});
  }
  return parts;
}

Json read_output(const RequestFields& fields, const char* type) {
  const Json* output = fields.find("output");
  if (output == nullptr || (!output->is_string() && !output->is_array()))
    refuse_type(fields, "output", "a string or an array of parts");
  return {{"type", type},
          {"call_id", required_text(fields, "call_id")},
          {"output", output->is_string() ? *output : read_result_parts(fields)},
          {"status", "completed"}};
}

Json read_function_output(const RequestFields& fields) { return read_output(fields, "function_call_output"); }

Json read_custom_output(const RequestFields& fields) {
  return read_output(fields, "custom_tool_call_output");
}

/// Reads a summary of an earlier part of the conversation. Throws RequestError if another server made it,
/// because without a summary the model would not know what the conversation is about.
Json read_compaction(const RequestFields& fields) {
  const std::string sealed = required_text(fields, "encrypted_content");
  const std::string param = fields.param("encrypted_content");
  if (!summary_of(sealed)) {
    refuse_param(param, "'" + param +
                            "' was made by another server and cannot be read here; send the conversation "
                            "itself, or a summary as a message.");
  }
  return {{"type", "compaction"}, {"encrypted_content", sealed}};
}

/// Does not read encrypted_content: a model can continue without its past thinking, and most templates leave
/// it out.
Json read_reasoning(const RequestFields& fields) {
  fields.string("encrypted_content");
  return {{"type", "reasoning"},
          {"summary", read_parts(fields, "summary", "summary_text")},
          {"content", read_parts(fields, "content", "reasoning_text")}};
}

Json read_reference(const RequestFields& fields) {
  return {{"type", "item_reference"}, {"id", required_text(fields, "id")}};
}

/// Returns the item's type, or the type that its members imply.
std::string type_of(const RequestFields& fields) {
  if (const std::optional<std::string> type = fields.string("type")) return *type;
  if (fields.find("role") != nullptr) return "message";
  return fields.find("id") != nullptr ? "item_reference" : "";
}

Json read_item(const Json& sent, const std::string& param) {
  struct Reader {
    std::string_view type;
    Json (*read)(const RequestFields& fields);
  };
  static constexpr std::array kReaders =
      std::to_array<Reader>({{"message", read_message},
                             {"function_call", read_function_call},
                             {"function_call_output", read_function_output},
                             {"custom_tool_call", read_custom_call},
                             {"custom_tool_call_output", read_custom_output},
                             {"compaction", read_compaction},
                             {"reasoning", read_reasoning},
                             {"item_reference", read_reference}});
  if (!sent.is_object())
    refuse_param(param, "'" + param + "' must be an object, found " + describe(sent) + ".");
  const RequestFields fields(sent, param + ".");
  const std::string type = type_of(fields);
  if (type.empty()) refuse_type(fields, "type", "message, function_call or another type of item");
  const auto reader = std::ranges::find(kReaders, std::string_view(type), &Reader::type);
  Json item = reader == kReaders.end() ? sent : reader->read(fields);
  item.erase("id");
  if (const std::optional<std::string> id = fields.string("id"); id && !id->empty()) item["id"] = *id;
  return item;
}

/// Precedes the text in encrypted_content of compaction items. The text is not encrypted: it is the client's
/// own conversation, and any server of this kind can read it.
constexpr std::string_view kSummarySeal = "hearth-summary:";

}  // namespace

std::string sealed_summary(const std::string& summary) { return std::string(kSummarySeal) + summary; }

std::optional<std::string> summary_of(const std::string& sealed) {
  if (!sealed.starts_with(kSummarySeal)) return std::nullopt;
  return sealed.substr(kSummarySeal.size());
}

Json additional_tools(const Json& items) {
  Json tools = Json::array();
  for (const Json& item : items) {
    if (item["type"] != "additional_tools") continue;
    const auto sent = item.find("tools");
    if (sent == item.end() || !sent->is_array()) continue;
    for (const Json& tool : *sent) tools.push_back(tool);
  }
  return tools;
}

std::string text_of_parts(const Json& parts) {
  if (parts.is_string()) return parts.get<std::string>();
  std::string text;
  for (const Json& part : parts) {
    if (&part != &parts.front()) text += '\n';
    text += part[part["type"] == "refusal" ? "refusal" : "text"].get_ref<const std::string&>();
  }
  return text;
}

Json read_input_items(const Json& input) {
  if (input.is_string()) return Json::array({read_item({{"role", "user"}, {"content", input}}, "input")});
  if (!input.is_array() || input.empty()) {
    refuse_param("input",
                 "'input' must be a string or an array of at least one item, found " + describe(input) + ".");
  }
  Json items = Json::array();
  for (size_t i = 0; i < input.size(); ++i)
    items.push_back(read_item(input[i], "input[" + std::to_string(i) + "]"));
  return items;
}

}  // namespace hearth
