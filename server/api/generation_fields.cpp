// One function per group of parameters, ranges as OpenAI's specification has them.
#include "server/api/generation_fields.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "server/api/error.h"

namespace hearth {
namespace {

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
constexpr int64_t kMinInt64 = std::numeric_limits<int64_t>::min();
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

/// The limits of OpenAI's specification.
constexpr int kMaxStops = 4;
constexpr int kMaxChoices = 128;
/// Every generated token is compared with each of them, and every sequence has a copy.
constexpr size_t kMaxStopTokens = 256;
/// Entries of logit_bias times sequences, each of which has a copy: 16 MB. A whole vocabulary of 150,000 fits
/// for thirteen choices.
constexpr size_t kMaxBiasCopies = 2'000'000;
/// A lower temperature means argmax. The softmax would be one-hot in float anyway, and the division would
/// overflow.
constexpr double kLeastTemperature = 1e-4;
/// Above 2 a repetition penalty already turns text to noise; the bound only keeps the arithmetic finite.
constexpr double kMaxRepetitionPenalty = 100;

void read_filters(const RequestFields& fields, SamplingParams& sampling) {
  sampling.top_k = static_cast<int>(fields.integer("top_k", -1, kMaxInt32).value_or(0));
  if (sampling.top_k < 0) sampling.top_k = 0;  // vLLM's -1 and llama.cpp's 0 both mean all
  sampling.top_p = static_cast<float>(fields.number("top_p", 0, 1).value_or(1));
  if (sampling.top_p <= 0) {  // OpenAI allows 0: only the most likely token is left
    sampling.top_p = 1;
    sampling.top_k = 1;
  }
  sampling.min_p = static_cast<float>(fields.number("min_p", 0, 1).value_or(0));
  if (sampling.min_p >= 1) sampling.min_p = std::nextafter(1.0F, 0.0F);  // the engine's range is open at 1
}

void read_penalties(const RequestFields& fields, SamplingParams& sampling) {
  sampling.presence_penalty = static_cast<float>(fields.number("presence_penalty", -2, 2).value_or(0));
  sampling.frequency_penalty = static_cast<float>(fields.number("frequency_penalty", -2, 2).value_or(0));
  for (const char* name : {"repeat_penalty", "repetition_penalty"}) {
    const std::optional<double> penalty = fields.number(name, 0, kMaxRepetitionPenalty);
    if (!penalty) continue;
    sampling.repetition_penalty = static_cast<float>(*penalty);
    if (sampling.repetition_penalty <= 0) {
      refuse_param(name,
                   std::string("'").append(name).append("' must be greater than 0; 1 means no penalty."));
    }
  }
}

/// Refuses a request that bans every token. The engine would notice only at the first token.
void check_something_is_left(const RequestLimits& limits, const SamplingParams& sampling,
                             std::string_view param) {
  std::set<int32_t> banned;
  for (const auto& [token, bias] : sampling.logit_bias) {
    if (bias <= -100) banned.insert(token);
  }
  if (banned.size() < static_cast<size_t>(limits.n_vocab)) return;
  refuse_param(param, "'logit_bias' bans every token of the vocabulary with -100; leave at least one.");
}

void read_logit_bias(const RequestFields& fields, const RequestLimits& limits, SamplingParams& sampling) {
  const Json* biases = fields.object("logit_bias");
  if (biases == nullptr) return;
  const std::string param = fields.param("logit_bias");
  for (const auto& [key, value] : biases->items()) {
    int32_t token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0 || token >= limits.n_vocab) {
      refuse_param(param, "'logit_bias' has the key " + describe(Json(key)) +
                              ", which is no token id of this model; ids are 0 to " +
                              std::to_string(limits.n_vocab - 1) + ".");
    }
    const double bias = value.is_number() ? value.get<double>() : std::nan("");
    if (!(bias >= -100 && bias <= 100)) {
      refuse_param(param, "'logit_bias' must map token ids to numbers from -100 to 100; token " + key +
                              " has " + describe(value) + ".");
    }
    sampling.logit_bias.emplace_back(token, static_cast<float>(bias));
  }
  check_something_is_left(limits, sampling, param);
}

std::vector<std::string> read_stop(const RequestFields& fields) {
  const Json* stop = fields.find("stop");
  if (stop == nullptr) return {};
  const std::string param = fields.param("stop");
  const Json list = stop->is_string() ? Json::array({*stop}) : *stop;
  if (!list.is_array()) {
    refuse_param(param, "'stop' must be a string or an array of strings, found " + describe(*stop) + ".");
  }
  if (list.size() > static_cast<size_t>(kMaxStops)) {
    refuse_param(param, "'stop' has " + std::to_string(list.size()) + " strings; at most " +
                            std::to_string(kMaxStops) + " are allowed.");
  }
  std::vector<std::string> stops;
  for (const Json& item : list) {
    if (!item.is_string() || item.get_ref<const std::string&>().empty()) {
      refuse_param(param, "'stop' must hold strings that are not empty, found " + describe(item) + ".");
    }
    stops.push_back(item.get<std::string>());
  }
  return stops;
}

void read_streaming(const RequestFields& fields, GenerationFields& out) {
  out.stream = fields.boolean("stream").value_or(false);
  const Json* options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!out.stream) refuse_param("stream_options", "'stream_options' is only allowed when 'stream' is true.");
  out.include_usage = RequestFields(*options, "stream_options.").boolean("include_usage").value_or(false);
}

}  // namespace

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
  const double temperature = fields.number("temperature", 0, 2).value_or(1);
  out.sampling.temperature = temperature < kLeastTemperature ? 0.0F : static_cast<float>(temperature);
  read_filters(fields, out.sampling);
  read_penalties(fields, out.sampling);
  read_logit_bias(fields, limits, out.sampling);
  if (const std::optional<int64_t> seed = fields.integer("seed", kMinInt64, kMaxInt64)) {
    out.seed = static_cast<uint64_t>(*seed);
  }
  out.stop = read_stop(fields);
  if (const Json* ids = fields.array("stop_token_ids")) {
    if (ids->size() > kMaxStopTokens) {
      refuse_param("stop_token_ids", "'stop_token_ids' has " + std::to_string(ids->size()) +
                                         " ids; at most " + std::to_string(kMaxStopTokens) + " are allowed.");
    }
    out.stop_token_ids = read_token_ids(*ids, "stop_token_ids", limits);
  }
  out.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  out.n = static_cast<int>(fields.integer("n", 1, kMaxChoices).value_or(1));
  read_streaming(fields, out);
  return out;
}

}  // namespace hearth
