// The OpenAI endpoints, from HTTP request to HTTP response; sockets are not known here.
//
// One ApiService for the process, made when the model is loaded, called by any number of HTTP threads at
// once. What can be refused is refused in the call (4xx, 429, 503 with OpenAI's error body). An accepted
// request returns a response with `produce`, which waits for the engine's events and writes JSON or
// server-sent events.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/residency/sparsity.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/http/http_types.h"

namespace hearth {

class ChatDialect;
class ChatTemplate;
class ConstraintCompiler;
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
  std::string device;                    // what computes the model; /v1/models shows it
  SparsityReport sparsity;               // how the FFN is computed; /v1/models shows it
  const Tokenizer* tokenizer = nullptr;  // not null; outlives the service
  const ChatTemplate* chat_template = nullptr;  // null: the model has none, chat is refused
  TokenGenerator* engine = nullptr;             // not null; outlives the service
};

/// Time and chance, so that tests can put in their own. Called from any HTTP thread: all three are
/// thread-safe.
struct ApiWorld {
  std::function<int64_t()> unix_seconds;                       // for `created`
  std::function<std::chrono::steady_clock::time_point()> now;  // for keep-alive pings
  std::function<uint64_t()> random_bits;  // for ids, and for seeds that requests leave out
  static ApiWorld real();                 // the system's clocks, and a random generator for each thread
};

class ApiService {
 public:
  explicit ApiService(ServedModel model, ApiWorld world = ApiWorld::real());
  ~ApiService();

  /// POST /v1/completions. path_model: the model named by the request's path, if the body names none.
  HttpResponse completions(const HttpRequest& request, std::string_view path_model = {}) const;
  /// POST /v1/chat/completions; likewise.
  HttpResponse chat_completions(const HttpRequest& request, std::string_view path_model = {}) const;
  HttpResponse list_models() const;  // GET /v1/models
  /// GET /v1/models/{id}; id as it stands after the prefix, percent-decoded; it may hold slashes.
  HttpResponse retrieve_model(std::string_view id) const;

 private:
  RequestLimits limits() const;

  ServedModel model_;
  ApiWorld world_;
  size_t longest_token_bytes_;
  std::unique_ptr<const ChatDialect> dialect_;
  std::unique_ptr<const ConstraintCompiler> constraints_;
};

}  // namespace hearth
