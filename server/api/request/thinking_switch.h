// Turns a model's thinking on or off by setting variables of its chat template.
//
// Called on the HTTP thread.
#pragma once

#include "server/json/json.h"

namespace hearth {

/// Sets the template variables enable_thinking (Qwen, GLM, SmolLM) and thinking (DeepSeek, Granite), unless
/// they are already set. A template ignores the variables that it does not use.
void set_thinking(Json& template_arguments, bool on);

/// Reads the parameters with which clients of other servers turn thinking on or off: "enable_thinking": false
/// (Qwen) or "thinking": {"type": "disabled"} (DeepSeek, Anthropic). Variables that are already in
/// `template_arguments` stay. Throws RequestError.
void read_thinking_switch(const RequestFields& fields, Json& template_arguments);

}  // namespace hearth
