// Planted traces: the choices are those of the law, and a topic has its own hot experts.
#include "profiler/synthesis/planted_trace.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "profiler/plan/planned_model.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

/// A trace of the shape's first two layers.
ExpertTrace planted(const ChoiceLaw& law, int n_tokens) {
  ModelShape shape = *find_shape("qwen3-30b-a3b");
  shape.n_layers = 2;
  const PlannedModel model = model_of_shape(shape, DType::kQ4_0, "");
  ExpertTrace trace;
  trace.model.n_experts = 128;
  trace.n_used = 8;
  trace.layers = traced_layers(model.spec, model.weights);
  plant_trace(model.spec, law, n_tokens, trace, {});
  return trace;
}

/// Finds the quarter of a layer's experts that the tokens [from, to) choose most. Returns the share of the
/// choices of the tokens [begin, end) that are experts of this quarter.
double caught(const ExpertTrace& trace, uint64_t from, uint64_t to, uint64_t begin, uint64_t end) {
  std::vector<int> uses(128);
  for (uint64_t token = from; token < to; ++token)
    for (const uint16_t expert : trace.chosen(token, 1)) ++uses[expert];
  std::vector<uint16_t> order(128);
  std::iota(order.begin(), order.end(), uint16_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](uint16_t expert) { return uses[expert]; });
  int n = 0;
  for (uint64_t token = begin; token < end; ++token) {
    for (const uint16_t expert : trace.chosen(token, 1))
      n += std::find(order.begin(), order.begin() + 32, expert) < order.begin() + 32 ? 1 : 0;
  }
  return n / (8.0 * static_cast<double>(end - begin));
}

}  // namespace

TEST_CASE("planted trace: it has the shape's layers, and choices as planted in one sequence") {
  const ExpertTrace trace = planted(ChoiceLaw(), 600);
  CHECK(trace.n_tokens() == 600);
  CHECK(trace.runs == std::vector<TraceRun>{{TraceText::kGenerated, true, 600}});
  CHECK(trace.layers.size() == 2);
  CHECK(trace.layers[0].expert_bytes == 3 * 768 * 2048 * 18 / 32);
  CHECK(caught(trace, 0, 600, 0, 600) == Approx(0.52).margin(0.08));
  ChoiceLaw flat;
  flat.skew = flat.reuse = 0;
  CHECK(caught(planted(flat, 600), 0, 300, 300, 600) == Approx(0.25).margin(0.04));
  ChoiceLaw other;
  other.seed = 7;
  CHECK(planted(other, 600).experts != trace.experts);
  CHECK(planted(other, 600).experts == planted(other, 600).experts);
}

TEST_CASE("planted trace: a topic's hot experts are not the next one's") {
  ChoiceLaw law;
  law.topic_tokens = 300;
  const ExpertTrace trace = planted(law, 600);
  const double within = caught(trace, 0, 150, 150, 300), across = caught(trace, 0, 150, 300, 600);
  CHECK(within > across + 0.15);
}

}  // namespace hearth::test
