// Pickle protocol 2 and zip, as far as a tensor needs them.
#include "tests/support/torch_file.h"

#include <string_view>

namespace hearth::test {
namespace {

using std::string_view_literals::operator""sv;

void append_text(Bytes& out, std::string_view text) { append_bytes(out, text.data(), text.size()); }

void append_unicode(Bytes& out, std::string_view text) {
  append_text(out, "X");
  append_number(out, static_cast<uint32_t>(text.size()));
  append_text(out, text);
}

void append_int(Bytes& out, int32_t number) {
  append_text(out, "J");
  append_number(out, number);
}

void append_tuple(Bytes& out, const std::vector<int32_t>& numbers) {
  append_text(out, "(");
  for (const int32_t number : numbers) append_int(out, number);
  append_text(out, "t");
}

Bytes tensor_pickle(const TorchFile& file) {
  Bytes out;
  append_text(out,
              "\x80\x02"
              "ctorch._utils\n_rebuild_tensor_v2\nq\0(("sv);
  append_unicode(out, "storage");
  append_text(out, "ctorch\n" + file.storage_type + "\n");
  append_unicode(out, "0");
  append_unicode(out, "cpu");
  append_int(out, file.storage_elements);
  append_text(out, "tQ");
  append_int(out, file.offset);
  append_tuple(out, file.shape);
  append_tuple(out, file.strides);
  append_text(out,
              "\x89"
              "ccollections\nOrderedDict\n)RtR."sv);
  return out;
}

}  // namespace

Bytes text_bytes(std::string_view text) {
  Bytes out;
  append_text(out, text);
  return out;
}

Bytes zip_archive(const std::vector<std::pair<std::string, Bytes>>& entries, uint16_t method) {
  constexpr uint16_t kSizesBehind = 8;
  Bytes out, directory;
  for (const auto& [name, data] : entries) {
    const uint32_t at = static_cast<uint32_t>(out.size());
    const uint32_t size = static_cast<uint32_t>(data.size());
    const uint16_t name_bytes = static_cast<uint16_t>(name.size());
    append_text(out, "PK\3\4\0\0"sv);
    append_number(out, kSizesBehind);
    append_number(out, method);
    out.resize(out.size() + 16);  // time, checksum, sizes
    append_number(out, name_bytes);
    append_number(out, uint16_t{3});  // extra bytes: padding
    append_text(out, name);
    append_text(out, "pad");
    append_bytes(out, data.data(), data.size());
    append_text(out, "PK\7\10\0\0\0\0"sv);
    append_number(out, size);
    append_number(out, size);

    append_text(directory, "PK\1\2\0\0\0\0"sv);
    append_number(directory, kSizesBehind);
    append_number(directory, method);
    directory.resize(directory.size() + 8);  // time, checksum
    append_number(directory, size);
    append_number(directory, size);
    append_number(directory, name_bytes);
    directory.resize(directory.size() + 12);  // extra, comment, disk, attributes
    append_number(directory, at);
    append_text(directory, name);
  }
  const uint32_t at = static_cast<uint32_t>(out.size());
  out.insert(out.end(), directory.begin(), directory.end());
  append_text(out, "PK\5\6\0\0\0\0"sv);
  append_number(out, static_cast<uint16_t>(entries.size()));
  append_number(out, static_cast<uint16_t>(entries.size()));
  append_number(out, static_cast<uint32_t>(directory.size()));
  append_number(out, at);
  append_number(out, uint16_t{0});
  return out;
}

Bytes TorchFile::bytes() const {
  std::vector<std::pair<std::string, Bytes>> entries = {
      {"counts/data.pkl", pickle.empty() ? tensor_pickle(*this) : pickle}, {"counts/data/0", elements}};
  if (!byte_order.empty()) entries.emplace_back("counts/byteorder", text_bytes(byte_order));
  return zip_archive(entries);
}

}  // namespace hearth::test
