// Waits for the vectors of one /v1/embeddings request and sends them.
//
// Made by respond_with_embeddings() after the engine has accepted the request; used by the request's HTTP
// thread.
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
    size_t n_inputs = 0;          // number of inputs; each is one sequence, in order
    int64_t n_prompt_tokens = 0;  // total over all inputs
    EmbeddingFormat format;
    std::string model;                            // the name shown in the answer
    std::string served_model = {};                // a name of the served model, for the access log; set by
                                                  // respond_with_embeddings()
    std::chrono::seconds blank_line_interval{0};  // as in ServedModel
    ErrorStyle errors = ErrorStyle::kOpenAi;
    /// Makes the body from the vectors, in input order, and from their cost. If this function is empty,
    /// OpenAI's body is sent.
    std::function<std::string(std::vector<std::vector<float>>, const GenerationRecord&)> body = {};
  };

  EmbeddingAnswer(Spec spec, std::shared_ptr<TokenStream> events, AnswerEvents::Clock now);

  /// Sends the status when the vectors have arrived, so that a failure gets an error status, but no later
  /// than the first blank line that keeps a silent connection open. A client that leaves before the status is
  /// sent gets 499, which only the log shows.
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
  std::vector<std::vector<float>> vectors_;  // [n_inputs]; each empty until it arrives
  size_t n_open_;                            // sequences that have not ended
  std::optional<ApiError> failure_;
  GenerationRecord record_;
  bool begun_ = false;  // the status was sent; blank lines may follow
};

}  // namespace hearth
