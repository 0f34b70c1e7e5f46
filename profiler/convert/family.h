// Describes a family of Hugging Face models by a row of facts: the architecture of its files, the names of
// its tensors in both formats, how their rows are rearranged, and the keys that come from its config.json.
//
// To add a family, add a row to family.cpp. Names, shapes and keys of GGUF are those that llama.cpp's
// converters write, because existing files have them; tests/data/arch has a model of each family.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace hearth::convert {

/// How the rows of a stored tensor become the rows of the file. If a rule names two tensors ("a|b"), the
/// first gets the first half.
enum class Rearrange : uint8_t {
  kNone,
  kSkip,           // not in the file
  kPairs,          // rows of q or k: each head's halves become adjacent pairs, for RoPE
  kTurn,           // transposes [inputs, outputs] to [outputs, inputs]
  kSplit,          // two tensors, one under the other (in each expert)
  kSplitTurned,    // [inputs, outputs] with the columns of two tensors alternating (gpt-oss)
  kSplitColumns,   // biases whose elements alternate (gpt-oss)
  kPart,           // one of several that become one; its index is '#' in the name, or Rule::part
  kGroupsToParts,  // q, k, v of groups of heads (Falcon): all q, all k, all v
  kHeadsToParts,   // q, k, v of each head (GPT-NeoX): all q, all k, all v
  kLatentParts,    // kv_b: each head's keys, transposed | each head's values
  kMxfp4,          // MXFP4 blocks; the scales are another tensor
  kMxfp4Split,     // two MXFP4 tensors with alternating rows
  kFromPosition,   // learned positions, without the rows before a text's first position
};

/// `from` is the name within a layer (or of a tensor outside layers) without ".weight" or ".bias"; '#' stands
/// for a number. `to` is GGUF's name without "blk.N."; if it has a dot, it includes "weight" or "bias".
struct Rule {
  std::string_view from, to;
  Rearrange how = Rearrange::kNone;
  int part = -1;
};

class KeyList;
class Config;

/// Adds the keys of one family after the common ones.
using FamilyKeys = void (*)(const Config& config, KeyList& keys);

struct Family {
  std::string_view classes;           // names in config.json's "architectures", separated by spaces
  std::string_view architecture;      // general.architecture
  std::string_view activations = "";  // activations in config.json that it implies, separated by spaces
  std::span<const Rule> rules = {};   // tried first
  std::span<const Rule> shared = {};  // then these
  FamilyKeys keys = nullptr;
  bool pairs = false;              // q and k are rearranged to adjacent pairs
  bool norms_plus_one = false;     // files hold 1 + w for norms' weights w
  bool own_keys = false;           // only the keys that `keys` adds, without the common ones
  bool rope_factors = false;       // Llama 3's scaling of frequencies becomes the tensor rope_freqs
  bool keeps_next_layers = false;  // the file keeps layers that predict further tokens
  std::string_view pre = "";       // preferred names of the pre-tokenizer, separated by spaces
  std::string_view defaults = "";  // JSON: the class's values for fields that config.json lacks
};

std::span<const Family> families();

/// The family that has this class, or null if there is none.
const Family* find_family(std::string_view class_name);

/// Whether `word` is one of `words`, which are separated by spaces.
bool is_one_of(std::string_view word, std::string_view words);

}  // namespace hearth::convert
