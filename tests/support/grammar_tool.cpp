// Constraints on standard input and output, for tests/engine/constraint/regex/test_regex_oracle.py and
// tests/engine/constraint/schema/test_json_schema_oracle.py. Reads lines of JSON
//   {"regex": text | "schema": text | "object": true, "seed": n, "members": n, "match": [text, ...],
//   "compile": bool}
// and answers each with a line {"members": [text, ...], "matches": [bool, ...], "n_states": n} or {"error":
// text, "where": text}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/constraint/automaton/automaton.h"
#include "engine/constraint/regex/regex.h"
#include "engine/constraint/schema/json_schema.h"
#include "tests/support/grammar_matcher.h"
#include "tests/support/grammar_sampler.h"

namespace {

using Json = nlohmann::json;

hearth::Grammar grammar_of(const Json& request) {
  if (request.contains("regex")) return hearth::regex_grammar(request["regex"].get<std::string>());
  if (request.contains("schema")) return hearth::json_schema_grammar(request["schema"].get<std::string>());
  return hearth::json_object_grammar();
}

Json answer(const Json& request) {
  try {
    const hearth::Grammar grammar = grammar_of(request);
    Json members = Json::array(), matches = Json::array();
    if (const int n_members = request.value("members", 0); n_members > 0) {
      hearth::test::GrammarSampler sampler(grammar, request.value("seed", 0U));
      for (int i = 0; i < n_members; ++i)
        if (const auto member = sampler.sample(static_cast<size_t>(10 + 40 * (i % 5))))
          members.push_back(*member);
    }
    for (const Json& text : request.value("match", Json::array()))
      matches.push_back(hearth::test::GrammarMatcher(grammar).matches(text.get_ref<const std::string&>()));
    const int n_states = request.value("compile", false) ? hearth::Automaton(grammar, 16).n_states() : 0;
    return {{"members", members}, {"matches", matches}, {"n_states", n_states}};
  } catch (const hearth::ConstraintError& error) {
    return {{"error", error.what()}, {"where", error.where()}};
  }
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) std::cout << answer(Json::parse(line)).dump() << std::endl;
  return 0;
}
