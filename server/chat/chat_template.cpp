// Converts messages to the form that the template understands, and detects this form.
#include "server/chat/chat_template.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

#include "server/json/json.h"

namespace hearth {
namespace {

constexpr std::string_view kChatMl =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + (message['content'] or '') + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

// A text that no template contains.
constexpr std::string_view kNeedle = "hearth-probe";

Json user_message(Json content) { return {{"role", "user"}, {"content", std::move(content)}}; }

Json text_part(std::string_view text) { return {{"type", "text"}, {"text", text}}; }

// Joins text parts to one text. Throws TemplateError if a part is not text.
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

// Converts arguments that are JSON text to the object that the text describes. Empty text becomes an empty
// object. Text that is not a JSON object stays unchanged.
void arguments_to_object(Json& arguments) {
  if (!arguments.is_string()) return;
  const std::string& text = arguments.get_ref<const std::string&>();
  Json parsed = text.empty() ? Json::object() : Json::parse(text, nullptr, false);
  if (parsed.is_object()) arguments = std::move(parsed);
}

constexpr std::string_view kLongId = "call_hearth_probe_0123456789";
constexpr std::string_view kShortId = "hearth123";
constexpr size_t kShortIdLength = 9;

// Returns the id if it consists of nine letters and digits. Otherwise, derives nine letters and digits from
// the id's FNV-1a hash.
std::string short_id(const std::string& id) {
  constexpr std::string_view kAlphabet = "0123456789abcdefghijklmnopqrstuvwxyz";
  const bool is_short = id.size() == kShortIdLength && std::all_of(id.begin(), id.end(), [](unsigned char c) {
                          return c < 0x80 && std::isalnum(c) != 0;
                        });
  if (is_short) return id;
  uint64_t hash = 14695981039346656037U;
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  std::string made;
  for (size_t i = 0; i < kShortIdLength; ++i, hash /= kAlphabet.size())
    made += kAlphabet[hash % kAlphabet.size()];
  return made;
}

void shorten_id(Json& object, const char* key) {
  const auto id = object.find(key);
  if (id != object.end() && id->is_string()) *id = short_id(id->get_ref<const std::string&>());
}

// A tool call that is rendered to examine the template. Each examination sets the members that it
// tests.
constexpr std::string_view kResultOf = "probe";
struct CallProbe {
  Json content = "";
  std::string name = "probe";
  Json arguments = Json::object();
  std::string_view id = kShortId;
};

// is_past: whether a tool's result follows the call, as in every conversation in which a model has called a
// tool. Some templates refuse it, others write an answer differently if it is not the last message.
Json conversation_with_call(CallProbe probe, bool is_past) {
  Json call = {{"id", probe.id}, {"type", "function"}};
  call["function"] = {{"name", std::move(probe.name)}, {"arguments", std::move(probe.arguments)}};
  Json assistant = {{"role", "assistant"}, {"content", std::move(probe.content)}};
  assistant["tool_calls"] = Json::array({std::move(call)});
  Json messages = Json::array({user_message("hello"), std::move(assistant)});
  if (!is_past) return messages;
  messages.push_back(
      {{"role", "tool"}, {"tool_call_id", probe.id}, {"name", kResultOf}, {"content", "done"}});
  return messages;
}

// Returns how often a text contains a word that templates print for a value that is missing.
size_t count_missing(std::string_view text) {
  size_t n = 0;
  for (const std::string_view word : {"None", "null"})
    for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

// Returns the text of a content, which may consist of parts.
std::string content_text(const Json& content) {
  if (content.is_array()) return joined_parts(content);
  return content.is_string() ? content.get<std::string>() : std::string();
}

bool has_role(const Json& message, std::string_view role) {
  return message.is_object() && message.value("role", Json()) == role;
}

void put_before(Json& message, const std::string& text) {
  message["content"] = text + "\n\n" + content_text(message.value("content", Json()));
}

void put_behind(Json& message, const std::string& text) {
  message["content"] = content_text(message.value("content", Json())) + "\n\n" + text;
}

// Joins system messages to their neighbors. keeps_first: whether a system message that is the first message
// stays.
Json with_system_joined(Json messages, bool keeps_first) {
  Json out = Json::array();
  std::string waiting;  // the text of system messages for the next user's message
  const auto give_up_waiting = [&] {
    if (waiting.empty()) return;
    if (!out.empty() && has_role(out.back(), "user")) {
      put_behind(out.back(), waiting);
    } else {
      out.push_back(user_message(waiting));
    }
    waiting.clear();
  };
  for (Json& message : messages) {
    if (has_role(message, "system") && !(keeps_first && out.empty() && waiting.empty())) {
      const std::string text = content_text(message.value("content", Json()));
      if (!out.empty() && has_role(out.back(), "system")) {
        put_behind(out.back(), text);
      } else if (!text.empty()) {
        waiting += (waiting.empty() ? "" : "\n\n") + text;
      }
      continue;
    }
    if (has_role(message, "user") && !waiting.empty()) {
      put_before(message, waiting);
      waiting.clear();
    }
    give_up_waiting();
    out.push_back(std::move(message));
  }
  give_up_waiting();
  return out;
}

/// Moves the content of each tool message into `tool_responses` of the message before it that has the calls.
Json with_results_beside_calls(Json messages) {
  Json out = Json::array();
  bool after_calls = false;
  for (Json& message : messages) {
    const Json role = message.value("role", Json());
    if (after_calls && role == "tool") {
      Json result = {{"name", message.value("name", Json("unknown"))},
                     {"response", message.value("content", Json())}};
      out.back()["tool_responses"].push_back(std::move(result));
      continue;
    }
    after_calls = message.contains("tool_calls");
    out.push_back(std::move(message));
  }
  return out;
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
    : source_(source),
      template_(source),
      bos_text_(std::move(bos_text)),
      eos_text_(std::move(eos_text)),
      clock_(std::move(clock)) {
  probe();
}

std::optional<std::string> ChatTemplate::try_render(const Json& messages) const {
  try {
    return render_as_is(messages, nullptr, false, nullptr);
  } catch (const TemplateError&) {
    return std::nullopt;  // the template does not support such messages
  }
}

bool ChatTemplate::prints(const Json& messages, std::string_view needle) const {
  const std::optional<std::string> rendered = try_render(messages);
  return rendered && rendered->find(needle) != std::string::npos;
}

void ChatTemplate::probe() {
  const std::string needle(kNeedle);
  const Json as_text = Json::array({user_message(needle)});
  const Json as_parts = Json::array({user_message(Json::array({text_part(needle)}))});
  // Templates that look for the call of a result by its id take results as messages too.
  const auto mentions = [this](std::string_view word) { return source_.find(word) != std::string::npos; };
  wants_results_with_calls_ = mentions("tool_responses") && !mentions("tool_call_id");
  wants_content_parts_ = !prints(as_text, needle) && prints(as_parts, needle);
  probe_system();
  probe_results();
  probe_content();
  probe_arguments();
  probe_ids();
  probe_reasoning();
}

void ChatTemplate::probe_system() {
  const std::string needle(kNeedle);
  const auto content = [this](std::string_view text) {
    return wants_content_parts_ ? Json::array({text_part(text)}) : Json(text);
  };
  const Json system = {{"role", "system"}, {"content", content(needle)}};
  const Json question = user_message(content("hello"));
  const Json answer = {{"role", "assistant"}, {"content", content("hi")}};
  takes_system_first_ = prints(Json::array({system, question}), needle);
  takes_system_amid_ = prints(Json::array({question, answer, system, question}), needle);
}

// Sets takes_results_: whether the template renders a result after a call, in any of the forms that calls
// have.
void ChatTemplate::probe_results() {
  for (const Json& content : {Json(""), Json(nullptr)}) {
    for (const Json& arguments : {Json::object(), Json("{}")}) {
      const CallProbe probe{.content = content, .arguments = arguments};
      takes_results_ = takes_results_ || prints(conversation_with_call(probe, true), "");
    }
  }
}

// Sets no_content_. Renders a call with the content null and with the content "". Tries both forms of
// arguments, an object and text, with each content, because some templates accept only one form.
void ChatTemplate::probe_content() {
  const std::string needle(kNeedle);
  const auto render = [&](const Json& content, const Json& arguments) {
    return try_render(
        conversation_with_call({.content = content, .name = needle, .arguments = arguments}, takes_results_));
  };
  const auto shows_call = [&](const Json& content) {
    for (const Json& arguments : {Json::object(), Json("{}")}) {
      const std::optional<std::string> rendered = render(content, arguments);
      if (!rendered || rendered->find(needle) == std::string::npos) continue;
      if (count_missing(*rendered) <= count_missing(render("", arguments).value_or(""))) return true;
    }
    return false;
  };
  const bool takes_null = shows_call(nullptr);
  const bool takes_text = shows_call("");
  if (takes_null != takes_text) {
    no_content_ = takes_null ? NoContent::kNull : NoContent::kText;
    return;
  }
  const std::optional<std::string> with_null = render(nullptr, Json::object());
  if (!takes_null && (!with_null || count_missing(*with_null) > 0)) no_content_ = NoContent::kText;
}

// Determines whether the template gets arguments as an object or as text. A template that prints JSON text
// unchanged prints the argument's key in plain quotes. A template that applies tojson to the text prints
// escaped quotes. Some templates that want an object also print text, others fail or leave it out.
void ChatTemplate::probe_arguments() {
  const std::string needle(kNeedle);
  const Json arguments = {{needle, 1}};
  const Json content = no_content_ == NoContent::kNull ? Json(nullptr) : Json("");
  const std::string key = "\"" + needle + "\":";
  const bool takes_text = prints(
      conversation_with_call({.content = content, .arguments = arguments.dump()}, takes_results_), key);
  const Json with_object =
      conversation_with_call({.content = content, .arguments = arguments}, takes_results_);
  wants_argument_objects_ = !takes_text && prints(with_object, needle);
  wants_argument_text_ = takes_text && !prints(with_object, key);
  const Json cut = R"({")" + needle;
  takes_any_arguments_ =
      !wants_argument_objects_ ||
      prints(conversation_with_call({.content = content, .arguments = cut}, takes_results_), needle);
}

void ChatTemplate::probe_ids() {
  const Json content = no_content_ == NoContent::kNull ? Json(nullptr) : Json("");
  const Json arguments = wants_argument_text_ ? Json("{}") : Json::object();
  const auto renders = [&](std::string_view id) {
    return prints(
        conversation_with_call({.content = content, .arguments = arguments, .id = id}, takes_results_), "");
  };
  wants_short_ids_ = renders(kShortId) && !renders(kLongId);
}

void ChatTemplate::probe_reasoning() {
  const std::string needle(kNeedle);
  const Json arguments = wants_argument_text_ ? Json("{}") : Json::object();
  for (const char* key : {"reasoning_content", "reasoning", "thinking"}) {
    Json messages = conversation_with_call({.arguments = arguments}, takes_results_);
    messages[1][key] = needle;
    Json without_call = messages;
    without_call[1].erase("tool_calls");
    if (!prints(messages, needle) && !prints(without_call, needle)) continue;
    reasoning_key_ = key;
    return;
  }
}

Json ChatTemplate::normalized(const Json& messages) const {
  for (const Json& message : messages)
    if (!message.is_object()) throw TemplateError(1, "a message is not an object");
  const bool joins = !takes_system_first_ || !takes_system_amid_;
  Json result = joins ? with_system_joined(messages, takes_system_first_) : messages;
  for (Json& message : result) normalize_message(message);
  if (wants_results_with_calls_) result = with_results_beside_calls(std::move(result));
  return result;
}

void ChatTemplate::normalize_message(Json& message) const {
  normalize_calls(message);
  const auto content = message.find("content");
  if (content != message.end() && content->is_array()) {
    std::string text = joined_parts(*content);
    *content = wants_content_parts_ ? Json::array({text_part(text)}) : Json(std::move(text));
  } else if (content != message.end() && content->is_string() && wants_content_parts_) {
    *content = Json::array({text_part(content->get_ref<const std::string&>())});
  }
  if (wants_short_ids_) shorten_id(message, "tool_call_id");
  const auto reasoning = message.find("reasoning_content");
  if (reasoning != message.end() && !message.contains(reasoning_key_)) {
    Json text = *reasoning;
    message[reasoning_key_] = std::move(text);
  }
}

void ChatTemplate::normalize_calls(Json& message) const {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array() || calls->empty()) return;
  for (Json& call : *calls) {
    if (!call.is_object()) continue;
    if (wants_short_ids_) shorten_id(call, "id");
    const auto function = call.find("function");
    if (function == call.end() || !function->is_object() || !function->contains("arguments")) continue;
    Json& arguments = (*function)["arguments"];
    if (wants_argument_objects_) arguments_to_object(arguments);
    if (wants_argument_text_ && arguments.is_object()) arguments = arguments.dump();
  }
  const auto content = message.find("content");
  const bool says_nothing = content == message.end() || content->is_null() || *content == "";
  if (!says_nothing || no_content_ == NoContent::kAsSent) return;
  message["content"] = no_content_ == NoContent::kNull ? Json(nullptr) : Json("");
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
