// Parses a whole template. Called once when a model's template is loaded; the result is immutable.
#pragma once
#include <string_view>

#include "server/jinja/ast.h"

namespace hearth::jinja {

// Throws TemplateError with the line for anything that is not a template of the supported language.
Body parse(std::string_view source);

}  // namespace hearth::jinja
