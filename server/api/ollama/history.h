// Converts Ollama's `messages` to a conversation for chat templates.
//
// Called by the /api/chat handler on the HTTP thread.
#pragma once

#include "server/json/json.h"

namespace hearth {

/// Throws RequestError that names the wrong message and member. The result has the form of read_messages();
/// `thinking` becomes reasoning_content, and `tool_name` the result's name. Ollama's calls and results need
/// no ids, but some templates do: a call without an id gets one, and a result without one gets the id of the
/// first call with its name, or of the next call if it has no name either.
Json read_ollama_messages(const Json& messages);

}  // namespace hearth
