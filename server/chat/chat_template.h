// A model's chat template: turns the messages of a request into the kind of prompt that the model was trained
// on. It is loaded once with the model. Several HTTP threads may render with it at the same time.
//
// The template gets its input in the form that the training code would have used, whatever the client sent:
// - If content is a list of text parts, the parts are joined by newlines into one string. For a template that
//   understands only parts, a string becomes a list of one part.
// - Clients send the arguments of tool calls as JSON text. For a template that would quote this text again,
//   the arguments become an object. For a template that concatenates arguments with other text, objects
//   become JSON text.
// - In a message that makes tool calls and has no text, content becomes null or "", whichever the template
//   renders correctly: some templates print "None" for null, others show the calls only if content is null.
// - Ids of tool calls become nine letters and digits for a template that rejects other ids. Equal ids stay
//   equal.
// - `reasoning_content` is also passed under the name that the template uses.
// ChatTemplate renders short conversations at load to find out which forms a template understands. A template
// that does not support system messages or tools either ignores them or raises an error, which is sent to the
// client.
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
  // Passes bos_text and eos_text to the template as bos_token and eos_token. Throws TemplateError, which
  // gives the line.
  static ChatTemplate parse(std::string_view source, std::string bos_text, std::string eos_text,
                            jinja::Clock clock = jinja::local_time);
  // Returns the ChatML template, for models without a template: <|im_start|>role\ncontent<|im_end|>\n
  static ChatTemplate chatml(std::string bos_text, std::string eos_text);

  // messages: an array of objects with role and content, as in an OpenAI request. tools: an array, or null if
  // there are none. extra: an object with more variables such as enable_thinking, or null; it cannot replace
  // messages and tools. Throws TemplateError with a text for the client. Thread-safe.
  std::string render(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                     bool add_generation_prompt, const nlohmann::ordered_json& extra = nullptr) const;

  bool wants_content_parts() const { return wants_content_parts_; }
  bool wants_argument_objects() const { return wants_argument_objects_; }
  // Whether the template requires ids of tool calls to be nine letters and digits. If so, create new ids in
  // this form.
  bool wants_short_ids() const { return wants_short_ids_; }
  // The template's source, for callers that search its text.
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
  // Whether the template prints `needle` when it renders these messages. False if it raises an error.
  bool prints(const nlohmann::ordered_json& messages, std::string_view needle) const;
  std::string render_as_is(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                           bool add_generation_prompt, const nlohmann::ordered_json& extra) const;
  // Converts the messages to the form that this template understands.
  nlohmann::ordered_json normalized(const nlohmann::ordered_json& messages) const;

  // The value to pass as the missing content of a message with tool calls.
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
