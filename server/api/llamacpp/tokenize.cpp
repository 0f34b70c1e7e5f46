// See the header.
#include "server/api/llamacpp/tokenize.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/utf8.h"
#include "server/api/answer/respond.h"
#include "server/api/chat_dialect.h"
#include "server/api/llamacpp/mixed_text.h"
#include "server/api/openai/chat_request.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

using Tokens = std::vector<int32_t>;

/// Limit of tokens in a request. Each byte of a body may become a token, and the answer may use a hundred
/// bytes per token.
constexpr size_t kMaxTokens = size_t{1} << 18;

size_t max_tokens(const ApiContext& api) {
  return std::max(kMaxTokens, static_cast<size_t>(api.model().context_tokens));
}

void check_number(size_t n_tokens, std::string_view param, const ApiContext& api) {
  if (n_tokens <= max_tokens(api)) return;
  refuse_param(param, "'" + std::string(param) + "' has at least " + std::to_string(n_tokens) +
                          " tokens; this endpoint takes up to " + std::to_string(max_tokens(api)) +
                          ". Send it in parts.");
}

/// Refuses a text that would have too many tokens even if each token had the maximum length.
void check_length(const Json& text, std::string_view param, const ApiContext& api) {
  if (text.is_array()) {
    for (const Json& part : text) check_length(part, param, api);
  } else if (text.is_string()) {
    check_number(text.get_ref<const std::string&>().size() / api.longest_token_bytes(), param, api);
  }
}

/// Returns a token's text. Returns its bytes as numbers if they are not valid UTF-8.
Json piece_json(int32_t token, const Tokenizer& tokenizer) {
  std::string bytes;
  tokenizer.append_bytes(token, true, bytes);
  if (utf8_valid_prefix(bytes) == bytes.size()) return bytes;
  Json numbers = Json::array();
  for (const char c : bytes) numbers.push_back(static_cast<unsigned char>(c));
  return numbers;
}

Json with_pieces(const Tokens& tokens, const Tokenizer& tokenizer) {
  Json list = Json::array();
  for (const int32_t token : tokens) list.push_back({{"id", token}, {"piece", piece_json(token, tokenizer)}});
  return list;
}

/// Tokenizes a request of llama.cpp's API.
Json tokenize_content(const RequestFields& fields, const ApiContext& api) {
  const MixedTextOptions options{.add_special = fields.boolean("add_special").value_or(false),
                                 .parse_special = fields.boolean("parse_special").value_or(true),
                                 .within_context = false};
  check_length(*fields.find("content"), "content", api);
  const Tokens tokens = read_mixed_text(fields, "content", options, api);
  check_number(tokens.size(), "content", api);
  if (fields.boolean("with_pieces").value_or(false))
    return {{"tokens", with_pieces(tokens, api.tokenizer())}};
  return {{"tokens", tokens}};
}

Tokens tokens_of_prompt(const RequestFields& fields, const ApiContext& api) {
  const std::string text = *fields.string("prompt");
  check_length(text, "prompt", api);
  return api.tokenizer().encode(text, fields.boolean("add_special_tokens").value_or(true), true);
}

Tokens tokens_of_messages(const RequestFields& fields, const Json& body, const ApiContext& api) {
  const std::string rendered = api.dialect().render(parse_chat_request(body, api.limits())).prompt;
  check_length(rendered, "messages", api);
  // The template has already written the begin token.
  return api.tokenizer().encode(rendered, fields.boolean("add_special_tokens").value_or(false), true);
}

/// Returns the answer in the format of vLLM's API.
Json counted(const Tokens& tokens, const RequestFields& fields, const ApiContext& api) {
  Json json = {{"count", tokens.size()},
               {"max_model_len", api.model().context_tokens},
               {"tokens", tokens},
               {"token_strs", nullptr}};
  if (!fields.boolean("return_token_strs").value_or(false)) return json;
  json["token_strs"] = Json::array();
  for (const int32_t token : tokens)
    json["token_strs"].push_back(std::string(api.tokenizer().spelling(token)));
  return json;
}

}  // namespace

HttpResponse tokenize(const ApiContext& api, const HttpRequest& request, std::string_view path_model) {
  return guarded(ErrorStyle::kOpenAi, [&] {
    const Json body = parse_json_body(request.body);
    api.model_name(body, path_model);
    const RequestFields fields(body);
    const bool content = fields.find("content") != nullptr, prompt = fields.find("prompt") != nullptr,
               messages = fields.find("messages") != nullptr;
    if (content + prompt + messages != 1) {
      refuse_param(content || prompt || messages ? "prompt" : "content",
                   "Send the text to tokenize in exactly one of 'content', 'prompt' and 'messages'.");
    }
    if (content) return json_response(tokenize_content(fields, api));
    const Tokens tokens = prompt ? tokens_of_prompt(fields, api) : tokens_of_messages(fields, body, api);
    check_number(tokens.size(), prompt ? "prompt" : "messages", api);
    return json_response(counted(tokens, fields, api));
  });
}

HttpResponse detokenize(const ApiContext& api, const HttpRequest& request, std::string_view path_model) {
  return guarded(ErrorStyle::kOpenAi, [&] {
    const Json body = parse_json_body(request.body);
    api.model_name(body, path_model);
    const Json* ids = RequestFields(body).array("tokens");
    if (ids == nullptr) refuse_param("tokens", "'tokens' is missing; send an array of token ids.");
    check_number(ids->size(), "tokens", api);
    const std::string text = api.tokenizer().decode(read_token_ids(*ids, "tokens", api.limits()), true);
    return json_response({{"content", text}, {"prompt", text}});
  });
}

HttpResponse apply_template(const ApiContext& api, const HttpRequest& request, std::string_view path_model) {
  return guarded(ErrorStyle::kOpenAi, [&] {
    const Json body = parse_json_body(request.body);
    api.model_name(body, path_model);
    return json_response({{"prompt", api.dialect().render(parse_chat_request(body, api.limits())).prompt}});
  });
}

}  // namespace hearth
