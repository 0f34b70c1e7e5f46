// Turns a model's thinking on or off by setting variables of its chat template.
//
// Called by the request parsers on the HTTP thread.
#pragma once

#include "server/json/json.h"

namespace hearth {

/// Sets the template variables enable_thinking (Qwen, GLM, SmolLM) and thinking (DeepSeek, Granite), unless
/// they are already set. A template that uses neither ignores both.
void set_thinking(Json& template_arguments, bool on);

/// Reads the switch as clients of other servers send it: "enable_thinking": false (Qwen) or "thinking":
/// {"type": "disabled"} (DeepSeek, Anthropic). Keeps variables already in `template_arguments`. Throws
/// RequestError.
void read_thinking_switch(const RequestFields& fields, Json& template_arguments);

}  // namespace hearth
