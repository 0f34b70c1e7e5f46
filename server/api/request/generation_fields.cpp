// Each group of parameters has a function. The ranges are those of OpenAI's specification.
#include "server/api/request/generation_fields.h"

#include <limits>
#include <utility>

#include "server/api/request/prediction.h"
#include "server/api/request/sampling_fields.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

constexpr double kMaxTimeoutSeconds = 7 * 24 * 3600;
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

/// OpenAI's API allows four stop strings, but agents send more. The text is searched for each of them.
constexpr size_t kMaxStops = 64;
/// A request has up to 2048 sequences, and each has a copy of every stop string.
constexpr size_t kMaxStopBytes = 1024;
constexpr int kMaxAnswers = 128;  // limit of OpenAI's specification
/// Each generated token is compared with all stop tokens, and each sequence has a copy of the list.
constexpr size_t kMaxStopTokens = 256;
/// Limit on the number of entries of logit_bias, multiplied by the number of sequences, because each sequence
/// has a copy of the entries. 2 million entries use 16 MB, which is enough for 13 sequences that bias all
/// tokens of a vocabulary of 150,000.
constexpr size_t kMaxBiasCopies = 2'000'000;

/// Accepts -2^63 to 2^64 - 1, because clients generate signed or unsigned seeds.
std::optional<uint64_t> read_seed(const RequestFields& fields) {
  const Json* seed = fields.find("seed");
  if (seed != nullptr && seed->is_number_unsigned()) return seed->get<uint64_t>();
  const std::optional<int64_t> number = fields.integer("seed", kMinInt64, kMaxInt64);
  if (!number) return std::nullopt;
  return static_cast<uint64_t>(*number);
}

std::optional<int64_t> read_truncation(const RequestFields& fields) {
  const std::optional<int64_t> keep = fields.integer("truncate_prompt_tokens", -1, kMaxInt32);
  if (keep != 0) return keep;
  refuse_param(fields.param("truncate_prompt_tokens"),
               "'truncate_prompt_tokens' must be at least 1, or -1 for as many tokens as fit.");
}

void read_streaming(const RequestFields& fields, GenerationFields& out) {
  out.stream = fields.boolean("stream").value_or(false);
  const Json* options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!out.stream) refuse_param("stream_options", "'stream_options' is only allowed when 'stream' is true.");
  const RequestFields inner(*options, "stream_options.");
  out.include_usage = inner.boolean("include_usage").value_or(false);
  for (const char* name : {"continuous_usage_stats", "include_obfuscation"})
    inner.boolean(name);  // checks only the type, because the member has no effect
}

}  // namespace

std::vector<std::string> read_stop_strings(const RequestFields& fields, const char* name) {
  const Json* stop = fields.find(name);
  if (stop == nullptr) return {};
  const std::string param = fields.param(name);
  const Json list = stop->is_string() ? Json::array({*stop}) : *stop;
  if (!list.is_array()) {
    refuse_param(param,
                 "'" + param + "' must be a string or an array of strings, found " + describe(*stop) + ".");
  }
  if (list.size() > kMaxStops) {
    refuse_param(param, "'" + param + "' has " + std::to_string(list.size()) + " strings; at most " +
                            std::to_string(kMaxStops) + " are allowed.");
  }
  std::vector<std::string> stops;
  for (const Json& item : list) {
    if (!item.is_string())
      refuse_param(param, "'" + param + "' must hold strings, found " + describe(item) + ".");
    if (const size_t size = item.get_ref<const std::string&>().size(); size > kMaxStopBytes) {
      refuse_param(param, "'" + param + "' has a string of " + std::to_string(size) + " bytes; at most " +
                              std::to_string(kMaxStopBytes) + " are allowed.");
    }
    // Some user interfaces send empty form fields. An empty stop string has no effect.
    if (!item.get_ref<const std::string&>().empty()) stops.push_back(item.get<std::string>());
  }
  return stops;
}

std::vector<int32_t> read_token_ids(const Json& ids, std::string_view param, const RequestLimits& limits) {
  std::vector<int32_t> tokens;
  tokens.reserve(ids.size());
  for (const Json& item : ids) {
    const std::optional<int64_t> id = as_integer(item);
    if (!id || *id < 0 || *id >= limits.n_vocab) {
      std::string message = "'";
      message.append(param).append("' must hold token ids of this model, 0 to ");
      message.append(std::to_string(limits.n_vocab - 1))
          .append("; found ")
          .append(describe(item))
          .append(".");
      refuse_param(param, std::move(message));
    }
    tokens.push_back(static_cast<int32_t>(*id));
  }
  return tokens;
}

void check_copies(const GenerationFields& generation, size_t n_sequences) {
  const size_t n_biases = generation.sampling.logit_bias.size();
  if (n_biases * n_sequences <= kMaxBiasCopies) return;
  refuse_param("logit_bias",
               "'logit_bias' has " + std::to_string(n_biases) + " entries for " +
                   std::to_string(n_sequences) +
                   " completions; that is too much for one request. Ask for fewer completions at once.");
}

std::string read_model_name(const RequestFields& fields) { return fields.string("model").value_or(""); }

GenerationFields read_generation_fields(const RequestFields& fields, const RequestLimits& limits) {
  GenerationFields out;
  out.model = read_model_name(fields);
  out.sampling = read_sampling(fields, limits.sampling != nullptr ? *limits.sampling : SamplingParams(),
                               limits.n_vocab, limits.tokenizer);
  out.seed = read_seed(fields);
  out.stop = read_stop_strings(fields, "stop");
  if (const Json* ids = fields.array("stop_token_ids")) {
    if (ids->size() > kMaxStopTokens) {
      refuse_param("stop_token_ids", "'stop_token_ids' has " + std::to_string(ids->size()) +
                                         " ids; at most " + std::to_string(kMaxStopTokens) + " are allowed.");
    }
    out.stop_token_ids = read_token_ids(*ids, "stop_token_ids", limits);
  }
  out.min_tokens = static_cast<int>(fields.integer("min_tokens", 0, kMaxInt32).value_or(0));
  out.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  out.format = read_answer_format(fields);
  out.n = static_cast<int>(fields.integer("n", 1, kMaxAnswers).value_or(1));
  out.keep_prompt_tokens = read_truncation(fields);
  out.prediction = read_prediction(fields);
  out.priority = static_cast<int>(fields.integer("priority", -kMaxInt32 - 1, kMaxInt32).value_or(0));
  out.timeout_seconds = fields.number("timeout", 0.001, kMaxTimeoutSeconds);
  read_streaming(fields, out);
  return out;
}

}  // namespace hearth
