// The objects that the handlers of all endpoints share: the served model, its ChatDialect, a clock and a
// random generator.
//
// Each loaded model has one ApiContext, used by many HTTP threads at once. Only stored responses, background
// responses and cached constraints change. Handlers are functions of the context and a request (table:
// server/endpoints/endpoints.h). A handler runs on the request's thread. It refuses a request that cannot be
// served immediately (4xx, 429, 503). After the engine has accepted a request, the handler waits for the
// engine and writes the answer.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/neurons/sparsity.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/api/embedding_target.h"
#include "server/api/model_file_facts.h"
#include "server/json/api_error.h"
#include "server/json/json.h"

namespace hearth {

class BackgroundAnswers;
class ChatDialect;
class ChatTemplate;
class ConstraintCompiler;
class LiveEvents;
class ResponseStore;
struct RequestLimits;

/// The loaded model and its settings. The base class describes the model; the members are the settings.
/// /v1/models lists `names`, which does not contain "*". context_tokens is the maximum number of tokens of
/// one sequence, prompt and answer together. Filled by hearthd, then read-only.
struct ServedModel : EmbeddingTarget {
  bool any_name = false;  // --alias '*': requests may name any model
  /// The system_fingerprint of answers. It changes with the version, the model file and the arithmetic.
  std::string fingerprint = "hearth";
  /// Interval after which an unstreamed answer gets a blank line; 0: never (--keepalive-seconds).
  std::chrono::seconds blank_line_interval{0};
  int max_tokens_default = 0;  // length of chat answers without max_tokens; 0: up to the end of the context
  std::optional<SamplingParams> sampling = {};  // recommended for the model (model_sampling())
  int reasoning_budget = -1;                    // tokens of thinking of chats that set no limit; -1: no limit
  SparsityReport sparsity = {};  // the computation of the FFN, determined at load; shown by /v1/models
  const ChatTemplate* chat_template = nullptr;   // null if the model has none; chats are then refused
  std::optional<EmbeddingTarget> embedder = {};  // the embedding model; absent: the served model embeds
  // Events for the page. Null if the page is off. Must outlive the service.
  LiveEvents* live_events = nullptr;

  /// Name of a known model that fits this machine, if the served one is a small demonstration model; else
  /// empty.
  std::string suggested_model = {};

  /// False for an encoder, which only embeds texts, and for a model that ranks texts.
  bool generates() const { return !looks_ahead && !ranks(); }
};

/// Clock and randomness, which tests can replace. Any HTTP thread may call the three functions.
struct ApiWorld {
  std::function<int64_t()> unix_seconds;                       // for `created`
  std::function<std::chrono::steady_clock::time_point()> now;  // for keep-alive pings
  std::function<uint64_t()> random_bits;  // for ids, and for seeds of requests without one
  static ApiWorld real();                 // system clocks, and one random generator per thread
};

/// Returns the error (404) for a model that the server does not have, or for a request that must name a model
/// and does not (asked: ""). The message lists the names of the models.
ApiError no_such_model(const std::vector<std::string>& names, std::string_view asked);

class ApiContext {
 public:
  explicit ApiContext(ServedModel model, ApiWorld world = ApiWorld::real());
  ~ApiContext();

  const ServedModel& model() const { return model_; }
  const ApiWorld& world() const { return world_; }
  const Tokenizer& tokenizer() const { return *model_.tokenizer; }
  const ChatDialect& dialect() const { return *dialect_; }
  const ConstraintCompiler& constraints() const { return *constraints_; }
  /// The stored responses; thread-safe.
  ResponseStore& responses() const { return *responses_; }
  /// The responses that are generated in the background; thread-safe.
  BackgroundAnswers& background() const { return *background_; }
  size_t longest_token_bytes() const { return model_.longest_token_bytes; }
  /// Returns the facts about the model against which requests are checked.
  RequestLimits limits() const;

  /// Returns the model name for the answer: the body's `model`. If the body has none, returns path_model, or
  /// the default name if path_model is empty. Throws RequestError: 404 if the name is not served, 400 if it
  /// is a name of the embedding model.
  std::string model_name(const Json& body, std::string_view path_model = {}) const;
  /// Like model_name(), but for a name. An empty name selects the default.
  std::string served_name(const std::string& asked) const;

  /// Returns the model that embeds the request's texts, and the model name for the answer. If the request
  /// contains no name, returns the embedding model if it embeds, or else the served model. A named model may
  /// be one that does not embed. Throws RequestError (404) if the name is not served. The pointer is valid as
  /// long as the context.
  std::pair<const EmbeddingTarget*, std::string> embedding_target(const Json& body,
                                                                  std::string_view path_model) const;
  /// Like embedding_target(), but for the model that ranks the request's texts.
  std::pair<const EmbeddingTarget*, std::string> rank_target(const Json& body,
                                                             std::string_view path_model) const;

  /// Returns the served model, and then the embedding model if there is one. The pointers are valid as long
  /// as the context.
  std::vector<const EmbeddingTarget*> targets() const;

  /// Returns a new id: the prefix and 32 hexadecimal digits.
  std::string new_id(std::string_view prefix) const;

 private:
  std::pair<const EmbeddingTarget*, std::string> target_of(const Json& body, std::string_view path_model,
                                                           bool ranks) const;

  ServedModel model_;
  ApiWorld world_;
  std::unique_ptr<const ChatDialect> dialect_;
  std::unique_ptr<const ConstraintCompiler> constraints_;
  std::unique_ptr<ResponseStore> responses_;
  std::unique_ptr<BackgroundAnswers> background_;  // declared last, because its answers use the members above
};

}  // namespace hearth
