// The sampler on standard input and output, so that a numpy implementation can be compared with it.
//
// usage: sample_tool
// Each line is a JSON object, and so is each answer:
//   {"rows": [[logit, ...], ...], "params": {...}, "tokens": [...], "n_prompt": N, "allowed": [...],
//   "banned": [...]}
//   -> {"tokens": [...], "bits": X}
// A sequence grows by one token for each row of logits. The answer has the drawn tokens, and Mirostat's bound
// at the end or null. Absent params have SamplingParams' defaults; "breakers" and "allowed" are lists of
// tokens, and without "allowed" all tokens are allowed.
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/sampling/sampler.h"

namespace {

using Json = nlohmann::json;

hearth::TokenMask mask_of(const Json& tokens, size_t n_vocab) {
  hearth::TokenMask mask(n_vocab);
  for (const int32_t token : tokens) mask.allow(token);
  return mask;
}

hearth::SamplingParams params_of(const Json& given, size_t n_vocab) {
  hearth::SamplingParams params;
  const auto read = [&](const char* name, auto& value) {
    if (given.contains(name)) value = given.at(name);
  };
  read("temperature", params.temperature);
  read("top_k", params.top_k);
  read("typical_p", params.typical_p);
  read("top_p", params.top_p);
  read("min_p", params.min_p);
  read("repetition_penalty", params.repetition_penalty);
  read("repetition_last_n", params.repetition_last_n);
  read("presence_penalty", params.presence_penalty);
  read("frequency_penalty", params.frequency_penalty);
  read("xtc_probability", params.xtc_probability);
  read("xtc_threshold", params.xtc_threshold);
  read("dynatemp_range", params.dynatemp_range);
  read("dynatemp_exponent", params.dynatemp_exponent);
  read("mirostat", params.mirostat);
  read("mirostat_tau", params.mirostat_tau);
  read("mirostat_eta", params.mirostat_eta);
  read("dry_multiplier", params.dry.multiplier);
  read("dry_base", params.dry.base);
  read("dry_allowed_length", params.dry.allowed_length);
  read("dry_last_n", params.dry.last_n);
  read("seed", params.seed);
  if (given.contains("breakers")) {
    params.dry.breakers = std::make_shared<const hearth::TokenMask>(mask_of(given.at("breakers"), n_vocab));
  }
  if (given.contains("logit_bias")) {
    for (const Json& pair : given.at("logit_bias")) params.logit_bias.emplace_back(pair.at(0), pair.at(1));
  }
  return params;
}

Json drawn(const Json& question) {
  const auto rows = question.at("rows").get<std::vector<std::vector<float>>>();
  const size_t n_vocab = rows.at(0).size();
  const hearth::SamplingParams params = params_of(question.at("params"), n_vocab);
  std::vector<int32_t> tokens = question.at("tokens");
  const size_t n_given = tokens.size();
  const std::vector<int32_t> banned = question.at("banned");
  const bool constrained = question.contains("allowed");
  const hearth::TokenMask allowed = mask_of(constrained ? question.at("allowed") : Json::array(), n_vocab);
  hearth::Sampler sampler(static_cast<int>(n_vocab));
  hearth::SamplerState state;
  for (const std::vector<float>& logits : rows) {
    tokens.push_back(sampler
                         .sample({.logits = logits,
                                  .params = params,
                                  .tokens = tokens,
                                  .n_prompt = question.at("n_prompt"),
                                  .allowed = constrained ? &allowed : nullptr,
                                  .banned = banned,
                                  .state = state})
                         .token);
  }
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n_given));
  return {{"tokens", tokens}, {"bits", state.mirostat_bits ? Json(*state.mirostat_bits) : Json(nullptr)}};
}

}  // namespace

int main() {
  try {
    for (std::string line; std::getline(std::cin, line);)
      std::cout << drawn(Json::parse(line)).dump() << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "sample_tool: " << error.what() << "\n";
    return 2;
  }
}
