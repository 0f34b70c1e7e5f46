// "truncation": "auto": a conversation that has outgrown the context loses its oldest turns.
//
// Called by the handlers of responses on the HTTP thread.
#pragma once

#include "server/api/api_context.h"
#include "server/api/openai/chat_request.h"

namespace hearth {

/// Drops turns from the beginning of request.messages until the prompt leaves room for an answer: for what was asked for, but
/// no more than a quarter of the context. A turn is a user's message with all that follows up to the next one. Messages of the
/// system and the last turn always stay, so the prompt may still be too long. Throws RequestError if the template refuses the
/// messages.
void drop_oldest_turns(const ApiContext& api, ChatRequest& request);

}  // namespace hearth
