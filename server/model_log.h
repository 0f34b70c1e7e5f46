// The log lines about loaded models: their properties, their device and their memory.
#pragma once

#include <string>

#include "engine/engine.h"
#include "engine/model_runtime.h"

namespace hearth {

/// Logs the served model. engine: the options of its engine.
void log_model(const std::string& name, const ModelRuntime& runtime, const EngineOptions& engine,
               bool can_chat);

void log_draft_model(const ModelRuntime& drafter);

}  // namespace hearth
