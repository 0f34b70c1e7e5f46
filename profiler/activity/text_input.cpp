// See the header.
#include "profiler/activity/text_input.h"

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "engine/model/gguf/fault.h"

namespace hearth {
namespace {

// Memory is taken as bytes come: `most` may be far more than there are.
constexpr size_t kPieceBytes = size_t{1} << 20;

std::string reason() { return " (" + std::generic_category().message(errno) + ")"; }

}  // namespace

TextInput::TextInput(const std::filesystem::path& path, std::string remedy)
    : label_(gguf::file_label(path.string())), remedy_(std::move(remedy)) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) refuse("it is a folder");
  in_.open(path, std::ios::binary);
  if (!in_) refuse("it cannot be read" + reason());
  if (std::filesystem::is_regular_file(path, error)) size_ = std::filesystem::file_size(path, error);
}

void TextInput::seek(uint64_t at) { in_.seekg(static_cast<std::streamoff>(at)); }

std::string TextInput::read(size_t most) {
  std::string bytes;
  while (bytes.size() < most && in_) {
    const size_t had = bytes.size();
    bytes.resize(std::min(most, had + kPieceBytes));
    in_.read(bytes.data() + had, static_cast<std::streamsize>(bytes.size() - had));
    bytes.resize(had + static_cast<size_t>(in_.gcount()));
  }
  if (in_.bad()) refuse("reading it stopped" + reason());
  return bytes;
}

void TextInput::refuse(std::string_view what) const {
  throw std::runtime_error(label_ + ": " + std::string(what) + "; " + remedy_ + ".");
}

}  // namespace hearth
