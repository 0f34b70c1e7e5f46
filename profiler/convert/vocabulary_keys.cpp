// Converts the tokenizer's files to GGUF keys.
#include "profiler/convert/vocabulary_keys.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "engine/text/pre_tokenizer.h"
#include "kernels/base/base64.h"
#include "kernels/base/file_error.h"
#include "profiler/convert/pre_tokenizer_name.h"
#include "profiler/convert/sentencepiece_file.h"

namespace hearth::convert {
namespace {

using nlohmann::json;

// GGUF's numbers for token types.
constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;
constexpr std::string_view kSpaceSign = "\xE2\x96\x81";  // U+2581

struct Tokens {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<int32_t> types;

  explicit Tokens(size_t n) : scores(n, -10000.0f), types(n, kUnused) {
    for (size_t i = 0; i < n; ++i) texts.push_back("[PAD" + std::to_string(i) + "]");
  }
  void put(size_t id, std::string text, float score, int32_t type) {
    texts[id] = std::move(text);
    scores[id] = score;
    types[id] = type;
  }
};

/// Returns the text with every occurrence of `what` replaced by `by`. Takes linear time, because a token can
/// be a megabyte long.
std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  for (size_t at; (at = text.find(what)) != std::string_view::npos; text.remove_prefix(at + what.size()))
    out.append(text.substr(0, at)).append(by);
  return out.append(text);
}

std::string with_spaces(std::string_view text) { return replaced(text, kSpaceSign, " "); }

/// Recognizes the special tokens that models contain without marking them as special.
bool looks_special(std::string_view text) {
  constexpr std::string_view kNames[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
  constexpr std::pair<std::string_view, std::string_view> kFrames[] = {
      {"<|", "|>"}, {"<\xEF\xBD\x9C", "\xEF\xBD\x9C>"}, {"<unused", ">"}};
  return std::find(std::begin(kNames), std::end(kNames), text) != std::end(kNames) ||
         std::any_of(std::begin(kFrames), std::end(kFrames), [&](const auto& frame) {
           return text.starts_with(frame.first) && text.ends_with(frame.second);
         });
}

bool names_byte(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
}

const json& member(const json& object, const char* name) {
  static const json kMissing;
  if (!object.is_object()) return kMissing;
  const auto found = object.find(name);
  return found == object.end() ? kMissing : *found;
}

std::string text_of(const json& value) { return value.is_string() ? value.get<std::string>() : ""; }
bool is_true(const json& value) { return value.is_boolean() && value.get<bool>(); }

class VocabularyReader {
 public:
  VocabularyReader(const Checkpoint& checkpoint, const Config& config, const Family& family, int64_t n_vocab,
                   std::string pre, KeyList& keys)
      : checkpoint_(checkpoint),
        config_(config),
        family_(family),
        pre_(std::move(pre)),
        keys_(keys),
        tokens_(static_cast<size_t>(n_vocab)) {
    settings_ = checkpoint.read_json("tokenizer_config.json");
    tokenizer_ = checkpoint.read_json("tokenizer.json");
  }

  void read() {
    const std::string pieces = checkpoint_.read_file("tokenizer.model");
    const std::string words = checkpoint_.read_file("vocab.txt");
    const std::string model = text_of(member(member(tokenizer_, "model"), "type"));
    const bool encoder = is_one_of(family_.architecture, "bert nomic-bert jina-bert-v2 jina-bert-v3");
    if (family_.architecture == "gemma4" && model == "BPE" && !is_byte_level()) {
      read_character_merges();
    } else if (!pieces.empty() && !encoder) {
      read_pieces(pieces);
    } else if (model == "BPE" && is_byte_level()) {
      read_byte_level();
    } else if (model == "BPE") {
      read_character_bpe();
    } else if (model == "WordPiece") {
      read_word_pieces();
    } else if (model == "Unigram") {
      read_unigram();
    } else if (!words.empty() && encoder) {
      read_word_list(words);
    } else if (tokenizer_.is_null() && !checkpoint_.read_file("merges.txt").empty()) {
      read_merges_file();
    } else {
      fail(tokenizer_.is_null() ? "it has no tokenizer.json, tokenizer.model or vocab.txt, expected the "
                                  "tokenizer's files; download "
                                  "them, or save them with transformers' save_pretrained"
                                : "tokenizer.json has a model of type " + file_error::quoted(model) +
                                      ", expected BPE, WordPiece or Unigram");
    }
    add_roles();
    add_template();
  }

 private:
  [[noreturn]] void fail(const std::string& sentence) const { checkpoint_.fail(sentence); }

  // ---- kinds of vocabularies ----
  bool is_byte_level() const {
    const std::string parts =
        member(tokenizer_, "pre_tokenizer").dump() + member(tokenizer_, "decoder").dump();
    return parts.find("\"ByteLevel\"") != std::string::npos;
  }

  /// Returns the texts and ids of tokenizer.json's vocabulary, a JSON object that maps texts to ids.
  std::vector<std::pair<std::string, size_t>> named_ids(const json& vocabulary) const {
    if (!vocabulary.is_object())
      fail("tokenizer.json has no vocabulary, expected names and numbers of tokens; download it again");
    std::vector<std::pair<std::string, size_t>> ids;
    for (const auto& [text, id] : vocabulary.items()) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= tokens_.texts.size()) {
        fail("tokenizer.json numbers the token " + file_error::quoted(text) + " " +
             file_error::quoted(id.dump()) + ", expected less than " + std::to_string(tokens_.texts.size()) +
             ", the rows of the embedding; the tokenizer is another model's");
      }
      ids.emplace_back(text, id.get<size_t>());
    }
    return ids;
  }

  void read_byte_level() {
    const json& model = member(tokenizer_, "model");
    for (auto& [text, id] : named_ids(member(model, "vocab"))) tokens_.put(id, text, 0.0f, kNormal);
    put_added(0.0f);
    add_kind("gpt2", pre_.empty() ? found_pre(is_true(member(model, "ignore_merges"))) : pre_);
    add_tokens(false);
    keys_.set("tokenizer.ggml.merges", merges(member(model, "merges")));
    add_ends_of_template();
  }

  std::string found_pre(bool ignore_merges) const {
    const std::string name =
        name_of_stages(split_stages(member(tokenizer_, "pre_tokenizer")), family_.pre, ignore_merges);
    if (name.empty()) {
      fail(
          "tokenizer.json cuts text into words like no pre-tokenizer that this version knows; give the name "
          "of one that cuts "
          "alike with --pre (docs/models.md lists them)");
    }
    return name;
  }

  /// Reads GPT-2's format, which has the vocabulary and the merges in two files and does not name a
  /// pre-tokenizer.
  void read_merges_file() {
    for (auto& [text, id] : named_ids(checkpoint_.read_json("vocab.json")))
      tokens_.put(id, text, 0.0f, kNormal);
    put_added(0.0f);
    const std::string first(family_.pre.substr(0, family_.pre.find(' ')));
    add_kind("gpt2", !pre_.empty() ? pre_ : first.empty() ? "gpt-2" : first);
    add_tokens(false);
    std::vector<std::string> lines;
    const std::string text = checkpoint_.read_file("merges.txt");
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty() && !(at == 0 && line.starts_with("#version"))) lines.push_back(line);
      at = end + 1;
    }
    keys_.set("tokenizer.ggml.merges", lines);
  }

  std::vector<std::string> merges(const json& given) const {
    std::vector<std::string> out;
    if (!given.is_array()) fail("tokenizer.json has no merges, expected a list; download it again");
    for (const json& one : given) {
      if (one.is_string()) {
        out.push_back(one.get<std::string>());
      } else if (one.is_array() && one.size() == 2 && one[0].is_string() && one[1].is_string()) {
        // A space separates the two tokens of a merge, so spaces within a token are replaced.
        const auto spaceless = [](const json& token) {
          return replaced(token.get_ref<const std::string&>(), " ", "\xC4\xA0");
        };
        out.push_back(spaceless(one[0]) + " " + spaceless(one[1]));
      } else {
        fail("tokenizer.json has a merge " + file_error::quoted(one.dump()) +
             ", expected two tokens; download it again");
      }
    }
    return out;
  }

  /// Reads SentencePiece's BPE from tokenizer.json. This file has no scores, so tokens get scores from the
  /// order of the merges: earlier merges get higher scores.
  void read_character_bpe() {
    const json& model = member(tokenizer_, "model");
    if (!is_true(member(model, "byte_fallback"))) {
      fail(
          "tokenizer.json has BPE over characters without byte fallback, expected byte-level BPE or "
          "SentencePiece's");
    }
    std::unordered_map<std::string, size_t> ids;
    for (auto& [text, id] : named_ids(member(model, "vocab"))) {
      tokens_.put(id, text, 0.0f, names_byte(text) ? kByte : kNormal);
      ids.emplace(text, id);
    }
    float score = 0.0f;
    std::vector<bool> scored(tokens_.texts.size());
    for (const json& one : member(model, "merges")) {
      std::string text;
      if (one.is_string()) {
        text = one.get<std::string>();
        const size_t space = text.find(' ');
        if (space != std::string::npos) text.erase(space, 1);
      } else if (one.is_array() && one.size() == 2 && one[0].is_string() && one[1].is_string()) {
        text = one[0].get<std::string>() + one[1].get<std::string>();
      }
      const auto found = ids.find(text);
      if (found == ids.end() || scored[found->second]) continue;
      scored[found->second] = true;
      tokens_.scores[found->second] = score;
      score -= 1.0f;
    }
    // Single characters do not result from merges, so they get the lowest score, as in SentencePiece's files.
    for (const auto& [text, id] : ids) {
      if (!scored[id] && tokens_.types[id] == kNormal) tokens_.scores[id] = score;
    }
    const auto unknown = ids.find(text_of(member(model, "unk_token")));
    if (unknown != ids.end()) tokens_.types[unknown->second] = kUnknown;
    put_added(-1000.0f);
    add_kind("llama", "default");
    add_tokens(true);
    const std::string normalizer =
        member(tokenizer_, "normalizer").dump() + member(tokenizer_, "pre_tokenizer").dump();
    const bool prefix = normalizer.find("\"Prepend\"") != std::string::npos ||
                        normalizer.find("\"prepend_scheme\":\"first\"") != std::string::npos ||
                        normalizer.find("\"prepend_scheme\":\"always\"") != std::string::npos;
    if (!prefix) keys_.set("tokenizer.ggml.add_space_prefix", false);
    add_ends_of_template();
  }

  /// Reads BPE over characters whose merges the file keeps.
  void read_character_merges() {
    const json& model = member(tokenizer_, "model");
    for (auto& [text, id] : named_ids(member(model, "vocab")))
      tokens_.put(id, text, 0.0f, names_byte(text) ? kByte : kNormal);
    put_added(0.0f);
    // These tokens are part of an answer's text, so that calls and thinking can be read from it. Their types
    // are those in llama.cpp's files.
    constexpr std::string_view kVisible[] = {"<|channel>",   "<channel|>",       "<|tool_call>",
                                             "<tool_call|>", "<|tool_response>", "<tool_response|>",
                                             "<|\"|>"};
    for (size_t id = 0; id < tokens_.texts.size(); ++id) {
      if (std::find(std::begin(kVisible), std::end(kVisible), tokens_.texts[id]) != std::end(kVisible))
        tokens_.types[id] = kUserDefined;
    }
    add_kind("gemma4", "default");
    add_tokens(true);
    keys_.set("tokenizer.ggml.merges", merges(member(model, "merges")));
    keys_.set("tokenizer.ggml.add_space_prefix", false);
    add_ends_of_template();
    keys_.set("tokenizer.ggml.add_bos_token", true);
  }

  /// Reads tokenizer.model.
  void read_pieces(const std::string& bytes) {
    const SentencePieceFile file = read_sentencepiece_file(
        bytes, file_error::file_label((checkpoint_.folder() / "tokenizer.model").string()));
    for (size_t id = 0; id < std::min(file.pieces.size(), tokens_.texts.size()); ++id) {
      const SentencePieceFile::Piece& piece = file.pieces[id];
      if (std::isnan(piece.score))
        fail("tokenizer.model has a score that is not a number; download it again");
      // Mark user-defined pieces as normal, as llama.cpp's converter and most files do. The checkpoint's JSON
      // files may list some of these pieces as added tokens; put_added() then changes their types again.
      tokens_.put(id, piece.text, piece.score, piece.type == kUserDefined ? kNormal : piece.type);
    }
    put_added(-1000.0f);
    add_kind("llama", "default");
    add_tokens(true);
    const json& prefix = member(settings_, "add_prefix_space");
    if (prefix.is_boolean()) {
      keys_.set("tokenizer.ggml.add_space_prefix", prefix.get<bool>());
    } else if (!file.add_dummy_prefix) {
      keys_.set("tokenizer.ggml.add_space_prefix", false);
    }
    add_ends_of_template();
  }

  static std::string word_piece(const std::string& text, int32_t type) {
    if (type == kControl) return text;
    return text.starts_with("##") ? text.substr(2) : std::string(kSpaceSign) + text;
  }

  void add_word_pieces() {
    for (size_t id = 0; id < tokens_.texts.size(); ++id) {
      if (tokens_.types[id] != kUnused) tokens_.texts[id] = word_piece(tokens_.texts[id], tokens_.types[id]);
    }
    keys_.set("tokenizer.ggml.token_type_count",
              static_cast<uint32_t>(config_.find_int({"type_vocab_size"}).value_or(1)));
    add_kind("bert", "default");
    add_tokens(false);
  }

  void read_word_pieces() {
    for (auto& [text, id] : named_ids(member(member(tokenizer_, "model"), "vocab")))
      tokens_.put(id, text, 0.0f, kNormal);
    put_added(0.0f);
    add_word_pieces();
    const json& normalizer = member(tokenizer_, "normalizer");
    for (const char* name : {"lowercase", "strip_accents"}) {
      const json& value = member(normalizer, name);
      if (value.is_boolean()) keys_.set("tokenizer.ggml.normalizer." + std::string(name), value.get<bool>());
    }
  }

  void read_word_list(const std::string& words) {
    size_t id = 0;
    for (size_t at = 0; at < words.size() && id < tokens_.texts.size(); ++id) {
      const size_t end = std::min(words.find('\n', at), words.size());
      std::string word = words.substr(at, end - at);
      if (word.ends_with('\r')) word.pop_back();
      constexpr std::string_view kControls[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
      const bool control = std::find(std::begin(kControls), std::end(kControls), word) != std::end(kControls);
      tokens_.put(id, word, 0.0f, control ? kControl : kNormal);
      at = end + 1;
    }
    add_word_pieces();
    const json& lower = member(settings_, "do_lower_case");
    if (lower.is_boolean()) keys_.set("tokenizer.ggml.normalizer.lowercase", lower.get<bool>());
  }

  void read_unigram() {
    const json& model = member(tokenizer_, "model");
    const json& pieces = member(model, "vocab");
    if (!pieces.is_array() || pieces.size() > tokens_.texts.size()) {
      fail("tokenizer.json has " + std::to_string(pieces.size()) + " pieces, expected at most " +
           std::to_string(tokens_.texts.size()) + ", the rows of the embedding");
    }
    for (size_t id = 0; id < pieces.size(); ++id) {
      if (!pieces[id].is_array() || pieces[id].size() != 2 || !pieces[id][0].is_string() ||
          !pieces[id][1].is_number()) {
        fail("tokenizer.json has a piece " + file_error::quoted(pieces[id].dump()) +
             ", expected a text and a score; download it again");
      }
      tokens_.put(id, pieces[id][0].get<std::string>(), pieces[id][1].get<float>(), kNormal);
    }
    const json& unknown = member(model, "unk_id");
    put_added(0.0f);
    if (unknown.is_number_unsigned() && unknown.get<uint64_t>() < tokens_.texts.size())
      tokens_.types[unknown.get<size_t>()] = kUnknown;
    add_kind("t5", "default");
    add_tokens(true);
    keys_.set(
        "tokenizer.ggml.add_space_prefix",
        member(tokenizer_, "pre_tokenizer").dump().find("\"prepend_scheme\":\"never\"") == std::string::npos);
    keys_.set("tokenizer.ggml.token_type_count",
              static_cast<uint32_t>(config_.find_int({"type_vocab_size"}).value_or(1)));
    keys_.set("tokenizer.ggml.remove_extra_whitespaces", true);
    add_character_map(member(tokenizer_, "normalizer"));
    add_ends_of_template();
  }

  void add_character_map(const json& normalizer) {
    std::string text = text_of(member(normalizer, "precompiled_charsmap"));
    const json& parts = member(normalizer, "normalizers");
    for (size_t i = 0; text.empty() && parts.is_array() && i < parts.size(); ++i)
      text = text_of(member(parts[i], "precompiled_charsmap"));
    if (text.empty()) return;
    const std::optional<std::string> bytes = decoded_base64(text);
    if (!bytes) fail("tokenizer.json has a precompiled_charsmap that is not base64; download it again");
    keys_.set("tokenizer.ggml.precompiled_charsmap", std::vector<uint8_t>(bytes->begin(), bytes->end()));
  }

  // Adds the tokens that were added to the vocabulary later. Different checkpoints list them in different
  // files.
  void put_added(float score) {
    const json added = checkpoint_.read_json("added_tokens.json");
    if (added.is_object()) {
      for (const auto& [text, id] : added.items()) put_one_added(id, text, false, score);
    }
    const json& decoder = member(settings_, "added_tokens_decoder");
    if (decoder.is_object()) {
      for (const auto& [id, token] : decoder.items()) {
        if (id.empty() || id.size() > 9 ||
            !std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
          continue;
        put_one_added(json(std::stoul(id)), text_of(member(token, "content")),
                      is_true(member(token, "special")), score);
      }
    }
    const json& tokens = member(tokenizer_, "added_tokens");
    if (tokens.is_array()) {
      for (const json& token : tokens) {
        put_one_added(member(token, "id"), text_of(member(token, "content")),
                      is_true(member(token, "special")), score);
      }
    }
  }

  void put_one_added(const json& id, const std::string& text, bool special, float score) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= tokens_.texts.size())
      return;  // beyond the embedding's rows
    const size_t at = id.get<size_t>();
    // SentencePiece's unknown token keeps its type.
    const bool unknown =
        tokens_.types[at] == kUnknown && tokens_.texts[at] == text && family_.architecture != "bert";
    const int32_t type = special || looks_special(text) ? kControl : kUserDefined;
    const float kept = tokens_.types[at] == kUnused ? score : tokens_.scores[at];
    tokens_.put(at, type == kControl ? text : with_spaces(text), unknown ? kept : score,
                unknown ? kUnknown : type);
  }

  void add_kind(const char* model, const std::string& pre) {
    if (std::string_view(model) == "gpt2" && !PreTokenizer::knows(pre)) {
      fail("there is no pre-tokenizer named " + file_error::quoted(pre) + "; docs/models.md lists the names");
    }
    keys_.set("tokenizer.ggml.model", model);
    keys_.set("tokenizer.ggml.pre", pre);
  }

  void add_tokens(bool with_scores) {
    keys_.set("tokenizer.ggml.tokens", tokens_.texts);
    if (with_scores) keys_.set("tokenizer.ggml.scores", tokens_.scores);
    keys_.set("tokenizer.ggml.token_type", tokens_.types);
  }

  // ---- tokens with roles ----
  std::optional<uint32_t> id_of(const std::string& text) const {
    if (text.empty()) return std::nullopt;
    // Prefer special tokens, because a vocabulary may also contain the same text as an ordinary token.
    std::optional<uint32_t> found;
    for (size_t i = 0; i < tokens_.texts.size(); ++i) {
      if (tokens_.texts[i] != text) continue;
      if (tokens_.types[i] == kControl || tokens_.types[i] == kUnknown) return static_cast<uint32_t>(i);
      if (!found && tokens_.types[i] != kUnused) found = static_cast<uint32_t>(i);
    }
    return found;
  }

  static std::string content_of(const json& token) {
    return token.is_object() ? text_of(member(token, "content")) : text_of(token);
  }

  std::vector<uint32_t> ids_in(const json& field) const {
    std::vector<uint32_t> ids;
    const auto add = [&](const json& one) {
      if (one.is_number_unsigned() && one.get<uint64_t>() < tokens_.texts.size())
        ids.push_back(one.get<uint32_t>());
    };
    if (field.is_array()) {
      for (const json& one : field) add(one);
    } else {
      add(field);
    }
    return ids;
  }

  void add_roles() {
    constexpr std::pair<const char*, const char*> kRoles[] = {
        {"bos", "bos_token_id"},       {"eos", "eos_token_id"}, {"unk", "unknown_token_id"},
        {"sep", "seperator_token_id"},  // spelled this way in GGUF
        {"pad", "padding_token_id"},   {"cls", "cls_token_id"}, {"mask", "mask_token_id"}};
    const json specials = checkpoint_.read_json("special_tokens_map.json");
    const json generation = checkpoint_.read_json("generation_config.json");
    for (const auto& [role, key] : kRoles) {
      const std::string field = std::string(role) + "_token";
      std::optional<uint32_t> id = id_of(content_of(member(settings_, field.c_str())));
      if (!id) id = id_of(content_of(member(specials, field.c_str())));
      for (const json* source :
           {&config_.field({(field + "_id").c_str()}), &member(generation, (field + "_id").c_str())}) {
        const std::vector<uint32_t> ids = ids_in(*source);
        if (!id && !ids.empty()) id = ids.front();
      }
      if (id) keys_.set("tokenizer.ggml." + std::string(key), *id);
    }
    add_further_ends(generation);
    const std::vector<uint32_t> suppressed = ids_in(member(generation, "suppress_tokens"));
    if (!suppressed.empty())
      keys_.set("tokenizer.ggml.suppress_tokens", std::vector<int32_t>(suppressed.begin(), suppressed.end()));
    for (const char* name : {"add_bos_token", "add_eos_token"}) {
      const json& value = member(settings_, name);
      if (value.is_boolean()) keys_.set("tokenizer.ggml." + std::string(name), value.get<bool>());
    }
    // Clear a flag whose token does not exist, because a file with such a flag would not load.
    for (const auto& [flag, id] :
         {std::pair{"add_bos_token", "bos_token_id"}, {"add_eos_token", "eos_token_id"}}) {
      const KeyList::Value* found = keys_.find("tokenizer.ggml." + std::string(flag));
      if (found != nullptr && std::get<bool>(*found) &&
          keys_.find("tokenizer.ggml." + std::string(id)) == nullptr) {
        keys_.set("tokenizer.ggml." + std::string(flag), false);
      }
    }
  }

  /// add_roles() has already set the end token. generation_config.json or config.json may list further tokens
  /// that end an answer. This function adds the first two of them, because GGUF has keys for three such
  /// tokens in total.
  void add_further_ends(const json& generation) {
    std::vector<uint32_t> ends = ids_in(member(generation, "eos_token_id"));
    if (ends.empty()) ends = ids_in(config_.field({"eos_token_id"}));
    const KeyList::Value* eos = keys_.find("tokenizer.ggml.eos_token_id");
    std::vector<uint32_t> others;
    for (const uint32_t id : ends) {
      const bool known = eos != nullptr && std::get<uint32_t>(*eos) == id;
      if (!known && std::find(others.begin(), others.end(), id) == others.end()) others.push_back(id);
    }
    if (!others.empty()) keys_.set("tokenizer.ggml.eot_token_id", others[0]);
    if (others.size() > 1) keys_.set("tokenizer.ggml.eom_token_id", others[1]);
  }

  /// Reads from tokenizer.json's template whether a text gets a begin token and an end token.
  void add_ends_of_template() {
    const json* processor = &member(tokenizer_, "post_processor");
    const json& parts = member(*processor, "processors");
    for (size_t i = 0; parts.is_array() && i < parts.size(); ++i) {
      if (text_of(member(parts[i], "type")) == "TemplateProcessing") processor = &parts[i];
    }
    const json& single = member(*processor, "single");
    const std::string type = text_of(member(*processor, "type"));
    if (type == "RobertaProcessing") {
      keys_.set("tokenizer.ggml.add_bos_token", true);
      keys_.set("tokenizer.ggml.add_eos_token", true);
    }
    if (tokenizer_.is_null() || !single.is_array()) {
      if (!tokenizer_.is_null() && type != "RobertaProcessing")
        keys_.set("tokenizer.ggml.add_bos_token", false);
      return;
    }
    if (single.empty()) return;
    keys_.set("tokenizer.ggml.add_bos_token",
              single.front().is_object() && single.front().contains("SpecialToken"));
    keys_.set("tokenizer.ggml.add_eos_token",
              single.size() > 1 && single.back().is_object() && single.back().contains("SpecialToken"));
  }

  void add_template() {
    std::string text = checkpoint_.read_file("chat_template.jinja");
    if (text.empty()) text = text_of(member(checkpoint_.read_json("chat_template.json"), "chat_template"));
    const json& given = member(settings_, "chat_template");
    if (text.empty()) text = text_of(given);
    std::vector<std::string> names;
    for (size_t i = 0; given.is_array() && i < given.size(); ++i) {
      const std::string name = text_of(member(given[i], "name")), one = text_of(member(given[i], "template"));
      const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '-';
      });
      if (one.empty() || !plain) continue;
      if (name == "default") {
        if (text.empty()) text = one;
        continue;
      }
      names.push_back(name);
      keys_.set("tokenizer.chat_template." + name, one);
    }
    if (!names.empty()) keys_.set("tokenizer.chat_templates", names);
    if (!text.empty()) keys_.set("tokenizer.chat_template", text);
  }

  const Checkpoint& checkpoint_;
  const Config& config_;
  const Family& family_;
  std::string pre_;
  KeyList& keys_;
  Tokens tokens_;
  json settings_, tokenizer_;
};

}  // namespace

void add_vocabulary_keys(const Checkpoint& checkpoint, const Config& config, const Family& family,
                         int64_t n_vocab, const std::string& pre, KeyList& keys) {
  VocabularyReader(checkpoint, config, family, n_vocab, pre, keys).read();
}

}  // namespace hearth::convert
