// See the header.
#include "profiler/text_io.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace hearth {

std::string read_text(const std::string& path, std::string_view option) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) {
    throw std::runtime_error(path + ": cannot be read, or is empty; give " + std::string(option) +
                             " a text file.");
  }
  return text.str();
}

void print_result(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw std::runtime_error(
        "the result could not be written to the standard output: " + std::string(std::strerror(errno)) + ".");
  }
}

}  // namespace hearth
