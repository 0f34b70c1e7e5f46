// The interface of the interpreter: a parsed template in the subset of Jinja that chat templates use. A
// template is parsed once and rendered any number of times, on any thread. The server uses it through
// ChatTemplate, which adds messages and tools.
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

// The variables of a rendering. Names and values are not copied and must outlive the call. If a name occurs
// twice, the later value is used.
using Variables = std::vector<std::pair<std::string_view, const nlohmann::ordered_json*>>;

// Returns the machine's local time.
std::tm local_time();

class Template {
 public:
  // Throws TemplateError if the source is not a valid template.
  explicit Template(std::string_view source);

  // Thread-safe. Throws TemplateError if rendering fails or the template calls raise_exception.
  std::string render(const Variables& variables, const Limits& limits = {},
                     const Clock& clock = local_time) const;

 private:
  Body body_;
};

}  // namespace hearth::jinja
