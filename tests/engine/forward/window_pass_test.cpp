// Models with windows: KvBlocks assigns their window blocks, and blocks that a sequence has released are
// overwritten. Nevertheless the bits equal those of a run that keeps all keys and values.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <set>

#include "engine/forward/forward_pass.h"
#include "engine/kv/kv_blocks.h"
#include "engine/model_runtime.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/support/catch.h"
#include "tests/support/changed_model.h"
#include "tests/support/golden.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

constexpr int kContext = 512, kWindowChunk = 24, kSlots = 3, kContexts = 2;
constexpr uint16_t kNotANumber = 0x7e00;

std::filesystem::path arch_file(const std::string& name) {
  return std::filesystem::path(testing::source_dir()) / "tests/data/arch" / (name + ".gguf");
}

/// A model of tests/data/arch for longer contexts, and with another window than 8 if one is given.
struct LongModel {
  explicit LongModel(const std::string& name, uint32_t window = 0) {
    std::map<std::string, uint32_t> keys{{".context_length", kContext}};
    if (window > 0) keys.emplace(".attention.sliding_window", window);
    testing::write_changed(arch_file(name), folder / "model.gguf", keys);
    file.emplace(ModelFile::open(folder / "model.gguf"));
    spec = read_model_spec(*file);
    weights = bind_weights(*file, spec);
  }

  TempFolder folder;
  std::optional<ModelFile> file;
  ModelSpec spec;
  Weights weights;
};

std::vector<int32_t> text_of(int n_tokens, int seed, int n_vocab) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n_tokens; ++i) tokens.push_back((31 * i * i + 7 * i + 5 + 13 * seed) % n_vocab);
  return tokens;
}

/// Overwrites one KV block of a layer.
void poison(const KvMemory& kv, int layer, int32_t block) {
  const KvShape shape = kv.shape(layer);
  const int64_t halves = shape.block_bytes() / 2;
  for (void* const cached : {kv.layer(layer).k, kv.layer(layer).v})
    std::fill_n(static_cast<uint16_t*>(cached) + block * halves, halves, kNotANumber);
}

/// A model that computes sequences in slots, with blocks from KvBlocks.
class Machine {
 public:
  Machine(const LongModel& model, CpuBackend& cpu, const KvBlockCounts& counts)
      : spec_(model.spec),
        kv_(model.spec, counts, Devices(cpu)),
        pass_(Devices(cpu), model.spec, model.weights, kv_,
              {kWindowChunk * kSlots, kWindowChunk * kSlots, kContext}),
        blocks_(static_cast<int>(counts.n_blocks), kKvBlockTokens, kSlots, kContext / kKvBlockTokens,
                counts.window, longest_step(kWindowChunk)) {
    for (int layer = 0; layer < spec_.n_layers; ++layer) {
      for (int32_t id = 0; id < kv_.shape(layer).n_blocks; ++id) poison(kv_, layer, id);
    }
  }

  KvBlocks& blocks() { return blocks_; }

  /// Computes pieces of sequences (slot, first token, tokens). Returns the logits of all tokens.
  struct Piece {
    int slot;
    size_t begin;
    std::span<const int32_t> tokens;
  };
  std::span<const float> step(const std::vector<Piece>& pieces) {
    batch_.clear();
    for (const Piece& piece : pieces) {
      blocks_.extend(piece.slot, static_cast<int>(piece.begin + piece.tokens.size()));
      for (size_t i = 0; i < piece.tokens.size(); ++i) {
        batch_.logit_rows.push_back(batch_.n_tokens());
        batch_.tokens.push_back(piece.tokens[i]);
        batch_.positions.push_back(static_cast<int32_t>(piece.begin + i));
        batch_.slots.push_back(piece.slot);
      }
    }
    poison_window_blocks();
    batch_.block_tables = blocks_.tables();
    batch_.window_tables = blocks_.window_tables();
    batch_.max_blocks = blocks_.max_blocks();
    return pass_.run(batch_).logits;
  }

  /// Overwrites a window block in all layers with windows.
  void poison_window_block(int32_t id) {
    for (int layer = 0; layer < spec_.n_layers; ++layer) {
      if (kv_.is_window(layer)) poison(kv_, layer, id);
    }
    ++n_poisoned;
  }
  int n_poisoned = 0;

 private:
  /// Overwrites all blocks that no slot uses and no node of the prefix cache owns.
  void poison_window_blocks() {
    const std::span<const int32_t> used = blocks_.window_tables();
    const std::set<int32_t> in_tables(used.begin(), used.end());
    const WindowPool& pool = blocks_.window_pool();
    for (int32_t id = 0; id < pool.size(); ++id) {
      if (!in_tables.contains(id) && pool.owner(id) < 0) poison_window_block(id);
    }
  }

  const ModelSpec& spec_;
  KvMemory kv_;
  ForwardPass pass_;
  KvBlocks blocks_;
  Batch batch_;
};

/// Logits of all positions, with all keys and values kept.
std::vector<float> whole(const LongModel& model, CpuBackend& cpu, const std::vector<int32_t>& tokens) {
  Machine machine(model, cpu, {.n_blocks = kContext / kKvBlockTokens});
  REQUIRE(machine.blocks().reserve(0, tokens, static_cast<int>(tokens.size()), false));
  std::vector<float> logits;
  for (size_t begin = 0; begin < tokens.size(); begin += kWindowChunk) {
    const size_t n = std::min<size_t>(kWindowChunk, tokens.size() - begin);
    const std::span<const float> rows = machine.step({{0, begin, std::span(tokens).subspan(begin, n)}});
    logits.insert(logits.end(), rows.begin(), rows.end());
  }
  return logits;
}

struct Text {
  std::vector<int32_t> tokens;
  std::vector<float> expected;  // [n_tokens, n_vocab]
};

/// Runs texts through the machine's slots, in random pieces; some tokens of a piece are removed again, like
/// rejected drafts. Returns the number of rows that differ, and adds up the tokens found in the prefix cache.
size_t rows_changed(Machine& machine, const std::vector<Text>& texts, int n_vocab, bool reuse,
                    std::mt19937& random, int& n_cached) {
  struct Running {
    const Text* text = nullptr;
    size_t n_done = 0;
  };
  std::vector<Running> slots(kSlots);
  size_t n_changed = 0, next = 0, n_finished = 0;
  while (n_finished < texts.size()) {
    std::vector<Machine::Piece> pieces;
    for (int slot = 0; slot < kSlots; ++slot) {
      Running& r = slots[static_cast<size_t>(slot)];
      if (r.text == nullptr && next < texts.size()) {
        const std::vector<int32_t>& tokens = texts[next].tokens;
        const std::optional<int> found =
            machine.blocks().reserve(slot, tokens, static_cast<int>(tokens.size()), reuse);
        if (!found) continue;
        r = {&texts[next++], static_cast<size_t>(*found)};
        n_cached += *found;
      }
      if (r.text == nullptr) continue;
      const size_t left = r.text->tokens.size() - r.n_done;
      const size_t n = std::min<size_t>(left, 1 + random() % (random() % 3 == 0 ? kWindowChunk : 3));
      pieces.push_back({slot, r.n_done, std::span(r.text->tokens).subspan(r.n_done, n)});
    }
    const std::span<const float> logits = machine.step(pieces);
    size_t row = 0;
    for (const Machine::Piece& piece : pieces) {
      Running& r = slots[static_cast<size_t>(piece.slot)];
      const auto n_cols = static_cast<size_t>(n_vocab);
      for (size_t i = 0; i < piece.tokens.size(); ++i, ++row) {
        const float* expected = r.text->expected.data() + (piece.begin + i) * n_cols;
        n_changed += std::memcmp(logits.data() + row * n_cols, expected, n_cols * sizeof(float)) != 0 ? 1 : 0;
      }
      const size_t n_kept = piece.tokens.size() > 1 && random() % 4 == 0 ? 1 : piece.tokens.size();
      r.n_done += n_kept;
      if (reuse) {
        machine.blocks().commit(piece.slot, std::span(r.text->tokens).first(r.n_done));
      } else {
        machine.blocks().move_on(piece.slot, static_cast<int>(r.n_done));
      }
      if (r.n_done < r.text->tokens.size()) continue;
      machine.blocks().release(piece.slot, true);
      r = {};
      ++n_finished;
    }
  }
  return n_changed;
}

/// Texts, some of which share a beginning.
std::vector<Text> texts_for(const LongModel& model, CpuBackend& cpu) {
  std::vector<Text> texts;
  for (const auto& [n, shared, seed] : {std::array{150, 0, 1}, std::array{90, 70, 2}, std::array{33, 0, 3},
                                        std::array{200, 150, 4}, std::array{97, 80, 5}}) {
    Text text{text_of(n, seed, model.spec.n_vocab), {}};
    const std::vector<int32_t> first = text_of(shared, 1, model.spec.n_vocab);
    std::ranges::copy(first, text.tokens.begin());
    text.expected = whole(model, cpu, text.tokens);
    texts.push_back(std::move(text));
  }
  return texts;
}

void check_windows(const std::string& name, uint32_t window) {
  INFO(name << " window " << window);
  const LongModel model(name, window);
  CpuBackend cpu(2, supported_isas().front());
  const std::vector<Text> texts = texts_for(model, cpu);
  const KvBlockCounts counts = kv_block_counts(model.spec, kContext, kContexts, kWindowChunk);
  REQUIRE(counts.window.n_positions == model.spec.window());
  REQUIRE(counts.window.n_blocks < counts.n_blocks);
  std::mt19937 random(7);
  int n_cached = 0;
  {
    Machine machine(model, cpu, counts);
    CHECK(rows_changed(machine, texts, model.spec.n_vocab, false, random, n_cached) == 0);
    CHECK(machine.n_poisoned > 100);
    CHECK(n_cached == 0);
  }
  Machine machine(model, cpu, counts);
  CHECK(rows_changed(machine, texts, model.spec.n_vocab, true, random, n_cached) == 0);
  // Runs them again: what the cache has kept is reused, the rest is computed.
  CHECK(rows_changed(machine, texts, model.spec.n_vocab, true, random, n_cached) == 0);
  CHECK(n_cached > 200);
  CHECK(machine.n_poisoned > 0);
}

}  // namespace

TEST_CASE("windows: released blocks change no bit, in several slots, with and without reused prefixes") {
  const std::string name =
      GENERATE("gemma2", "gemma3", "gpt-oss", "cohere2", "phi3-long", "olmo3", "smallthinker", "exaone4",
               "exaone-moe", "mellum", "laguna", "afmoe", "step35", "mimo2", "llama4");
  const uint32_t window = GENERATE(0u, 37u);  // 0: the file's, 8
  check_windows(name, window);
}

TEST_CASE("windows: poisoning blocks that are still needed is detected") {
  const LongModel model("gemma3");
  CpuBackend cpu(1, supported_isas().front());
  const Text text{text_of(100, 1, model.spec.n_vocab), {}};
  Machine machine(model, cpu, kv_block_counts(model.spec, kContext, kContexts, kWindowChunk));
  REQUIRE(machine.blocks().reserve(0, text.tokens, 100, true));
  machine.step({{0, 0, std::span(text.tokens).first(20)}});
  // Position 20 sees 13 to 20, of which 13 to 15 are in the first block.
  machine.poison_window_block(machine.blocks().window_tables()[0]);
  const std::span<const float> logits = machine.step({{0, 20, std::span(text.tokens).subspan(20, 4)}});
  CHECK_FALSE(std::ranges::all_of(logits, [](float x) { return std::isfinite(x); }));
}

TEST_CASE("windows: a layer with a window takes memory for its window, other layers for the context") {
  const LongModel model("gemma3");
  REQUIRE(model.spec.window() == 8);
  const int n_window = static_cast<int>(
      std::ranges::count_if(model.spec.layers, [](const LayerSpec& layer) { return layer.window > 0; }));
  REQUIRE(n_window > 0);
  REQUIRE(n_window < model.spec.n_layers);
  const KvBlockCounts counts = kv_block_counts(model.spec, kContext, 3, kWindowChunk);
  CHECK(counts.n_blocks == 3 * kContext / kKvBlockTokens);
  // For each context: one block before a position, three for a step of 25 tokens that begins in the middle of
  // a block, and one for the last window of an earlier sequence.
  CHECK(counts.window.n_blocks == 3 * (1 + 3 + 1));
  const double block = 2.0 * sizeof(uint16_t) * model.spec.kv_dim() * kKvBlockTokens;
  const double expected = block * (n_window * counts.window.n_blocks +
                                   (model.spec.n_layers - n_window) * static_cast<double>(counts.n_blocks));
  CHECK(KvMemory::bytes_needed(model.spec, counts) == expected);
  CpuBackend cpu(1, supported_isas().front());
  CHECK(static_cast<double>(KvMemory(model.spec, counts, Devices(cpu)).bytes()) == expected);
  // A window that hides no position, or saves no memory, has no effect.
  CHECK_FALSE(kv_block_counts(model.spec, 8, 3, kWindowChunk).window);
  CHECK_FALSE(kv_block_counts(model.spec, 5 * kKvBlockTokens, 3, kWindowChunk).window);
  CHECK(kv_block_counts(model.spec, 5 * kKvBlockTokens + 1, 3, kWindowChunk).window);
  CHECK_FALSE(kv_block_counts(LongModel("llama").spec, kContext, 3, kWindowChunk).window);
}

// docs/predictions.md has these figures.
TEST_CASE("windows: today's models take the expected memory for keys and values") {
  struct Shape {
    int n_layers, n_kv_heads, head_dim, window, period;  // one layer of each period sees everything
  };
  const auto megabytes = [](const Shape& shape, int context, bool windows) {
    ModelSpec spec;
    spec.n_layers = shape.n_layers;
    spec.n_kv_heads = shape.n_kv_heads;
    spec.head_dim = shape.head_dim;
    for (int i = 0; i < shape.n_layers; ++i)
      spec.layers.push_back({.window = i % shape.period == shape.period - 1 ? 0 : shape.window});
    KvBlockCounts counts = kv_block_counts(spec, context, 4, 128);
    if (!windows) counts.window = {};
    const double bytes = KvMemory::bytes_needed(spec, counts);
    counts.type = KvType::kQ8;
    CHECK(KvMemory::bytes_needed(spec, counts) == bytes * 34 / 64);
    return std::lround(bytes / 1e6);
  };
  const Shape gpt_oss_20b{24, 8, 64, 128, 2}, gemma3_27b{62, 16, 128, 1024, 6};
  CHECK(megabytes(gpt_oss_20b, 8192, false) == 1611);
  CHECK(megabytes(gpt_oss_20b, 8192, true) == 845);
  CHECK(megabytes(gpt_oss_20b, 32768, false) == 6442);
  CHECK(megabytes(gpt_oss_20b, 32768, true) == 3261);
  CHECK(megabytes(gemma3_27b, 8192, false) == 16643);
  CHECK(megabytes(gemma3_27b, 8192, true) == 6419);
  CHECK(megabytes(gemma3_27b, 32768, false) == 66572);
  CHECK(megabytes(gemma3_27b, 32768, true) == 14472);
}

TEST_CASE("windows: a model whose layers all have one takes memory for no context") {
  const LongModel model("phi3-long");
  const KvBlockCounts counts = kv_block_counts(model.spec, kContext, 2, kWindowChunk);
  const KvBlockCounts longer = kv_block_counts(model.spec, 2 * kContext, 2, kWindowChunk);
  CHECK(KvMemory::bytes_needed(model.spec, counts) == KvMemory::bytes_needed(model.spec, longer));
}

TEST_CASE("windows: a loaded model reports what it keeps, and gives the bits of one that keeps everything") {
  const std::string name = GENERATE("gemma2", "gpt-oss", "phi3-long", "exaone4");
  INFO(name);
  const LongModel changed(name);
  LoadOptions options;
  options.path = changed.folder / "model.gguf";
  options.n_threads = 1;
  options.n_slots = 1;
  options.prefill_chunk = kWindowChunk;
  options.context_tokens = kContext;
  const auto model = ModelRuntime::load(options);
  CHECK(model->limits().window.n_positions == 8);
  CHECK(model->limits().window.n_blocks == 5);
  CHECK(model->limits().n_blocks == kContext / kKvBlockTokens);
  CHECK(static_cast<double>(model->placed().kv_bytes) ==
        KvMemory::bytes_needed(changed.spec, kv_block_counts(changed.spec, kContext, 1, kWindowChunk)));
  CpuBackend cpu(1, supported_isas().front());
  const std::vector<int32_t> tokens = text_of(200, 1, changed.spec.n_vocab);
  CHECK(testing::logits_of(*model, tokens, kWindowChunk) == whole(changed, cpu, tokens));
}

}  // namespace hearth::test
