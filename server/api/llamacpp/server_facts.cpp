// See the header.
#include "server/api/llamacpp/server_facts.h"

#include <string>
#include <utility>

#include "server/api/answer/respond.h"
#include "server/api/openai/completion_request.h"
#include "server/chat/chat_template.h"
#include "server/http/error_response.h"
#include "server/http/message/query.h"

namespace hearth {
namespace {

/// Returns a token's text, or null if there is no such token.
Json token_text(const Tokenizer& tokenizer, int32_t token) {
  if (token < 0) return nullptr;
  std::string text;
  tokenizer.append_bytes(token, true, text);
  return text;
}

Json template_text(const ServedModel& model) {
  return model.chat_template == nullptr ? Json(nullptr) : Json(model.chat_template->source());
}

/// Returns the values of parameters that a request omits.
Json default_params(const ApiContext& api) {
  const SamplingParams defaults = parse_completion_request(Json::object(), api.limits()).generation.sampling;
  return {{"temperature", defaults.temperature},
          {"top_k", defaults.top_k},
          {"top_p", defaults.top_p},
          {"min_p", defaults.min_p},
          {"typical_p", defaults.typical_p},
          {"repeat_penalty", defaults.repetition_penalty},
          {"presence_penalty", defaults.presence_penalty},
          {"frequency_penalty", defaults.frequency_penalty},
          {"n_predict", -1},
          {"stream", false}};
}

/// Returns the control tokens by id, in the format of a model's tokenizer_config.json.
Json added_tokens(const Tokenizer& tokenizer) {
  Json added = Json::object();
  for (int32_t token = 0; token < tokenizer.n_vocab(); ++token) {
    if (!tokenizer.is_control(token)) continue;
    added[std::to_string(token)] = {{"content", std::string(tokenizer.spelling(token))}, {"special", true}};
  }
  return added;
}

}  // namespace

HttpResponse props(const ApiContext& api, const HttpRequest& /*request*/, std::string_view /*argument*/) {
  return guarded(ErrorStyle::kOpenAi, [&] {
    const ServedModel& model = api.model();
    Json json = Json::object();
    json["default_generation_settings"] = {{"n_ctx", model.context_tokens}, {"params", default_params(api)}};
    const EngineStatus status = model.engine->status();
    json["total_slots"] = status.n_slots;
    json["n_ctx"] = model.context_tokens;
    json["model_alias"] = model.names.front();
    json["speculation"] = {{"on", status.speculates},
                           {"drafted_tokens", status.n_drafted_tokens},
                           {"accepted_tokens", status.n_accepted_tokens}};
    json["modalities"] = {{"vision", false}, {"audio", false}};
    json["chat_template"] = template_text(model);
    json["bos_token"] = token_text(api.tokenizer(), api.tokenizer().bos());
    json["eos_token"] = token_text(api.tokenizer(), api.tokenizer().eos());
    json["build_info"] = model.fingerprint;
    json["suggested_model"] = model.suggested_model.empty() ? Json(nullptr) : Json(model.suggested_model);
    return json_response(json);
  });
}

HttpResponse slots(const ApiContext& api, const HttpRequest& request, std::string_view /*argument*/) {
  return guarded(ErrorStyle::kOpenAi, [&] {
    const EngineStatus status = api.model().engine->status();
    const bool wants_free = query_value(request.query, "fail_on_no_slot").value_or("0") != "0";
    if (wants_free && status.n_running >= status.n_slots)
      return error_response({.status = 503,
                             .message = "No slot is free; wait until a running answer has ended.",
                             .param = {},
                             .code = "no_free_slot"});
    Json list = Json::array();
    for (int slot = 0; slot < status.n_slots; ++slot) {
      list.push_back({{"id", slot},
                      {"n_ctx", api.model().context_tokens},
                      {"speculative", status.speculates},
                      {"is_processing", slot < status.n_running}});
    }
    return json_response(list);
  });
}

HttpResponse tokenizer_info(const ApiContext& api, const HttpRequest& /*request*/,
                            std::string_view /*argument*/) {
  return guarded(ErrorStyle::kOpenAi, [&] {
    const Tokenizer& tokenizer = api.tokenizer();
    Json json = Json::object();
    json["tokenizer_class"] = "HearthTokenizer";
    json["model_max_length"] = api.model().context_tokens;
    json["vocab_size"] = tokenizer.n_vocab();
    json["bos_token"] = token_text(tokenizer, tokenizer.bos());
    json["eos_token"] = token_text(tokenizer, tokenizer.eos());
    json["chat_template"] = template_text(api.model());
    json["added_tokens_decoder"] = added_tokens(tokenizer);
    return json_response(json);
  });
}

}  // namespace hearth
