#include "tests/support/cudaemu/symbol_name.h"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <vector>

#include "tests/support/cudaemu/order.h"

namespace hearth::cudaemu {
namespace {

/// The difference between the program's load address and the addresses of its symbols.
uintptr_t load_offset() {
  uintptr_t offset = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        *static_cast<uintptr_t*>(result) = info->dlpi_addr;
        return 1;  // stop: the program is the first object
      },
      &offset);
  return offset;
}

template <class T>
std::vector<T> read(std::ifstream& file, uint64_t offset, uint64_t n_bytes) {
  std::vector<T> items(n_bytes / sizeof(T));
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(items.data()), static_cast<std::streamsize>(items.size() * sizeof(T)));
  return items;
}

/// Mangled names of the functions of this program by address.
std::map<uintptr_t, std::string> read_functions() {
  std::map<uintptr_t, std::string> functions;
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const auto header = read<ElfW(Ehdr)>(file, 0, sizeof(ElfW(Ehdr)));
  if (!file || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0) return functions;
  const auto sections = read<ElfW(Shdr)>(file, header[0].e_shoff, header[0].e_shnum * sizeof(ElfW(Shdr)));
  for (const ElfW(Shdr) & section : sections) {
    if (section.sh_type != SHT_SYMTAB) continue;
    const ElfW(Shdr)& names_section = sections[section.sh_link];
    const auto names = read<char>(file, names_section.sh_offset, names_section.sh_size);
    for (const ElfW(Sym) & symbol : read<ElfW(Sym)>(file, section.sh_offset, section.sh_size))
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_value != 0)
        functions.emplace(symbol.st_value + load_offset(), &names[symbol.st_name]);
  }
  return functions;
}

/// Shortens "hearth::cuda::(anonymous namespace)::add_kernel(float const*, long)" to the part that
/// distinguishes kernels.
std::string shortened(std::string name) {
  const std::string anonymous = "(anonymous namespace)::";
  for (size_t at; (at = name.find(anonymous)) != std::string::npos;) name.erase(at, anonymous.size());
  if (name.rfind("void ", 0) == 0) name.erase(0, 5);  // demangled templates begin with their return type
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == '(' && depth == 0) return name.substr(0, i);
  }
  return name;
}

}  // namespace

std::string symbol_name(const void* function) {
  // ThreadSanitizer sees the table's strings, but not the guard that orders its initialization.
  const Unseen unseen;
  static const std::map<uintptr_t, std::string>& functions =
      *new std::map<uintptr_t, std::string>(read_functions());
  const auto found = functions.find(reinterpret_cast<uintptr_t>(function));
  if (found == functions.end()) {
    char address[32];
    std::snprintf(address, sizeof address, "%p", function);
    return address;
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(found->second.c_str(), nullptr, nullptr, &status), &std::free);
  return shortened(status == 0 ? demangled.get() : found->second);
}

}  // namespace hearth::cudaemu
