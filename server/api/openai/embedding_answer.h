// Waits for the vectors of one request to an embeddings endpoint, and sends them.
//
// respond_with_embeddings() creates an EmbeddingAnswer after the engine has accepted the request. Used by the
// request's HTTP thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/serving/token_stream.h"
#include "server/api/answer/answer_events.h"
#include "server/api/answer/reply.h"
#include "server/api/openai/embedding_json.h"
#include "server/http/response_writer.h"
#include "server/json/api_error.h"

namespace hearth {

class EmbeddingAnswer final : public PendingAnswer {
 public:
  struct Spec {
    size_t n_inputs = 0;          // inputs of the request; each is one sequence
    int64_t n_prompt_tokens = 0;  // sum over all inputs
    EmbeddingFormat format;
    std::string model;  // model name in the answer
    // Default name of the model that embeds, for the access log. Set by respond_with_embeddings().
    std::string served_model = {};
    std::chrono::seconds blank_line_interval{0};  // as in ServedModel
    ErrorStyle errors = ErrorStyle::kOpenAi;
    /// Returns the body for the vectors, in input order, and their cost. If this function is empty, OpenAI's
    /// body is sent.
    std::function<std::string(std::vector<std::vector<float>>, const GenerationRecord&)> body = {};
  };

  EmbeddingAnswer(Spec spec, std::shared_ptr<TokenStream> events, AnswerEvents::Clock now);

  /// Sends the status when the vectors have arrived, so that a failure can have an error status. If blank
  /// lines must keep the silent connection open, the status precedes the first blank line. If the client
  /// disconnects before the status is sent, the access log shows 499.
  void run(ResponseWriter& writer) override;

 private:
  enum class Outcome { kComplete, kFailed, kClientLeft };
  Outcome answer(ResponseWriter& writer);
  bool send_blank_line(ResponseWriter& writer);
  bool send_vectors(ResponseWriter& writer);
  void take(StreamEvent event);
  void settle();
  std::string json();
  GenerationRecord record(const char* ended) const;

  const Spec spec_;
  AnswerEvents events_;
  std::vector<std::vector<float>> vectors_;  // [n_inputs]; a vector is empty until it arrives
  size_t n_open_;                            // number of sequences that have not ended
  std::optional<ApiError> failure_;
  GenerationRecord record_;
  bool begun_ = false;  // whether the status has been sent
};

}  // namespace hearth
