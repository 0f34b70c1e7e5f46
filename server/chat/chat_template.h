// A model's chat template: turns the messages of a request into the prompt the model was trained on.
// Loaded once with the model; HTTP threads render with it at the same time.
//
// The template gets its input in the form that the training code would have used, whatever the client sent:
//  - Content that is a list of text parts becomes one string, the parts joined by a newline. For a template
//    that understands only parts, a string becomes a list of one part.
//  - Arguments of tool calls, which clients send as JSON text, become an object for a template that would
//    quote the text again. Objects become JSON text for a template that concatenates them with other text.
//  - A message that makes tool calls and has no text gets content null or "", whichever the template renders
//    well: some print "None" for null, others show the calls only if content is null.
//  - Ids of tool calls become nine letters and digits for a template that refuses others. Equal ids stay
//    equal.
//  - `reasoning_content` is also passed under the name that the template uses.
// Short conversations rendered at load show which forms a template understands. A template without a system
// role or tools ignores them or raises its own error, which is sent to the client.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "server/jinja/template.h"

namespace hearth {

using jinja::TemplateError;

class ChatTemplate {
 public:
  // The template sees bos_text and eos_text as bos_token and eos_token. Throws TemplateError with the line.
  static ChatTemplate parse(std::string_view source, std::string bos_text, std::string eos_text,
                            jinja::Clock clock = jinja::local_time);
  // The ChatML template, for models without one of their own: <|im_start|>role\ncontent<|im_end|>\n
  static ChatTemplate chatml(std::string bos_text, std::string eos_text);

  // messages: an array of objects with role and content, as in an OpenAI request. tools: an array, or null
  // for none. extra: an object of further variables such as enable_thinking, or null; it cannot replace
  // messages and tools. Throws TemplateError, whose text is meant for the client. Thread-safe.
  std::string render(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                     bool add_generation_prompt, const nlohmann::ordered_json& extra = nullptr) const;

  bool wants_content_parts() const { return wants_content_parts_; }
  bool wants_argument_objects() const { return wants_argument_objects_; }
  // Whether ids of tool calls must be nine letters and digits. New ids should then have this form too.
  bool wants_short_ids() const { return wants_short_ids_; }
  // The template's source, for searches in its text.
  const std::string& source() const { return source_; }
  const std::string& eos_text() const { return eos_text_.get_ref<const std::string&>(); }

 private:
  ChatTemplate(std::string_view source, std::string bos_text, std::string eos_text, jinja::Clock clock);

  // Detects which input forms the template understands.
  void probe();
  void probe_content();
  void probe_arguments();
  void probe_ids();
  void probe_reasoning();
  void normalize_message(nlohmann::ordered_json& message) const;
  void normalize_calls(nlohmann::ordered_json& message) const;
  // Whether rendering these messages prints `needle`. False if the template raises an error.
  bool prints(const nlohmann::ordered_json& messages, std::string_view needle) const;
  std::string render_as_is(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                           bool add_generation_prompt, const nlohmann::ordered_json& extra) const;
  // Converts the messages to the form that this template understands.
  nlohmann::ordered_json normalized(const nlohmann::ordered_json& messages) const;

  // How to pass the missing content of a message with tool calls.
  enum class NoContent { kAsSent, kText, kNull };

  std::string source_;
  jinja::Template template_;
  nlohmann::ordered_json bos_text_, eos_text_;
  jinja::Clock clock_;
  bool wants_content_parts_ = false;
  bool wants_argument_objects_ = false;
  bool wants_argument_text_ = false;
  bool wants_short_ids_ = false;
  NoContent no_content_ = NoContent::kAsSent;
  std::string reasoning_key_ = "reasoning_content";
};

}  // namespace hearth
