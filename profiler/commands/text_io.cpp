// See the header.
#include "profiler/commands/text_io.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "profiler/activity/text_input.h"

namespace hearth {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;

}  // namespace

std::string read_text(const std::string& path, std::string_view option) {
  TextInput in(path, "give " + std::string(option) + " another file");
  std::string text = in.read(kMaxTextBytes + 1);
  if (text.size() > kMaxTextBytes) in.refuse("it has more than 1 GiB, or no end");
  if (text.empty()) in.refuse("it is empty");
  return text;
}

void print_result(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw std::runtime_error(
        "the result could not be written to the standard output: " + std::string(std::strerror(errno)) + ".");
  }
}

}  // namespace hearth
