// A model's chat template, which converts messages to a prompt of the kind on which the model was trained.
// Created when the model is loaded. Several HTTP threads may render with it at the same time.
//
// Before rendering, messages are converted to the form that the template understands:
// - Content that is a list of text parts becomes one string, with newlines between the parts. If the template
//   understands only parts, a string becomes a list of one part.
// - Clients send the arguments of tool calls as JSON text. If the template would quote this text again,
//   arguments become an object. If the template concatenates arguments with other text, objects become JSON
//   text.
// - The content of a message with tool calls but without text becomes null or "", depending on which one the
//   template renders correctly. Some templates print "None" for null; others show the calls only if content
//   is null.
// - Ids of tool calls become nine letters and digits if the template rejects other ids. Equal ids stay equal.
// - Results of tools move into the message with the calls if the template expects them there (the first
//   templates of Gemma 4).
// - `reasoning_content` is also passed under the name that the template uses.
// - A system message that the template refuses or leaves out is joined to the system message before it, or
//   else to the user's message after it, or else to the user's message before it. If there is none of these,
//   it becomes a user's message. Agents send such messages in the middle of conversations, and some templates
//   know none.
// The constructor renders short conversations to detect which forms the template understands. A template that
// does not support tools either ignores them or raises an error, which the client gets.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "server/jinja/template.h"

namespace hearth {

using jinja::TemplateError;

class ChatTemplate {
 public:
  // Passes bos_text and eos_text to the template as bos_token and eos_token. Throws TemplateError.
  static ChatTemplate parse(std::string_view source, std::string bos_text, std::string eos_text,
                            jinja::Clock clock = jinja::local_time);
  // Returns the ChatML template, for models without a template: <|im_start|>role\ncontent<|im_end|>\n.
  static ChatTemplate chatml(std::string bos_text, std::string eos_text);

  // messages: an array of objects with role and content, as in OpenAI's API. tools: an array, or null if
  // there are none. extra: an object with other variables, such as enable_thinking, or null; it cannot
  // replace messages and tools. Throws TemplateError, whose text is meant for the client. Thread-safe.
  std::string render(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                     bool add_generation_prompt, const nlohmann::ordered_json& extra = nullptr) const;

  bool wants_content_parts() const { return wants_content_parts_; }
  bool wants_argument_objects() const { return wants_argument_objects_; }
  // Whether the template shows arguments that are no JSON object, such as JSON text that was cut off.
  bool takes_any_arguments() const { return takes_any_arguments_; }
  // Whether the ids of new tool calls must consist of nine letters and digits.
  bool wants_short_ids() const { return wants_short_ids_; }
  // The template's source code.
  const std::string& source() const { return source_; }
  const std::string& eos_text() const { return eos_text_.get_ref<const std::string&>(); }

 private:
  ChatTemplate(std::string_view source, std::string bos_text, std::string eos_text, jinja::Clock clock);

  // Detects the forms of messages that the template understands.
  void probe();
  void probe_system();
  void probe_results();
  void probe_content();
  void probe_arguments();
  void probe_ids();
  void probe_reasoning();
  void normalize_message(nlohmann::ordered_json& message) const;
  void normalize_calls(nlohmann::ordered_json& message) const;
  // Renders messages without tools; nullopt if the template raises an error.
  std::optional<std::string> try_render(const nlohmann::ordered_json& messages) const;
  // Whether the template prints `needle` when it renders these messages. False if the template raises an
  // error.
  bool prints(const nlohmann::ordered_json& messages, std::string_view needle) const;
  std::string render_as_is(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                           bool add_generation_prompt, const nlohmann::ordered_json& extra) const;
  // Converts the messages to the form that this template understands.
  nlohmann::ordered_json normalized(const nlohmann::ordered_json& messages) const;

  // The replacement for the content of a message that has tool calls but no text.
  enum class NoContent { kAsSent, kText, kNull };

  std::string source_;
  jinja::Template template_;
  nlohmann::ordered_json bos_text_, eos_text_;
  jinja::Clock clock_;
  // Whether the template shows a system message that is the first message, and one that is not.
  bool takes_system_first_ = true, takes_system_amid_ = true;
  bool takes_results_ = false;  // the probes' calls are followed by results
  bool wants_content_parts_ = false;
  bool wants_argument_objects_ = false;
  bool wants_argument_text_ = false;
  bool takes_any_arguments_ = true;
  bool wants_short_ids_ = false;
  bool wants_results_with_calls_ = false;
  NoContent no_content_ = NoContent::kAsSent;
  std::string reasoning_key_ = "reasoning_content";
};

}  // namespace hearth
