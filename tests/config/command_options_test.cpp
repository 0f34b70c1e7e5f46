// Options that both programs have: the table has one row for each, so hearthd and hearth-profiler accept and
// refuse the same values.
#include "config/command_options.h"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "config/invocation.h"
#include "tests/support/catch.h"

using namespace hearth;

namespace {

/// Returns the value that hearth-profiler reads from a flag, as text, or "refused".
std::string profilers(const OptionSpec& spec, const std::vector<std::string>& arguments) {
  CLI::App app;
  Options options;
  add_options(app, {spec.name}, options);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    CHECK_THAT(error.what(), ContainsSubstring(expectation(spec)));
    return "refused";
  }
  return value_text(spec, options);
}

std::string hearthds(const OptionSpec& spec, const std::vector<std::string>& arguments) try {
  return value_text(spec, read_invocation(arguments, {}).options);
} catch (const ConfigError& error) {
  CHECK_THAT(error.what(), ContainsSubstring(expectation(spec)));
  return "refused";
}

/// Values at and beyond the limits of what a row accepts.
std::vector<std::string> values_of(const OptionSpec& spec) {
  if (const IntField* f = std::get_if<IntField>(&spec.field)) {
    return {std::to_string(f->min),
            std::to_string(f->min - 1),
            std::to_string(f->max),
            std::to_string(f->max + 1),
            "1.5",
            "x"};
  }
  if (const NumberField* f = std::get_if<NumberField>(&spec.field)) {
    return {std::to_string(f->min),
            std::to_string(f->min * (f->min > 0 ? 0.5 : 2)),
            std::to_string(f->max),
            std::to_string(2 * f->max),
            "auto",
            "nan",
            "x"};
  }
  if (const ChoiceField* f = std::get_if<ChoiceField>(&spec.field)) {
    std::vector<std::string> words(f->words.begin(), f->words.end());
    words.emplace_back("x");
    words.emplace_back("AUTO");
    return words;
  }
  return {"text", "a b"};
}

}  // namespace

TEST_CASE("options of both programs have one default and take and refuse the same values") {
  size_t n_both = 0;
  for (const OptionSpec& spec : option_table(Program::kBoth)) {
    const std::string name(spec.name);
    INFO(name);
    ++n_both;
    const OptionSpec* of_hearthd = find_option(Program::kHearthd, name);
    const OptionSpec* of_profiler = find_option(Program::kProfiler, name);
    REQUIRE(of_hearthd != nullptr);
    REQUIRE(of_profiler != nullptr);
    CHECK(of_hearthd->help == of_profiler->help);
    CHECK(profilers(spec, {}) == hearthds(spec, {}));
    for (const std::string& value : values_of(spec)) {
      INFO(value);
      CHECK(profilers(*of_profiler, {"--" + name, value}) == hearthds(*of_hearthd, {"--" + name, value}));
    }
    CHECK(profilers(spec, {"--" + name, values_of(spec)[0], "--" + name, values_of(spec)[0]}) != "refused");
  }
  CHECK(n_both >= 10);
}

TEST_CASE("words are in the order of their enumerators") {
  const auto read = [](const char* name, const char* word) {
    return read_invocation({std::string("--") + name, word}, {}).options;
  };
  CHECK(read("isa", "scalar").isa == Options::Isa::kScalar);
  CHECK(read("isa", "avx512-vnni").isa == Options::Isa::kAvx512Vnni);
  CHECK(read("isa", "amx").isa == Options::Isa::kAmx);
  CHECK(read("numa", "interleave").numa == Options::Numa::kInterleave);
  CHECK(read("numa", "off").numa == Options::Numa::kOff);
  CHECK(read("device", "cpu").device == Options::Device::kCpu);
  CHECK(read("device", "cuda").device == Options::Device::kCuda);
  CHECK(read("sparsity", "auto").sparsity == Options::Sparsity::kAuto);
  CHECK(read("sparsity", "predicted").sparsity == Options::Sparsity::kPredicted);
  CHECK(read("sparsity", "calibrated").sparsity == Options::Sparsity::kCalibrated);
  CHECK(read("sparsity", "dense").sparsity == Options::Sparsity::kDense);
  CHECK(read("profile", "online").profile == Options::Profile::kOnline);
  CHECK(read("profile", "off").profile == Options::Profile::kOff);
  CHECK(read("log-level", "debug").log_level == Options::LogLevel::kDebug);
  CHECK(read("log-level", "error").log_level == Options::LogLevel::kError);
  CHECK(read("log-format", "json").log_format == Options::LogFormat::kJson);
  CLI::App app;
  Options options;
  add_options(app, {"split", "placement", "prefetch-by", "no-graphs", "model"}, options);
  app.parse("--split layers --placement solved --prefetch-by dma --no-graphs -m a.gguf");
  CHECK(options.split == Options::Split::kLayers);
  CHECK(options.placement == Options::Placement::kSolved);
  CHECK(options.prefetch_by == Options::PrefetchBy::kDma);
  CHECK(options.no_graphs);
  CHECK(options.model == "a.gguf");
}
