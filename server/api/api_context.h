// The context shared by the handlers of all endpoints: the served model, its chat dialect, clock and
// randomness.
//
// Each loaded model has one ApiContext, used by many HTTP threads at once. Only its stored responses,
// background responses and cached constraints change. Handlers are functions of the context and a request
// (table: server/endpoints/endpoints.h). They run straight through on the request's thread: they refuse at
// once a request that cannot be served (4xx, 429, 503); after the engine has accepted a request, they wait
// for the engine and write the answer.
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
#include "server/json/json.h"

namespace hearth {

class BackgroundAnswers;
class ChatDialect;
class ChatTemplate;
class ConstraintCompiler;
class LiveEvents;
class ResponseStore;
struct RequestLimits;

/// The loaded model as the handlers use it. The base class describes the model itself, and the members say
/// how it is served. /v1/models lists its names, none of which is "*". Its context is the maximum number of
/// tokens of one sequence, prompt and generated tokens together. Filled by hearthd; read-only after that.
struct ServedModel : EmbeddingTarget {
  bool any_name = false;  // --alias '*': requests may name any model
  /// The system_fingerprint of answers. It changes with the version, the model file and the arithmetic in
  /// use.
  std::string fingerprint = "hearth";
  /// Interval after which an unstreamed answer gets a blank line; 0: never (--keepalive-seconds).
  std::chrono::seconds blank_line_interval{0};
  int max_tokens_default = 0;    // default length of chat answers; 0: up to the end of the context
  SparsityReport sparsity = {};  // how the FFN was computed when the model was loaded; shown by /v1/models
  const ChatTemplate* chat_template = nullptr;   // null: the model has none, and chat is refused
  std::optional<EmbeddingTarget> embedder = {};  // the embedding model; if absent, the served model embeds
  LiveEvents* live_events = nullptr;  // events for the page; null if the page is off. Must outlive the
                                      // service

  bool generates() const { return !looks_ahead; }  // false: an encoder, which only embeds texts
};

/// Clock and randomness, which tests can replace. All three functions are thread-safe, because any HTTP
/// thread calls them.
struct ApiWorld {
  std::function<int64_t()> unix_seconds;                       // for `created`
  std::function<std::chrono::steady_clock::time_point()> now;  // for keep-alive pings
  std::function<uint64_t()> random_bits;                       // for ids, and for seeds that requests omit
  static ApiWorld real();  // system clocks, and one random generator per thread
};

class ApiContext {
 public:
  explicit ApiContext(ServedModel model, ApiWorld world = ApiWorld::real());
  ~ApiContext();

  const ServedModel& model() const { return model_; }
  const ApiWorld& world() const { return world_; }
  const Tokenizer& tokenizer() const { return *model_.tokenizer; }
  const ChatDialect& dialect() const { return *dialect_; }
  const ConstraintCompiler& constraints() const { return *constraints_; }
  /// Stored responses; the store is thread-safe.
  ResponseStore& responses() const { return *responses_; }
  /// Responses generated in the background; thread-safe.
  BackgroundAnswers& background() const { return *background_; }
  size_t longest_token_bytes() const { return model_.longest_token_bytes; }
  /// The limits against which requests are checked.
  RequestLimits limits() const;

  /// Returns the model name for the answer: the body's `model`, else path_model, else the default. Throws
  /// RequestError: 404 for a name that is not served, 400 for a name of the embedding model.
  std::string model_name(const Json& body, std::string_view path_model = {}) const;
  /// Like model_name(), for a requested name; empty selects the default.
  std::string served_name(const std::string& asked) const;

  /// Returns the model that embeds for this request, and the model name for the answer. If the request names
  /// no model, returns the embedding model or, without one, the served model. Throws RequestError (404) for a
  /// name that is not served. Valid as long as the context.
  std::pair<const EmbeddingTarget*, std::string> embedding_target(const Json& body,
                                                                  std::string_view path_model) const;

  /// All models: the served one, then the embedding model if there is one. Valid as long as the context.
  std::vector<const EmbeddingTarget*> targets() const;

  /// Returns a new identifier: the prefix and 32 hexadecimal digits.
  std::string new_id(std::string_view prefix) const;

 private:
  ServedModel model_;
  ApiWorld world_;
  std::unique_ptr<const ChatDialect> dialect_;
  std::unique_ptr<const ConstraintCompiler> constraints_;
  std::unique_ptr<ResponseStore> responses_;
  std::unique_ptr<BackgroundAnswers> background_;  // declared last, because its answers use the members above
};

}  // namespace hearth
