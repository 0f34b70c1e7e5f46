// Ollama's `messages` as a conversation of the kind that chat templates know.
//
// Called by the handler of /api/chat on the HTTP thread.
#pragma once

#include "server/json/json.h"

namespace hearth {

/// Throws RequestError, which names the message and the member that is wrong. The result is as read_messages() makes it;
/// `thinking` becomes reasoning_content and `tool_name` the result's name. Ollama's calls and results need no ids, some
/// templates do: a call without one gets one, and a result without one that of the first call of its name, or of the next
/// call if it has no name either.
Json read_ollama_messages(const Json& messages);

}  // namespace hearth
