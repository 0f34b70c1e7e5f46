// What the handlers of all endpoints share: the served model, how it speaks in chats, time and chance.
//
// One ApiContext for the process, made when the model is loaded, used by any number of HTTP threads at once; nothing in it
// changes but the responses that are kept or in the background. Handlers are functions of the context and a request
// (server/endpoints/endpoints.h has their table). What can be refused is refused in the call (4xx, 429, 503); an accepted request
// returns a response whose `produce` waits for the engine.
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

/// The loaded model as the handlers see it. Filled by hearthd; read-only after that.
struct ServedModel {
  /// What /v1/models lists; the first is the default. At least one, none of them "*".
  std::vector<std::string> names;
  bool any_name = false;            // --alias '*': requests may name any model
  int64_t created = 0;              // Unix seconds: when the model was loaded
  std::string owned_by = "hearth";  // OpenAI's schema requires one
  /// The system_fingerprint of answers. Changes with the version, the model file and the kind of arithmetic
  /// in use.
  std::string fingerprint = "hearth";
  /// After how much silence an answer that is sent whole gets a blank line; 0: never (--keepalive-seconds).
  std::chrono::seconds blank_line_interval{0};
  int max_tokens_default = 0;            // of chat answers that ask for no length; 0: what the context leaves
  int context_tokens = 0;                // prompt plus generated tokens of one sequence, at most
  ModelFileFacts facts = {};             // what its file says about it; Ollama's endpoints show it
  std::string device;                    // what computes the model; /v1/models shows it
  SparsityReport sparsity;               // how the FFN is computed; /v1/models shows it
  const Tokenizer* tokenizer = nullptr;  // not null; outlives the service
  const ChatTemplate* chat_template = nullptr;   // null: the model has none, chat is refused
  TokenGenerator* engine = nullptr;              // not null; outlives the service
  bool generates = true;                         // false: it is an encoder, which embeds texts only
  int n_dimensions = 0;                          // of its embeddings
  Pooling pooling = Pooling::kLast;              // and how they are made
  std::optional<EmbeddingTarget> embedder = {};  // the embedding model; nullopt: the model itself embeds
  LiveEvents* live_events = nullptr;  // what the page follows; null: there is no page. Outlives the service
};

/// Time and chance, so that tests can put in their own. Called from any HTTP thread: all three are
/// thread-safe.
struct ApiWorld {
  std::function<int64_t()> unix_seconds;                       // for `created`
  std::function<std::chrono::steady_clock::time_point()> now;  // for keep-alive pings
  std::function<uint64_t()> random_bits;  // for ids, and for seeds that requests leave out
  static ApiWorld real();                 // the system's clocks, and a random generator for each thread
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
  /// Responses that are kept; the store is thread-safe.
  ResponseStore& responses() const { return *responses_; }
  /// Responses that are made while their clients do something else; thread-safe.
  BackgroundAnswers& background() const { return *background_; }
  size_t longest_token_bytes() const { return longest_token_bytes_; }
  /// What requests are checked against.
  RequestLimits limits() const;

  /// The name to answer with: what the body's `model` names, else path_model, else the default. Throws RequestError: 404
  /// for a name that is not served, 400 for the embedding model's.
  std::string model_name(const Json& body, std::string_view path_model = {}) const;
  /// The same for a name that was asked for; empty: the default.
  std::string served_name(const std::string& asked) const;

  /// The model that embeds for this request, and the name to answer with. With an embedding model, that is the one for
  /// requests that name none. Throws RequestError (404) for a name that is not served. Valid as long as the context.
  std::pair<const EmbeddingTarget*, std::string> embedding_target(const Json& body,
                                                                  std::string_view path_model) const;

  /// All models: the one that is served, and behind it the embedding model, if there is one. Valid as long as the context.
  std::vector<const EmbeddingTarget*> targets() const;

  /// A new identifier: the prefix and 32 hexadecimal digits.
  std::string new_id(std::string_view prefix) const;

 private:
  ServedModel model_;
  ApiWorld world_;
  size_t longest_token_bytes_;
  EmbeddingTarget own_target_;  // the model itself, as one that embeds
  std::unique_ptr<const ChatDialect> dialect_;
  std::unique_ptr<const ConstraintCompiler> constraints_;
  std::unique_ptr<ResponseStore> responses_;
  std::unique_ptr<BackgroundAnswers> background_;  // the last member: its answers use the others
};

}  // namespace hearth
