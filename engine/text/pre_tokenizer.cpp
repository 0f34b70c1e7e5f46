// The pre-tokenizers by name. The expressions come from the models' tokenizer.json files; llama.cpp's
// converters write the names. Several names share expressions, as in llama.cpp.
#include "engine/text/pre_tokenizer.h"

#include <algorithm>
#include <span>
#include <stdexcept>

#include "kernels/base/utf8.h"

namespace hearth {
namespace {

using Stages = std::span<const std::string_view>;

// GPT-2's expression matches contractions, and words, numbers and other characters with at most one space
// before them. It also matches runs of white space.
constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt2Stages[] = {kGpt2};
constexpr std::string_view kDigitsGpt2Stages[] = {R"(\p{N})", kGpt2};

// Falcon's pre-tokenizer splits punctuation off first and cuts numbers into groups of three digits, from the
// left.
constexpr std::string_view kFalconStages[] = {R"([\p{P}$+<=>^~|`]+)", kGpt2, "[0-9][0-9][0-9]"};
constexpr std::string_view kDefaultStages[] = {R"([\p{P}$+<=>^~|]+)", kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"};

// The expressions of GPT-4's family match contractions in either case, keep newlines with the characters
// before them, and cut numbers into single digits or groups of three.
constexpr std::string_view kLlama3Stages[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kQwen2Stages[] = {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                                             R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kQwen35Stages[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kLagunaStages[] = {R"([^\n]+|\n+)", kQwen2Stages[0]};
// The \p{N}+ of the second expression matches at most three digits, because the first expression has already
// cut numbers into groups of three.
constexpr std::string_view kMiniCpm5Stages[] = {
    R"(\p{N}{1,3})", R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|)"
                     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
// This expression cuts runs of white space at powers of two.
constexpr std::string_view kJais2Stages[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
    R"(\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|)"
    R"(\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s)"};
// This expression keeps words together if single spaces separate them, because one token may be a phrase.
constexpr std::string_view kExaoneMoeStages[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}\p{M}*(?: ?\p{L}\p{M}*)*|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr std::string_view kSeedCoderStages[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kBailingStages[] = {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}|)"
                                               R"( ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};

// These expressions also cut where lower case turns to upper case: "helloWorld" is two words.
constexpr std::string_view kTekkenStages[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kGpt4oStages[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kYoutuStages[] = {
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|)"
    R"([\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C})"
    R"(\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|)"
    R"([\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
// Tiny Aya cuts numbers into groups of three digits, from the right. Instead of the first two expressions,
// tokenizer.json has \d{1,3}(?=(?:\d{3})*\b), which would read the rest of a number again for each group. The
// last of the three expressions cuts numbers that directly precede a letter.
constexpr std::string_view kTinyAyaStages[] = {R"((?<!\p{Nd})\p{Nd}++(?![\p{L}\p{M}\p{N}\p{Pc}]))",
                                               R"(\A\p{Nd}{1,2}(?=(?:\p{Nd}{3})++\z))", kGpt4oStages[0]};

// Kimi separates Han characters and keeps them out of words. The expression lists the ranges of these
// characters, because PCRE2 changed the meaning of \p{Han} in 10.40.
constexpr std::string_view kKimiStages[] = {
    R"((?(DEFINE)(?<han>[\x{2E80}-\x{2E99}\x{2E9B}-\x{2EF3}\x{2F00}-\x{2FD5}\x{3005}\x{3007}\x{3021}-\x{3029})"
    R"(\x{3038}-\x{303B}\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FA6D}\x{FA70}-\x{FAD9})"
    R"(\x{16FE2}\x{16FE3}\x{16FF0}\x{16FF1}\x{20000}-\x{2A6DF}\x{2A700}-\x{2EBE0}\x{2EBF0}-\x{2EE5D})"
    R"(\x{2F800}-\x{2FA1D}\x{30000}-\x{323AF}]))(?&han)++|)"
    R"([^\r\n\p{L}\p{N}]?(?:(?!(?&han))[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*)"
    R"((?:(?!(?&han))[\p{Ll}\p{Lm}\p{Lo}\p{M}])+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?(?:(?!(?&han))[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+)"
    R"((?:(?!(?&han))[\p{Ll}\p{Lm}\p{Lo}\p{M}])*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

// The next two expressions are DeepSeek's lists of the letters of cased scripts and of ideographs, in the
// Unicode version that DeepSeek uses.
constexpr std::string_view kCasedLetters =
    R"(\s?[)"
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A})"
    R"(\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556})"
    R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
    R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"
    R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D})"
    R"(\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC})"
    R"(\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128})"
    R"(\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183})"
    R"(\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
    R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF})"
    R"(\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})"
    R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
    R"(]+)";
constexpr std::string_view kIdeographs = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::string_view kDeepseekLlmStages[] = {
    R"([\r\n])",
    kCasedLetters,
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
    // tokenizer.json has \s+$ here, which retries from each space of a run. This expression finds the same
    // matches without retrying.
    R"((?<!\s)\s++\z)",
    kIdeographs,
    R"(\p{N}+)",
};
constexpr std::string_view kDeepseekCoderStages[] = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kIdeographs,
                                                     R"(\p{N})"};
constexpr std::string_view kDeepseekV3Stages[] = {
    R"(\p{N}{1,3})",
    R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
};

constexpr std::string_view kSpark25Stages[] = {
    kDeepseekV3Stages[0],
    kDeepseekV3Stages[1],
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)",
    R"(\p{N})",
};
// Trinity cuts numbers into groups of three digits, from the right, then separates scripts that do not put
// spaces between words.
constexpr std::string_view kAfmoeStages[] = {
    R"((?<!\p{N})\p{N}{1,2}(?=(?:\p{N}{3})++(?!\p{N}))|\p{N}{1,3})",
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF})"
    R"(\x{E40}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF})"
    R"(\x{1100}-\x{11FF}]+)",
    kDeepseekV3Stages[2],
};

// Chameleon first cuts off image codes, pairs of spaces, single digits and single punctuation marks, then
// applies GPT-2's expression.
constexpr std::string_view kChameleonStages[] = {"<sentinel:[0-9]+>",       "IMGIMG[A-I]{1,4}Z",
                                                 R"([\t\n]|    |  )",       R"(\p{N})",
                                                 R"([\p{P}!-/:-@\[-`{-~])", kGpt2};

// BLOOM's words end before white space and before the punctuation marks listed here. The text between two
// words becomes a separate piece.
constexpr std::string_view kBloom = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";
constexpr std::string_view kBloomStages[] = {kBloom};
constexpr std::string_view kVikingStages[] = {kBloom, R"(\p{N})"};

struct Row {
  std::string_view name;
  Stages stages;
  PreTokenizer::Habits habits = {};
};

constexpr PreTokenizer::Habits kLlama3Habits{.ignore_merges = true, .add_bos = true};
constexpr PreTokenizer::Habits kIgnoreMerges{.ignore_merges = true};
constexpr PreTokenizer::Habits kAddBos{.add_bos = true};
constexpr PreTokenizer::Habits kNoBos{.has_bos = false};

constexpr Row kRows[] = {
    {"default", kDefaultStages},
    {"gpt-2", kGpt2Stages},
    {"a.x-4.0", kGpt2Stages},
    {"exaone4", kGpt2Stages},
    {"gigachat", kGpt2Stages},
    {"granite-docling", kGpt2Stages},
    {"jais", kGpt2Stages},
    {"jina-de", kGpt2Stages},
    {"jina-es", kGpt2Stages},
    {"jina-v1-en", kGpt2Stages},
    {"jina-v2-code", kGpt2Stages},
    {"jina-v2-de", kGpt2Stages},
    {"jina-v2-es", kGpt2Stages},
    {"mellum", kGpt2Stages},
    {"modern-bert", kGpt2Stages},
    {"mpt", kGpt2Stages},
    {"olmo", kGpt2Stages},
    {"phi-2", kGpt2Stages},
    {"roberta-bpe", kGpt2Stages},
    {"trillion", kGpt2Stages},
    {"smollm", kDigitsGpt2Stages},
    {"codeshell", kDigitsGpt2Stages},
    {"cohere2_moe", kDigitsGpt2Stages},
    {"command-r", kDigitsGpt2Stages},
    {"exaone", kDigitsGpt2Stages},
    {"mellum2", kDigitsGpt2Stages},
    {"minerva-7b", kDigitsGpt2Stages},
    {"refact", kDigitsGpt2Stages},
    {"starcoder", kDigitsGpt2Stages},
    {"llama3", kLlama3Stages, kLlama3Habits},
    {"llama-bpe", kLlama3Stages, kLlama3Habits},
    {"llama-v3", kLlama3Stages, kLlama3Habits},
    {"falcon-h1", kLlama3Stages, kLlama3Habits},
    {"falcon3", kLlama3Stages, kLlama3Habits},
    {"jina-v5-nano", kLlama3Stages, kLlama3Habits},
    {"lfm2", kLlama3Stages, kLlama3Habits},
    {"midm-2.0", kLlama3Stages, kLlama3Habits},
    {"pixtral", kLlama3Stages, kLlama3Habits},
    {"dbrx", kLlama3Stages},
    {"smaug-bpe", kLlama3Stages},
    {"chatglm-bpe", kLlama3Stages, kNoBos},
    {"glm4", kLlama3Stages, kNoBos},
    {"minicpm5", kMiniCpm5Stages, kIgnoreMerges},
    {"jais-2", kJais2Stages},
    {"qwen2", kQwen2Stages},
    {"deepseek-r1-qwen", kQwen2Stages},
    {"f2llmv2", kQwen2Stages},
    {"grok-2", kQwen2Stages},
    {"hunyuan", kQwen2Stages},
    {"kormo", kQwen2Stages},
    {"megrez", kQwen2Stages},
    {"openpangu", kQwen2Stages},
    {"solar-open", kQwen2Stages},
    {"stablelm2", kQwen2Stages},
    {"qwen35", kQwen35Stages},
    {"laguna", kLagunaStages},
    {"exaone-moe", kExaoneMoeStages},
    {"seed-coder", kSeedCoderStages},
    {"bailingmoe", kBailingStages},
    {"bailingmoe2", kBailingStages},
    {"llada-moe", kBailingStages},
    {"tekken", kTekkenStages, kLlama3Habits},
    {"gpt-4o", kGpt4oStages},
    {"granite-embed-multi-97m", kGpt4oStages, kIgnoreMerges},
    {"kanana2", kGpt4oStages},
    {"llama4", kGpt4oStages},
    {"minimax-m2", kGpt4oStages},
    {"talkie", kGpt4oStages},
    {"cohere2moe", kTinyAyaStages},
    {"tiny_aya", kTinyAyaStages},
    {"youtu", kYoutuStages, kIgnoreMerges},
    {"kimi-k2", kKimiStages},
    {"falcon", kFalconStages},
    {"deepseek-llm", kDeepseekLlmStages},
    {"deepseek-coder", kDeepseekCoderStages},
    {"deepseek-v3", kDeepseekV3Stages},
    {"hunyuan-dense", kDeepseekV3Stages},
    {"hy_v4", kDeepseekV3Stages},
    {"joyai-llm", kDeepseekV3Stages},
    {"spark2_5", kSpark25Stages},
    {"afmoe", kAfmoeStages},
    {"chameleon", kChameleonStages, kAddBos},
    {"bloom", kBloomStages},
    {"gpt3-finnish", kBloomStages},
    {"poro-chat", kBloomStages},
    {"viking", kVikingStages},
};

const Row* find_row(std::string_view name) {
  const Row* row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.name == name; });
  return row == std::end(kRows) ? nullptr : row;
}

const Row& row_of(std::string_view name) {
  const Row* row = find_row(name);
  if (!row) throw std::logic_error("there is no pre-tokenizer named '" + std::string(name) + "'");
  return *row;
}

/// Number of bytes at the front of text that are not UTF-8.
size_t invalid_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Char front = utf8_front(text.substr(at));
    if (front.status == Utf8Status::kWhole) break;
    at += front.length;
  }
  return at;
}

}  // namespace

bool PreTokenizer::knows(std::string_view name) { return find_row(name) != nullptr; }

PreTokenizer::Habits PreTokenizer::habits(std::string_view name) { return row_of(name).habits; }

std::vector<std::string_view> PreTokenizer::known_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) names.push_back(row.name);
  return names;
}

PreTokenizer::PreTokenizer(std::string_view name) {
  for (const std::string_view pattern : row_of(name).stages) stages_.emplace_back(pattern);
}

std::vector<Piece> PreTokenizer::split(std::string_view text) const {
  std::vector<Piece> words;
  std::vector<Piece> current;
  std::vector<Piece> next;
  for (size_t at = 0; at < text.size();) {
    const size_t valid = utf8_valid_prefix(text.substr(at));
    if (valid > 0) {
      current.assign(1, {at, valid});
      for (const SplitPattern& stage : stages_) {
        next.clear();
        stage.split(text, current, next);
        current.swap(next);
      }
      words.insert(words.end(), current.begin(), current.end());
      at += valid;
    }
    const size_t invalid = invalid_prefix(text.substr(at));
    if (invalid > 0) words.push_back({at, invalid});
    at += invalid;
  }
  return words;
}

}  // namespace hearth
