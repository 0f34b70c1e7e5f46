// See the header.
#include "server/api/ollama/ollama_fields.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "server/api/chat_dialect.h"
#include "server/api/request/thinking_switch.h"
#include "server/api/request/unsupported_fields.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

constexpr int kMaxTopLogprobs = 20;
constexpr std::array<std::string_view, 4> kEfforts = {"low", "medium", "high", "max"};

struct Default {
  const char* name;
  double value;
};
/// Defaults of Ollama's API that differ from those of OpenAI's API. The first three count for models without
/// recommended values.
constexpr std::array kDefaults = std::to_array<Default>(
    {{"temperature", 0.8}, {"top_k", 40}, {"top_p", 0.9}, {"repeat_penalty", 1.1}, {"repeat_last_n", 64}});

constexpr size_t kRecommendable = 3;

/// Returns the request's options. Absent options have their defaults, unless the model has recommended
/// values.
Json read_options(const RequestFields& fields, bool has_recommended) {
  const Json* sent = fields.object("options");
  Json options = sent == nullptr ? Json::object() : *sent;
  for (const Default& missing : std::span(kDefaults).subspan(has_recommended ? kRecommendable : 0))
    if (!options.contains(missing.name) || options[missing.name].is_null())
      options[missing.name] = missing.value;
  // A negative seed means a random seed.
  const std::optional<int64_t> seed =
      options.contains("seed") ? as_integer(options["seed"]) : std::optional<int64_t>();
  if (seed && *seed < 0) options.erase("seed");
  return options;
}

void refuse_copies(const RequestFields& options) {
  if (options.integer("n", 1, kMaxInt64).value_or(1) != 1)
    refuse_param("options.n", "'options.n' must be 1: this API has one answer.");
}

/// Reads num_predict. 0 and negative numbers mean up to the end of the context.
std::optional<int64_t> read_length(const RequestFields& options) {
  const std::optional<int64_t> n = options.integer("num_predict", kMinInt64, kMaxInt64);
  if (!n) return std::nullopt;
  return *n > 0 ? *n : kMaxInt64;
}

void read_format(const RequestFields& fields, AnswerFormat& out) {
  AnswerFormat asked = read_answer_format(fields);
  if (asked.kind == AnswerFormat::Kind::kText) return;
  if (out.kind != AnswerFormat::Kind::kText) {
    refuse_param(asked.param, "'" + asked.param + "' and '" + out.param +
                                  "' both set the form of the answer; send one of them.");
  }
  out = std::move(asked);
}

/// Reads `think`, which is a boolean or an effort.
void read_think(const RequestFields& fields, Json& arguments) {
  const Json* think = fields.find("think");
  if (think == nullptr) return;
  if (think->is_boolean()) return set_thinking(arguments, think->get<bool>());
  if (!think->is_string() ||
      std::ranges::find(kEfforts, think->get_ref<const std::string&>()) == kEfforts.end()) {
    refuse_param(
        fields.param("think"),
        "'think' must be true, false, 'low', 'medium', 'high' or 'max', found " + describe(*think) + ".");
  }
  set_thinking(arguments, true);
  arguments["reasoning_effort"] = *think;
}

void read_logprobs(const RequestFields& fields, ChatRequest& out) {
  out.logprobs = fields.boolean("logprobs").value_or(false);
  const int64_t top = fields.integer("top_logprobs", 0, kMaxTopLogprobs).value_or(0);
  if (top > 0 && !out.logprobs)
    refuse_param("top_logprobs", "'top_logprobs' is only allowed when 'logprobs' is true.");
  out.top_logprobs = static_cast<int>(top);
}

}  // namespace

ChatRequest read_ollama_fields(const RequestFields& fields, const RequestLimits& limits) {
  const Json options = read_options(fields, limits.sampling != nullptr);
  const RequestFields inner(options, "options.");
  check_foreign_fields(inner, true);
  refuse_copies(inner);
  ChatRequest request;
  request.generation = read_generation_fields(inner, limits);
  request.generation.stream = fields.boolean("stream").value_or(true);
  read_format(fields, request.generation.format);
  request.max_tokens = read_length(inner);
  read_think(fields, request.template_arguments);
  read_logprobs(fields, request);
  return request;
}

void check_thinking(const ChatDialect& dialect, const RequestFields& fields, const std::string& model) {
  const Json* think = fields.find("think");
  if (think == nullptr || *think == false || dialect.syntax().thinks()) return;
  refuse_param("think",
               describe(Json(model)) + " does not support thinking; leave 'think' out, or send false.");
}

}  // namespace hearth
