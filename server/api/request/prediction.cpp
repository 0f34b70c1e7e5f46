// See the header.
#include "server/api/request/prediction.h"

#include <algorithm>

#include "server/json/api_error.h"

namespace hearth {
namespace {

std::string text_of_part(const Json& part, const std::string& place) {
  if (!part.is_object())
    refuse_param(place, "'" + place + "' must be a text part, found " + describe(part) + ".");
  const RequestFields fields(part, place + ".");
  fields.required_word("type", {"text"});
  const std::optional<std::string> text = fields.string("text");
  if (!text) refuse_param(fields.param("text"), "'" + fields.param("text") + "' is missing.");
  return *text;
}

std::string text_of(const RequestFields& prediction) {
  const std::string place = prediction.param("content");
  const Json* content = prediction.find("content");
  if (content != nullptr && content->is_string()) return content->get<std::string>();
  if (content == nullptr || !content->is_array()) {
    refuse_param(place, "'" + place + "' must be a string or an array of text parts, found " +
                            (content == nullptr ? "nothing" : describe(*content)) + ".");
  }
  std::string text;
  for (size_t i = 0; i < content->size(); ++i)
    text += text_of_part((*content)[i], place + "[" + std::to_string(i) + "]");
  return text;
}

}  // namespace

std::optional<std::string> read_prediction(const RequestFields& fields) {
  const Json* prediction = fields.object("prediction");
  if (prediction == nullptr || prediction->empty()) return std::nullopt;
  const RequestFields inner(*prediction, fields.param("prediction."));
  inner.required_word("type", {"content"});
  return text_of(inner);
}

std::vector<int32_t> prediction_tokens(std::string_view text, size_t longest_token_bytes, int context_tokens,
                                       const Tokenizer& tokenizer) {
  const auto most = static_cast<size_t>(context_tokens);
  std::vector<int32_t> tokens = tokenizer.encode(text.substr(0, most * longest_token_bytes), false, false);
  tokens.resize(std::min(tokens.size(), most));
  return tokens;
}

}  // namespace hearth
