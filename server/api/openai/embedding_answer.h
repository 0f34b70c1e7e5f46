// Waits for the vectors of one /v1/embeddings request and sends them.
//
// Made by respond_with_embeddings() after the engine has accepted the request; used by the request's HTTP
// thread. Destroying it cancels its remaining work, so a client that left early costs nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/serving/token_stream.h"
#include "server/api/openai/embedding_json.h"
#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

class EmbeddingAnswer {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  struct Spec {
    size_t n_inputs = 0;          // number of inputs; one sequence each, in order
    int64_t n_prompt_tokens = 0;  // total over all inputs
    EmbeddingFormat format;
    std::string model;              // the name shown in the answer
    std::string served_model = {};  // a served name, for the access log; set by respond_with_embeddings()
    std::chrono::seconds blank_line_interval{0};  // as in ServedModel
    ErrorStyle errors = ErrorStyle::kOpenAi;
    /// Makes the body from the vectors, in input order, and their cost. Empty: OpenAI's body.
    std::function<std::string(std::vector<std::vector<float>>, const GenerationRecord&)> body = {};
  };

  EmbeddingAnswer(Spec spec, std::shared_ptr<TokenStream> events, Clock now);
  ~EmbeddingAnswer() { events_->cancel(); }
  EmbeddingAnswer(const EmbeddingAnswer&) = delete;
  EmbeddingAnswer& operator=(const EmbeddingAnswer&) = delete;

  /// See HttpResponse::before_status: waits for the answer, a failure, the client to leave, or the first
  /// blank line.
  std::optional<HttpResponse> before_status(ResponseClient& client);
  /// See HttpResponse::produce.
  bool produce(ResponseSink& sink);

 private:
  enum class Outcome { kComplete, kFailed, kClientLeft, kBlankLineDue };
  Outcome wait(ResponseClient& client);
  void take(StreamEvent event);
  void settle();
  std::string json();
  GenerationRecord record(const char* ended) const;

  const Spec spec_;
  std::shared_ptr<TokenStream> events_;
  Clock now_;
  std::chrono::steady_clock::time_point next_blank_line_;
  std::vector<std::vector<float>> vectors_;  // [n_inputs]; each empty until it arrives
  size_t n_open_;                            // sequences that have not ended
  std::optional<ApiError> failure_;
  GenerationRecord record_;
};

}  // namespace hearth
