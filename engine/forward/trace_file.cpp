// See the header.
#include "engine/forward/trace_file.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace hearth {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw std::runtime_error("--trace " + path.string() +
                           ": the file cannot be written: " + std::strerror(errno) + ".");
}

}  // namespace

TraceFile::TraceFile(std::filesystem::path path) : path_(std::move(path)), out_(path_, std::ios::binary) {
  if (!out_) fail(path_);
}

void TraceFile::write() {
  out_ << trace_.json() << std::flush;
  if (!out_) fail(path_);
  out_.close();
}

}  // namespace hearth
