// The answer of POST /v1/responses: a response object, or a stream of events that build it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "server/api/answer/answer_shape.h"
#include "server/api/api_context.h"
#include "server/api/responses/custom_input.h"
#include "server/api/responses/response_object.h"
#include "server/api/responses/response_store.h"

namespace hearth {

/// If Asked::store is set, stores the response as soon as the engine has accepted the request. If the client
/// disconnects before the end of a stream, the part that was sent is stored as a cancelled response. If it
/// disconnects from an answer that is not streamed, the response is removed, because no client knows its id.
class ResponseShape final : public AnswerShape {
 public:
  struct Asked {
    std::optional<int> n_logprobs;  // alternatives to send with each token; absent: no log-probabilities
    bool store = false;
    std::string previous_id = {};  // as in KeptResponse
    Json input = Json::array();    // as in KeptResponse
    CalledTools called = {};       // as in ResponseRequest
  };
  /// The context must outlive this object.
  ResponseShape(const ApiContext& api, ResponseHead head, Asked asked);
  ~ResponseShape() override;
  ResponseShape(const ResponseShape&) = delete;
  ResponseShape& operator=(const ResponseShape&) = delete;

  std::shared_ptr<AnswerControl> accepted() override;
  std::string begin() override;
  std::string part(const ChoicePart& part) override;
  std::string end(const FinishedChoice& choice) override;
  std::string finish(const AnswerTotals& totals) override;
  std::string failure(const ApiError& error) override;
  std::string whole(std::span<const WholeChoice> choices, const AnswerTotals& totals) override;

 private:
  std::string event(const char* type, Json data);
  std::string item_event(const char* type, Json data);
  OutputItem new_item(SaidItem said) const;
  std::string open(SaidItem said);
  std::string add_arguments(const std::string& text);
  std::string add_text(const std::string& text, std::span<const PlacedToken> tokens);
  std::string close(const char* status);
  Json logprobs(std::span<const PlacedToken> tokens) const;
  Json ended(ResponseState state);
  void leave();

  const ApiContext& api_;
  const ResponseHead head_;
  Asked asked_;
  int64_t n_events_ = 0;
  Json output_ = Json::array();     // items that are complete
  std::optional<OutputItem> item_;  // the current item
  CustomInput custom_;              // of the current item, if it is a call of a custom tool
  FinishedChoice finished_;
  bool is_accepted_ = false, has_begun_ = false, has_ended_ = false;
};

}  // namespace hearth
