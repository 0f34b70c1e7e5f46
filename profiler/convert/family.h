// What a family of Hugging Face models is, as a row of facts: which architecture its files have, what its tensors are
// called in both worlds, how their rows are rearranged, and which keys come from its config.json.
//
// Adding a family is a row in family.cpp. The names, shapes and keys on GGUF's side are those that llama.cpp's converters
// write, because that is what files have; tests/data/arch has a model of each.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace hearth::convert {

/// How a tensor's rows become those of the file. Where a rule names two tensors ("a|b"), the first gets the first half.
enum class Rearrange : uint8_t {
  kNone,
  kSkip,           // not in the file
  kPairs,          // rows of q or k: each head's halves become adjacent pairs, for RoPE
  kTurn,           // inputs by outputs becomes outputs by inputs
  kSplit,          // two tensors, one under the other (in each expert)
  kSplitTurned,    // of inputs by outputs, two tensors whose columns alternate (gpt-oss)
  kSplitColumns,   // biases whose elements alternate (gpt-oss)
  kPart,           // one of several that become one: '#' of the name is its place, or Rule::part
  kGroupsToParts,  // q, k, v of groups of heads (Falcon): all q, all k, all v
  kHeadsToParts,   // q, k, v of each head (GPT-NeoX): all q, all k, all v
  kLatentParts,    // kv_b: each head's keys, transposed | each head's values
  kMxfp4,          // blocks of MXFP4, whose scales are a tensor beside
  kMxfp4Split,     // two of them, whose rows alternate
  kFromPosition,   // learned positions from the first that a text has
};

/// `from` is the name within a layer (or of an outer tensor) without ".weight" or ".bias"; '#' stands for a number. `to` is
/// GGUF's without "blk.N."; with a dot in it it says weight or bias itself.
struct Rule {
  std::string_view from, to;
  Rearrange how = Rearrange::kNone;
  int part = -1;
};

class KeyList;
class Config;

/// Adds the keys of one family behind the common ones.
using FamilyKeys = void (*)(const Config& config, KeyList& keys);

struct Family {
  std::string_view classes;       // of config.json's "architectures", separated by spaces
  std::string_view architecture;  // general.architecture
  std::string_view activations =
      "";                            // those of config.json that are this architecture's, separated by spaces
  std::span<const Rule> rules = {};  // tried first
  std::span<const Rule> shared = {};  // then these
  FamilyKeys keys = nullptr;
  bool pairs = false;              // q and k are rearranged to adjacent pairs
  bool norms_plus_one = false;     // files hold 1 + w of what norms have learned
  bool own_keys = false;           // nothing but what `keys` adds: no common list
  bool rope_factors = false;       // Llama 3's scaling of frequencies becomes the tensor rope_freqs
  bool keeps_next_layers = false;  // layers that predict further tokens are in the file
  std::string_view pre = "";       // preferred names of the pre-tokenizer, separated by spaces
  std::string_view defaults = "";  // JSON: what the class has where config.json is silent
};

std::span<const Family> families();

/// Null if no family has this class.
const Family* find_family(std::string_view class_name);

/// Whether `word` is one of `words`, which are separated by spaces.
bool is_one_of(std::string_view word, std::string_view words);

}  // namespace hearth::convert
