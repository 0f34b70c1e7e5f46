// See the header.
#include "server/api/request/thinking_switch.h"

namespace hearth {

void set_thinking(Json& template_arguments, bool on) {
  for (const char* name : {"enable_thinking", "thinking"})
    if (!template_arguments.contains(name)) template_arguments[name] = on;
}

}  // namespace hearth
