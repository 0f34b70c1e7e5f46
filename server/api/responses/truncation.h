// "truncation": "auto": drops the oldest turns of a conversation that does not fit into the context.
//
// Called on the HTTP thread.
#pragma once

#include "server/api/api_context.h"
#include "server/api/openai/chat_request.h"

namespace hearth {

/// Drops the oldest turns in request.messages until the context has enough room for the answer: as many
/// tokens as the request allows for the answer, but at most a quarter of the context. A turn is a user
/// message with all messages up to the next user message. System messages and the last turn always stay, so
/// the prompt may still be too long. Throws RequestError if the template refuses the messages.
void drop_oldest_turns(const ApiContext& api, ChatRequest& request);

}  // namespace hearth
