// A model's chat template: turns the messages of a request into the prompt the model was trained on. Loaded
// once with the model; HTTP threads render with it at the same time.
//
// What reaches the template is what the training code would have given it, whatever form the client used:
//  - content given as a list of text parts becomes one string, parts joined by a newline; for a template that
//  only
//    understands parts, a string becomes a list of one part. Which kind it is is found out at load by trying.
//  - arguments of tool calls, which clients send as JSON text, become an object for a template that would
//  print the text
//    quoted a second time. Found out by trying, too.
// A template without a system role or without tools raises its own error or ignores them; that is its
// business.
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
  // bos_text and eos_text are what the template sees as bos_token and eos_token. Throws TemplateError with
  // the line.
  static ChatTemplate parse(std::string_view source, std::string bos_text, std::string eos_text,
                            jinja::Clock clock = jinja::local_time);
  // For models that bring no template: <|im_start|>role\ncontent<|im_end|>\n
  static ChatTemplate chatml(std::string bos_text, std::string eos_text);

  // messages: an array of objects with role and content, as in an OpenAI request. tools: an array, or null
  // for none. extra: an object of further variables such as enable_thinking, or null; it cannot replace
  // messages and tools. Throws TemplateError; its text is for the client. Thread-safe.
  std::string render(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                     bool add_generation_prompt, const nlohmann::ordered_json& extra = nullptr) const;

  bool wants_content_parts() const { return wants_content_parts_; }
  bool wants_argument_objects() const { return wants_argument_objects_; }

 private:
  ChatTemplate(std::string_view source, std::string bos_text, std::string eos_text, jinja::Clock clock);

  void probe();
  // Nothing printed of `needle` when the template cannot take these messages.
  bool prints(const nlohmann::ordered_json& messages, std::string_view needle) const;
  std::string render_as_is(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                           bool add_generation_prompt, const nlohmann::ordered_json& extra) const;
  nlohmann::ordered_json normalized(const nlohmann::ordered_json& messages) const;

  jinja::Template template_;
  nlohmann::ordered_json bos_text_, eos_text_;
  jinja::Clock clock_;
  bool wants_content_parts_ = false;
  bool wants_argument_objects_ = false;
};

}  // namespace hearth
