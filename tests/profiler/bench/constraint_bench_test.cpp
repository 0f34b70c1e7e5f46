// `bench --schema` reports a line for every form, with figures that agree with one another. Does not
// test the machine's speed.
#include "profiler/bench/constraint_bench.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/support/source_dir.h"

namespace hearth::test {
namespace {

std::unique_ptr<ModelRuntime> load(std::span<const ConstraintCase> cases,
                                   const ConstraintBenchOptions& bench) {
  LoadOptions options;
  options.path = std::filesystem::path(hearth::testing::source_dir()) / "tests/data/relu/relu-5m-q8_0.gguf";
  options.n_threads = 1;
  options.n_slots = slots_of(cases, bench);
  options.context_tokens = context_of(bench);
  options.prefill_chunk = context_of(bench);
  return ModelRuntime::load(options);
}

}  // namespace

TEST_CASE("constraint bench: every form has its figures, and free text has none of a constraint") {
  std::vector<ConstraintCase> cases = built_in_cases();
  cases.push_back(schema_case("two words", R"({"enum": ["a long word that is forced", "b"]})"));
  const ConstraintBenchOptions options{.n_slots = 2, .n_generate = 12, .n_repeats = 2};
  const auto model = load(cases, options);
  std::vector<double> seen;
  const std::vector<ConstraintCost> costs =
      run_constraint_bench(*model, cases, options, [&](double fraction) { seen.push_back(fraction); });
  CHECK(std::is_sorted(seen.begin(), seen.end()));
  REQUIRE_FALSE(seen.empty());
  CHECK(seen.back() == Approx(1.0));
  REQUIRE(costs.size() == cases.size());
  CHECK(costs[0].share == 0);
  CHECK(costs[0].compile_ms == 0);
  for (size_t i = 0; i < costs.size(); ++i) {
    CAPTURE(costs[i].name);
    CHECK(costs[i].name == cases[i].name);
    CHECK(costs[i].tokens_per_s > 0);
    CHECK(std::isfinite(costs[i].share));
    if (i == 0) continue;
    CHECK(costs[i].compile_ms > 0);
    CHECK(costs[i].mean_ms > 0);
    CHECK(costs[i].p99_ms <= costs[i].max_ms);
    CHECK(costs[i].forced < 1);
  }
  CHECK(costs.back().n_texts > 0);  // short texts end and start again
  CHECK(costs.back().forced > 0);

  const nlohmann::json json = nlohmann::json::parse(constraint_bench_json(*model, options, costs));
  REQUIRE(json.at("forms").size() == costs.size());
  CHECK(json.at("slots") == 2);
  CHECK_FALSE(json.at("forms")[0].contains("cost_share"));
  CHECK(json.at("forms").back().at("constraint_ms").at("mean") == costs.back().mean_ms);
  const std::string text = constraint_bench_text(*model, options, costs);
  for (const ConstraintCost& cost : costs) CHECK_THAT(text, ContainsSubstring(cost.name));
}

TEST_CASE("constraint bench: a schema that cannot be enforced is refused with the position") {
  const std::vector<ConstraintCase> cases{built_in_cases()[0], schema_case("bad", R"({"if": true})")};
  const ConstraintBenchOptions options{.n_slots = 1, .n_generate = 1, .n_repeats = 1};
  const auto model = load(cases, options);
  CHECK_THROWS_AS(run_constraint_bench(*model, cases, options), ConstraintError);
}

}  // namespace hearth::test
