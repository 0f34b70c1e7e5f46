// Makes the vocabulary of synthetic models, and writes their files.
#include "profiler/synthesis/synth_file.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/model/gguf/writer.h"
#include "profiler/synthesis/synth_mixture.h"

namespace hearth {
namespace {

// GGUF's token types.
constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6;
// U+2581, with which SentencePiece marks the beginning of a word
constexpr std::string_view kWordBegin = "\xe2\x96\x81";

/// Returns all 100 syllables that consist of one of twenty consonants and one of five vowels.
std::vector<std::string> syllables() {
  constexpr std::string_view kConsonants = "bcdfghjklmnpqrstvwyz", kVowels = "aeiou";
  std::vector<std::string> all;
  for (const char consonant : kConsonants) {
    for (const char vowel : kVowels) all.push_back({consonant, vowel});
  }
  return all;
}

}  // namespace

SynthVocabulary make_synth_vocabulary(int n) {
  assert(n >= kMinSynthVocabulary && n <= kMaxSynthVocabulary);
  const size_t size = static_cast<size_t>(n);
  SynthVocabulary vocabulary;
  const auto add = [&](std::string piece, float score, int32_t type) {
    if (vocabulary.pieces.size() == size) return;
    vocabulary.pieces.push_back(std::move(piece));
    vocabulary.scores.push_back(score);
    vocabulary.types.push_back(type);
  };
  add("<unk>", 0.0f, kUnknown);
  add("<s>", 0.0f, kControl);
  add("</s>", 0.0f, kControl);
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", byte);
    add(text, 0.0f, kByte);
  }
  // Adds a piece. Except for single characters, each piece joins two earlier pieces. The tokenizer merges
  // earlier pieces first, because they have higher scores.
  const auto add_piece = [&](std::string piece) {
    const size_t rank = vocabulary.pieces.size() - kSynthFirstPiece;
    add(std::move(piece), -static_cast<float>(rank), kNormal);
  };
  add_piece(std::string(kWordBegin));
  for (char c = '!'; c <= '~'; ++c) add_piece({c});
  const std::vector<std::string> units = syllables();
  std::vector<std::string> words = units;
  while (vocabulary.pieces.size() < size) {
    for (const std::string& word : words) add_piece(word);
    for (const std::string& word : words) add_piece(std::string(kWordBegin) + word);
    std::vector<std::string> longer;
    for (const std::string& word : words) {
      if (longer.size() >= size) break;  // enough for the entries that are left
      for (const std::string& unit : units) longer.push_back(word + unit);
    }
    words = std::move(longer);
  }
  return vocabulary;
}

namespace {

/// Writes keys of one architecture.
class KeyWriter {
 public:
  KeyWriter(gguf::Writer& writer, const ModelShape& shape)
      : writer_(writer), shape_(shape), prefix_(std::string(shape.architecture) + ".") {}

  void number(const char* name, int value) { writer_.key(prefix_ + name, static_cast<uint32_t>(value)); }
  void real(const char* name, double value) { writer_.key(prefix_ + name, static_cast<float>(value)); }
  void text(const char* name, const char* value) { writer_.key(prefix_ + name, value); }
  bool is(std::string_view architecture) const { return shape_.architecture == architecture; }

  /// Adds the keys that all files of the architecture have.
  void add_sizes() {
    number("context_length", shape_.context_tokens);
    number("embedding_length", shape_.d_model);
    number("block_count", shape_.n_layers);
    number("feed_forward_length", shape_.d_ff);
    number("attention.head_count", shape_.n_heads);
    number("attention.head_count_kv", shape_.n_kv_heads);
    if (shape_.d_head > 0) {
      number("attention.key_length", shape_.d_head);
      number("attention.value_length", shape_.d_head);
    }
    if (shape_.window > 0) number("attention.sliding_window", shape_.window);
    const bool layer_norm = is("opt") || is("falcon");
    // Values from the families' own configurations.
    const double eps = is("qwen3moe") || is("gemma3") || is("smallthinker") ? 1e-6 : 1e-5;
    real(layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", eps);
    if (shape_.predictor_rank > 0 || is("llama")) number("vocab_size", shape_.n_vocab);
  }

  void add_rope() {
    if (shape_.predictor_rank > 0 ? !is("opt") : is("llama") || is("phi3")) {
      number("rope.dimension_count", shape_.head_dim());
    }
    if (shape_.rope_base > 0) real("rope.freq_base", shape_.rope_base);
    if (is("phi3")) number("rope.scaling.original_context_length", shape_.context_tokens);
    if (is("gemma3")) {
      text("rope.scaling.type", "linear");
      real("rope.scaling.factor", 8.0);
    }
    if (is("gpt-oss")) {
      text("rope.scaling.type", "yarn");
      real("rope.scaling.factor", kOssRopeFactor);
      number("rope.scaling.original_context_length", kOssOriginalContext);
    }
  }

  void add_experts() {
    if (!shape_.has_experts()) return;
    number("expert_count", shape_.n_experts);
    number("expert_used_count", shape_.n_used);
    if (!is("llama")) number("expert_feed_forward_length", shape_.d_expert);
    if (is("smallthinker")) number("expert_gating_func", 2);  // sigmoid
  }

 private:
  gguf::Writer& writer_;
  const ModelShape& shape_;
  std::string prefix_;
};

void add_keys(gguf::Writer& writer, SynthKind kind, const ModelShape& shape, DType dtype) {
  writer.key("general.architecture", shape.architecture);
  // The name must not contain "phi3", because llama.cpp would then look for Phi 3's own tokens.
  writer.key("general.name",
             "synthetic-" + (shape.architecture == "phi3" ? "phi-mini" : std::string(shape.name)));
  writer.key("general.file_type", gguf::file_type_of(shape.mxfp4_experts ? DType::kMXFP4 : dtype));
  KeyWriter keys(writer, shape);
  keys.add_sizes();
  keys.add_rope();
  keys.add_experts();
  if (kind == SynthKind::kSparse) {
    writer.key("powerinfer.sparse_threshold", 0.0f);
  } else if (shape.predictor_rank > 0) {
    writer.key("hearth.ffn_activation", keys.is("bamboo") ? "drelu" : "relu");
  }
}

void add_vocabulary(gguf::Writer& writer, int n_vocab) {
  const SynthVocabulary vocabulary = make_synth_vocabulary(n_vocab);
  writer.key("tokenizer.ggml.model", "llama");
  writer.array("tokenizer.ggml.tokens", std::span<const std::string>(vocabulary.pieces));
  writer.array("tokenizer.ggml.scores", std::span<const float>(vocabulary.scores));
  writer.array("tokenizer.ggml.token_type", std::span<const int32_t>(vocabulary.types));
  writer.key("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(kSynthBegin));
  writer.key("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(kSynthEnd));
  writer.key("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(kSynthUnknown));
}

bool begins_with(const SynthTensor& tensor, std::string_view start) {
  return std::string_view(tensor.name).starts_with(start);
}

bool is_predictor(const SynthTensor& tensor) { return begins_with(tensor, "fc"); }

/// Calls visit(name, tensor) for all tensors, in the order of converted files, with predictors last.
template <class Visit>
void visit_tensors(const SynthModel& model, SynthKind kind, int n_layers, const Visit& visit) {
  const char* other_kinds = kind == SynthKind::kSparse ? "ffn_down." : "ffn_down_t.";
  const auto visit_layers = [&](bool predictors) {
    for (int i = 0; i < n_layers; ++i) {
      for (const SynthTensor& tensor : model.layers[static_cast<size_t>(i % 2)]) {
        if (is_predictor(tensor) != predictors || begins_with(tensor, other_kinds)) continue;
        const auto special = std::ranges::find_if(model.special, [&](const SynthModel::OfLayer& one) {
          return one.layer == i && one.tensor.name == tensor.name;
        });
        visit("blk." + std::to_string(i) + "." + tensor.name,
              special == model.special.end() ? tensor : special->tensor);
      }
    }
  };
  for (const SynthTensor& tensor : model.before) visit(tensor.name, tensor);
  visit_layers(false);
  for (const SynthTensor& tensor : model.after) visit(tensor.name, tensor);
  if (kind == SynthKind::kSparse) visit_layers(true);
}

}  // namespace

void write_synth_file(const std::filesystem::path& path, SynthKind kind, const SynthOptions& options,
                      const SynthModel& model, bool replace, const std::function<void(uint64_t)>& progress) {
  const ModelShape& shape = options.shape;
  gguf::Writer writer(path, {.magic = kind == SynthKind::kSparse ? "PWRI" : "GGUF", .replace = replace});
  add_keys(writer, kind, shape, options.dtype);
  add_vocabulary(writer, shape.n_vocab);
  visit_tensors(model, kind, shape.n_layers, [&](const std::string& name, const SynthTensor& tensor) {
    writer.tensor(name, tensor.dtype, tensor.shape);
  });
  writer.begin_data();
  uint64_t n_written = 0;
  visit_tensors(model, kind, shape.n_layers, [&](const std::string&, const SynthTensor& tensor) {
    // Writing a piece takes some 50 ms on a fast disk, which is also the longest delay before an interrupt
    // takes effect.
    constexpr size_t kPiece = size_t{32} << 20;
    std::span<const std::byte> rest = tensor.bytes;
    while (!rest.empty()) {
      const size_t n = std::min(kPiece, rest.size());
      writer.write(rest.first(n));
      rest = rest.subspan(n);
      n_written += n;
      progress(n_written);
    }
  });
  writer.commit();
}

}  // namespace hearth
