// Converts text to token ids and back, as the model file specifies: SentencePiece-style ("llama"), byte-level
// BPE ("gpt2"), BPE over characters ("gemma4"), WordPiece ("bert"), unigram ("t5").
//
// Built once at load from the file's tokenizer.ggml.* keys; const and thread-safe after that.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_file.h"
#include "engine/tokenizer/fill_in_middle.h"

namespace hearth {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Throws ModelFileError; the message names an unknown tokenizer or pre-tokenizer, or the damaged key.
  static std::unique_ptr<const Tokenizer> from_model(const ModelFile& file);

  /// text: any bytes. Bytes that are not UTF-8 are encoded one by one if the vocabulary can; they are never
  /// an error. add_special: adds the begin (and end) token if the model requires it, whether or not text has
  /// one. parse_special: the text of control tokens ("<|im_start|>") becomes that token; false treats it as
  /// plain text, which never gives a control token. User-defined tokens are always recognized.
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special, bool parse_special) const = 0;

  /// Appends the bytes of a token. Control tokens (begin, end, <|im_start|>...) append their text only if
  /// with_special. Bytes may be part of a character: use Detokenizer to show them.
  /// REQUIRES: 0 <= token < n_vocab().
  virtual void append_bytes(int32_t token, bool with_special, std::string& out) const = 0;

  virtual int n_vocab() const = 0;
  virtual int32_t bos() const = 0;  // -1 if the model has none; likewise eos()
  virtual int32_t eos() const = 0;
  /// Tokens that end a generation: eos, eot, eom and those known by name (<|im_end|>, ...). Ascending.
  virtual const std::vector<int32_t>& end_tokens() const = 0;
  virtual bool is_control(int32_t token) const = 0;
  /// The token as spelled in the vocabulary ("▁the", "Ġthe"). REQUIRES: 0 <= token < n_vocab(). Valid as long
  /// as this object.
  virtual std::string_view spelling(int32_t token) const = 0;
  virtual const FimTokens& fim() const = 0;
  /// Whether decoding drops a leading space of the first word (the space prefix; WordPiece's word start).
  virtual bool strips_leading_space() const = 0;

  /// Decodes a whole sequence, with the Detokenizer's result.
  std::string decode(const std::vector<int32_t>& tokens, bool with_special) const;
};

/// Incremental decoding of one sequence. Emits only whole UTF-8 characters; bytes that can never become one
/// are replaced by U+FFFD, one for each maximal subpart. One thread. The tokenizer must outlive it.
class Detokenizer {
 public:
  /// at_start: the first token begins the text, so a space prefix is stripped if the model does that; false
  /// when continuing after a prompt. shown: control tokens whose text is emitted nevertheless, ascending.
  Detokenizer(const Tokenizer& tokenizer, bool at_start, bool with_special = false,
              std::vector<int32_t> shown = {});
  /// Returns the text that this token completes; may be empty while a character is incomplete.
  std::string push(int32_t token);
  /// Returns the rest at the end of the text: U+FFFD for an incomplete character, else empty.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool strip_space_;
  bool with_special_;
  std::vector<int32_t> shown_;
  std::string pending_;
};

}  // namespace hearth
