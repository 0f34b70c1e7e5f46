// Prefixes on disk, with an engine: what one engine computed, a later one reads, and every answer is the one
// that is computed.
#include "engine/serving/disk_prefixes.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <system_error>

#include "engine/engine.h"
#include "engine/model_runtime.h"
#include "tests/engine/serving/engine_client.h"
#include "tests/support/catch.h"
#include "tests/support/changed_model.h"
#include "tests/support/scripted_model.h"
#include "tests/support/temp_folder.h"

namespace hearth::disk_prefixes_test {
namespace {

namespace fs = std::filesystem;

DiskCacheOptions disk_in(const test::TempFolder& folder, uint8_t model = 1) {
  DiskCacheOptions disk{.folder = folder.path(), .max_bytes = uint64_t{1} << 30, .model = {}, .warn = {}};
  disk.model.fill(model);
  return disk;
}

ScriptedModel scripted(int n_blocks = 256, KvWindow window = {}) {
  ScriptedModel::Options options;
  options.limits.n_blocks = n_blocks;
  options.limits.window = window;
  options.limits.copies = true;
  options.limits.block_bytes = ScriptedModel::bytes_of_block(options.limits);
  return ScriptedModel(options);
}

/// Asks a new engine with an empty cache in memory.
Answer ask_again(const DiskCacheOptions& disk, SequenceRequest request, KvWindow window = {}) {
  ScriptedModel model = scripted(256, window);
  Engine engine(model, {.n_slots = 2, .context_tokens = 200, .prefill_chunk = 16, .disk = disk});
  return ask(engine, std::move(request));
}

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// Loads a test model that had been trained for 512 tokens.
std::unique_ptr<ModelRuntime> load(const std::string& name, KvType kv_type = KvType::kF16,
                                   bool nextn = false) {
  const test::TempFolder folder;
  LoadOptions options;
  options.path = folder / "model.gguf";
  testing::write_changed(fs::path(testing::source_dir()) / "tests/data/arch" / (name + ".gguf"), options.path,
                         {{"context_length", 512}});
  options.n_threads = 2;
  options.n_slots = 2;
  options.prefill_chunk = 64;
  options.context_tokens = 512;
  options.kv_type = kv_type;
  options.nextn = nextn;
  return ModelRuntime::load(options);
}

}  // namespace

TEST_CASE("prefixes on disk: a later engine computes only what is new") {
  const test::TempFolder folder;
  const std::vector<int32_t> prompt = some_tokens(41, 1);
  const Answer first = ask_again(disk_in(folder), greedy(prompt, 12));
  CHECK(first.finished.n_cached_tokens == 0);
  const Answer again = ask_again(disk_in(folder), greedy(prompt, 12));
  CHECK(again.tokens == first.tokens);
  CHECK(again.finished.n_cached_tokens == 40);
  CHECK(again.finished.n_matched_tokens == 40);
  // The answer is there, too.
  const std::vector<int32_t> next = joined(joined(prompt, first.tokens), some_tokens(10, 2));
  const Answer third = ask_again(disk_in(folder), greedy(next, 5));
  CHECK(third.tokens == continuation(next, 5));
  CHECK(third.finished.n_cached_tokens == 52);
  // A text that parts from the first shares its beginning.
  std::vector<int32_t> parted = prompt;
  parted[22] = (parted[22] + 1) % 97;
  const Answer other = ask_again(disk_in(folder), greedy(parted, 5));
  CHECK(other.tokens == continuation(parted, 5));
  CHECK(other.finished.n_cached_tokens == 20);
}

TEST_CASE("prefixes on disk: another model's are not used") {
  const test::TempFolder folder;
  const std::vector<int32_t> prompt = some_tokens(41, 1);
  ask_again(disk_in(folder, 1), greedy(prompt, 4));
  CHECK(ask_again(disk_in(folder, 2), greedy(prompt, 4)).finished.n_cached_tokens == 0);
  CHECK(ask_again(disk_in(folder, 1), greedy(prompt, 4)).finished.n_cached_tokens == 40);
}

TEST_CASE("prefixes on disk: the prefix in memory is continued by the one on disk") {
  const test::TempFolder folder;
  const std::vector<int32_t> prompt = some_tokens(61, 1);
  ask_again(disk_in(folder), greedy(prompt, 4));
  ScriptedModel model = scripted();
  Engine engine(model, {.n_slots = 2, .context_tokens = 200, .prefill_chunk = 16, .disk = disk_in(folder)});
  const std::vector<int32_t> part(prompt.begin(), prompt.begin() + 30);
  CHECK(ask(engine, greedy(part, 1)).finished.n_cached_tokens == 28);
  CHECK(ask(engine, greedy(prompt, 4)).finished.n_cached_tokens == 60);
  CHECK(ask(engine, greedy(prompt, 4)).finished.n_cached_tokens == 60);
  CHECK(engine.status().n_cached_tokens == 28 + 60 + 60);
  CHECK(engine.figures().disk.n_read_tokens == 28 + 32);
}

TEST_CASE("prefixes on disk: scored and embedded prompts are computed whole") {
  const test::TempFolder folder;
  const std::vector<int32_t> prompt = some_tokens(41, 1);
  ask_again(disk_in(folder), greedy(prompt, 4));
  CHECK(ask_again(disk_in(folder), scored(prompt, 2)).finished.n_cached_tokens == 0);
  CHECK(ask_again(disk_in(folder), embedding(prompt, Pooling::kMean)).finished.n_cached_tokens == 0);
}

TEST_CASE("prefixes on disk: windows are kept, too") {
  const test::TempFolder folder;
  const KvWindow window{.n_positions = 10, .n_blocks = 24};
  const std::vector<int32_t> prompt = some_tokens(101, 1);
  const Answer first = ask_again(disk_in(folder), greedy(prompt, 12), window);
  CHECK(first.tokens == continuation(prompt, 12));
  const Answer again = ask_again(disk_in(folder), greedy(prompt, 12), window);
  CHECK(again.tokens == first.tokens);
  CHECK(again.finished.n_cached_tokens == 100);
}

TEST_CASE("prefixes on disk: damaged files are computed again") {
  const test::TempFolder folder;
  const std::vector<int32_t> prompt = some_tokens(41, 1);
  ask_again(disk_in(folder), greedy(prompt, 4));
  for (const fs::path& path : files_in(folder.path())) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-3, std::ios::end);
    file.put('\x55');
  }
  const Answer again = ask_again(disk_in(folder), greedy(prompt, 4));
  CHECK(again.tokens == continuation(prompt, 4));
  CHECK(again.finished.n_cached_tokens == 0);
  // They have been replaced.
  CHECK(ask_again(disk_in(folder), greedy(prompt, 4)).finished.n_cached_tokens == 40);
}

TEST_CASE("prefixes on disk: a folder that disappears does no harm") {
  test::TempFolder folder;
  const DiskCacheOptions disk{
      .folder = folder / "prefixes", .max_bytes = 1 << 20, .model = {}, .warn = [](const std::string&) {}};
  fs::create_directory(disk.folder);
  ScriptedModel model = scripted(16);
  Engine engine(model, {.n_slots = 2, .context_tokens = 60, .prefill_chunk = 16, .disk = disk});
  for (uint64_t i = 0; i < 6; ++i) {
    const std::vector<int32_t> prompt = some_tokens(41, i % 3);
    CHECK(ask(engine, greedy(prompt, 4)).tokens == continuation(prompt, 4));
    // The engine may rename a file while the folder is being deleted.
    for (std::error_code error; i == 2 && fs::exists(disk.folder);) fs::remove_all(disk.folder, error);
  }
}

// Texts that share beginnings, in a cache that is too small for them, in engines one after another.
TEST_CASE("prefixes on disk: many sequences at once get the answers that are computed") {
  const bool has_window = GENERATE(false, true);
  const test::TempFolder folder;
  const std::vector<int32_t> common = some_tokens(90, 1);
  std::mt19937 random(3);
  uint64_t n_read = 0;
  for (int round = 0; round < 6; ++round) {
    ScriptedModel model = scripted(48, has_window ? KvWindow{.n_positions = 10, .n_blocks = 40} : KvWindow{});
    Engine engine(model, {.n_slots = 4,
                          .context_tokens = 160,
                          .prefill_chunk = 16,
                          .disk = disk_in(folder),
                          .promise_tokens = 8});
    std::vector<SequenceRequest> requests;
    std::vector<std::shared_ptr<TokenStream>> streams;
    for (int i = 0; i < 24; ++i) {
      const std::vector<int32_t> start(common.begin(), common.begin() + static_cast<int>(random() % 90));
      requests.push_back(greedy(joined(start, some_tokens(1 + static_cast<int>(random() % 8), random() % 5)),
                                1 + static_cast<int>(random() % 40)));
      streams.push_back(submit(engine, requests.back()));
      if (random() % 5 == 0) streams.back()->cancel();
    }
    for (size_t i = 0; i < streams.size(); ++i) {
      const Answer answer = read_all(*streams[i], 1).front();
      const auto n = static_cast<int>(answer.tokens.size());
      REQUIRE(answer.tokens == continuation(requests[i].prompt, n));
      REQUIRE(answer.finished.reason != FinishReason::kFailed);
    }
    n_read += engine.figures().disk.n_read_tokens;
  }
  CHECK(n_read > 0);
}

TEST_CASE("prefixes on disk: real models continue with the same bits") {
  struct Model {
    std::string name;
    KvType kv_type = KvType::kF16;
    bool nextn = false;
    int n_cached = 192;
  };
  const Model one =
      GENERATE(Model{"qwen3"}, Model{"qwen3", KvType::kQ8}, Model{"gemma3"}, Model{"deepseek2-v3"},
               Model{"gpt-oss"}, Model{"mamba2"}, Model{"qwen35-nextn", KvType::kF16, true}, Model{"qwen35"},
               Model{"qwen3next"}, Model{"nemotron_h_moe"}, Model{"lfm2"});
  INFO(one.name);
  const test::TempFolder folder;
  SequenceRequest request = greedy(some_tokens(201, 1), 24);
  request.n_top_logprobs = 3;
  std::vector<Answer> answers;
  for (int i = 0; i < 3; ++i) {
    const auto model = load(one.name, one.kv_type, one.nextn);
    DiskCacheOptions disk = disk_in(folder);
    if (i == 2) disk.max_bytes = 0;
    Engine engine(*model, {.n_slots = 2, .context_tokens = 512, .prefill_chunk = 64, .disk = disk});
    answers.push_back(ask(engine, request));
    CHECK(answers.back().finished.n_cached_tokens == (i == 1 ? one.n_cached : 0));
    if (i == 1) CHECK(engine.figures().disk.n_read_tokens == static_cast<uint64_t>(one.n_cached));
  }
  CHECK(numbers_of(answers[0]) == numbers_of(answers[2]));
  CHECK(numbers_of(answers[1]) == numbers_of(answers[2]));
}

TEST_CASE("prefixes on disk: an answer's last state is kept, and a lost state only costs time") {
  const test::TempFolder folder;
  const SequenceRequest first = greedy(some_tokens(50, 1), 200);
  const auto ask_model = [&](const SequenceRequest& request, bool on_disk = true) {
    const auto model = load("qwen3next");
    Engine engine(*model, {.n_slots = 1,
                           .context_tokens = 512,
                           .prefill_chunk = 64,
                           .disk = on_disk ? disk_in(folder) : DiskCacheOptions()});
    return ask(engine, request);
  };
  const Answer answer = ask_model(first);
  const SequenceRequest next = greedy(joined(joined(first.prompt, answer.tokens), some_tokens(30, 2)), 5);
  const Answer expected = ask_model(next, false);
  const Answer read = ask_model(next);
  CHECK(read.finished.n_cached_tokens == 240);
  CHECK(numbers_of(read) == numbers_of(expected));
  for (const fs::path& path : files_in(folder.path())) {
    if (path.extension() == ".state") fs::resize_file(path, 100);
  }
  const Answer computed = ask_model(next);
  CHECK(computed.finished.n_cached_tokens == 0);
  CHECK(numbers_of(computed) == numbers_of(expected));
}

// The state is there when the read begins, but a KV block before it has been deleted or damaged.
TEST_CASE("prefixes on disk: a sequence whose read ends before its state begins again") {
  const test::TempFolder folder;
  const SequenceRequest request = greedy(some_tokens(201, 1), 24);
  std::vector<Answer> answers;
  PrefixKey key = disk_in(folder).model;
  for (size_t i = 0; i < 7; ++i) key = key_after(key, std::span(request.prompt).subspan(i * 16, 16));
  const fs::path seventh = folder / (hex_text(key) + ".kv");
  for (const bool again : {false, true}) {
    if (again) fs::resize_file(seventh, 100);
    const auto model = load("qwen35");
    Engine engine(*model,
                  {.n_slots = 2, .context_tokens = 512, .prefill_chunk = 64, .disk = disk_in(folder)});
    answers.push_back(ask(engine, request));
    CHECK(engine.status().n_set_back == (again ? 1 : 0));
  }
  CHECK(numbers_of(answers[0]) == numbers_of(answers[1]));
}

}  // namespace hearth::disk_prefixes_test
