// The switch by which a request turns a model's thinking on or off: variables of its chat template.
//
// Called by the request parsers on the HTTP thread.
#pragma once

#include "server/json/json.h"

namespace hearth {

/// Sets enable_thinking (Qwen, GLM, SmolLM) and thinking (DeepSeek, Granite) among the template's variables. What is set
/// there already stays. A template that knows neither ignores both.
void set_thinking(Json& template_arguments, bool on);

/// How clients of other servers ask for it: "enable_thinking": false, as Qwen's; "thinking": {"type": "disabled"}, as
/// DeepSeek's and Anthropic's. What `template_arguments` has already stays. Throws RequestError.
void read_thinking_switch(const RequestFields& fields, Json& template_arguments);

}  // namespace hearth
