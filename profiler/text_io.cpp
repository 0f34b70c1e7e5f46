// See the header.
#include "profiler/text_io.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "engine/gguf/fault.h"

namespace hearth {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;

}  // namespace

std::string read_text(const std::string& path, std::string_view option) {
  const auto refuse = [&](std::string_view what) {
    throw std::runtime_error(gguf::file_label(path) + ": " + std::string(what) + "; give " +
                             std::string(option) + " another file.");
  };
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) refuse("it is a folder");
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse("it cannot be read");
  constexpr size_t kPiece = size_t{1} << 20;
  std::string text;
  while (in) {
    const size_t had = text.size();
    if (had > kMaxTextBytes) refuse("it has more than 1 GiB, or no end");
    text.resize(had + kPiece);
    in.read(text.data() + had, kPiece);
    text.resize(had + static_cast<size_t>(in.gcount()));
  }
  if (in.bad()) refuse("reading it stopped");
  if (text.empty()) refuse("it is empty");
  return text;
}

void print_result(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw std::runtime_error(
        "the result could not be written to the standard output: " + std::string(std::strerror(errno)) + ".");
  }
}

}  // namespace hearth
