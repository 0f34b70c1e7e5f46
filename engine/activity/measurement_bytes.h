// The format of files with measurements of a model (activity files, traces of experts): a magic word, a
// version, the model's identity, the measurements, and the SHA-256 of all bytes before it.
//
// Little-endian. Lengths, counts and numbers without a stated width are LEB128. Bytes that are read are not
// trusted: the checksum detects damage, and the reader's checks detect files that were written incorrectly.
// Plain data; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/gguf/cursor.h"
#include "engine/model/model_identity.h"
#include "kernels/base/sha256.h"

namespace hearth {

/// A kind of file. Its strings must outlive the readers of such files.
struct MeasurementFile {
  std::string_view magic;  // four bytes
  std::string_view what;   // "an activity file"
  uint32_t first_version = 1, last_version = 1;
  std::string_view remedy;  // the end of each message, "; count again (hearth-profiler count)"
};

class MeasurementWriter {
 public:
  /// Writes the magic word and the version.
  MeasurementWriter(const MeasurementFile& kind, uint32_t version);

  void raw(const void* data, size_t n);
  void fixed(uint32_t number) { raw(&number, sizeof number); }
  void number(uint64_t n);
  void text(std::string_view text);
  template <class T>
  void numbers(std::span<const T> all) {
    for (const T n : all) number(n);
  }
  /// Appends the model: layers, d_model, d_ff (uint32 each), content hash (32 bytes), activation and name
  /// (each a length and that many bytes). For a mixture, also appends the number of experts.
  void model(const ModelIdentity& model);

  /// Appends the checksum and returns all bytes. Call it once, last.
  std::vector<std::byte> finish() &&;

 private:
  std::vector<std::byte> out_;
};

/// Reads the body of a file with measurements. All members throw ModelFileError: one sentence with the file,
/// the place in it and the remedy. A reader must not be shared by threads.
class MeasurementReader {
 public:
  /// Checks magic, version and checksum. file: the file's name for messages (file_error::file_label()). All
  /// arguments must outlive the reader.
  MeasurementReader(std::span<const std::byte> bytes, const std::string& file, const MeasurementFile& kind);

  uint32_t version() const { return version_; }
  /// Sets the name of the part of the file that is read next. Error messages name this part. `place` must
  /// outlive the reader.
  void enter(std::string_view place) { cursor_.enter(place); }
  [[noreturn]] void fail(const std::string& sentence) const;

  uint64_t number();
  /// Reads a number that is at most `most`; messages call it `what`.
  uint64_t number(uint64_t most, std::string_view what);
  /// Reads a uint32 from 1 to `most`.
  int size(uint32_t most, std::string_view what);
  std::string text();
  Sha256 hash();
  std::span<const std::byte> take(uint64_t n) { return cursor_.take(n); }
  /// Reads the model that MeasurementWriter::model() writes. of_experts: whether the file belongs to a
  /// mixture.
  ModelIdentity model(bool of_experts);

  size_t remaining() const { return cursor_.remaining(); }
  /// Throws if unread bytes are left.
  void end();

 private:
  uint32_t version_;
  std::string_view remedy_;
  gguf::Cursor cursor_;
};

/// Returns why measurements of model `a` cannot be used for model `b`, as a sentence without a period; empty
/// if they can.
std::string other_model(const ModelIdentity& a, const ModelIdentity& b);

}  // namespace hearth
