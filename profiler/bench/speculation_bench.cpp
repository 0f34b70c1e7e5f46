// Runs the engine with and without drafts, and compares the speeds.
#include "profiler/bench/speculation_bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>

#include "engine/engine.h"

namespace hearth {
namespace {

constexpr const char* kCopy =
    R"(Here is a Python file:
```python
import json


def load(path):
    with open(path) as f:
        return json.load(f)


def total(items):
    result = 0
    for item in items:
        result += item["price"] * item["count"]
    return result


def report(items):
    for item in items:
        print(item["name"], item["price"], item["count"])
    print("total", total(items))


def cheapest(items):
    best = items[0]
    for item in items:
        if item["price"] < best["price"]:
            best = item
    return best


def main():
    items = load("items.json")
    report(items)
    print("cheapest", cheapest(items)["name"])
```
The same file again:
```python
)";
constexpr const char* kStory = "Once upon a time in a small village by the sea, an old fisherman";

struct Text {
  const char* name;
  const char* prompt;
};
constexpr std::array<Text, 2> kTexts = {{{"copy", kCopy}, {"story", kStory}}};

struct Run {
  std::vector<int32_t> tokens;
  double tokens_per_s = 0;
  DraftCounts drafts;
};

/// Runs one answer to its end.
Run answer(Engine& engine, SequenceRequest request) {
  auto submitted = engine.submit({.sequences = {std::move(request)}});
  const auto* stream = std::get_if<std::shared_ptr<TokenStream>>(&submitted);
  if (stream == nullptr) throw std::runtime_error("the engine refuses the request");
  Run run;
  for (;;) {
    std::optional<StreamEvent> event = (*stream)->pop_for(std::chrono::seconds(1));
    if (!event) continue;
    if (const TokenEvent* token = std::get_if<TokenEvent>(&event->what)) run.tokens.push_back(token->token);
    const FinishedEvent* end = std::get_if<FinishedEvent>(&event->what);
    if (end == nullptr) continue;
    if (end->reason != FinishReason::kLength) throw std::runtime_error("an answer has failed: " + end->error);
    run.tokens_per_s = static_cast<double>(run.tokens.size()) / end->decode_seconds;
    run.drafts = end->drafts;
    return run;
  }
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

int context_of(const Tokenizer& tokenizer, const SpeculationBenchOptions& options) {
  size_t longest = 0;
  for (const Text& text : kTexts)
    longest = std::max(longest, tokenizer.encode(text.prompt, true, false).size());
  return static_cast<int>(longest) + options.n_generate;
}

std::vector<SpeculationGain> run_speculation_bench(ModelRuntime& plain, ModelRuntime& with_drafts,
                                                   const SpeculationBenchOptions& options,
                                                   const std::function<void(double fraction)>& progress) {
  const Tokenizer& tokenizer = plain.facts().tokenizer;
  EngineOptions how{.n_slots = 1, .context_tokens = context_of(tokenizer, options)};
  Engine without(plain, how);
  how.speculation = options.speculation;
  Engine with(with_drafts, how);
  std::vector<SpeculationGain> gains;
  const double n_all = static_cast<double>(kTexts.size()) * (options.n_repeats + 1);
  for (const Text& text : kTexts) {
    SpeculationGain& gain = gains.emplace_back(SpeculationGain{.text = text.name});
    std::vector<double> plain_speeds, speeds, ratios;
    for (int repeat = 0; repeat <= options.n_repeats; ++repeat) {
      SequenceRequest request;
      request.prompt = tokenizer.encode(text.prompt, true, false);
      request.max_tokens = options.n_generate;
      request.sampling.temperature = options.temperature;
      request.sampling.seed = static_cast<uint64_t>(repeat);
      const Run a = answer(without, request), b = answer(with, request);
      if (a.tokens != b.tokens) throw std::runtime_error("drafts have changed an answer");
      if (progress)
        progress((static_cast<double>(gains.size() - 1) * (options.n_repeats + 1) + repeat + 1) / n_all);
      if (repeat == 0) continue;
      plain_speeds.push_back(a.tokens_per_s);
      speeds.push_back(b.tokens_per_s);
      ratios.push_back(b.tokens_per_s / a.tokens_per_s);
      gain.n_drafted += b.drafts.n_drafted;
      gain.n_accepted += b.drafts.n_accepted;
    }
    gain.plain_tokens_per_s = median(plain_speeds);
    gain.tokens_per_s = median(speeds);
    gain.gain = median(ratios);
  }
  return gains;
}

std::string speculation_bench_text(const ModelRuntime& model, std::span<const SpeculationGain> gains) {
  std::string text = model.placed().backend + "\n";
  char line[200];
  for (const SpeculationGain& gain : gains) {
    std::snprintf(line, sizeof(line),
                  "%-6s %8.1f tokens/s with drafts, %8.1f without: %.2f times as fast; %lld drafted, %lld "
                  "of them came\n",
                  gain.text.c_str(), gain.tokens_per_s, gain.plain_tokens_per_s, gain.gain,
                  static_cast<long long>(gain.n_drafted), static_cast<long long>(gain.n_accepted));
    text += line;
  }
  return text;
}

std::string speculation_bench_json(const ModelRuntime& model, std::span<const SpeculationGain> gains) {
  nlohmann::ordered_json json = {{"backend", model.placed().backend},
                                 {"texts", nlohmann::ordered_json::array()}};
  for (const SpeculationGain& gain : gains) {
    json["texts"].push_back({{"text", gain.text},
                             {"tokens_per_s", gain.tokens_per_s},
                             {"plain_tokens_per_s", gain.plain_tokens_per_s},
                             {"gain", gain.gain},
                             {"drafted_tokens", gain.n_drafted},
                             {"accepted_tokens", gain.n_accepted}});
  }
  return json.dump(2) + "\n";
}

}  // namespace hearth
