// Describes a family of Hugging Face models by a row of facts: the GGUF architecture of its files, the names
// of its tensors in both formats, how their rows are rearranged, and the keys that come from its config.json.
//
// To add a family, add a row to family.cpp. Names, shapes and keys of GGUF are those that llama.cpp's
// converters write, because existing files have them; tests/data/arch has a model of each family.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace hearth::convert {

/// Describes how the rows of a stored tensor become the rows of the file's tensor. If a rule names two
/// tensors ("a|b"), the first tensor gets the first half of the rows.
enum class Rearrange : uint8_t {
  kNone,
  kSkip,         // not in the file
  kNumber,       // a number of each layer; becomes an array under the key Rule::to
  kPairs,        // q or k: interleaves the first and the second half of each head's rows, for RoPE
  kTurn,         // transposes [inputs, outputs] to [outputs, inputs]
  kSplit,        // the stored tensor holds two tensors, one below the other (in each expert)
  kSplitTurned,  // the stored tensor [inputs, outputs] holds two tensors in alternating columns (gpt-oss)
  // Experts of Qwen3-VL, as published. transformers 5 saves tensors in the forms kSplit and kNone under the
  // same names; the model's width tells which form a tensor has.
  kSplitBeside,   // [inputs, outputs] holds two tensors, one beside the other
  kTurnDown,      // transposes [inputs, outputs]
  kSplitColumns,  // biases whose elements alternate (gpt-oss)
  kPart,  // becomes one part of a tensor; the part's index is the number at '#' in the name, or Rule::part
  kGroupsToParts,  // reorders q, k, v of each group of heads (Falcon) to all q, all k, all v
  kHeadsToParts,   // reorders q, k, v of each head (GPT-NeoX) to all q, all k, all v
  kLatentParts,    // kv_b: the first tensor gets each head's transposed keys, the second each head's values
  kMxfp4,          // MXFP4 blocks, whose scales are in another tensor
  kMxfp4Split,     // two MXFP4 tensors with alternating rows
  kFromPosition,   // position table without the rows before a text's first position, which are for padding
  kTaps,           // a convolution's filters [channels, 1, taps] lose the dimension of 1
  kKeptTaps,       // the filters of Kimi Linear keep it, and get another one in front
  kColumn,         // a vector of n numbers becomes n rows of one
  kGroups,         // a vector becomes a row for each of Mamba-2's groups of heads
  // Gated delta nets. In checkpoints, the value heads of one key head are neighbors. In files of Qwen3.5,
  // neighboring value heads have neighboring key heads.
  kValueHeads,    // reorders the value heads' rows, which are all rows, or those behind the rows of q and k
  kValueColumns,  // reorders the value heads' columns
  kKeyGroups,  // splits q, k, v, z of each key head: the first tensor gets all q, k and v, the second all z
};

/// Maps a tensor's name in the checkpoint (`from`) to its name in the GGUF file (`to`). `from` omits
/// ".weight" or ".bias" and, for tensors of layers, the layer's prefix. A '#' in `from` matches a number.
/// `to` omits "blk.N.". A `to` with a dot includes the ending ".weight" or ".bias", unless it begins with
/// "nextn.", "cls." or "indexer."; all others omit this ending. If `to` ends with a dot, the tensor's name
/// has no such ending.
struct Rule {
  std::string_view from, to;
  Rearrange how = Rearrange::kNone;
  int part = -1;
};

class KeyList;
class Config;

/// A function that adds the keys of one family, after the common keys (but see Family::own_keys).
using FamilyKeys = void (*)(const Config& config, KeyList& keys);
/// The rows of a tensor up to end_row, which are multiplied by this factor.
struct RowFactor {
  int64_t end_row = INT64_MAX;
  float factor = 1.0f;
};
/// A function that returns the factors of a tensor of the file, whose name it gets without ".weight" and
/// without "blk.N."; the ranges of rows follow each other.
using FamilyFactors = std::vector<RowFactor> (*)(const Config& config, std::string_view name);
/// A function that tells whether a model of the family's classes belongs to this family.
using FamilyTest = bool (*)(const Config& config);

struct Family {
  std::string_view classes;           // names in config.json's "architectures", separated by spaces
  std::string_view architecture;      // general.architecture
  std::string_view activations = "";  // activations in config.json of this architecture, separated by spaces
  std::span<const Rule> rules = {};   // tried first
  std::span<const Rule> shared = {};  // tried after `rules`
  FamilyKeys keys = nullptr;
  bool pairs = false;               // rows of q and k are rearranged so that RoPE's pairs are adjacent
  bool norms_plus_one = false;      // GGUF files store norm weights w as 1 + w
  bool own_keys = false;            // `keys` adds all keys; the common keys are not added
  bool rope_factors = false;        // Llama 3's frequency scaling becomes the tensor rope_freqs
  bool dense_modules = false;       // the file has the dense layers of sentence-transformers
  bool keeps_next_layers = false;   // the file keeps the extra layers that predict later tokens
  std::string_view pre = "";        // preferred names of the pre-tokenizer, separated by spaces
  std::string_view defaults = "";   // JSON: the class's values for fields that config.json lacks
  FamilyFactors factors = nullptr;  // null: tensors are not multiplied
  FamilyTest applies = nullptr;     // for classes of several families; null: always
};

std::span<const Family> families();

/// Returns the first family that contains this class and applies to the model, or null if there is none.
const Family* find_family(std::string_view class_name, const Config& config);

/// Returns whether `word` is one of `words`, which are separated by spaces.
bool is_one_of(std::string_view word, std::string_view words);

}  // namespace hearth::convert
