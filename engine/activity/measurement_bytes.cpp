// See the header.
#include "engine/activity/measurement_bytes.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "kernels/base/file_error.h"

namespace hearth {
namespace {

using file_error::with_commas;

constexpr uint32_t kMaxLayers = 1u << 14, kMaxWidth = 1u << 24;  // far above any model's
constexpr uint32_t kMaxExperts = 1u << 16;
constexpr uint64_t kMaxText = 1024;  // bytes of a name
constexpr size_t kHead = 4 + sizeof(uint32_t);

/// Checks the magic word and the version. Returns the version, or 0 if the bytes end before it.
uint32_t checked_version(std::span<const std::byte> bytes, const std::string& file,
                         const MeasurementFile& kind) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min(bytes.size(), kind.magic.size()));
  if (head != kind.magic) {
    file_error::fail(file, "it begins with " + file_error::quoted(head) + ", expected \"" +
                               std::string(kind.magic) + "\": it is not " + std::string(kind.what) +
                               std::string(kind.remedy));
  }
  if (bytes.size() < kHead) return 0;
  uint32_t version = 0;
  std::memcpy(&version, bytes.data() + kind.magic.size(), sizeof version);
  if (version >= kind.first_version && version <= kind.last_version) return version;
  std::string expected = with_commas(kind.first_version);
  if (kind.last_version > kind.first_version) expected += " or " + with_commas(kind.last_version);
  file_error::fail(
      file, "it is of version " + with_commas(version) + ", expected " + expected + std::string(kind.remedy));
}

/// Checks the checksum at the end of the file. Returns the bytes before it.
std::span<const std::byte> checked_body(std::span<const std::byte> bytes, const std::string& file,
                                        std::string_view remedy) {
  const size_t n = bytes.size() - std::min(bytes.size(), sizeof(Sha256));
  const Sha256 sum = sha256(bytes.first(n));
  if (bytes.size() < kHead + sizeof(Sha256) || std::memcmp(sum.data(), bytes.data() + n, sum.size()) != 0) {
    file_error::fail(file, "its checksum is not that of its " + with_commas(bytes.size()) +
                               " bytes: it is damaged or was cut short" + std::string(remedy));
  }
  return bytes.first(n);
}

}  // namespace

MeasurementWriter::MeasurementWriter(const MeasurementFile& kind, uint32_t version) {
  assert(kind.magic.size() == 4);
  raw(kind.magic.data(), kind.magic.size());
  fixed(version);
}

void MeasurementWriter::raw(const void* data, size_t n) {
  const auto* bytes = static_cast<const std::byte*>(data);
  out_.insert(out_.end(), bytes, bytes + n);
}

void MeasurementWriter::number(uint64_t n) {
  for (; n >= 128; n >>= 7) out_.push_back(static_cast<std::byte>(n | 128));
  out_.push_back(static_cast<std::byte>(n));
}

void MeasurementWriter::text(std::string_view text) {
  number(text.size());
  raw(text.data(), text.size());
}

void MeasurementWriter::model(const ModelIdentity& model) {
  fixed(static_cast<uint32_t>(model.n_layers));
  fixed(static_cast<uint32_t>(model.d_model));
  fixed(static_cast<uint32_t>(model.d_ff));
  raw(model.content.data(), model.content.size());
  text(model.activation);
  text(model.name);
  if (model.n_experts > 0) number(static_cast<uint64_t>(model.n_experts));
}

std::vector<std::byte> MeasurementWriter::finish() && {
  const Sha256 sum = sha256(out_);
  raw(sum.data(), sum.size());
  return std::move(out_);
}

MeasurementReader::MeasurementReader(std::span<const std::byte> bytes, const std::string& file,
                                     const MeasurementFile& kind)
    : version_(checked_version(bytes, file, kind)),
      remedy_(kind.remedy),
      cursor_(checked_body(bytes, file, kind.remedy), file, kHead) {}

void MeasurementReader::fail(const std::string& sentence) const {
  cursor_.fail(sentence + std::string(remedy_));
}

uint64_t MeasurementReader::number() {
  uint64_t number = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = cursor_.read<uint8_t>();
    const uint64_t bits = byte & 127;
    if (shift == 63 && bits > 1) break;
    number |= bits << shift;
    if (byte < 128) return number;
  }
  fail("holds a number of more than 64 bits: the file is damaged");
}

uint64_t MeasurementReader::number(uint64_t most, std::string_view what) {
  const uint64_t n = number();
  if (n > most) {
    fail("says " + with_commas(n) + " " + std::string(what) + ", expected at most " + with_commas(most));
  }
  return n;
}

int MeasurementReader::size(uint32_t most, std::string_view what) {
  const auto n = cursor_.read<uint32_t>();
  if (n < 1 || n > most) {
    fail("says " + with_commas(n) + " " + std::string(what) + ", expected 1 to " + with_commas(most));
  }
  return static_cast<int>(n);
}

std::string MeasurementReader::text() {
  const std::span<const std::byte> bytes = cursor_.take(number(kMaxText, "bytes of text"));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Sha256 MeasurementReader::hash() {
  Sha256 hash;
  std::memcpy(hash.data(), cursor_.take(hash.size()).data(), hash.size());
  return hash;
}

ModelIdentity MeasurementReader::model(bool of_experts) {
  ModelIdentity model;
  model.n_layers = size(kMaxLayers, "layers");
  model.d_model = size(kMaxWidth, "numbers of a layer's input");
  model.d_ff = size(kMaxWidth, "neurons of a layer");
  model.content = hash();
  model.activation = text();
  model.name = text();
  if (of_experts) {
    model.n_experts = static_cast<int>(number(kMaxExperts, "experts of a layer"));
    if (model.n_experts == 0) fail("says 0 experts of a layer, expected 1 to " + with_commas(kMaxExperts));
  }
  return model;
}

void MeasurementReader::end() {
  if (remaining() == 0) return;
  enter("end");
  fail("is followed by " + with_commas(remaining()) + " bytes: the file was made wrong");
}

std::string other_model(const ModelIdentity& a, const ModelIdentity& b) {
  if (a.same_model(b)) return {};
  const auto text = [](const ModelIdentity& model) {
    return file_error::quoted(model.name) + " (" + std::to_string(model.n_layers) + " layers of " +
           with_commas(static_cast<uint64_t>(model.n_units())) +
           (model.n_experts > 0 ? " experts, " : " neurons, ") + file_error::quoted(model.activation) + ", " +
           hex_text(model.content).substr(0, 12) + ")";
  };
  return "it is of another model: " + text(a) + ", expected " + text(b);
}

}  // namespace hearth
