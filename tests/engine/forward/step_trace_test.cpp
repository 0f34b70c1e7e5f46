// Tests the spans that a step adds to a trace if the CPU computes alone: the step, and every layer's stages
// in order.
#include <algorithm>
#include <string>

#include "engine/model_runtime.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace hearth::testing {
namespace {

std::vector<Trace::Span> spans_of(const std::string& name, Trace* trace) {
  LoadOptions options;
  options.path = std::filesystem::path(source_dir()) / "tests/data/arch" / name;
  options.n_threads = 1;
  options.n_slots = 1;
  options.context_tokens = 16;
  options.prefill_chunk = 8;
  options.trace = trace;
  const auto model = ModelRuntime::load(options);
  logits_of(*model, std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8}, 4);
  return trace == nullptr ? std::vector<Trace::Span>() : trace->spans();
}

TEST_CASE("a trace has every step, and every layer's attention and FFN one after the other") {
  const std::string name = GENERATE("llama.gguf", "falcon-7b.gguf");
  Trace trace;
  const std::vector<Trace::Span> spans = spans_of(name, &trace);
  std::vector<Trace::Span> steps, stages;
  for (const Trace::Span& span : spans) {
    CHECK(span.begin <= span.end);
    (span.name == std::string("step") ? steps : stages).push_back(span);
  }
  REQUIRE(steps.size() == 2);
  REQUIRE(stages.size() == 2 * 2 * 2);  // steps, layers, stages; added when they end, so in order
  for (size_t i = 0; i < stages.size(); ++i) {
    const Trace::Span& step = steps[i / 4];
    CHECK(std::string(stages[i].track) == "CPU");
    CHECK(std::string(stages[i].name) == (i % 2 == 0 ? "attention" : "FFN"));
    CHECK(stages[i].layer == static_cast<int>(i / 2 % 2));
    CHECK((step.begin <= stages[i].begin && stages[i].end <= step.end));
    if (i > 0) CHECK(stages[i - 1].end <= stages[i].begin);
  }
}

}  // namespace
}  // namespace hearth::testing
