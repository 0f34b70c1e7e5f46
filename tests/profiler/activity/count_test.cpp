// Counting with a real small model: what goes into the file, that runs in pieces add up to one run, and that
// nothing is lost or counted twice.
#include "profiler/activity/count.h"

#include <atomic>

#include "kernels/base/whole_file.h"
#include "profiler/activity/expert_use.h"
#include "profiler/activity/online_activity.h"
#include "profiler/activity/sequence_run.h"
#include "profiler/commands/count_report.h"
#include "profiler/synthesis/synth_file.h"
#include "tests/support/catch.h"
#include "tests/support/source_dir.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kPrompts = {"The old harbour was quiet that morning, and",
                                           "def area(radius):\n    return", "1. flour\n2. yeast\n3.",
                                           "Why does bread go stale? Because"};

std::unique_ptr<ModelRuntime> load(int n_threads = 1, const char* mode = "exact", int chunk = 64) {
  LoadOptions options;
  options.path = fs::path(hearth::testing::source_dir()) / "tests/data/relu/relu-5m-q8_0.gguf";
  options.n_threads = n_threads;
  options.n_slots = 1;
  options.context_tokens = 256;
  options.prefill_chunk = chunk;
  options.sparsity.mode = mode;
  return ModelRuntime::load(options);
}

CountSettings settings_of(const fs::path& file) { return {.file = file, .n_generate = 8}; }

CountResult count(ModelRuntime& model, const std::vector<std::string>& prompts, const CountSettings& settings,
                  const CountHooks& hooks = {}) {
  TextFeed feed(prompts, {});
  return count_texts(model, feed, settings, hooks);
}

std::string bytes_of(const fs::path& path) { return read_whole_file(path, 1 << 20); }

}  // namespace

TEST_CASE("count: prompts and generated text are counted separately") {
  const TempFolder folder;
  const auto model = load();
  std::vector<double> fractions;
  CountHooks hooks;
  hooks.progress = [&](double fraction, uint64_t) { fractions.push_back(fraction); };
  const CountResult result = count(*model, kPrompts, settings_of(folder / "a"), hooks);
  CHECK(result.n_texts == 4);
  CHECK_FALSE(result.stopped);
  const Activity activity = read_activity(folder / "a");
  CHECK(activity.counts == result.activity.counts);
  CHECK(activity.texts.contains(sha256(kPrompts[1])));
  CHECK(activity.texts.size() == 4);
  const ActivityCounts& prompt = activity.of(ActivitySource::kPrompt);
  const ActivityCounts& generated = activity.of(ActivitySource::kGenerated);
  uint64_t n_tokens = 0;
  for (const std::string& text : kPrompts)
    n_tokens += model->facts().tokenizer.encode(text, true, false).size();
  CHECK(prompt.n_tokens == n_tokens);
  CHECK(prompt.n_pairs == n_tokens - 4);
  CHECK(generated.n_tokens <= 4 * 8);
  CHECK(generated.n_tokens > 4);
  CHECK(generated.n_pairs == generated.n_tokens);  // each follows a token that was counted
  CHECK(activity.of(ActivitySource::kServed).empty());
  CHECK(activity.down_sizes == model->observation().down_sizes());
  CHECK(activity.contributions().size() == 4 * 1024);
  REQUIRE_FALSE(fractions.empty());
  CHECK(std::ranges::is_sorted(fractions));
  CHECK(fractions.back() <= 1);

  const std::string text = count_text(result, folder / "a");
  CHECK_THAT(text, ContainsSubstring("of 4 texts") && ContainsSubstring("hottest 1/4"));
  // The hottest quarter has more than its share.
  for (int layer = 0; layer < 4; ++layer) CHECK(hottest_share(activity.total(), layer, 0.25) > 0.3);
}

TEST_CASE("count: the file does not depend on threads, pieces and interruptions") {
  const TempFolder folder;
  count(*load(), kPrompts, settings_of(folder / "one"));
  count(*load(3), kPrompts, settings_of(folder / "threads"));
  CHECK(bytes_of(folder / "threads") == bytes_of(folder / "one"));
  count(*load(2, "exact", 7), kPrompts, settings_of(folder / "chunks"));
  CHECK(bytes_of(folder / "chunks") == bytes_of(folder / "one"));

  // Stops after some checks, again and again, until everything is counted.
  const auto model = load();
  int n_runs = 0, n_stopped = 0;
  bool stopped = true;
  for (; stopped && n_runs < 100; ++n_runs) {
    CountHooks hooks;
    int n_looks = 0;
    hooks.stop = [&] { return ++n_looks > 13 + 2 * n_runs; };
    const CountResult result = count(*model, kPrompts, settings_of(folder / "pieces"), hooks);
    stopped = result.stopped;
    n_stopped += stopped ? 1 : 0;
    CHECK(result.n_known <= 4);
  }
  CHECK(n_stopped >= 2);
  CHECK(bytes_of(folder / "pieces") == bytes_of(folder / "one"));

  // Run again: nothing is counted twice.
  const CountResult again = count(*model, kPrompts, settings_of(folder / "one"));
  CHECK(again.n_known == 4);
  CHECK(again.n_texts == 0);
  CHECK(bytes_of(folder / "pieces") == bytes_of(folder / "one"));
}

TEST_CASE("count: two files of other texts add up to the file of both") {
  const TempFolder folder;
  const auto model = load();
  count(*model, kPrompts, settings_of(folder / "all"));
  count(*model, {kPrompts[0], kPrompts[1]}, settings_of(folder / "a"));
  count(*model, {kPrompts[2], kPrompts[3]}, settings_of(folder / "b"));
  Activity sum = read_activity(folder / "a");
  sum.merge(read_activity(folder / "b"));
  CHECK(sum.counts == read_activity(folder / "all").counts);
  sum.merge(read_activity(folder / "b"));  // it already has these texts
  CHECK(sum.counts == read_activity(folder / "all").counts);
}

TEST_CASE("count: a limit on tokens ends the count after the text that reaches it") {
  const TempFolder folder;
  const auto model = load();
  CountSettings settings = settings_of(folder / "a");
  settings.n_tokens = 15;
  const CountResult result = count(*model, kPrompts, settings);
  CHECK(result.n_texts < 4);
  CHECK(result.activity.n_tokens() >= 15);
  CHECK(count(*model, kPrompts, settings).n_texts == 0);
  settings.n_tokens = 0;
  CHECK(count(*model, kPrompts, settings).activity.texts.size() == 4);
}

TEST_CASE("count: a text longer than the context is read in parts") {
  const TempFolder folder;
  const auto model = load();
  std::string text;
  for (int i = 0; i < 200; ++i) text += "The boat number " + std::to_string(i) + " came in late. ";
  const CountResult result = count(*model, {text}, settings_of(folder / "a"));
  CHECK(result.n_prompt_tokens == model->facts().tokenizer.encode(text, true, false).size());
  CHECK(result.n_prompt_tokens > 1000);
  CHECK(result.n_generated_tokens > 8);
}

TEST_CASE("count: a mixture's experts, the same for any chunks and threads") {
  const TempFolder folder;
  SynthOptions options;
  options.shape = *find_shape("tiny-moe");
  options.n_threads = 2;
  write_synth_file(folder / "m.gguf", SynthKind::kPlain, options, make_synth_model(options, {}), false,
                   [](uint64_t) {});
  const auto counted = [&](const char* name, int n_threads, int chunk) {
    LoadOptions load;
    load.path = folder / "m.gguf";
    load.n_threads = n_threads;
    load.n_slots = 1;
    load.context_tokens = 256;
    load.prefill_chunk = chunk;
    const auto model = ModelRuntime::load(load);
    CHECK(why_not_counted(model->facts().file, model->facts().spec, "exact").empty());
    return count(*model, kPrompts, settings_of(folder / name));
  };
  const CountResult result = counted("a", 1, 64);
  const ActivityCounts total = result.activity.total();
  CHECK(total.of_experts());
  CHECK(total.d_ff == 16);
  for (int layer = 0; layer < total.n_layers; ++layer) {
    CHECK(total.active_share(layer) == Approx(4.0 / 16));
    CHECK(total.experts_read(layer, 4) >= 4.0);
    CHECK(total.experts_read(layer, 4) < 16.0);
  }
  CHECK(result.activity.down_sizes.empty());
  CHECK(bytes_of(folder / "a") == (counted("b", 2, 7), bytes_of(folder / "b")));
  CHECK(choices_caught(total, 16) == Approx(1.0));
  CHECK(choices_caught(total, 4) > 4.0 / 16);
  CHECK(sorted_choice_shares(total, 1).size() == 16);
  CHECK_THAT(count_text(result, folder / "a"), ContainsSubstring("used again") &&
                                                   ContainsSubstring("of each layer's 16") &&
                                                   ContainsSubstring("4.0 experts by 1 token"));
}

TEST_CASE("count: a trace has the experts that are counted, also of texts that were counted before") {
  const TempFolder folder;
  SynthOptions options;
  options.shape = *find_shape("tiny-moe");
  options.n_threads = 2;
  write_synth_file(folder / "m.gguf", SynthKind::kPlain, options, make_synth_model(options, {}), false,
                   [](uint64_t) {});
  LoadOptions load;
  load.path = folder / "m.gguf";
  load.n_threads = 1;
  load.n_slots = 1;
  load.context_tokens = 256;
  const auto model = ModelRuntime::load(load);
  const ModelIdentity identity = identify(model->facts().file, model->facts().spec);
  const auto traced = [&](uint64_t max_tokens, CountResult& result, uint64_t n_tokens = 0) {
    ExpertTraceWriter writer = model->observation().trace_writer(identity, max_tokens);
    CountSettings settings = settings_of(folder / "a");
    settings.trace = &writer;
    settings.n_tokens = n_tokens;
    result = count(*model, kPrompts, settings);
    return writer;
  };
  CountResult result;
  const ExpertTraceWriter writer = traced(10000, result);
  const ExpertTrace& trace = writer.trace();
  CHECK_FALSE(writer.full());
  CHECK(trace.n_sequences() == 4);
  CHECK(trace.runs.size() == 8);  // each has a prompt and generated tokens
  CHECK(trace.n_tokens() == result.activity.n_tokens());
  CHECK(trace.layers.front().expert_bytes == 3 * 256 * 128 * 18 / 32);
  const ActivityCounts total = result.activity.total();
  std::vector<uint32_t> chosen(total.active.size());
  for (uint64_t token = 0; token < trace.n_tokens(); ++token) {
    for (size_t layer = 0; layer < trace.layers.size(); ++layer) {
      for (const uint16_t expert : trace.chosen(token, layer))
        ++chosen[total.index(trace.layers[layer].number, expert)];
    }
  }
  CHECK(chosen == total.active);

  CountResult again;
  CHECK(traced(10000, again).trace().experts == trace.experts);
  CHECK(again.n_known == 4);
  CHECK(again.activity.counts == result.activity.counts);
  CHECK(traced(10, again).trace().n_tokens() == 10);
  CHECK(traced(10000, again, 1).trace().n_sequences() == 1);
}

TEST_CASE("count: models without zeros are reported") {
  const fs::path path = fs::path(hearth::testing::source_dir()) / "tests/data/arch/llama.gguf";
  const ModelFile file = ModelFile::open(path);
  const ModelSpec spec = read_model_spec(file);
  CHECK_THAT(why_not_counted(file, spec, "exact"),
             ContainsSubstring("silu, has no zeros") && ContainsSubstring("no activity to count"));
  CHECK(why_not_counted(file, spec, "calibrated").empty());
  CHECK(why_not_counted(file, read_model_spec(file, "relu"), "exact").empty());
}

TEST_CASE(
    "online activity: a sample of decoded tokens, added to the file while the model runs and at the end") {
  const TempFolder folder;
  const fs::path path = folder / "m.activity";
  const auto model = load();
  std::vector<std::string> warnings;
  {
    OnlineActivity online(*model, {.file = path,
                                   .write_every = std::chrono::milliseconds(1),
                                   .one_of = 2,
                                   .warn = [&](const std::string& said) { warnings.push_back(said); }});
    SequenceRun run(*model);
    const std::vector<int32_t> prompt = model->facts().tokenizer.encode(kPrompts[0], true, false);
    run.feed(prompt, 64);
    const int32_t token = prompt.back();
    for (int i = 0; i < 100; ++i) run.feed(std::span(&token, 1), 1);
    online.finish();  // also while the thread is writing: counts made meanwhile are not lost
    CHECK(online.n_written() == 50);
    online.finish();
  }
  CHECK(warnings.empty());
  const Activity activity = read_activity(path);
  CHECK(activity.of(ActivitySource::kServed).n_tokens == 50);
  CHECK(activity.of(ActivitySource::kServed).n_pairs == 25);
  CHECK(activity.of(ActivitySource::kPrompt).empty());

  // Another start adds to it; counting adds prompts as well.
  {
    OnlineActivity online(*model, {.file = path, .one_of = 1, .warn = {}});
    SequenceRun run(*model);
    const int32_t token = 5;
    for (int i = 0; i < 10; ++i) run.feed(std::span(&token, 1), 1);
  }
  CHECK(read_activity(path).of(ActivitySource::kServed).n_tokens == 60);
  count(*model, kPrompts, settings_of(path));
  CHECK(read_activity(path).of(ActivitySource::kServed).n_tokens == 60);
  CHECK(read_activity(path).texts.size() == 4);
}

TEST_CASE("online activity: a failure to write is reported once, and the counts are kept for later") {
  const TempFolder folder;
  const fs::path inner = folder / "inner";
  const auto model = load();
  std::atomic<int> n_warnings{0};
  {
    OnlineActivity online(*model, {.file = inner / "m.activity",
                                   .write_every = std::chrono::milliseconds(1),
                                   .one_of = 1,
                                   .warn = [&](const std::string&) { ++n_warnings; }});
    SequenceRun run(*model);
    const int32_t token = 5;
    for (int i = 0; i < 10; ++i) run.feed(std::span(&token, 1), 1);
    while (n_warnings == 0) std::this_thread::yield();
    fs::create_directory(inner);
  }
  CHECK(n_warnings == 1);
  CHECK(read_activity(inner / "m.activity").of(ActivitySource::kServed).n_tokens == 10);
}

}  // namespace hearth::test
