// Reads the parameters of responses according to OpenAI's specification.
#include "server/api/responses/response_request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "server/api/request/thinking_switch.h"
#include "server/api/request/unsupported_fields.h"
#include "server/api/responses/input_items.h"
#include "server/api/responses/response_tools.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

/// Returns a float as the decimal number that it was read from.
double shown(float value) { return std::round(value * 1e6) / 1e6; }

constexpr int kMaxTopLogprobs = 20;
constexpr size_t kMaxMetadata = 16, kMaxMetadataKey = 64, kMaxMetadataValue = 512;  // limits of OpenAI's API

/// Parameters that would change the answer but are unsupported or have a different name in this API.
constexpr RefusedField kRefusedInResponses[] = {
    {"conversation", "[]", "send 'previous_response_id', or the whole conversation as 'input'"},
    {"prompt", "[]", "this server keeps no prompt templates; send 'instructions' and 'input'"},
    {"context_management", "[]", "send 'truncation': 'auto' to drop the oldest turns of a long conversation"},
    {"moderation", "[false]", "this server does not moderate content"},
    {"messages", "[]", "send 'input'"},
    {"max_tokens", "[]", "send 'max_output_tokens'"},
    {"max_completion_tokens", "[]", "send 'max_output_tokens'"},
    {"logprobs", "[false]", "send 'top_logprobs', or 'message.output_text.logprobs' in 'include'"},
    {"reasoning_effort", "[]", "send 'reasoning': {'effort': ...}"},
    {"functions", "[]", "send 'tools'"},
    {"continue_final_message", "[false]", "use /v1/chat/completions"},
};

Json or_null(const std::optional<std::string>& text) { return text ? Json(*text) : Json(nullptr); }

AnswerFormat read_schema(const RequestFields& format) {
  // The types of these members are checked. The members do not change the format.
  format.string("name");
  format.string("description");
  format.boolean("strict");
  const Json* schema = format.find("schema");
  const std::string param = format.param("schema");
  if (schema == nullptr || !(schema->is_object() || schema->is_boolean())) {
    refuse_param(param, "'" + param + "' must be a JSON schema (an object), found " +
                            (schema == nullptr ? "nothing" : describe(*schema)) + ".");
  }
  return {AnswerFormat::Kind::kJsonSchema, json_text(*schema), {}, param};
}

/// Reads `text`: {"format": {"type": ...}, "verbosity"}. Returns the `text` of the response.
Json read_text(const RequestFields& fields, AnswerFormat& out) {
  Json echo = {{"format", {{"type", "text"}}}, {"verbosity", "medium"}};
  const Json* text = fields.object("text");
  if (text == nullptr) return echo;
  const RequestFields inner(*text, fields.param("text."));
  if (const auto verbosity = inner.word("verbosity", {"low", "medium", "high"}))
    echo["verbosity"] = *verbosity;
  const Json* sent = inner.object("format");
  if (sent == nullptr) return echo;
  const RequestFields format(*sent, inner.param("format."));
  const std::string type = format.required_word("type", {"text", "json_object", "json_schema"});
  echo["format"] = *sent;
  if (type == "text") return echo;
  if (out.kind != AnswerFormat::Kind::kText) {
    refuse_param(inner.param("format"), "'" + out.param + "' and '" + inner.param("format") +
                                            "' both set the form of the answer; send one of them.");
  }
  out = type == "json_object" ? AnswerFormat{AnswerFormat::Kind::kJsonObject, {}, {}, inner.param("format")}
                              : read_schema(format);
  return echo;
}

Json read_reasoning(const RequestFields& fields, Json& arguments) {
  Json echo = {{"effort", nullptr}, {"summary", nullptr}};
  const Json* reasoning = fields.object("reasoning");
  if (reasoning == nullptr) return echo;
  const RequestFields inner(*reasoning, fields.param("reasoning."));
  read_reasoning_effort(inner, "effort", arguments);
  echo["effort"] = or_null(inner.string("effort"));
  echo["summary"] = or_null(inner.word("summary", {"auto", "concise", "detailed"}));
  inner.word("generate_summary", {"auto", "concise", "detailed"});  // the older name of `summary`
  return echo;
}

/// Reads `top_logprobs` and `include`. `include` may only request log-probabilities.
void read_logprobs(const RequestFields& fields, ChatRequest& chat) {
  static constexpr std::array<std::string_view, 8> kIncludable = {
      "message.output_text.logprobs",   "reasoning.encrypted_content",
      "file_search_call.results",       "web_search_call.results",
      "web_search_call.action.sources", "message.input_image.image_url",
      "code_interpreter_call.outputs",  "computer_call_output.output.image_url"};
  chat.top_logprobs = static_cast<int>(fields.integer("top_logprobs", 0, kMaxTopLogprobs).value_or(0));
  chat.logprobs = chat.top_logprobs > 0;
  const Json* include = fields.array("include");
  if (include == nullptr) return;
  for (const Json& item : *include) {
    const bool known =
        item.is_string() &&
        std::ranges::find(kIncludable, item.get_ref<const std::string&>()) != kIncludable.end();
    if (!known)
      refuse_param("include", "'include' must hold strings that OpenAI's specification lists, found " +
                                  describe(item) + ".");
    if (item == "message.output_text.logprobs") chat.logprobs = true;
  }
}

bool read_background(const RequestFields& fields, bool stream, bool store) {
  if (!fields.boolean("background").value_or(false)) return false;
  if (!stream && store) return true;
  refuse_param("background",
               "'background' needs a response that is kept and not streamed: it is retrieved later, with "
               "GET. Leave out 'stream' and 'store'.");
}

Json read_metadata(const RequestFields& fields) {
  const Json* metadata = fields.object("metadata");
  if (metadata == nullptr) return Json::object();
  bool fits = metadata->size() <= kMaxMetadata;
  for (const auto& [key, value] : metadata->items()) {
    fits = fits && key.size() <= kMaxMetadataKey && value.is_string() &&
           value.get_ref<const std::string&>().size() <= kMaxMetadataValue;
  }
  if (!fits) {
    refuse_param("metadata", "'metadata' must be an object of at most " + std::to_string(kMaxMetadata) +
                                 " strings, names of up to " + std::to_string(kMaxMetadataKey) +
                                 " and values of up to " + std::to_string(kMaxMetadataValue) + " bytes.");
  }
  return *metadata;
}

/// Reads members that the response repeats and that have no effect.
void read_labels(const RequestFields& fields, Json& echo) {
  for (const char* name : {"user", "safety_identifier", "prompt_cache_key"})
    echo[name] = or_null(fields.string(name));
  fields.string("service_tier");
  echo["service_tier"] = "default";  // the only tier
  const std::optional<int64_t> calls = fields.integer("max_tool_calls", 1, kMaxInt64);
  echo["max_tool_calls"] =
      calls ? Json(*calls) : Json(nullptr);  // limits built-in tools, which this server does not have
  if (const Json* options = fields.object("stream_options"))
    RequestFields(*options, "stream_options.").boolean("include_obfuscation");
}

}  // namespace

ResponseRequest parse_response_request(const Json& body, const RequestLimits& limits) {
  const RequestFields fields(body);
  ResponseRequest request;
  ChatRequest& chat = request.chat;
  Json& echo = request.echo;
  refuse_fields(fields, kRefusedInResponses);
  check_foreign_fields(fields, true);
  chat.generation = read_generation_fields(fields, limits);
  if (chat.generation.n != 1) refuse_param("n", "'n' must be 1: a response is one answer.");
  const Json* input = fields.find("input");
  if (input == nullptr) refuse_param("input", "'input' is missing; send a string or an array of items.");
  request.input = read_input_items(*input);
  request.instructions = fields.string("instructions").value_or("");
  request.previous_id = fields.string("previous_response_id").value_or("");
  request.store = fields.boolean("store").value_or(true);
  request.background = read_background(fields, chat.generation.stream, request.store);
  chat.generation.stream |= request.background;
  request.truncate = fields.word("truncation", {"disabled", "auto"}) == "auto";
  chat.max_tokens = fields.integer("max_output_tokens", 1, kMaxInt64);
  if (const Json* arguments = fields.object("chat_template_kwargs")) chat.template_arguments = *arguments;

  echo["background"] = request.background;
  echo["instructions"] = or_null(fields.string("instructions"));
  echo["max_output_tokens"] = chat.max_tokens ? Json(*chat.max_tokens) : Json(nullptr);
  read_labels(fields, echo);
  echo["metadata"] = read_metadata(fields);
  read_response_tools(fields, additional_tools(request.input), chat.choice, request.called, echo);
  echo["previous_response_id"] = or_null(fields.string("previous_response_id"));
  echo["reasoning"] = read_reasoning(fields, chat.template_arguments);
  read_thinking_switch(fields, chat.template_arguments, chat.thinking_budget);
  echo["store"] = request.store;
  echo["temperature"] =
      fields.number("temperature", 0, 2).value_or(shown(chat.generation.sampling.temperature));
  echo["text"] = read_text(fields, chat.generation.format);
  read_logprobs(fields, chat);
  echo["top_logprobs"] = chat.top_logprobs;
  echo["top_p"] = fields.number("top_p", 0, 1).value_or(shown(chat.generation.sampling.top_p));
  echo["truncation"] = request.truncate ? "auto" : "disabled";
  return request;
}

}  // namespace hearth
