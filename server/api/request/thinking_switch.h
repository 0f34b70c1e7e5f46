// Turns a model's thinking on or off by setting variables of its chat template, and reads its limit.
//
// Called on the HTTP thread.
#pragma once

#include <optional>

#include "server/json/json.h"

namespace hearth {

/// Sets the template variables enable_thinking (Qwen, GLM, SmolLM) and thinking (DeepSeek, Granite), unless
/// they are already set. A template ignores the variables that it does not use.
void set_thinking(Json& template_arguments, bool on);

/// Reads the parameters with which clients of other servers turn thinking on or off: "enable_thinking": false
/// (Qwen) or "thinking": {"type": "disabled"} (DeepSeek, Anthropic). Variables that are already in
/// `template_arguments` stay. Also reads the limit on thinking, in tokens, under the names that other servers
/// have for it. budget: receives it if there is one; -1: no limit. Throws RequestError.
void read_thinking_switch(const RequestFields& fields, Json& template_arguments, std::optional<int>& budget);

/// Reads a limit on thinking from one member. budget: as above.
void read_thinking_budget(const RequestFields& fields, const char* name, std::optional<int>& budget);

}  // namespace hearth
