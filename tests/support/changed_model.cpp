// Implements write_changed().
#include "tests/support/changed_model.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace hearth::testing {

void write_changed(const std::filesystem::path& from, const std::filesystem::path& to,
                   const std::map<std::string, uint32_t>& keys) {
  std::ifstream in(from, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  for (const auto& [key, number] : keys) {
    const std::string before = key + std::string("\4\0\0\0", 4);  // the end of the key, and the type uint32
    const size_t at = bytes.find(before);
    if (at == std::string::npos) throw std::runtime_error(from.string() + " has no key " + key);
    std::memcpy(bytes.data() + at + before.size(), &number, sizeof number);
  }
  std::ofstream(to, std::ios::binary) << bytes;
}

}  // namespace hearth::testing
