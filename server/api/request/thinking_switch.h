// The switch by which a request turns a model's thinking on or off: variables of its chat template.
//
// Called by the request parsers on the HTTP thread.
#pragma once

#include "server/api/json.h"

namespace hearth {

/// Sets enable_thinking (Qwen, GLM, SmolLM) and thinking (DeepSeek, Granite) among the template's variables. What is set
/// there already stays. A template that knows neither ignores both.
void set_thinking(Json& template_arguments, bool on);

}  // namespace hearth
