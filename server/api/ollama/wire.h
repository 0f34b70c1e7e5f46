// Helpers shared by all Ollama endpoints: model names, durations, JSON lines.
//
// Pure functions, called on HTTP threads.
#pragma once

#include <cstdint>
#include <string>

#include "server/api/api_context.h"
#include "server/json/json.h"

namespace hearth {

/// Returns the name as lists show it. Ollama's names end with a tag, ":latest" by default, and clients look
/// for the tag.
std::string with_tag(const std::string& name);

/// The name without ":latest".
std::string without_tag(std::string name);

/// Returns the name in the body's `model`, or in the older `name`; empty if neither is present. Throws
/// RequestError.
std::string asked_model(const Json& body);

/// Returns the model with this name, with or without ":latest", or null if there is none.
const EmbeddingTarget* target_named(const ApiContext& api, const std::string& name);

/// Returns the model name for the answer: the name in the body's `model`, or in the older `name`, with or
/// without ":latest"; the default name if the body has neither. Throws RequestError: 404 for a name that is
/// not served, 400 for a name of the embedding model.
std::string ollama_model_name(const ApiContext& api, const Json& body);

/// Returns the time in nanoseconds, but at least 1, because clients divide by it.
int64_t nanoseconds(double seconds);

/// A line of a stream: JSON and a newline.
std::string json_line(const Json& json);

}  // namespace hearth
