// See the header.
#include "server/api/request/thinking_switch.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace hearth {

void set_thinking(Json& template_arguments, bool on) {
  for (const char* name : {"enable_thinking", "thinking"})
    if (!template_arguments.contains(name)) template_arguments[name] = on;
}

void read_thinking_budget(const RequestFields& fields, const char* name, std::optional<int>& budget) {
  const std::optional<int64_t> tokens = fields.integer(name, -1, kMaxInt64);
  if (tokens) budget = static_cast<int>(std::min<int64_t>(*tokens, std::numeric_limits<int>::max()));
}

void read_thinking_switch(const RequestFields& fields, Json& template_arguments, std::optional<int>& budget) {
  // If a request has several of these members, the one that is last in this list is used.
  for (const char* name :
       {"reasoning_budget", "thinking_budget", "thinking_token_budget", "thinking_budget_tokens"})
    read_thinking_budget(fields, name, budget);
  if (const std::optional<bool> on = fields.boolean("enable_thinking")) set_thinking(template_arguments, *on);
  const Json* thinking = fields.object("thinking");
  if (thinking == nullptr) return;
  const RequestFields inner(*thinking, fields.param("thinking."));
  const std::string type = inner.required_word("type", {"enabled", "disabled", "adaptive", "auto"});
  read_thinking_budget(inner, "budget_tokens", budget);
  set_thinking(template_arguments, type != "disabled");
}

}  // namespace hearth
