// The trace of a serving model: when the file is written and by whom it may be read, its limits, and which
// models are recorded.
#include "profiler/activity/served_trace.h"

#include <thread>

#include "profiler/activity/sequence_run.h"
#include "tests/support/catch.h"
#include "tests/support/source_dir.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<ModelRuntime> load_arch(const std::string& name) {
  LoadOptions options;
  options.path = fs::path(hearth::testing::source_dir()) / "tests/data/arch" / (name + ".gguf");
  options.n_threads = 1;
  options.n_slots = 1;
  options.context_tokens = 64;
  return ModelRuntime::load(options);
}

/// Runs a prompt of n tokens.
void run(ModelRuntime& model, int n) {
  const std::vector<int32_t> prompt(static_cast<size_t>(n), 5);
  SequenceRun(model).feed(prompt, 4);
}

/// Options with which the file is written every millisecond, and warnings are collected.
struct Told {
  std::vector<std::string> warnings;  // read it once the recordings have finished
  ServedTraceOptions options(const fs::path& file) {
    return {.file = file,
            .write_every = std::chrono::milliseconds(1),
            .warn = [this](const std::string& sentence) { warnings.push_back(sentence); }};
  }
};

}  // namespace

TEST_CASE("served trace: it is written while the model serves and at the end, for its owner only") {
  const TempFolder folder;
  const fs::path file = folder / "experts.trace";
  Told told;
  ServedTrace trace(told.options(file));
  CHECK_FALSE(fs::exists(file));
  const auto model = load_arch("qwen3moe");
  {
    const auto recording = trace.record(*model);
    REQUIRE(recording);
    run(*model, 3);  // as a warm-up
    recording->begin();
    run(*model, 12);
    while (!fs::exists(file)) std::this_thread::yield();
    CHECK(read_expert_trace(file).n_tokens() <= 12);
    recording->finish();
    CHECK(read_expert_trace(file).n_tokens() == 12);
    CHECK(fs::status(file).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
    run(*model, 2);
    recording->finish();  // has no effect
  }
  CHECK(read_expert_trace(file).n_tokens() == 12);
  CHECK(trace.n_tokens() == 12);
  CHECK(trace.n_sequences() == 1);

  // The model was unloaded, and is loaded again.
  const auto again = load_arch("qwen3moe");
  if (const auto recording = trace.record(*again)) {
    recording->begin();
    run(*again, 5);
  }
  const ExpertTrace whole = read_expert_trace(file);
  CHECK(whole.n_tokens() == 17);
  CHECK(whole.n_sequences() == 2);
  CHECK(told.warnings.empty());
}

TEST_CASE("served trace: a full trace stays within its bytes, and a sentence says so once") {
  const TempFolder folder;
  const fs::path file = folder / "experts.trace";
  Told told;
  ServedTraceOptions options = told.options(file);
  const auto model = load_arch("qwen3moe");
  const ModelSpec& spec = model->facts().spec;
  options.max_bytes = 10 * ExpertRecorder::token_bytes(spec.n_layers, spec.mixture.n_used);
  ServedTrace trace(options);
  {
    const auto recording = trace.record(*model);
    recording->begin();
    run(*model, 30);  // in steps of 4 tokens
  }
  CHECK(read_expert_trace(file).n_tokens() == 8);
  CHECK(fs::file_size(file) <= options.max_bytes + 200);  // the file's header and hash
  REQUIRE(told.warnings.size() == 1);
  CHECK(told.warnings[0] == "the trace is full with 8 tokens; later tokens are not recorded");
  CHECK_FALSE(trace.record(*model));
  CHECK(told.warnings.back() == "the tokens of this model are not recorded: the trace is full");
}

TEST_CASE("served trace: other models are not recorded") {
  const TempFolder folder;
  const fs::path file = folder / "experts.trace";
  Told told;
  ServedTrace trace(told.options(file));
  const auto model = load_arch("qwen3moe");
  {
    const auto recording = trace.record(*model);
    recording->begin();
    run(*model, 3);
  }
  CHECK_FALSE(trace.record(*load_arch("mixtral")));
  CHECK_FALSE(trace.record(*load_arch("llama")));
  REQUIRE(told.warnings.size() == 2);
  CHECK_THAT(told.warnings[0], ContainsSubstring("experts.trace") && ContainsSubstring("another model"));
  CHECK_THAT(told.warnings[1], ContainsSubstring("no mixture of experts"));
  CHECK(read_expert_trace(file).n_tokens() == 3);
}

TEST_CASE("served trace: a file that cannot be written is refused first, and a later failure reported once") {
  const TempFolder folder;
  Told told;
  CHECK_THROWS_WITH(ServedTrace(told.options(folder / "none/experts.trace")),
                    ContainsSubstring("a file cannot be made beside it"));
  const fs::path inner = folder / "inner";
  fs::create_directory(inner);
  ServedTrace trace(told.options(inner / "experts.trace"));
  const auto model = load_arch("qwen3moe");
  {
    const auto recording = trace.record(*model);
    fs::remove(inner);
    recording->begin();
    run(*model, 12);
    // by the clock: a second warning would come within this time, and no result depends on it
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  REQUIRE(told.warnings.size() == 1);
  CHECK_THAT(told.warnings[0], ContainsSubstring("a file cannot be made beside it"));
}

}  // namespace hearth::test
