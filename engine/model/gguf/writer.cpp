// Lays out GGUF files and streams their bytes to disk. ggml's gguf.md specifies the format.
#include "engine/model/gguf/writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "kernels/base/file_error.h"

namespace hearth::gguf {
namespace {

constexpr uint32_t kVersion = 3;
// Small writes are combined up to this size; larger ones go directly to the system. From about 1 MiB on, the
// cost of a call does not matter.
constexpr size_t kBufferBytes = size_t{4} << 20;

uint64_t align_up(uint64_t n, uint64_t alignment) { return (n + alignment - 1) / alignment * alignment; }

std::string reason(int error) { return std::generic_category().message(error); }

template <typename T>
void append_number(std::vector<std::byte>& out, T value) {
  const std::byte* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof(T));
}

void append_string(std::vector<std::byte>& out, std::string_view text) {
  append_number(out, static_cast<uint64_t>(text.size()));
  const std::byte* bytes = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), bytes, bytes + text.size());
}

}  // namespace

Writer::Writer(std::filesystem::path path, const WriterOptions& options)
    : path_(std::move(path)), part_(path_), options_(options) {
  assert(options.magic.size() == 4);
  part_ += ".part";
  std::error_code error;
  if (std::filesystem::is_directory(path_, error)) {
    fail("it is a folder, expected the name of a file to write; give a name in it");
  }
  const bool exists = std::filesystem::exists(path_, error);
  if (exists && !std::filesystem::is_regular_file(path_, error)) {  // do not replace /dev/null by a file
    fail("it is not a plain file, and is not replaced by one; give another name");
  }
  if (!options.replace && exists) {
    fail("it exists already, expected a new name; choose another or allow it to be replaced (--force)");
  }
}

Writer::~Writer() {
  if (fd_ < 0) return;
  ::unlink(part_.c_str());
  ::close(fd_);
}

void Writer::fail(const std::string& sentence) const {
  throw std::runtime_error(file_error::file_label(path_.string()) + ": " + sentence + ".");
}

void Writer::begin_key(std::string_view name, ValueType type) {
  assert(fd_ < 0);
  append_string(keys_, name);
  append(static_cast<uint32_t>(type));
  ++n_keys_;
}

void Writer::begin_array(std::string_view name, ValueType element, size_t count) {
  begin_key(name, ValueType::kArray);
  append(static_cast<uint32_t>(element));
  append(static_cast<uint64_t>(count));
}

void Writer::key(std::string_view name, std::string_view text) {
  begin_key(name, ValueType::kString);
  append_string(keys_, text);
}

void Writer::array(std::string_view name, std::span<const std::string> texts) {
  begin_array(name, ValueType::kString, texts.size());
  for (const std::string& text : texts) append_string(keys_, text);
}

void Writer::key(std::string_view name, const Value& value) {
  begin_key(name, value.type);
  if (value.type == ValueType::kArray) {
    append(static_cast<uint32_t>(value.element));
    append(value.count);
  } else if (value.type == ValueType::kString) {
    append(static_cast<uint64_t>(value.bytes.size()));
  }
  keys_.insert(keys_.end(), value.bytes.begin(), value.bytes.end());
}

void Writer::tensor(std::string_view name, DType dtype, const std::vector<int64_t>& shape) {
  assert(fd_ < 0 && !shape.empty() && shape.size() <= 4);
  int64_t n_rows = 1;
  for (size_t i = 1; i < shape.size(); ++i) n_rows *= shape[i];
  assert(shape[0] > 0 && n_rows > 0 && shape[0] % dtype_info(dtype).block_elems == 0);
  const uint64_t bytes = row_bytes(dtype, shape[0]) * static_cast<uint64_t>(n_rows);
  tensors_.push_back({std::string(name), dtype, shape, data_bytes_, bytes});
  data_bytes_ += align_up(bytes, options_.alignment);
}

std::vector<std::byte> Writer::head() const {
  constexpr uint32_t kUnwritten = 32;  // the format's default, which needs no key
  const bool says_alignment = options_.alignment != kUnwritten;
  std::vector<std::byte> out;
  for (const char c : options_.magic) out.push_back(static_cast<std::byte>(c));
  append_number(out, kVersion);
  append_number(out, static_cast<uint64_t>(tensors_.size()));
  append_number(out, n_keys_ + (says_alignment ? 1 : 0));
  out.insert(out.end(), keys_.begin(), keys_.end());
  if (says_alignment) {
    append_string(out, "general.alignment");
    append_number(out, static_cast<uint32_t>(ValueType::kUint32));
    append_number(out, options_.alignment);
  }
  for (const Tensor& tensor : tensors_) {
    append_string(out, tensor.name);
    append_number(out, static_cast<uint32_t>(tensor.shape.size()));
    for (const int64_t n : tensor.shape) append_number(out, static_cast<uint64_t>(n));
    append_number(out, dtype_info(tensor.dtype).gguf_id);
    append_number(out, tensor.offset);
  }
  out.resize(align_up(out.size(), options_.alignment));
  return out;
}

uint64_t Writer::file_bytes() const { return head().size() + data_bytes_; }

void Writer::begin_data() {
  assert(fd_ < 0);
  const std::vector<std::byte> start = head();
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  std::error_code error;
  const std::filesystem::space_info room = std::filesystem::space(folder, error);
  const uint64_t bytes = start.size() + data_bytes_;
  if (!error && room.available < bytes) {
    fail("it takes " + file_error::with_commas(bytes) + " bytes and its disk has " +
         file_error::with_commas(room.available) + " free; make room or write to another disk");
  }
  // Truncate the file only after locking it, because another writer may be using it.
  fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
  if (fd_ < 0) fail("it cannot be written (" + reason(errno) + "); check the folder and its permissions");
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(std::exchange(fd_, -1));
    fail("another program is writing it right now; wait for that or choose another name");
  }
  if (::ftruncate(fd_, 0) != 0) fail("it cannot be written (" + reason(errno) + "); choose another name");
  buffer_.reserve(kBufferBytes);
  put(start);
}

const std::filesystem::path& Writer::preview() {
  assert(fd_ >= 0);
  flush();
  if (::ftruncate(fd_, static_cast<off_t>(file_bytes())) != 0) {
    fail("its disk space cannot be reserved (" + reason(errno) + "); make room or write to another disk");
  }
  return part_;
}

void Writer::write(std::span<const std::byte> data) {
  assert(fd_ >= 0);
  while (!data.empty()) {
    assert(next_tensor_ < tensors_.size());
    const uint64_t left = tensors_[next_tensor_].bytes - in_tensor_;
    const size_t n = static_cast<size_t>(std::min<uint64_t>(left, data.size()));
    put(data.first(n));
    data = data.subspan(n);
    in_tensor_ += n;
    if (in_tensor_ == tensors_[next_tensor_].bytes) put_padding();
  }
}

void Writer::put_padding() {
  const std::vector<std::byte> zeros(align_up(in_tensor_, options_.alignment) - in_tensor_);
  put(zeros);
  ++next_tensor_;
  in_tensor_ = 0;
}

void Writer::put(std::span<const std::byte> data) {
  if (buffer_.size() + data.size() > kBufferBytes) flush();
  if (data.size() >= kBufferBytes) {
    write_out(data);
  } else {
    buffer_.insert(buffer_.end(), data.begin(), data.end());
  }
}

void Writer::flush() {
  write_out(buffer_);
  buffer_.clear();
}

void Writer::write_out(std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd_, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      fail("writing stopped after " + file_error::with_commas(n_written_) + " bytes (" +
           reason(n < 0 ? errno : ENOSPC) + "); make room or write to another disk");
    }
    n_written_ += static_cast<uint64_t>(n);
    data = data.subspan(static_cast<size_t>(n));
  }
}

void Writer::commit() {
  assert(fd_ >= 0 && next_tensor_ == tensors_.size());
  flush();
  // Flush before renaming, so that after a power failure the final name does not refer to an incomplete file.
  // This call also reports the errors of earlier writes that the system has delayed.
  if (::fdatasync(fd_) != 0) {
    fail("its bytes did not reach the disk (" + reason(errno) + "); check the disk");
  }
  if (::rename(part_.c_str(), path_.c_str()) != 0) {
    fail("the finished file cannot be given its name (" + reason(errno) + "); check the folder");
  }
  ::close(std::exchange(fd_, -1));
}

uint32_t file_type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 0;
    case DType::kQ4_0:
      return 2;
    case DType::kQ4_1:
      return 3;
    case DType::kQ8_0:
      return 7;
    case DType::kQ5_0:
      return 8;
    case DType::kQ5_1:
      return 9;
    case DType::kBF16:
      return 32;
    case DType::kMXFP4:
      return 38;
    default:
      return 1;
  }
}

}  // namespace hearth::gguf
