// Brings messages into the form that the template understands, and finds out which form that is.
#include "server/chat/chat_template.h"

#include <utility>

namespace hearth {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kChatMl =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + (message['content'] or '') + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

// A text that no template contains.
constexpr std::string_view kNeedle = "hearth-probe";

Json user_message(Json content) { return {{"role", "user"}, {"content", std::move(content)}}; }

Json text_part(std::string_view text) { return {{"type", "text"}, {"text", text}}; }

// The text of content that is a list of parts. Throws TemplateError for a part that is not text.
std::string joined_parts(const Json& parts) {
  std::string joined;
  bool is_first = true;
  for (const Json& part : parts) {
    const bool is_text = part.is_object() && part.value("type", Json()) == "text" && part.contains("text") &&
                         part["text"].is_string();
    if (!is_text) {
      const std::string type =
          part.is_object() && part.contains("type") ? part["type"].dump() : "without a type";
      throw TemplateError(1, "a content part " + type + " cannot be used: this model reads text parts only");
    }
    if (!std::exchange(is_first, false)) joined += '\n';
    joined += part["text"].get_ref<const std::string&>();
  }
  return joined;
}

// Replaces arguments that are the JSON text of an object by that object. Other text stays.
void parse_arguments(Json& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (Json& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    Json& function = call["function"];
    if (!function.contains("arguments") || !function["arguments"].is_string()) continue;
    Json parsed = Json::parse(function["arguments"].get_ref<const std::string&>(), nullptr, false);
    if (parsed.is_object()) function["arguments"] = std::move(parsed);
  }
}

Json conversation_with_call(Json arguments) {
  Json call = {{"id", "call00000"}, {"type", "function"}};
  call["function"] = {{"name", "probe"}, {"arguments", std::move(arguments)}};
  Json assistant = {{"role", "assistant"}, {"content", ""}};
  assistant["tool_calls"] = Json::array({std::move(call)});
  return Json::array({user_message("hello"), std::move(assistant)});
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string_view source, std::string bos_text, std::string eos_text,
                                 jinja::Clock clock) {
  return ChatTemplate(source, std::move(bos_text), std::move(eos_text), std::move(clock));
}

ChatTemplate ChatTemplate::chatml(std::string bos_text, std::string eos_text) {
  return ChatTemplate(kChatMl, std::move(bos_text), std::move(eos_text), jinja::local_time);
}

ChatTemplate::ChatTemplate(std::string_view source, std::string bos_text, std::string eos_text,
                           jinja::Clock clock)
    : template_(source),
      bos_text_(std::move(bos_text)),
      eos_text_(std::move(eos_text)),
      clock_(std::move(clock)) {
  probe();
}

bool ChatTemplate::prints(const Json& messages, std::string_view needle) const {
  try {
    return render_as_is(messages, nullptr, false, nullptr).find(needle) != std::string::npos;
  } catch (const TemplateError&) {
    return false;  // the template does not understand such messages
  }
}

void ChatTemplate::probe() {
  const std::string needle(kNeedle);
  const Json as_text = Json::array({user_message(needle)});
  const Json as_parts = Json::array({user_message(Json::array({text_part(needle)}))});
  wants_content_parts_ = !prints(as_text, needle) && prints(as_parts, needle);

  // A template that prints the JSON text unchanged shows the key in plain quotes. One that applies tojson to
  // the text escapes the quotes.
  const Json arguments = {{needle, 1}};
  const bool takes_text = prints(conversation_with_call(arguments.dump()), "\"" + needle + "\":");
  const Json with_object = conversation_with_call(arguments);
  wants_argument_objects_ =
      !takes_text && (prints(with_object, needle) || prints(with_object, "'" + needle + "'"));
}

Json ChatTemplate::normalized(const Json& messages) const {
  Json result = messages;
  for (Json& message : result) {
    if (!message.is_object()) throw TemplateError(1, "a message is not an object");
    const auto content = message.find("content");
    if (content != message.end() && content->is_array()) {
      std::string text = joined_parts(*content);
      *content = wants_content_parts_ ? Json::array({text_part(text)}) : Json(std::move(text));
    } else if (content != message.end() && content->is_string() && wants_content_parts_) {
      *content = Json::array({text_part(content->get_ref<const std::string&>())});
    }
    if (wants_argument_objects_) parse_arguments(message);
  }
  return result;
}

std::string ChatTemplate::render_as_is(const Json& messages, const Json& tools, bool add_generation_prompt,
                                       const Json& extra) const {
  const Json none = nullptr;
  const Json prompt_wanted = add_generation_prompt;
  jinja::Variables variables = {{"bos_token", &bos_text_}, {"eos_token", &eos_text_}, {"documents", &none}};
  if (extra.is_object()) {
    for (auto at = extra.begin(); at != extra.end(); ++at) variables.emplace_back(at.key(), &at.value());
  }
  variables.emplace_back("messages", &messages);
  variables.emplace_back("tools", &tools);
  variables.emplace_back("add_generation_prompt", &prompt_wanted);
  return template_.render(variables, jinja::Limits{}, clock_);
}

std::string ChatTemplate::render(const Json& messages, const Json& tools, bool add_generation_prompt,
                                 const Json& extra) const {
  return render_as_is(normalized(messages), tools, add_generation_prompt, extra);
}

}  // namespace hearth
