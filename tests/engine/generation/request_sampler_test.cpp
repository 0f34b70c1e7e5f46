// Tests which tokens a request's constraint, end tokens and min_tokens allow the sampler to choose.
#include "engine/generation/request_sampler.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/constraint/grammar/gbnf.h"
#include "engine/constraint/mask/token_trie.h"
#include "tests/support/catch.h"

namespace hearth::request_sampler_test {
namespace {

constexpr int kVocab = 6;
constexpr int32_t kA = 0, kB = 1, kEnd = 5;

/// Continues a text of one prompt token; the likeliest token is the one with the highest preference.
struct Rig {
  Rig() {
    request.sampling.temperature = 0;
    request.end_tokens = {kEnd};
  }

  /// Tokens 0 to 4 are the letters a to e.
  void constrain(std::string_view gbnf) {
    std::vector<std::string> pieces = {"a", "b", "c", "d", "e", ""};
    request.constraint =
        Constraint::compile(parse_gbnf(gbnf), std::make_shared<const TokenTrie>(std::move(pieces)));
    constraint.emplace(request.constraint);
  }

  SampleResult choose(const std::vector<float>& logits) {
    const GrowingText text{.tokens = tokens, .n_prompt = 1, .constraint = constraint, .sampler_state = state};
    return sampler.choose(request, text, logits);
  }

  RequestSampler sampler{kVocab};
  SequenceRequest request;
  std::vector<int32_t> tokens = {3};
  std::optional<ConstraintState> constraint;
  SamplerState state;
};

const std::vector<float> kPrefersEnd = {0, 1, 2, 3, 4, 9};

}  // namespace

TEST_CASE("request sampler: suppressed tokens are never chosen, with and without min_tokens") {
  Rig rig;
  rig.request.suppressed_tokens = {4, 3};
  CHECK(rig.choose(kPrefersEnd).token == kEnd);
  rig.request.min_tokens = 1;
  CHECK(rig.choose(kPrefersEnd).token == 2);
  rig.request.sampling.logit_bias = {{4, 50.0F}};
  CHECK(rig.choose(kPrefersEnd).token == 2);
  rig.request.sampling.temperature = 5;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    rig.request.sampling.seed = seed;
    CHECK(rig.choose(kPrefersEnd).token < 3);
  }
}

TEST_CASE("request sampler: an end token is chosen like any other, but not before min_tokens") {
  Rig rig;
  CHECK(rig.choose(kPrefersEnd).token == kEnd);
  CHECK(is_end_token(rig.request, kEnd));
  CHECK_FALSE(is_end_token(rig.request, kA));
  rig.request.min_tokens = 1;
  CHECK(rig.choose(kPrefersEnd).token == 4);
  rig.tokens.push_back(4);
  CHECK(rig.choose(kPrefersEnd).token == kEnd);
}

TEST_CASE("request sampler: a constraint leaves its tokens, and end tokens only where the text may end") {
  Rig rig;
  rig.constrain(R"(root ::= "a" "b"?)");
  CHECK(rig.choose(kPrefersEnd).token == kA);
  CHECK(rig.choose(kPrefersEnd).token == kA);  // choosing does not move the constraint on
  REQUIRE(rig.constraint->accept(kA));
  rig.tokens.push_back(kA);
  CHECK(rig.choose(kPrefersEnd).token == kEnd);
  CHECK(rig.choose({0, 9, 2, 3, 4, 5}).token == kB);
  // An end token allowed in one text stays forbidden in the next.
  rig.tokens = {3};
  rig.constrain(R"(root ::= "b")");
  CHECK(rig.choose(kPrefersEnd).token == kB);
}

TEST_CASE("request sampler: a request whose rules leave no token is unsatisfiable") {
  Rig rig;
  rig.constrain(R"(root ::= "f")");  // no token spells it
  const SampleResult result = rig.choose(kPrefersEnd);
  CHECK(result.is_unsatisfiable);
  CHECK_FALSE(result.error.empty());
}

}  // namespace hearth::request_sampler_test
