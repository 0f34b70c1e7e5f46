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
#include "profiler/synthesis/synth_keys.h"

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
      const auto at = static_cast<size_t>(i);
      for (const SynthTensor& tensor : model.layers[model.order.empty() ? at % 2 : model.order[at]]) {
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
  add_synth_keys(writer, kind == SynthKind::kSparse, shape, options.dtype);
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
