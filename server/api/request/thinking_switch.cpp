// See the header.
#include "server/api/request/thinking_switch.h"

#include <optional>
#include <string>

namespace hearth {

void set_thinking(Json& template_arguments, bool on) {
  for (const char* name : {"enable_thinking", "thinking"})
    if (!template_arguments.contains(name)) template_arguments[name] = on;
}

void read_thinking_switch(const RequestFields& fields, Json& template_arguments) {
  if (const std::optional<bool> on = fields.boolean("enable_thinking")) set_thinking(template_arguments, *on);
  const Json* thinking = fields.object("thinking");
  if (thinking == nullptr) return;
  const RequestFields inner(*thinking, fields.param("thinking."));
  const std::string type = inner.required_word("type", {"enabled", "disabled", "adaptive", "auto"});
  set_thinking(template_arguments, type != "disabled");
}

}  // namespace hearth
