// Functions that all endpoints of Ollama's API share: model names, durations, JSON lines.
//
// Pure functions, called on HTTP threads.
#pragma once

#include <cstdint>
#include <string>

#include "server/api/api_context.h"
#include "server/json/json.h"

namespace hearth {

/// Returns the name with a tag. Names in Ollama's lists end with a tag, ":latest" by default, and clients
/// expect it.
std::string with_tag(const std::string& name);

/// Returns the name without ":latest".
std::string without_tag(std::string name);

/// Returns the body's `model`, or else the body's `name`, which older clients send. Empty if both are absent.
/// Throws RequestError.
std::string asked_model(const Json& body);

/// Returns the model with this name, with or without ":latest", or null.
const EmbeddingTarget* target_named(const ApiContext& api, const std::string& name);

/// Returns the model name for the answer: asked_model(), which may omit ":latest", or the default name if the
/// body has none. Throws RequestError: 404 if the name is not served, 400 if it names the embedding model.
std::string ollama_model_name(const ApiContext& api, const Json& body);

/// Converts seconds to nanoseconds. Returns at least 1, because clients divide by the result.
int64_t nanoseconds(double seconds);

/// Returns a line of a stream: JSON text and a newline.
std::string json_line(const Json& json);

}  // namespace hearth
