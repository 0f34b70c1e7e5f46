// Each group of parameters has a function.
#include "server/api/request/sampling_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/json/api_error.h"

namespace hearth {
namespace {

constexpr int64_t kMaxTokenCount = std::numeric_limits<int32_t>::max();
/// A temperature below this limit becomes 0, which selects the most likely token. The softmax with such a
/// temperature would have the same result in float, and dividing by the temperature could overflow.
constexpr double kLeastTemperature = 1e-4;
/// The limits keep the arithmetic finite. Useful repetition penalties are between 0.5 and 2: a higher one
/// produces noise, and a lower one makes the model repeat a token.
constexpr double kMaxRepetitionPenalty = 100, kLeastRepetitionPenalty = 0.01;
constexpr double kMaxDryMultiplier = 100;
/// The least value of parameters that must be positive, because a smaller positive double may become 0 as a
/// float.
constexpr float kLeastFloat = std::numeric_limits<float>::min();
constexpr double kMaxTau = 100;  // in bits; no vocabulary exceeds 20
constexpr size_t kMaxBreakers = 64;

void set(float& out, const std::optional<double>& value) {
  if (value) out = static_cast<float>(*value);
}

void read_filters(const RequestFields& fields, SamplingParams& sampling) {
  sampling.top_k = static_cast<int>(fields.integer("top_k", -1, kMaxTokenCount).value_or(sampling.top_k));
  if (sampling.top_k < 0) sampling.top_k = 0;  // -1 in vLLM's API and 0 in llama.cpp's API mean no limit
  sampling.top_p = static_cast<float>(fields.number("top_p", 0, 1).value_or(sampling.top_p));
  if (sampling.top_p <= 0) {  // OpenAI's API allows 0, which keeps only the most likely token
    sampling.top_p = 1;
    sampling.top_k = 1;
  }
  sampling.min_p = static_cast<float>(fields.number("min_p", 0, 1).value_or(sampling.min_p));
  if (sampling.min_p >= 1) sampling.min_p = std::nextafter(1.0F, 0.0F);  // the engine's range excludes 1
}

void read_penalties(const RequestFields& fields, SamplingParams& sampling) {
  sampling.presence_penalty = static_cast<float>(fields.number("presence_penalty", -2, 2).value_or(0));
  sampling.frequency_penalty = static_cast<float>(fields.number("frequency_penalty", -2, 2).value_or(0));
  for (const char* name : {"repeat_penalty", "repetition_penalty"})
    set(sampling.repetition_penalty, fields.number(name, kLeastRepetitionPenalty, kMaxRepetitionPenalty));
}

/// Reads how many of the last tokens the repetition penalty considers, as in llama.cpp's API.
void read_penalty_window(const RequestFields& fields, SamplingParams& sampling) {
  for (const char* name : {"repeat_last_n", "penalty_last_n"}) {
    const std::optional<int64_t> n = fields.integer(name, -1, kMaxTokenCount);
    if (n) sampling.repetition_last_n = static_cast<int>(*n);
  }
}

/// Reads a positive number.
void read_positive(const RequestFields& fields, const char* name, double max, float& out) {
  const std::optional<double> value = fields.number(name, 0, max);
  if (!value) return;
  if (!(*value > 0)) refuse_param(name, std::string("'").append(name).append("' must be greater than 0."));
  out = std::max(static_cast<float>(*value), kLeastFloat);
}

void read_typical(const RequestFields& fields, SamplingParams& sampling) {
  for (const char* name : {"typical_p", "typ_p"}) {
    if (const std::optional<double> p = fields.number(name, 0, 1)) {
      sampling.typical_p = std::max(static_cast<float>(*p), kLeastFloat);
    }
  }
}

void read_xtc(const RequestFields& fields, SamplingParams& sampling) {
  set(sampling.xtc_probability, fields.number("xtc_probability", 0, 1));
  set(sampling.xtc_threshold, fields.number("xtc_threshold", 0, 1));
}

void read_dynamic_temperature(const RequestFields& fields, SamplingParams& sampling) {
  set(sampling.dynatemp_range, fields.number("dynatemp_range", 0, 2));
  read_positive(fields, "dynatemp_exponent", 100, sampling.dynatemp_exponent);
}

void read_mirostat(const RequestFields& fields, SamplingParams& sampling) {
  const int64_t version = fields.integer("mirostat", 0, 2).value_or(0);
  if (version == 1) {
    refuse_param("mirostat",
                 "'mirostat' 1 is not supported; its second version needs no estimate of the "
                 "vocabulary's distribution. Send 2, or 0 for none.");
  }
  sampling.mirostat = version == 2;
  set(sampling.mirostat_tau, fields.number("mirostat_tau", 0, kMaxTau));
  set(sampling.mirostat_eta, fields.number("mirostat_eta", 0, 1));
}

/// Returns the tokens whose text contains any of the strings.
std::shared_ptr<const TokenMask> tokens_with(const std::vector<std::string>& strings,
                                             const Tokenizer& tokenizer) {
  auto mask = std::make_shared<TokenMask>(static_cast<size_t>(tokenizer.n_vocab()));
  std::string text;
  for (int32_t token = 0; token < tokenizer.n_vocab(); ++token) {
    text.clear();
    tokenizer.append_bytes(token, true, text);
    const auto holds = [&](const std::string& string) { return text.find(string) != std::string::npos; };
    if (std::ranges::any_of(strings, holds)) mask->allow(token);
  }
  return mask;
}

std::vector<std::string> read_breakers(const RequestFields& fields) {
  const Json* breakers = fields.array("dry_sequence_breakers");
  if (breakers == nullptr) return {"\n", ":", "\"", "*"};  // the defaults of DRY's author
  const std::string param = fields.param("dry_sequence_breakers");
  if (breakers->size() > kMaxBreakers) {
    refuse_param(param, "'" + param + "' has " + std::to_string(breakers->size()) + " strings; at most " +
                            std::to_string(kMaxBreakers) + " are allowed.");
  }
  std::vector<std::string> strings;
  for (const Json& item : *breakers) {
    if (!item.is_string() || item.get_ref<const std::string&>().empty()) {
      refuse_param(param,
                   "'" + param + "' must hold strings that are not empty, found " + describe(item) + ".");
    }
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

void read_dry(const RequestFields& fields, const Tokenizer* tokenizer, DryParams& dry) {
  set(dry.multiplier, fields.number("dry_multiplier", 0, kMaxDryMultiplier));
  set(dry.base, fields.number("dry_base", 1, 100));
  dry.allowed_length = static_cast<int>(fields.integer("dry_allowed_length", 0, kMaxTokenCount).value_or(2));
  dry.last_n = static_cast<int>(fields.integer("dry_penalty_last_n", -1, kMaxTokenCount).value_or(-1));
  const std::vector<std::string> breakers = read_breakers(fields);
  if (dry.multiplier > 0 && tokenizer != nullptr) dry.breakers = tokens_with(breakers, *tokenizer);
}

/// Refuses a request that bans all tokens. The engine would detect this only when it samples the first token.
void check_something_is_left(int n_vocab, const SamplingParams& sampling, std::string_view param) {
  std::set<int32_t> banned;
  for (const auto& [token, bias] : sampling.logit_bias) {
    if (bias <= -100) banned.insert(token);
  }
  if (banned.size() < static_cast<size_t>(n_vocab)) return;
  refuse_param(param, "'logit_bias' bans every token of the vocabulary with -100; leave at least one.");
}

/// Reads a list of sampler names, as in llama.cpp's API, and turns off all other samplers. The list does not
/// change the order of the samplers.
void read_samplers(const RequestFields& fields, SamplingParams& sampling) {
  const Json* names = fields.find("samplers");
  if (names == nullptr || (names->is_array() && names->empty())) return;
  const std::string param = fields.param("samplers");
  static constexpr std::array<std::string_view, 11> kNames = {"dry",   "penalties",   "temperature", "top_k",
                                                              "typ_p", "typical_p",   "top_p",       "min_p",
                                                              "xtc",   "top_n_sigma", "infill"};
  const auto listed = [names](std::string_view name) {
    return std::ranges::find(*names, Json(name)) != names->end();
  };
  if (!names->is_array())
    refuse_param(param, "'" + param + "' must be an array of names, found " + describe(*names) + ".");
  for (const Json& name : *names) {
    const bool known =
        name.is_string() && std::ranges::find(kNames, name.get_ref<const std::string&>()) != kNames.end();
    if (!known)
      refuse_param(param, "'" + param + "' names " + describe(name) +
                              "; there are dry, penalties, temperature, top_k, typ_p, top_p, min_p and xtc.");
  }
  const SamplingParams off;
  if (!listed("dry")) sampling.dry.multiplier = off.dry.multiplier;
  if (!listed("penalties")) {
    sampling.repetition_penalty = off.repetition_penalty;
    sampling.presence_penalty = off.presence_penalty;
    sampling.frequency_penalty = off.frequency_penalty;
  }
  if (!listed("temperature"))
    sampling.temperature = off.temperature, sampling.dynatemp_range = off.dynatemp_range;
  if (!listed("top_k")) sampling.top_k = off.top_k;
  if (!listed("typ_p") && !listed("typical_p")) sampling.typical_p = off.typical_p;
  if (!listed("top_p")) sampling.top_p = off.top_p;
  if (!listed("min_p")) sampling.min_p = off.min_p;
  if (!listed("xtc")) sampling.xtc_probability = off.xtc_probability;
}

/// Reads one entry of logit_bias. name: the token as written in the request.
std::pair<int32_t, float> read_bias(std::optional<int64_t> token, const std::string& name, const Json& value,
                                    const std::string& param, int n_vocab) {
  if (!token || *token < 0 || *token >= n_vocab) {
    refuse_param(param, "'logit_bias' names " + name +
                            ", which is not a token id of this model; ids are 0 to " +
                            std::to_string(n_vocab - 1) + ".");
  }
  const double bias = value.is_number() ? value.get<double>() : value == false ? -100 : std::nan("");
  if (!(bias >= -100 && bias <= 100)) {
    refuse_param(param, "'logit_bias' must give token ids numbers from -100 to 100; token " + name + " has " +
                            describe(value) + ".");
  }
  return {static_cast<int32_t>(*token), static_cast<float>(bias)};
}

/// Converts a key of OpenAI's logit_bias to a token id. Returns nullopt if the key is not a decimal number.
std::optional<int64_t> token_of_key(const std::string& key) {
  int32_t token = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
  if (error != std::errc() || end != key.data() + key.size()) return std::nullopt;
  return token;
}

/// Reads an object {id: bias}, as in OpenAI's API, or an array of pairs [id, bias], as in llama.cpp's API. In
/// an array, the bias `false` bans the token.
void read_logit_bias(const RequestFields& fields, int n_vocab, SamplingParams& sampling) {
  const Json* biases = fields.find("logit_bias");
  if (biases == nullptr) return;
  const std::string param = fields.param("logit_bias");
  if (!biases->is_structured()) {
    refuse_param(param,
                 "'logit_bias' must be an object of token ids and numbers, or an array of pairs, found " +
                     describe(*biases) + ".");
  }
  for (const auto& [key, value] : biases->items()) {
    if (biases->is_object()) {
      sampling.logit_bias.push_back(
          read_bias(token_of_key(key), "the key " + describe(Json(key)), value, param, n_vocab));
      continue;
    }
    if (!value.is_array() || value.size() != 2)
      refuse_param(param,
                   "'logit_bias' must hold pairs of a token id and a number, found " + describe(value) + ".");
    sampling.logit_bias.push_back(
        read_bias(as_integer(value[0]), describe(value[0]), value[1], param, n_vocab));
  }
  check_something_is_left(n_vocab, sampling, param);
}

}  // namespace

SamplingParams read_sampling(const RequestFields& fields, const SamplingParams& defaults, int n_vocab,
                             const Tokenizer* tokenizer) {
  SamplingParams sampling = defaults;
  const double temperature = fields.number("temperature", 0, 2).value_or(defaults.temperature);
  sampling.temperature = temperature < kLeastTemperature ? 0.0F : static_cast<float>(temperature);
  read_filters(fields, sampling);
  read_typical(fields, sampling);
  read_penalties(fields, sampling);
  read_penalty_window(fields, sampling);
  read_dry(fields, tokenizer, sampling.dry);
  read_xtc(fields, sampling);
  read_dynamic_temperature(fields, sampling);
  read_mirostat(fields, sampling);
  read_samplers(fields, sampling);
  read_logit_bias(fields, n_vocab, sampling);
  return sampling;
}

}  // namespace hearth
