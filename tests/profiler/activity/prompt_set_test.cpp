// The prompts that are built in: what is there, and how files are parted.
#include "profiler/activity/prompt_set.h"

#include <set>

#include "profiler/activity/text_feed.h"
#include "tests/support/catch.h"

namespace hearth::test {

TEST_CASE("prompts: some hundred different ones, all UTF-8, in many scripts") {
  const std::vector<std::string> prompts = built_in_prompts();
  CHECK(prompts.size() >= 100);
  CHECK(std::set<std::string>(prompts.begin(), prompts.end()).size() == prompts.size());
  size_t n_bytes = 0;
  for (const std::string& prompt : prompts) {
    INFO(prompt);
    CHECK(find_no_text(prompt) == std::string::npos);
    CHECK(prompt.size() >= 60);
    CHECK(prompt.find("%%") == std::string::npos);
    n_bytes += prompt.size();
  }
  CHECK(n_bytes > 15'000);
  const auto with = [&](const char* part) {
    return std::ranges::any_of(prompts, [part](const std::string& p) { return p.find(part) != p.npos; });
  };
  for (const char* part : {"der", "les ", "¿", "的", "の", "что", "ال", "return", "| Mars", "Dear"}) {
    INFO(part);
    CHECK(with(part));
  }
}

TEST_CASE("prompts: the first few are one of each file") {
  const std::vector<std::string> prompts = built_in_prompts();
  REQUIRE(prompt_files().size() >= 10);
  for (size_t i = 0; i < prompt_files().size(); ++i) CHECK(split_prompts(prompt_files()[i])[0] == prompts[i]);
}

TEST_CASE("prompts: lines of %% part a file") {
  CHECK(split_prompts("a\nb\n%%\nc\n") == std::vector<std::string>{"a\nb", "c"});
  CHECK(split_prompts("a\n%%\n\n%%\nb %%\n") == std::vector<std::string>{"a", "b %%"});
  CHECK(split_prompts("").empty());
}

}  // namespace hearth::test
