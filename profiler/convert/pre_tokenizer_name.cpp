// Contains the test text, and translates tokenizer.json's pre-tokenizers to regular expressions.
#include "profiler/convert/pre_tokenizer_name.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "engine/text/pre_tokenizer.h"
#include "engine/text/split_pattern.h"
#include "kernels/base/file_error.h"
#include "profiler/convert/family.h"

namespace hearth::convert {
namespace {

using nlohmann::json;

constexpr std::string_view kGpt2Split =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// Matches Unicode's punctuation and all ASCII punctuation, part of which Unicode classifies as symbols.
constexpr std::string_view kPunctuation = R"([\p{P}!-/:-@\[-`{-~])";

// The test text contains everything that known pre-tokenizers treat differently: contractions in any case;
// numbers of many lengths and scripts; many kinds and lengths of white space, before words, at the ends of
// lines and at the end of the text; punctuation, symbols and marks; capitals within words; and scripts that
// models split separately.
constexpr std::string_view kText =
    "I've 'told he's 'llama 'Sure 'reply 'VEXED 'mine 'dare x'told y'llama z'Sure w'REply, 'RE you sure? 'M "
    "not, I'LL 'd it'S a'lL "
    "We'Ve x''s '''' ` `` ```` \"\" ...... "
    "!!!!?? \n"
    "\n \n\n \n\n\n \t \t\t \t\n  \n   \n    \n     \n  x   y    z     12      !       \r\n\r\n\r \r\n  a\r\n"
    "3 33 333 3333 33333 333333 3333333 33333333 3.3 3..3 3...3 1,234,567 12abc abc123 1a2b 2024-11-26 "
    "x86_64 1234567x "
    "\xD9\xA3\xD9\xA4\xD9\xA5\xD9\xA6 \xE0\xA5\xA7\xE0\xA5\xA8\xE0\xA5\xA9\xE0\xA5\xAA\xE0\xA5\xAB "
    "\xC2\xBD\xC2\xB2 \xE2\x85\xA7\xE2\x85\xA8 "
    "helloWorld HTTPServer iPhone McDonald XMLHttpRequest aBcD e\xCC\x81t\xC3\xA9 na\xC3\xAFve \xC3\x84rger "
    "stra\xC3\x9F"
    "e \xC7\x85ungla "
    "\xD0\xBD\xD0\xB5\xD1\x89\xD0\xBE \xD0\x9D\xD0\x90 \xCE\xB1\xCE\xB2\xCE\xB3 \xCE\xA9\xCE\xBC "
    "\xE6\x88\x91\xE6\x83\xB3\xE5\x9C\xA8"
    "apple\xE5\xB7\xA5\xE4\xBD\x9C"
    "1314151\xE5\xA4\xA9\xEF\xBD\x9E "
    "\xE3\x81\xB2\xE3\x82\x89\xE3\x82\xAB\xE3\x82\xBF\xE3\x80\x82\xE3\x80\x8C\xE7\x8C\xAB\xE3\x80\x8D "
    "\xED\x95\x9C\xEA\xB5\xAD\xEC\x96\xB4 \xE1\x84\x92\xE1\x85\xA1 \xE3\x84\x85\xE3\x84\x86 "
    "\xE0\xB9\x84\xE0\xB8\x97\xE0\xB8\xA2 \xE1\x9E\x80\xE1\x9E\xB6\xE1\x9E\x93\xE1\x9F\x8B "
    "\xE0\xA4\xB9\xE0\xA4\xBF\xE0\xA4\xA8\xE0\xA5\x8D\xE0\xA4\xA6\xE0\xA5\x80 "
    "\xD7\xA9\xD6\xB8\xD7\x81\xD7\x9C\xD7\x95\xD7\x9D \xD8\xB3\xD9\x84\xD8\xA7\xD9\x85\xD8\x8C "
    "\xF0\x9F\x9A\x80 (normal) \xF0\x9F\x98\xB6\xE2\x80\x8D\xF0\x9F\x8C\xAB\xEF\xB8\x8F (emojis) "
    "\xE2\x9C\x85 \xF0\x9F\xA6\x99\xF0\x9F\xA6\x99 \xE2\x82\xAC"
    "5 $5 5% a+b=c <a> [x] {y} ^~|\\ #tag @me a/b//c /* */ // \n"
    "path/to/file.txt, e.g. U.S.A. don\xE2\x80\x99t \xE2\x80\x9Cquoted\xE2\x80\x9D \xE2\x80\x94 "
    "dash\xE2\x80\xA6 \xC2\xA1hola! \xC2\xBFqu\xC3\xA9? \xE3\x80\x80wide\xE3\x80\x80space "
    "\xC2\xA0nbsp\xC2\xA0 \xE2\x80\x89thin "
    "foo(bar)[0]=-1;\n\tif (x) {\n\t\treturn;  \n\t}\n\n        deep();!\n?\n ;\n/\n.\n\n,/x  /\n snake_case "
    "__init__ A1B2 "
    "<sentinel:7>IMGIMGAZ -------======= _  _   word  two   words    four tab\t\ttwo\ttab end  \xC3\xA9\n  "
    "\n   ";

[[noreturn]] void refuse(const std::string& what) {
  throw std::runtime_error(
      "tokenizer.json: its pre_tokenizer " + what +
      ", which no known pre-tokenizer of GGUF files does; give the name of one that cuts alike with --pre "
      "(docs/models.md lists them).");
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 128 && std::isalnum(static_cast<unsigned char>(c)) == 0 && c != ' ' &&
        c != '\n')
      out += '\\';
    out += c;
  }
  return out;
}

void add_stages(const json& part, std::vector<std::string>& stages) {
  const std::string type = part.is_object() ? part.value("type", "") : "";
  if (type == "Sequence" && part.contains("pretokenizers") && part["pretokenizers"].is_array()) {
    for (const json& one : part["pretokenizers"]) {
      if (one.is_object() && one.value("type", "") == "Sequence") refuse("has a sequence within a sequence");
      add_stages(one, stages);
    }
  } else if (type == "ByteLevel") {
    if (part.value("use_regex", true)) stages.emplace_back(kGpt2Split);
  } else if (type == "Digits") {
    stages.emplace_back(part.value("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
  } else if (type == "Punctuation") {
    const std::string behavior = part.value("behavior", "Isolated");
    if (behavior != "Isolated" && behavior != "Contiguous")
      refuse("merges punctuation with what is beside it");
    stages.push_back(std::string(kPunctuation) + (behavior == "Contiguous" ? "+" : ""));
  } else if (type == "Split" && part.contains("pattern") && part["pattern"].is_object()) {
    const std::string behavior = part.value("behavior", "");
    const bool kept = part.value("invert", false) ? behavior == "Removed" || behavior == "Isolated"
                                                  : behavior == "Isolated";
    if (!kept) refuse("has a split that is " + file_error::quoted(behavior));
    const json& pattern = part["pattern"];
    if (pattern.contains("Regex") && pattern["Regex"].is_string()) {
      stages.push_back(pattern["Regex"].get<std::string>());
    } else if (pattern.contains("String") && pattern["String"].is_string()) {
      stages.push_back(escaped(pattern["String"].get<std::string>()));
    } else {
      refuse("has a split without an expression");
    }
  } else {
    refuse("has a part of type " + file_error::quoted(type));
  }
}

std::vector<Piece> cut(const std::vector<std::string>& stages) {
  std::vector<Piece> pieces{{0, kText.size()}};
  for (const std::string& stage : stages) {
    std::vector<Piece> next;
    try {
      SplitPattern(stage).split(kText, pieces, next);
    } catch (const std::logic_error&) {
      refuse("has an expression that does not compile: " + file_error::quoted(stage));
    }
    pieces = std::move(next);
  }
  return pieces;
}

bool same(const std::vector<Piece>& a, const std::vector<Piece>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Piece& one, const Piece& other) {
    return one.begin == other.begin && one.length == other.length;
  });
}

}  // namespace

std::vector<std::string> split_stages(const json& pre_tokenizer) {
  std::vector<std::string> stages;
  if (!pre_tokenizer.is_null()) add_stages(pre_tokenizer, stages);
  if (stages.size() > 16) refuse("has " + std::to_string(stages.size()) + " parts");
  return stages;
}

std::string name_of_stages(const std::vector<std::string>& stages, std::string_view preferred,
                           bool ignore_merges) {
  const std::vector<Piece> wanted = cut(stages);
  std::vector<std::string_view> alike;
  for (const std::string_view name : PreTokenizer::known_names()) {
    if (same(PreTokenizer(name).split(kText), wanted)) alike.push_back(name);
  }
  if (alike.empty()) return "";
  const auto rank = [&](std::string_view name) {
    const bool other_merges = PreTokenizer::habits(name).ignore_merges != ignore_merges;
    const size_t place = is_one_of(name, preferred)
                             ? (" " + std::string(preferred) + " ").find(" " + std::string(name) + " ")
                             : preferred.size() + 1;
    return std::pair(other_merges, place);
  };
  return std::string(*std::min_element(
      alike.begin(), alike.end(), [&](std::string_view a, std::string_view b) { return rank(a) < rank(b); }));
}

}  // namespace hearth::convert
