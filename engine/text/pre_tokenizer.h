// Cuts text into words. Byte-level BPE merges only within a word. The key tokenizer.ggml.pre selects how to
// cut.
//
// Built at load, const and thread-safe afterward.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/split_pattern.h"

namespace hearth {

class PreTokenizer {
 public:
  /// Facts about a model that follow from its pre-tokenizer's name, as in llama.cpp.
  struct Habits {
    bool ignore_merges = false;  // encode a word that is a token as that token, regardless of merges
    bool add_bos = false;        // default of tokenizer.ggml.add_bos_token
    bool has_bos = true;         // false: the model has no begin token unless its file names one
  };

  static bool knows(std::string_view name);
  static Habits habits(std::string_view name);  // REQUIRES: knows(name)
  static std::vector<std::string_view> known_names();

  /// REQUIRES: knows(name).
  explicit PreTokenizer(std::string_view name);

  /// Cuts text into words and returns them in order; joined, they give the text again. Bytes that are not
  /// UTF-8 form separate words.
  std::vector<Piece> split(std::string_view text) const;

 private:
  std::vector<SplitPattern> stages_;
};

}  // namespace hearth
