// Limits on thinking: every name that clients have for them, what they mean for a template, and the tokens
// that the engine gets.
#include "engine/constraint/thinking_budget.h"

#include <nlohmann/json.hpp>
#include <string>

#include "server/api/anthropic/messages_endpoint.h"
#include "server/api/responses/responses.h"
#include "tests/server/api/spoken_bench.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

/// A template that shows thinking and its switch, but knows no efforts.
constexpr const char* kThinkingTemplate =
    "{% if enable_thinking is defined %}[thinks {{ enable_thinking }}]{% endif %}"
    "{% if thinking_budget is defined %}[limit {{ thinking_budget }}]{% endif %}"
    "{% for m in messages %}[{{ m.role }}]"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

struct ThinkingBench : SpokenBench {
  explicit ThinkingBench(const char* source = kThinkingTemplate) : SpokenBench("Hi.") {
    chat_template = ChatTemplate::parse(source, "<s>", "</s>");
  }

  /// Returns the limit of a chat with these members, or -1.
  int limit(const std::string& members) {
    const Answered answer = chat(R"({"messages": [{"role": "user", "content": "a"}])" +
                                 (members.empty() ? "" : ", " + members) + "}");
    REQUIRE(answer.status == 200);
    return last_limit();
  }
  int last_limit() const {
    const auto& thinking = sequence().thinking;
    return thinking == nullptr ? -1 : thinking->n_tokens;
  }
  std::string ending() const { return vocabulary.decode(sequence().thinking->ending, true); }
};

TEST_CASE("limits on thinking have the names of other servers") {
  ThinkingBench bench;
  CHECK(bench.limit("") == -1);
  CHECK(bench.limit(R"("reasoning_budget": 7)") == 7);
  CHECK(bench.limit(R"("thinking_budget": 7)") == 7);
  CHECK(bench.limit(R"("thinking_budget_tokens": 7)") == 7);
  CHECK(bench.limit(R"("thinking_token_budget": 7)") == 7);
  CHECK(bench.limit(R"("thinking": {"type": "enabled", "budget_tokens": 7})") == 7);
  CHECK(bench.limit(R"("reasoning": {"max_tokens": 7})") == 7);
  CHECK(bench.limit(R"("reasoning_budget": -1)") == -1);
  CHECK(bench.limit(R"("reasoning_budget": 99999999999)") == std::numeric_limits<int>::max());
  CHECK_THAT(bench.prompt(), ContainsSubstring("[limit 2147483647]"));
}

TEST_CASE("an effort stands for a limit, unless the template knows efforts") {
  ThinkingBench bench;
  CHECK(bench.limit(R"("reasoning_effort": "none")") == 0);
  const int minimal = bench.limit(R"("reasoning_effort": "minimal")");
  const int low = bench.limit(R"("reasoning_effort": "low")");
  const int medium = bench.limit(R"("reasoning": {"effort": "medium"})");
  const int high = bench.limit(R"("reasoning_effort": "high")");
  CHECK((0 < minimal && minimal < low && low < medium && medium < high));
  CHECK(bench.limit(R"("reasoning_effort": "max")") == -1);
  CHECK(bench.limit(R"("reasoning_effort": "low", "thinking_budget": 5)") == 5);
  ThinkingBench knows(kSpokenTemplate);
  CHECK(knows.limit(R"("reasoning_effort": "low")") == -1);
  CHECK_THAT(knows.prompt(), ContainsSubstring("[effort low]"));
  CHECK(knows.limit(R"("reasoning_effort": "low", "thinking_budget": 5)") == 5);
  CHECK(knows.limit(R"("reasoning_effort": "none")") == 0);
}

TEST_CASE("the server has a limit for requests without one") {
  ThinkingBench bench;
  bench.model.reasoning_budget = 9;
  CHECK(bench.limit("") == 9);
  CHECK(bench.limit(R"("thinking_budget": 5)") == 5);
  CHECK(bench.limit(R"("thinking_budget": -1)") == -1);
  CHECK(bench.limit(R"("reasoning_effort": "max")") == -1);
  bench.model.reasoning_budget = 0;
  CHECK(bench.limit("") == 0);
  CHECK_THAT(bench.prompt(), ContainsSubstring("[thinks False]"));
  CHECK(bench.limit(R"("enable_thinking": true)") == -1);
  CHECK_THAT(bench.prompt(), ContainsSubstring("[thinks True]"));
}

TEST_CASE("a limit of zero turns thinking off, and closes it at once where that has no effect") {
  ThinkingBench bench;
  CHECK(bench.limit(R"("thinking_budget": 0, "enable_thinking": true)") == 0);
  CHECK_THAT(bench.prompt(), ContainsSubstring("[thinks False][limit 0]"));
  CHECK(bench.ending() == "\n</think>");
  ThinkingBench always(
      "{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content %}<think>{{ m.reasoning_content "
      "}}</think>{% endif %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]<think>\n"
      "{% endif %}");
  CHECK(always.limit(R"("thinking_budget": 0)") == 0);
  CHECK(always.sequence().thinking->begun);
}

TEST_CASE("the end of thinking is a sentence and the tag of the model") {
  ThinkingBench bench;
  bench.limit(R"("thinking_budget": 7)");
  const ThinkingBudget& budget = *bench.sequence().thinking;
  CHECK(budget.open == "<think>");
  CHECK(budget.closes == std::vector<std::string>{"</think>"});
  CHECK_FALSE(budget.begun);
  CHECK_FALSE(budget.opens_anywhere);
  CHECK(budget.ending_closes());
  CHECK_THAT(bench.ending(), ContainsSubstring(".\n</think>"));
  // A model without thinking has no limit.
  ThinkingBench plain(kBenchTemplate);
  CHECK(plain.limit(R"("thinking_budget": 7)") == -1);
}

TEST_CASE("in harmony's format, the end of thinking begins another message") {
  ThinkingBench bench(
      "{% for m in messages %}<|start|>{{ m.role }}{% if m.thinking %}<|channel|>analysis<|message|>{{ "
      "m.thinking "
      "}}<|end|>{% endif %}<|channel|>final<|message|>{{ m.content }}<|end|>{% endfor %}"
      "{% if add_generation_prompt %}<|start|>assistant{% endif %}");
  REQUIRE(bench.limit(R"("thinking_budget": 7)") == 7);
  const ThinkingBudget& budget = *bench.sequence().thinking;
  CHECK(budget.open == "<|channel|>analysis<|message|>");
  CHECK(budget.opens_anywhere);
  CHECK(bench.ending().ends_with("<|end|><|start|>assistant"));
}

TEST_CASE("the other APIs have limits too") {
  ThinkingBench bench;
  const auto message = [&](const std::string& members) {
    bench.call(create_message,
               R"({"max_tokens": 5, "messages": [{"role": "user", "content": "a"}], )" + members + "}");
    return bench.last_limit();
  };
  CHECK(message(R"("thinking": {"type": "enabled", "budget_tokens": 1024})") == 1024);
  CHECK(message(R"("thinking": {"type": "disabled", "budget_tokens": 1024})") == -1);
  CHECK(message(R"("thinking": {"type": "adaptive"}, "output_config": {"effort": "low"})") == 2048);
  const auto response = [&](const std::string& members) {
    bench.call(create_response, R"({"input": "a", )" + members + "}");
    return bench.last_limit();
  };
  CHECK(response(R"("reasoning": {"effort": "low"})") == 2048);
  CHECK(response(R"("reasoning": {"effort": "none"})") == 0);
  CHECK(response(R"("thinking_budget": 5)") == 5);
}

TEST_CASE("a text completion has no limit on thinking") {
  ThinkingBench bench;
  CHECK(error_of(bench.completions(R"({"prompt": "a", "reasoning_budget": 5})"))["param"] ==
        "reasoning_budget");
  CHECK(bench.completions(R"({"prompt": "a", "thinking_budget": -1})").status == 200);
}

}  // namespace
}  // namespace hearth
