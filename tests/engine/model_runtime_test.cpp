// Loading: what options do, what is refused and in which words; and a loaded model gives a sequence the same
// bits alone and beside others.
#include "engine/model_runtime.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>

#include "engine/forward/kv_memory.h"
#include "engine/residency/memory_limit.h"
#include "tests/support/catch.h"
#include "tests/support/mixed_steps.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

/// A model on disk and the options to load it with.
struct OnDisk {
  explicit OnDisk(const TinyModel& model = TinyModel()) {
    options.path = folder / "model.gguf";
    options.n_threads = 1;
    model.write(options.path);
  }
  std::unique_ptr<ModelRuntime> load() const { return ModelRuntime::load(options); }
  /// The error for these options; empty if there is none.
  std::string complaint() const {
    try {
      load();
    } catch (const std::exception& error) {
      return error.what();
    }
    return {};
  }
  TempFolder folder;
  LoadOptions options;
};

TinyModel long_model() { return TinyModel().key("llama.context_length", uint32_t{1 << 20}); }

void write_text(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("model runtime: defaults, limits and what was reserved") {
  OnDisk disk;
  const auto model = disk.load();
  CHECK(model->facts().context_tokens == 64);
  const StepLimits limits = model->limits();
  CHECK(limits.max_tokens == 128 + 4);
  CHECK(limits.max_logit_rows >= 4);
  CHECK(limits.n_vocab == 259);
  CHECK(limits.block_tokens == kKvBlockTokens);
  CHECK(limits.n_blocks == 4 * 64 / kKvBlockTokens);
  // 2 layers of keys and values, 16 halves each, for 4 times 64 positions.
  CHECK(model->placed().kv_bytes == 2 * 2 * 16 * 2 * 4 * 64);
  CHECK(static_cast<double>(model->placed().kv_bytes) ==
        KvMemory::bytes_needed(model->facts().spec, {.n_blocks = limits.n_blocks}));
  CHECK(model->facts().weight_bytes == sizeof(float) * (2 * (96 * 32 + 3 * 48 * 32) + 259 * 32));
  CHECK(model->facts().tokenizer.n_vocab() == 259);
  CHECK_THAT(model->placed().backend, ContainsSubstring("1 thread"));
}

TEST_CASE("model runtime: 8-bit keys and values take 34 bytes for 32 numbers, in heads of whole groups") {
  OnDisk disk;
  disk.options.kv_type = KvType::kQ8;
  CHECK_THAT(disk.complaint(), ContainsSubstring("model.gguf: --kv-type q8_0") &&
                                   ContainsSubstring("multiple of 32") && ContainsSubstring("have 8"));
  CHECK_THROWS_AS(disk.load(), ModelFileError);

  LoadOptions options;
  options.path = std::filesystem::path(testing::source_dir()) / "tests/data/relu/relu-5m-q8_0.gguf";
  options.n_threads = 1;
  const size_t halves = ModelRuntime::load(options)->placed().kv_bytes;
  options.kv_type = KvType::kQ8;
  const auto model = ModelRuntime::load(options);
  CHECK(model->placed().kv_type == KvType::kQ8);
  CHECK(model->placed().kv_bytes == halves / 64 * 34);

  // Keys and values that all heads share are not rounded.
  options.path = std::filesystem::path(testing::source_dir()) / "tests/data/arch/deepseek2-v2.gguf";
  CHECK_THROWS_WITH(ModelRuntime::load(options), ContainsSubstring("latent attention"));
}

TEST_CASE("model runtime: the requested context is rounded to whole blocks for each slot") {
  OnDisk disk;
  disk.options.n_slots = 3;
  disk.options.context_tokens = 33;
  disk.options.prefill_chunk = 5;
  const auto model = disk.load();
  CHECK(model->facts().context_tokens == 33);
  CHECK(model->limits().n_blocks == 3 * 3);
  CHECK(model->limits().max_tokens == 8);
  CHECK(model->limits().d_model == 32);
  disk.options.n_kv_contexts = 1;
  CHECK(disk.load()->limits().n_blocks == 3);
  disk.options.n_kv_contexts = 9;  // counts as the number of slots
  CHECK(disk.load()->limits().n_blocks == 3 * 3);
  disk.options.n_kv_contexts = 0;
  // By default there are more slots than rows of logits, but each slot may still need one.
  disk.options.n_slots = 100;
  CHECK(disk.load()->limits().max_logit_rows >= 100);
}

TEST_CASE("model runtime: without a GPU half of the slots get contexts, as far as they fit beside the file") {
  OnDisk disk(long_model());
  disk.options.n_kv_contexts = kKvContextsDecided;
  disk.options.context_tokens = 1 << 16;  // 8.4 MB of keys and values each
  const auto n_contexts = [&] { return disk.load()->limits().n_blocks * kKvBlockTokens >> 16; };
  for (const auto& [n_slots, expected] :
       {std::pair{1, 1}, std::pair{2, 1}, std::pair{3, 2}, std::pair{4, 2}, std::pair{7, 4}}) {
    disk.options.n_slots = n_slots;
    CHECK(n_contexts() == expected);
  }
  const auto model = disk.load();
  const uint64_t rest = model->facts().file.total_bytes() + model->placed().work_bytes;
  const uint64_t one = model->placed().kv_bytes / 4;
  for (const int n : {4, 3, 2, 1}) {
    disk.options.memory_limit_bytes = rest + static_cast<uint64_t>(n) * one;
    CHECK(n_contexts() == n);
    --disk.options.memory_limit_bytes;
    CHECK(n_contexts() == std::max(1, n - 1));
  }
  // One context exists even if memory does not hold the file, but not without memory for the context itself.
  disk.options.memory_limit_bytes = model->placed().work_bytes + one;
  CHECK(n_contexts() == 1);
  --disk.options.memory_limit_bytes;
  CHECK_THAT(disk.complaint(),
             ContainsSubstring("one context of 65536 tokens needs 8.4 MB for the KV cache"));
}

TEST_CASE("model runtime: a model placed again keeps its KV blocks, whatever is requested") {
  OnDisk disk(long_model());
  disk.options.n_kv_contexts = kKvContextsDecided;
  disk.options.context_tokens = 1 << 16;
  const auto model = disk.load();
  const int n_blocks = model->limits().n_blocks;
  const uint64_t needed = model->placed().work_bytes + model->placed().kv_bytes;
  for (const int asked : {kKvContextsDecided, 0, 1}) {
    LoadOptions again = disk.options;
    again.n_kv_contexts = asked;
    again.memory_limit_bytes = needed;  // if decided again, it would be one context
    model->place_again(again);
    CHECK(model->limits().n_blocks == n_blocks);
  }
  LoadOptions less = disk.options;
  less.memory_limit_bytes = needed - 1;
  CHECK_THROWS_WITH(model->place_again(less),
                    ContainsSubstring("2 contexts of 65536 tokens each need 16.8 MB"));
  model->place_again(disk.options);
  CHECK(model->limits().n_blocks == n_blocks);
}

TEST_CASE(
    "model runtime: the default context is bounded by training and a sensible length, not by a window") {
  CHECK(OnDisk(long_model()).load()->facts().context_tokens == kDefaultContext);
  CHECK(OnDisk(TinyModel().key("llama.attention.sliding_window", uint32_t{24}))
            .load()
            ->facts()
            .context_tokens == 64);
}

TEST_CASE("model runtime: a context beyond the model's is refused with both numbers") {
  OnDisk disk;
  disk.options.context_tokens = 65;
  CHECK_THAT(disk.complaint(), ContainsSubstring("model.gguf: ") && ContainsSubstring("65 tokens") &&
                                   ContainsSubstring("trained on 64"));
  CHECK_THROWS_AS(disk.load(), ModelFileError);
}

TEST_CASE("model runtime: a request for too much memory is refused before memory is taken") {
  OnDisk disk(long_model());
  disk.options.context_tokens = 1 << 20;
  disk.options.memory_limit_bytes = 100'000'000;
  // 4 slots of 2^20 positions, 2 layers, keys and values of 16 halves: 537 MB.
  CHECK_THAT(disk.complaint(),
             ContainsSubstring("4 contexts of 1048576 tokens each need 536.9 MB for the KV cache") &&
                 ContainsSubstring("may use 100.0 MB") &&
                 ContainsSubstring("smaller context or fewer contexts (--kv-contexts)"));
  CHECK_THROWS_AS(disk.load(), ModelFileError);
  disk.options.n_slots = 1;
  disk.options.context_tokens = 1 << 15;
  CHECK(disk.complaint().empty());
  // The machine's own limit holds without an option: 2^20 slots of 2^20 positions are 141 TB.
  disk.options.memory_limit_bytes = 0;
  disk.options.n_slots = 1 << 20;
  disk.options.context_tokens = 1 << 20;
  CHECK_THAT(disk.complaint(), ContainsSubstring("GB for the KV cache"));
  // A limit that permits them must not let block numbers overflow.
  disk.options.memory_limit_bytes = UINT64_MAX;
  CHECK_THAT(disk.complaint(), ContainsSubstring("more KV blocks than Hearth can number"));
  // If the system cannot grant the memory, the error is still one message: each of the four buffers would
  // take 2^47 bytes, which is a process's whole address space.
  TinyShape wide;
  wide.n_kv_heads = 4;
  wide.head_dim = 1024;
  OnDisk deep(TinyModel("llama", wide).key("llama.context_length", uint32_t{1 << 24}));
  deep.options.memory_limit_bytes = UINT64_MAX;
  deep.options.context_tokens = 1 << 24;
  deep.options.n_slots = 1 << 10;
  CHECK_THAT(deep.complaint(), ContainsSubstring("system does not grant"));
}

TEST_CASE("model runtime: options that no model has are refused in words") {
  OnDisk disk;
  disk.options.n_slots = 0;
  CHECK_THAT(disk.complaint(), ContainsSubstring("0 slots") && ContainsSubstring("from 1"));
  disk.options.n_slots = 2'000'000'000;
  CHECK_THAT(disk.complaint(), ContainsSubstring("slots"));
  disk.options.n_slots = 1;
  disk.options.prefill_chunk = -1;
  CHECK_THAT(disk.complaint(), ContainsSubstring("prompt tokens per step"));
  disk.options.prefill_chunk = std::numeric_limits<int>::max();
  CHECK_THAT(disk.complaint(), ContainsSubstring("prompt tokens per step"));
  disk.options.prefill_chunk = 8;
  disk.options.context_tokens = -1;
  CHECK_THAT(disk.complaint(), ContainsSubstring("-1 tokens"));
  disk.options.context_tokens = 0;
  disk.options.n_threads = -1;
  CHECK_THAT(disk.complaint(), ContainsSubstring("-1 threads"));
}

TEST_CASE("model runtime: the requested instruction set is used, or refused with those available") {
  OnDisk disk;
  const std::vector<Isa> supported = supported_isas();
  for (const Isa isa : kAllIsas) {
    disk.options.isa = isa;
    const std::string name(isa_name(isa));
    INFO(name);
    if (std::find(supported.begin(), supported.end(), isa) != supported.end()) {
      CHECK_THAT(disk.load()->placed().backend, ContainsSubstring(name));
    } else {
      CHECK_THAT(disk.complaint(), ContainsSubstring(name) && ContainsSubstring("scalar"));
    }
  }
}

TEST_CASE("model runtime: a vocabulary larger than the embedding is refused") {
  TinyModel model;
  model.random_tensor("token_embd.weight", {32, 200}, 0, 1).random_tensor("output.weight", {32, 200}, 0, 1);
  CHECK_THAT(OnDisk(model).complaint(), ContainsSubstring("tokenizer.ggml.tokens") &&
                                            ContainsSubstring("259") && ContainsSubstring("200"));
  // The reverse is padding, which is common.
  model.random_tensor("token_embd.weight", {32, 272}, 0, 1).random_tensor("output.weight", {32, 272}, 0, 1);
  CHECK(OnDisk(model).load()->limits().n_vocab == 272);
}

TEST_CASE("model runtime: progress rises to one, and an exception from it ends the load") {
  OnDisk disk;
  std::vector<double> seen;
  disk.options.progress = [&](double fraction) { seen.push_back(fraction); };
  disk.load();
  REQUIRE_FALSE(seen.empty());
  CHECK(std::is_sorted(seen.begin(), seen.end()));
  CHECK(seen.back() == 1.0);
  disk.options.progress = [](double) { throw std::runtime_error("no longer wanted"); };
  CHECK_THROWS_WITH(disk.load(), "no longer wanted");
}

TEST_CASE("model runtime: sequences give the same bits alone and mixed in any way") {
  // A real model's Q8_0 weights are multiplied by quantized activations; the tiny model uses floats and norms
  // of keys.
  const bool real = GENERATE(true, false);
  for (const Isa isa : testing::model_isas()) {
    OnDisk disk(TinyModel("qwen3"));
    if (real)
      disk.options.path =
          std::filesystem::path(hearth::testing::source_dir()) / "tests/data/relu/relu-5m-q8_0.gguf";
    disk.options.isa = isa;
    disk.options.n_slots = 4;
    disk.options.context_tokens = 64;
    disk.options.prefill_chunk = 20;
    disk.options.n_threads = 2;
    const auto model = disk.load();
    INFO("isa " << isa_name(isa) << ", real " << real);
    for (const uint32_t seed : {1u, 2u}) CHECK(rows_changed_by_mixing(*model, {1, 17, 40, 61}, seed) == 0);
  }
}

TEST_CASE("memory limit: the tightest of the machine's and every cgroup's") {
  const TempFolder folder;
  const auto limit = [&] { return memory_limit_bytes(folder / "proc", folder / "sys"); };
  const uint64_t machine = limit();
  CHECK(machine > 1'000'000);
  const std::filesystem::path root = folder / "sys/fs/cgroup";

  // v2: the group's own limit, a parent's, and the one at the root of a container's mount.
  write_text(folder / "proc/self/cgroup", "0::/outer/inner\n");
  CHECK(limit() == machine);
  write_text(root / "outer/inner/memory.max", "max\n");
  CHECK(limit() == machine);
  write_text(root / "outer/memory.max", "700000\n");
  CHECK(limit() == 700'000);
  write_text(root / "memory.max", "600000\n");
  CHECK(limit() == 600'000);
  write_text(root / "outer/inner/memory.max", "500000\n");
  CHECK(limit() == 500'000);

  // v1 beside it, only in the line of its controller; numbers above the machine's memory count as no limit.
  write_text(folder / "proc/self/cgroup", "9:cpu,memory:/group\n4:memoryless:/other\n0::/\nnonsense\n");
  write_text(root / "memory/other/memory.limit_in_bytes", "1\n");
  write_text(root / "memory/group/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(limit() == 600'000);
  write_text(root / "memory/group/memory.limit_in_bytes", "400000\n");
  CHECK(limit() == 400'000);
}

TEST_CASE("memory limit: the process's own memory is what no file backs") {
  const TempFolder folder;
  CHECK(anonymous_bytes(folder / "proc") == 0);
  write_text(folder / "proc/self/status", "VmRSS:\t  900 kB\nRssAnon:\t     123 kB\nRssFile:\t  777 kB\n");
  CHECK(anonymous_bytes(folder / "proc") == 123 * 1024);
  if (testing::kStride > 1) return;  // a sanitizer's own memory comes and goes
  const uint64_t before = anonymous_bytes();
  const std::vector<char> taken(64 << 20, 'x');
  CHECK(anonymous_bytes() > before + (60 << 20));
}

TEST_CASE("memory limit: available is what the system has, or less in a cgroup") {
  const TempFolder folder;
  const auto available = [&] { return available_bytes(folder / "proc", folder / "sys"); };
  CHECK(available() == memory_limit_bytes(folder / "proc", folder / "sys"));  // a system that reports nothing
  write_text(folder / "proc/meminfo", "MemTotal:  9000 kB\nMemFree:  100 kB\nMemAvailable:     800 kB\n");
  CHECK(available() == 800 * 1024);
  write_text(folder / "proc/self/cgroup", "0::/\n");
  write_text(folder / "sys/fs/cgroup/memory.max", "700000\n");
  CHECK(available() == 700'000);
  write_text(folder / "proc/self/status", "RssAnon:\t     100 kB\n");
  CHECK(available() == 700'000 - 100 * 1024);
  write_text(folder / "sys/fs/cgroup/memory.max", "7000\n");
  CHECK(available() == 0);
  CHECK(available_bytes() > 0);
  CHECK(available_bytes() <= memory_limit_bytes());
}

}  // namespace hearth::test
