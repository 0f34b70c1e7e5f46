// What all of Ollama's endpoints share on the wire: names of models, durations, lines of JSON.
//
// Pure functions, called on the HTTP threads.
#pragma once

#include <cstdint>
#include <string>

#include "server/api/api_context.h"
#include "server/json/json.h"

namespace hearth {

/// The name as lists show it. Ollama's names end with a tag, ":latest" if they have no other, and programs look for it.
std::string with_tag(const std::string& name);

/// The name without ":latest".
std::string without_tag(std::string name);

/// What the body's `model`, or the older `name`, asks for; empty: neither is there. Throws RequestError.
std::string asked_model(const Json& body);

/// The model that has this name, with or without ":latest"; null: none has.
const EmbeddingTarget* target_named(const ApiContext& api, const std::string& name);

/// The name to answer with: what the body's `model`, or the older `name`, asks for, with or without ":latest"; the default
/// if neither is there. Throws RequestError: 404 for a name that is not served, 400 for the embedding model's.
std::string ollama_model_name(const ApiContext& api, const Json& body);

/// At least 1: programs divide by times.
int64_t nanoseconds(double seconds);

/// A line of a stream: JSON and a line feed.
std::string json_line(const Json& json);

}  // namespace hearth
