// Converts Ollama's `messages` to a conversation for chat templates.
//
// Called by the /api/chat handler on the HTTP thread.
#pragma once

#include "server/json/json.h"

namespace hearth {

/// Throws RequestError, which names the message and member with the mistake. The result has the form of
/// read_messages(); `thinking` becomes reasoning_content, and `tool_name` becomes the result's name. Ollama's
/// calls and results need no ids, but some templates need them. A call without an id therefore gets a new
/// one. A result without an id gets the id of the first unanswered call with the result's name, or of the
/// next unanswered call if the result has no name.
Json read_ollama_messages(const Json& messages);

}  // namespace hearth
