// Samples of text files: the whole of a small file, stretches of whole lines from all parts of a large file,
// and error messages.
#include "profiler/predictors/training_text.h"

#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

struct Folder {
  std::string write(const std::string& text) const {
    std::ofstream(temp / "text.txt", std::ios::binary | std::ios::trunc) << text;
    return temp / "text.txt";
  }
  std::string refusal(const std::string& path, size_t max_bytes = 1 << 20) const {
    try {
      sample_text(path, max_bytes, "--text");
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }
  TempFolder temp;
};

/// Lines "0000123 words", each with its number.
std::string numbered_lines(int n) {
  std::string text;
  for (int i = 0; i < n; ++i) {
    const std::string number = std::to_string(i);
    text += std::string(7 - number.size(), '0') + number + " words of a line\n";
  }
  return text;
}

}  // namespace

TEST_CASE("text sample: a file that fits is sampled whole") {
  const Folder folder;
  for (const std::string& text : {std::string("one"), numbered_lines(1000), std::string("\xff no UTF-8")}) {
    const std::string path = folder.write(text);
    const NamedText sample = sample_text(path, 1 << 20, "--text");
    CHECK(sample.name == path);
    CHECK(sample.text == text);
  }
  const std::string text = numbered_lines(1000);  // shorter than a stretch
  CHECK(sample_text(folder.write(text), 10, "--text").text == text);
}

TEST_CASE("text sample: a large file gives whole lines in order, from its beginning to its end") {
  const Folder folder;
  const int n_lines = 100'000;
  const std::string path = folder.write(numbered_lines(n_lines));
  const size_t max_bytes = 5 * kStretchBytes + 100;
  const std::string sample = sample_text(path, max_bytes, "--text").text;
  CHECK(sample.size() <= max_bytes);
  CHECK(sample.size() > 4 * kStretchBytes);
  std::istringstream lines(sample);
  std::set<int> fifths;
  int before = -1, n_bad = 0;
  for (std::string line; std::getline(lines, line);) {
    const int number = std::stoi(line);
    n_bad += line.size() != 23 || number <= before;
    before = number;
    fifths.insert(number * 5 / n_lines);
  }
  CHECK(n_bad == 0);
  CHECK(fifths.size() == 5);
}

TEST_CASE("text sample: a file without lines or spaces gives whole characters") {
  const Folder folder;
  std::string text;
  // three bytes each, so stretches begin inside of characters
  while (text.size() < 4 * kStretchBytes) text += "\xe6\x96\x87";
  for (const int shift : {0, 1, 2}) {
    const std::string sample = sample_text(folder.write(std::string(static_cast<size_t>(shift), 'a') + text),
                                           3 * kStretchBytes, "-f")
                                   .text;
    CHECK(sample.size() > 2 * kStretchBytes);
    size_t n_bad = 0;
    for (size_t i = 0; i < sample.size();) {
      const bool whole = sample.compare(i, 3, "\xe6\x96\x87") == 0;
      n_bad += !whole && sample[i] != '\n';
      i += whole ? 3 : 1;
    }
    CHECK(n_bad == 0);
  }
}

TEST_CASE("text sample: a file that is not text is refused with what it is and where that shows") {
  const Folder folder;
  CHECK(folder.refusal(folder.write("")).find("is empty; give --text") != std::string::npos);
  CHECK(folder.refusal(folder.temp / "absent").find("cannot be read") != std::string::npos);
  CHECK(folder.refusal(folder.temp.path()).find("is a folder") != std::string::npos);
  CHECK(folder.refusal(folder.write(std::string(500, 'a') + '\0' + "b")).find("byte 500 ") !=
        std::string::npos);
  // Reports the position of the zero in the file, not in the stretch.
  std::string text = numbered_lines(10'000);
  const size_t at = text.size() / 2;
  text[at] = '\0';
  CHECK(folder.refusal(folder.write(text), kStretchBytes).find("byte " + std::to_string(at)) !=
        std::string::npos);
}

}  // namespace hearth::test
