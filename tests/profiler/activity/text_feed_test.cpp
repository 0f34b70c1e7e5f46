// Built-in prompts, and files split into windows.
#include <algorithm>
#include <fstream>
#include <random>
#include <set>
#include <stdexcept>

#include "profiler/activity/text_feed.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {

TEST_CASE("prompts: there are some hundred different ones, all UTF-8, in many scripts") {
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

TEST_CASE("prompts: lines of %% separate the prompts in a file") {
  CHECK(split_prompts("a\nb\n%%\nc\n") == std::vector<std::string>{"a\nb", "c"});
  CHECK(split_prompts("a\n%%\n\n%%\nb %%\n") == std::vector<std::string>{"a", "b %%"});
  CHECK(split_prompts("").empty());
}

namespace {

namespace fs = std::filesystem;

fs::path file_of(const TempFolder& folder, const std::string& name, const std::string& bytes) {
  std::ofstream(folder / name, std::ios::binary) << bytes;
  return folder / name;
}

std::vector<std::string> windows_of(const fs::path& path) {
  TextFile file(path);
  std::vector<std::string> windows;
  while (std::optional<std::string> window = file.next()) windows.push_back(*window);
  return windows;
}

std::string feed_refusal(const fs::path& path) {
  try {
    windows_of(path);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "(read)";
}

}  // namespace

TEST_CASE("text files: the windows joined are the file, wherever its characters are cut") {
  const TempFolder folder;
  std::mt19937 rng(5);
  const char* const pieces[] = {"word ", "Ünï ", "漢字", "\n", "🙂", "a", "كلمة "};
  for (int round = 0; round < 30; ++round) {
    std::string text;
    const size_t n = 1 + rng() % 200'000, kinds = 1 + rng() % 7;
    while (text.size() < n) text += pieces[rng() % kinds];
    const std::vector<std::string> windows = windows_of(file_of(folder, "text", text));
    std::string joined;
    for (const std::string& window : windows) {
      REQUIRE(window.size() <= TextFile::kWindowBytes);
      REQUIRE(find_no_text(window) == std::string::npos);
      joined += window;
    }
    // Blank windows are left out; only line breaks can make them.
    if (text.find_first_not_of(" \n") != std::string::npos && kinds < 4) REQUIRE(joined == text);
    REQUIRE(joined.size() <= text.size());
  }
}

TEST_CASE("text files: windows end at lines and words") {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "line " + std::to_string(i) + " of a text\n";
  for (const std::string& window : windows_of(file_of(folder, "lines", text))) CHECK(window.back() == '\n');
  text.assign(4000, 'x');
  CHECK(windows_of(file_of(folder, "one word", text)).size() == 3);
}

TEST_CASE("text files: a file that is not text is refused with its name and the position") {
  const TempFolder folder;
  CHECK_THAT(feed_refusal(folder / "absent"), ContainsSubstring("cannot be read"));
  CHECK_THAT(feed_refusal(folder.path()), ContainsSubstring("is a folder"));
  CHECK_THAT(feed_refusal(file_of(folder, "empty", "")), ContainsSubstring("is empty"));
  CHECK_THAT(feed_refusal(file_of(folder, "nul", std::string("abc\0def", 7))),
             ContainsSubstring("nul: it is not UTF-8 text: byte 0x00 at 3"));
  CHECK_THAT(feed_refusal(file_of(folder, "latin1", "caf\xe9 au lait")), ContainsSubstring("byte 0xE9 at 3"));
  CHECK_THAT(feed_refusal(file_of(folder, "cut", "caf\xc3")), ContainsSubstring("byte 0xC3 at 3"));
  std::string late(300'000, 'a');
  late += '\xff';
  CHECK_THAT(feed_refusal(file_of(folder, "late", late)), ContainsSubstring("byte 0xFF at 300,000"));
  for (const char* wrong : {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe0\x80\x80", "\x80", "\xf8"}) {
    CHECK(find_no_text(std::string("a") + wrong) == 1);
  }
  CHECK(find_no_text("aé漢🙂") == std::string::npos);
}

TEST_CASE("a feed takes its sources in turn, to the end of each") {
  const TempFolder folder;
  const fs::path one = file_of(folder, "one", "first file"),
                 two = file_of(folder, "two", std::string(3500, 'y'));
  TextFeed feed({"p1", "p2"}, {one, two});
  CHECK(feed.done() < 1);
  std::vector<size_t> sizes;
  double before = 0;
  while (std::optional<std::string> text = feed.next()) {
    sizes.push_back(text->size());
    CHECK(feed.done() >= before);
    before = feed.done();
  }
  CHECK(sizes == std::vector<size_t>{2, 10, 1536, 2, 1536, 428});
  CHECK(feed.done() == 1);
}

}  // namespace hearth::test
