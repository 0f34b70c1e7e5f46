// The names that published tokenizer.json files get, by their pre_tokenizer.
#include "profiler/convert/pre_tokenizer_name.h"

#include <nlohmann/json.hpp>

#include "tests/support/catch.h"

namespace hearth::convert {
namespace {

using nlohmann::json;

json split(const std::string& regex, const char* behavior = "Isolated", bool invert = false) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", behavior}, {"invert", invert}};
}

json byte_level(bool regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", regex}};
}

json sequence(std::vector<json> parts) { return {{"type", "Sequence"}, {"pretokenizers", std::move(parts)}}; }

std::string name_of(const json& pre_tokenizer, const char* preferred, bool ignore_merges = false) {
  return name_of_stages(split_stages(pre_tokenizer), preferred, ignore_merges);
}

const std::string kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace

TEST_CASE("pre_tokenizer_name: published definitions have their names", "[pre_tokenizer_name]") {
  CHECK(name_of(byte_level(true), "gpt-2") == "gpt-2");
  CHECK(name_of(sequence({split(kLlama3), byte_level(false)}), "llama-bpe", true) == "llama-bpe");
  CHECK(name_of(sequence({split(kLlama3), byte_level(false)}), "dbrx", false) == "dbrx");
  CHECK(name_of(sequence({split(kLlama3, "Removed", true), byte_level(false)}), "glm4", false) == "glm4");
  CHECK(name_of(sequence({split(kQwen2), byte_level(false)}), "qwen2") == "qwen2");
  CHECK(name_of(sequence({json{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)}),
                "starcoder") == "starcoder");
  CHECK(
      name_of(
          sequence(
              {split(R"(\p{N}{1,3})"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
               split(
                   R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"),
               byte_level(false)}),
          "deepseek-v3 deepseek-llm") == "deepseek-v3");
  CHECK(
      name_of(
          sequence(
              {split(
                   R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                   "Removed", true),
               byte_level(false)}),
          "gpt-4o") == "gpt-4o");
  CHECK(
      name_of(
          sequence(
              {split(
                   R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"),
               byte_level(false)}),
          "llama-bpe tekken", true) == "tekken");
}

TEST_CASE("pre_tokenizer_name: another spelling of the same rules has the same name",
          "[pre_tokenizer_name]") {
  // As some models of Qwen's family write it.
  const std::string other =
      R"([^\r\n\p{L}\p{N}]?\p{L}+|'(?i:[sdmt]|ll|ve|re)|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const std::string reordered =
      R"('(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  CHECK(name_of(sequence({split(reordered), byte_level(false)}), "qwen2") == "qwen2");
  CHECK(name_of(sequence({split(other), byte_level(false)}), "qwen2")
            .empty());  // keeps "'s" with the word's apostrophe
}

TEST_CASE("pre_tokenizer_name: rules with a small difference are unknown", "[pre_tokenizer_name]") {
  const std::string four =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,4}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  CHECK(name_of(sequence({split(four), byte_level(false)}), "llama-bpe").empty());
}

TEST_CASE("pre_tokenizer_name: parts that no known model has are refused", "[pre_tokenizer_name]") {
  CHECK_THROWS_WITH(split_stages(split("a", "MergedWithNext")), ContainsSubstring("MergedWithNext"));
  CHECK_THROWS_WITH(split_stages(json{{"type", "CharDelimiterSplit"}}),
                    ContainsSubstring("CharDelimiterSplit"));
  CHECK_THROWS_WITH(name_of_stages({"(((("}, "", false), ContainsSubstring("does not compile"));
}

}  // namespace hearth::convert
