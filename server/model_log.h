// The log lines about loaded models: what they are, where they run and how much memory they take.
#pragma once

#include <string>

#include "engine/engine.h"
#include "engine/model_runtime.h"

namespace hearth {

/// Logs the served model. `engine`: the options of the model's engine.
void log_model(const std::string& name, const ModelRuntime& runtime, const EngineOptions& engine,
               bool can_chat);

void log_draft_model(const ModelRuntime& drafter);

}  // namespace hearth
