// The engine's face: everything is done by its Loop.
#include "engine/engine.h"

#include <utility>

#include "engine/serving/engine_loop.h"

namespace hearth {

Engine::Engine(ForwardModel& model, EngineOptions options) : loop_(std::make_unique<Loop>(model, options)) {}

Engine::~Engine() = default;

std::variant<std::shared_ptr<TokenStream>, Refusal> Engine::submit(GenerationRequest request) {
  return loop_->submit(std::move(request));
}

void Engine::when_idle(IdleWork work) { loop_->when_idle(std::move(work)); }

EngineStatus Engine::status() const { return loop_->status(); }

const EngineOptions& Engine::options() const { return loop_->options(); }

bool Engine::drain(std::chrono::steady_clock::time_point deadline) { return loop_->drain(deadline); }

}  // namespace hearth
