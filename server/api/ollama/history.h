// Converts the `messages` of Ollama's API to a conversation for chat templates.
//
// Called by the /api/chat handler on the HTTP thread.
#pragma once

#include "server/json/json.h"

namespace hearth {

/// Converts messages to the form of read_messages(). Throws RequestError, which names the faulty message and
/// member. `thinking` becomes reasoning_content, and `tool_name` becomes the result's name. Some templates
/// need ids, which Ollama's calls and results may omit. A call without an id gets a generated id. A result
/// without an id gets the id of the first call that no result has answered yet. If the result has a name,
/// only calls of the function with this name are considered.
Json read_ollama_messages(const Json& messages);

}  // namespace hearth
