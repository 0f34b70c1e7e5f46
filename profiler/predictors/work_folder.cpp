// Implements WorkFolder, and reads and writes checkpoints.
#include "profiler/predictors/work_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "kernels/base/sha256.h"
#include "kernels/base/whole_file.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "HRTHPRD1";
constexpr size_t kHashBytes = 64;  // hexadecimal digits of a SHA-256
constexpr const char* kIdentityName = "training-run.txt";
constexpr const char* kLockName = "training-run.lock";

[[noreturn]] void fail(const fs::path& path, const std::string& sentence) {
  throw std::runtime_error(path.string() + ": " + sentence + ".");
}

[[noreturn]] void fail_damaged(const fs::path& path) {
  fail(path, "the checkpoint is damaged; remove this file to train its layer again and keep the others");
}

std::string reason(int error) { return std::generic_category().message(error); }

std::optional<std::string> read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

/// Returns whether a file of this name is one that training creates.
bool is_ours(const std::string& name) {
  const bool of_layer =
      name.find(".record") != std::string::npos || name.find(".checkpoint") != std::string::npos;
  return name.starts_with("training-run.") || (name.starts_with("layer-") && of_layer);
}

template <class T>
void put(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_floats(std::string& to, const std::vector<float>& values) {
  put(to, static_cast<uint64_t>(values.size()));
  to.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

/// Reads values from bytes. A read fails if too few bytes are left.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  bool get(T& value) {
    if (bytes_.size() < sizeof(value)) return false;
    std::memcpy(&value, bytes_.data(), sizeof(value));
    bytes_.remove_prefix(sizeof(value));
    return true;
  }
  /// Reads a list of n floats, or an empty list if `optional` is true. Sets `values` to a view of the bytes
  /// of the floats.
  bool get_floats(std::string_view& values, uint64_t n, bool optional) {
    uint64_t found = 0;
    if (!get(found) || (found != n && !(optional && found == 0)) || bytes_.size() / sizeof(float) < found) {
      return false;
    }
    values = bytes_.substr(0, found * sizeof(float));
    bytes_.remove_prefix(values.size());
    return true;
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

/// A parsed checkpoint. The views of its weights point into the checkpoint's bytes.
struct Checkpoint {
  LayerTraining training;  // sizes and counts, no weights
  std::string_view in, out;
  std::string_view mean_in, squares_in, mean_out, squares_out;
};

std::optional<Checkpoint> read_checkpoint(std::string_view bytes, int d_model, int d_ff) {
  if (bytes.size() < kMagic.size() + kHashBytes || !bytes.starts_with(kMagic)) return std::nullopt;
  const std::string_view body = bytes.substr(0, bytes.size() - kHashBytes);
  if (sha256_hex(body) != bytes.substr(body.size())) return std::nullopt;
  Reader reader(body.substr(kMagic.size()));
  Checkpoint found;
  LayerTraining& training = found.training;
  PredictorNet& net = training.net;
  int32_t finished = 0;
  bool ok = reader.get(net.d_model) && reader.get(net.rank) && reader.get(net.d_ff) && reader.get(finished) &&
            reader.get(training.n_steps) && reader.get(training.last_missed) &&
            reader.get(training.moments.n_steps);
  ok = ok && net.d_model == d_model && net.d_ff == d_ff && net.rank > 0 && net.rank <= d_ff &&
       training.n_steps >= 0;
  if (!ok) return std::nullopt;
  training.finished = finished != 0;
  const uint64_t n_in = static_cast<uint64_t>(net.rank) * static_cast<uint64_t>(d_model);
  const uint64_t n_out = static_cast<uint64_t>(net.rank) * static_cast<uint64_t>(d_ff);
  ok = reader.get_floats(found.in, n_in, false) && reader.get_floats(found.out, n_out, false) &&
       reader.get_floats(found.mean_in, n_in, true) && reader.get_floats(found.squares_in, n_in, true) &&
       reader.get_floats(found.mean_out, n_out, true) && reader.get_floats(found.squares_out, n_out, true) &&
       reader.at_end();
  // Either all moments are there or none.
  const bool none = found.mean_in.empty();
  for (const std::string_view values : {found.squares_in, found.mean_out, found.squares_out}) {
    ok = ok && values.empty() == none;
  }
  if (!ok) return std::nullopt;
  return found;
}

std::vector<float> floats_of(std::string_view bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Returns the floats of a mapped file. They are aligned, because only the magic and whole numbers precede
/// them.
std::span<const float> mapped_floats(std::string_view bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace

std::string checkpoint_bytes(const LayerTraining& training) {
  std::string bytes(kMagic);
  const PredictorNet& net = training.net;
  for (const int32_t n : {net.d_model, net.rank, net.d_ff, training.finished ? 1 : 0}) put(bytes, n);
  put(bytes, training.n_steps);
  put(bytes, training.last_missed);
  put(bytes, training.moments.n_steps);
  for (const std::vector<float>* values :
       {&net.in, &net.out, &training.moments.in, &training.moments.in_squares, &training.moments.out,
        &training.moments.out_squares}) {
    put_floats(bytes, *values);
  }
  bytes += sha256_hex(bytes);
  return bytes;
}

std::optional<LayerTraining> parse_checkpoint(std::string_view bytes, int d_model, int d_ff) {
  std::optional<Checkpoint> found = read_checkpoint(bytes, d_model, d_ff);
  if (!found) return std::nullopt;
  LayerTraining training = std::move(found->training);
  training.net.in = floats_of(found->in);
  training.net.out = floats_of(found->out);
  training.moments.in = floats_of(found->mean_in);
  training.moments.in_squares = floats_of(found->squares_in);
  training.moments.out = floats_of(found->mean_out);
  training.moments.out_squares = floats_of(found->squares_out);
  return training;
}

WorkFolder::WorkFolder(fs::path folder, const std::string& identity, bool restart)
    : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (!fs::is_directory(folder_, error)) {
    fail(folder_, "the folder for training's files cannot be made; choose another with --work");
  }
  const fs::path identity_path = folder_ / kIdentityName;
  const std::optional<std::string> found = read_bytes(identity_path);
  if (!found) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
      if (!is_ours(entry.path().filename().string())) {
        fail(folder_, "has files that are not training's (" + entry.path().filename().string() +
                          "); choose a new folder with --work");
      }
    }
  }
  lock_ = ::open((folder_ / kLockName).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) fail(folder_, "cannot be written (" + reason(errno) + "); choose another with --work");
  try {
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
      fail(folder_, "another program is training there; wait for it or choose another folder with --work");
    }
    if (!restart && found && *found != identity) {
      fail(folder_,
           "holds the work of a run with another model, other texts or other options; run that command again "
           "to continue it, start over with --restart, or choose another folder with --work");
    }
    if (!found || restart) {
      clear();
      write_whole_file(identity_path, identity);
    }
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

WorkFolder::~WorkFolder() {
  if (lock_ >= 0) ::close(lock_);
}

fs::path WorkFolder::checkpoint_path(int layer) const {
  char name[32];
  std::snprintf(name, sizeof(name), "layer-%03d.checkpoint", layer);
  return folder_ / name;
}

std::optional<LayerTraining> WorkFolder::load(int layer, int d_model, int d_ff) const {
  const fs::path path = checkpoint_path(layer);
  const std::optional<std::string> bytes = read_bytes(path);
  if (!bytes) return std::nullopt;
  std::optional<LayerTraining> training = parse_checkpoint(*bytes, d_model, d_ff);
  if (!training) fail_damaged(path);
  return training;
}

MappedNet WorkFolder::map(int layer, int d_model, int d_ff) const {
  const fs::path path = checkpoint_path(layer);
  MappedNet mapped{gguf::MappedFile::open(path, "a checkpoint of training"), {}};
  const std::span<const std::byte> bytes = mapped.file.bytes();
  const std::optional<Checkpoint> found =
      read_checkpoint({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, d_model, d_ff);
  if (!found) fail_damaged(path);
  mapped.net = found->training.net;
  mapped.net.in = mapped_floats(found->in);
  mapped.net.out = mapped_floats(found->out);
  return mapped;
}

void WorkFolder::save(int layer, const LayerTraining& training) const {
  write_whole_file(checkpoint_path(layer), checkpoint_bytes(training));
}

/// Removes all files that training created, except the lock.
void WorkFolder::clear() const {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (is_ours(name) && name != kLockName) fs::remove(entry.path(), ignored);
  }
}

void WorkFolder::remove() {
  clear();
  std::error_code ignored;
  fs::remove(folder_ / kLockName, ignored);
  fs::remove(folder_, ignored);  // stays if it holds other files
}

}  // namespace hearth
