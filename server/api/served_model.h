// The model that is served, as the API handlers see it: names, limits, text in and out, and a door to the
// engine.
//
// Filled by hearthd once the model is loaded; read-only and shared by all HTTP threads after that.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "engine/residency/sparsity.h"
#include "engine/serving/request.h"
#include "engine/serving/token_stream.h"
#include "engine/tokenizer/tokenizer.h"

namespace hearth {

class ChatTemplate;

/// The two things a handler asks of the engine. A struct of functions, so that tests can play the engine.
struct EngineDoor {
  std::function<std::variant<std::shared_ptr<TokenStream>, Refusal>(GenerationRequest)> submit;
  /// True once the engine thread has ended by an exception: nothing will be answered until a restart.
  std::function<bool()> failed;
};
/// The engine must outlive the door.
EngineDoor engine_door(Engine& engine);

struct ServedModel {
  /// What /v1/models lists; the first is the default. At least one, none of them "*".
  std::vector<std::string> names;
  bool any_name = false;            // --alias '*': requests may name any model
  int64_t created = 0;              // Unix seconds: when the model was loaded
  std::string owned_by = "hearth";  // OpenAI's schema requires one
  /// system_fingerprint: changes with the version, the model file and the kind of arithmetic in use.
  std::string fingerprint = "hearth";
  int context_tokens = 0;                       // prompt plus generated tokens of one sequence, at most
  std::string device;                           // what computes; shown by /v1/models
  SparsityReport sparsity;                      // how the FFN is run; likewise
  const Tokenizer* tokenizer = nullptr;         // not null; outlives the service
  const ChatTemplate* chat_template = nullptr;  // null: the model has none, chat is refused
  EngineDoor engine;
};

}  // namespace hearth
