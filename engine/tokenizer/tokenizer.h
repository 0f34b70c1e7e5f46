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

  /// text: any bytes. Bytes that are not UTF-8 are never an error; they are encoded one by one if the
  /// vocabulary has tokens for bytes. add_special: whether to add the begin and end tokens that the model
  /// requires, even if text already contains them. parse_special: whether the text of a control token
  /// ("<|im_start|>") is converted to that token. If false, this text is encoded as plain text, without
  /// control tokens. User-defined tokens are always recognized.
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special, bool parse_special) const = 0;

  /// Appends the bytes of a token. Control tokens (begin, end, <|im_start|>...) append their text only if
  /// with_special. The bytes may be only part of a character; use Detokenizer to show text.
  /// REQUIRES: 0 <= token < n_vocab().
  virtual void append_bytes(int32_t token, bool with_special, std::string& out) const = 0;

  virtual int n_vocab() const = 0;
  virtual int32_t bos() const = 0;  // bos() and eos() return -1 if the model has no such token
  virtual int32_t eos() const = 0;
  /// Tokens that end a generation: eos, eot, eom, and tokens known by name (<|im_end|>, ...). Ascending.
  virtual const std::vector<int32_t>& end_tokens() const = 0;
  /// Tokens that the model must not generate, because it was trained to read them only (Gemma 4's ends of
  /// images and sound).
  virtual const std::vector<int32_t>& suppressed_tokens() const = 0;
  virtual bool is_control(int32_t token) const = 0;
  /// The token as spelled in the vocabulary ("▁the", "Ġthe"). REQUIRES: 0 <= token < n_vocab(). The view is
  /// valid as long as this object exists.
  virtual std::string_view spelling(int32_t token) const = 0;
  virtual const FimTokens& fim() const = 0;
  /// Whether decoding drops a leading space of the first word. SentencePiece puts this space before the text
  /// when it encodes; WordPiece puts one before each word when it decodes.
  virtual bool strips_leading_space() const = 0;

  /// Decodes a whole sequence. The result equals that of a Detokenizer.
  std::string decode(const std::vector<int32_t>& tokens, bool with_special) const;
};

/// Decodes one sequence token by token. Emits only whole UTF-8 characters. Replaces bytes that can never
/// become a character by U+FFFD, one for each maximal subpart in Unicode's sense. For one thread at a time.
/// The tokenizer must outlive this object.
class Detokenizer {
 public:
  /// at_start: whether the first token begins the text. If so, and if strips_leading_space(), a leading space
  /// of the text is dropped. Pass false to continue after a prompt. shown: the ids, ascending, of control
  /// tokens whose text is emitted even if with_special is false.
  Detokenizer(const Tokenizer& tokenizer, bool at_start, bool with_special = false,
              std::vector<int32_t> shown = {});
  /// Returns the text that this token completes. May be empty while a character is incomplete.
  std::string push(int32_t token);
  /// Call at the end of the text. Returns U+FFFD if a character is still incomplete, else an empty string.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool strip_space_;
  bool with_special_;
  std::vector<int32_t> shown_;
  std::string pending_;
};

}  // namespace hearth
