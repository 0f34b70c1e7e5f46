// See the header.
#include "server/api/llamacpp/native_shape.h"

#include <algorithm>
#include <utility>

#include "server/api/openai/token_logprobs.h"

namespace hearth {
namespace {

double per(double amount, double count) { return count > 0 ? amount / count : 0; }

Json timings_json(const AnswerTotals& totals) {
  const Usage& usage = totals.usage;
  const double n_prompt = static_cast<double>(usage.n_prompt - usage.n_cached);
  const double n_predicted = static_cast<double>(usage.n_completion);
  Json json = {{"cache_n", usage.n_cached},
               {"prompt_n", usage.n_prompt - usage.n_cached},
               {"prompt_ms", 1000 * totals.prefill_seconds},
               {"prompt_per_token_ms", per(1000 * totals.prefill_seconds, n_prompt)},
               {"prompt_per_second", per(n_prompt, totals.prefill_seconds)},
               {"predicted_n", usage.n_completion},
               {"predicted_ms", 1000 * totals.decode_seconds},
               {"predicted_per_token_ms", per(1000 * totals.decode_seconds, n_predicted)},
               {"predicted_per_second", per(n_predicted, totals.decode_seconds)}};
  if (totals.drafts) {
    json["draft_n"] = totals.drafts->n_drafted;
    json["draft_n_accepted"] = totals.drafts->n_accepted;
  }
  return json;
}

const char* stop_type(const FinishedChoice& choice) {
  if (choice.end == ChoiceEnd::kLength) return "limit";
  return choice.stop_string.empty() ? "eos" : "word";
}

/// Returns the member at a path such as "timings/prompt_n", or null if there is none.
const Json* member_at(const Json& json, const std::string& path) {
  const Json* at = &json;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (!at->is_object()) return nullptr;
    const auto found = at->find(path.substr(begin, end - begin));
    if (found == at->end()) return nullptr;
    at = &*found;
    begin = end + 1;
  }
  return at;
}

}  // namespace

NativeShape::NativeShape(std::string model, const Tokenizer& tokenizer, const NativeRequest& asked)
    : model_(std::move(model)),
      tokenizer_(&tokenizer),
      n_probs_(asked.n_probs),
      return_tokens_(asked.return_tokens),
      fields_(asked.response_fields) {}

void NativeShape::add_tokens(Json& json, std::span<const PlacedToken> tokens) const {
  json["tokens"] = Json::array();
  if (return_tokens_) {
    for (const PlacedToken& token : tokens) json["tokens"].push_back(token.event.token);
  }
  if (n_probs_ == 0) return;
  Json list = chat_logprobs(*tokenizer_, tokens, n_probs_)["content"];
  for (size_t i = 0; i < tokens.size(); ++i) {
    const TokenEvent& event = tokens[i].event;
    list[i]["id"] = event.token;
    Json& top = list[i]["top_logprobs"];
    for (size_t k = 0; k < top.size(); ++k) top[k]["id"] = event.top[k].token;
  }
  json["completion_probabilities"] = std::move(list);
}

Json NativeShape::wanted(Json json) const {
  if (fields_.empty()) return json;
  Json out = Json::object();
  for (const std::string& path : fields_) {
    if (const Json* member = member_at(json, path)) out[path.substr(path.rfind('/') + 1)] = *member;
  }
  return out;
}

Json NativeShape::last(std::string content, const FinishedChoice& choice, std::span<const PlacedToken> tokens,
                       const AnswerTotals& totals) const {
  Json json = {{"index", 0}, {"content", std::move(content)}};
  add_tokens(json, tokens);
  json["stop"] = true;
  json["model"] = model_;
  json["tokens_predicted"] = totals.usage.n_completion;
  json["tokens_evaluated"] = totals.usage.n_prompt;
  json["tokens_cached"] = totals.usage.n_cached;
  json["stop_type"] = stop_type(choice);
  json["stopping_word"] = choice.stop_string;
  json["timings"] = timings_json(totals);
  return wanted(std::move(json));
}

std::string NativeShape::part(const ChoicePart& part) {
  Json json = {{"index", 0}, {"content", part.said.text}};
  add_tokens(json, part.tokens);
  json["stop"] = false;
  return sse_event(json_text(json));
}

std::string NativeShape::end(const FinishedChoice& choice) {
  finished_ = choice;
  return {};
}

std::string NativeShape::finish(const AnswerTotals& totals) {
  return sse_event(json_text(last({}, finished_, {}, totals)));
}

std::string NativeShape::failure(const ApiError& error) { return sse_event(error_json(error)); }

std::string NativeShape::whole(std::span<const WholeChoice> choices, const AnswerTotals& totals) {
  const WholeChoice& choice = choices.front();
  return json_text(last(joined(choice.said, SaidItem::Kind::kText), choice.finished, choice.tokens, totals));
}

}  // namespace hearth
