// The interface of the interpreter: a parsed template in the subset of Jinja that chat templates use. A
// template is parsed once and can be rendered any number of times, on any thread. The rest of the server uses
// chat/chat_template.h, which adds support for messages and tools.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/jinja/ast.h"
#include "server/jinja/evaluator.h"
#include "server/jinja/template_error.h"

namespace hearth::jinja {

// The variables for a rendering. Names and values are not copied and must outlive the call. If a name occurs
// twice, the later one counts.
using Variables = std::vector<std::pair<std::string_view, const nlohmann::ordered_json*>>;

// Returns the machine's local time.
std::tm local_time();

class Template {
 public:
  // Throws TemplateError, which gives the line.
  explicit Template(std::string_view source);

  // Thread-safe. Throws TemplateError with the line, or with the template's own message if the template
  // raises an error.
  std::string render(const Variables& variables, const Limits& limits = {},
                     const Clock& clock = local_time) const;

 private:
  Body body_;
};

}  // namespace hearth::jinja
