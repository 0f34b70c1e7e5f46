// Parses and writes machine profiles.
//
// For each TOML section, a table lists every figure's key, its member, and the range of values that a machine
// can have. Parsing and writing both use these tables. The ranges are wide; they only detect wrong units,
// such as gigabytes for bytes or microseconds for seconds.
#include "profiler/machine/machine_toml.h"

#include <spdlog/fmt/fmt.h>
// In some places, toml++ 3.3 asserts that a key begins with a valid character without having checked the
// character. A text such as "= 1" would therefore abort a debug build. In other builds, the assertion becomes
// a hint to the compiler that the condition holds, which is false for such a text. The code after the
// assertion refuses such texts anyway, so the assertion is disabled here.
#undef NDEBUG
#define TOML_ASSERT(...) static_cast<void>(0)
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>

#include "config/suggest.h"

namespace hearth {

namespace {

namespace fs = std::filesystem;

struct Range {
  double least, most;
  std::string_view unit;
};

constexpr Range kBytes{1e8, 1e15, "bytes"};
constexpr Range kBytesPerSecond{1e7, 1e16, "bytes per second"};
constexpr Range kSeconds{1e-9, 1, "seconds"};
constexpr Range kMultiplyAdds{1e6, 1e17, "multiply-adds per second"};
constexpr Range kInstructions{1e9, 1e17, "instructions of a thread per second"};
constexpr Range kShare{1e-3, 1, "of the sequential rate"};
constexpr Range kCores{1, 65536, "physical cores"};
constexpr Range kNodes{1, 1024, "NUMA nodes"};
constexpr Range kThreads{1, 65536, "threads"};

template <class Section>
struct Figure {
  std::string_view key;
  double Section::*value;
  Range range;
  bool optional = false;  // a missing figure becomes 0
};

constexpr std::array<Figure<HostProfile>, 2> kHostFigures = {{
    {"sparse_row_share", &HostProfile::sparse_row_share, kShare},
    {"multiply_adds_per_s", &HostProfile::multiply_adds_per_s, kMultiplyAdds},
}};

constexpr std::array<Figure<GpuProfile>, 9> kGpuFigures = {{
    {"vram_bytes_per_s", &GpuProfile::vram_bytes_per_s, kBytesPerSecond},
    {"to_device_pinned_bytes_per_s", &GpuProfile::to_device_pinned_bytes_per_s, kBytesPerSecond},
    {"to_device_pageable_bytes_per_s", &GpuProfile::to_device_pageable_bytes_per_s, kBytesPerSecond},
    {"from_device_pinned_bytes_per_s", &GpuProfile::from_device_pinned_bytes_per_s, kBytesPerSecond},
    {"from_device_pageable_bytes_per_s", &GpuProfile::from_device_pageable_bytes_per_s, kBytesPerSecond},
    {"launch_s", &GpuProfile::launch_s, kSeconds},
    {"round_trip_s", &GpuProfile::round_trip_s, kSeconds},
    {"multiply_adds_per_s", &GpuProfile::multiply_adds_per_s, kMultiplyAdds},
    {"instructions_per_s", &GpuProfile::instructions_per_s, kInstructions, true},
}};

// ---- reading ----

std::string expected(const Range& range) {
  return fmt::format("a number from {:g} to {:g} {}", range.least, range.most, range.unit);
}

/// Returns the node's value for messages: as in the file if possible, or a phrase such as "an array".
std::string shown(const toml::node& node) {
  if (const toml::value<double>* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const toml::value<int64_t>* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const toml::value<bool>* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  if (const toml::value<std::string>* text = node.as_string()) {
    return "\"" + text->get().substr(0, 60) + (text->get().size() > 60 ? "...\"" : "\"");
  }
  if (node.is_array()) return "an array";
  return node.is_table() ? "a table" : "a date or a time";
}

/// One table of the TOML text. Checks that all its keys are known, and reads values with range checks.
class Section {
 public:
  /// name: the table's name, for example "gpu", or "" for the top level. Throws if the table has a key that
  /// is not in `keys`. Keeps references to all arguments.
  Section(const toml::table& table, const std::string& name, const std::string& origin,
          const std::vector<std::string>& keys)
      : table_(table), name_(name), origin_(origin) {
    for (const auto& [key, node] : table) {
      const std::string found(key.str());
      if (std::find(keys.begin(), keys.end(), found) != keys.end()) continue;
      const std::optional<std::string> meant = closest_name(found, keys);
      std::string known;
      for (const std::string& one : keys) known += (known.empty() ? "" : ", ") + one;
      fail(key.source().begin.line, "'" + path(found) + "' is not known; " +
                                        (meant ? "did you mean " + *meant + "?" : "expected " + known + "."));
    }
  }

  const toml::node& at(std::string_view key, const std::string& wanted) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) {
      fail(table_.source().begin.line, "'" + path(key) + "' is missing; expected " + wanted + ".");
    }
    return *node;
  }

  [[noreturn]] void refuse(std::string_view key, const toml::node& node, const std::string& wanted) const {
    fail(node.source().begin.line, path(key) + " is " + shown(node) + "; expected " + wanted + ".");
  }

  double number_of(std::string_view key, const toml::node& node, const Range& range) const {
    const double value = node.is_number() ? node.value<double>().value_or(NAN) : NAN;
    if (!(value >= range.least && value <= range.most))
      refuse(key, node, expected(range));  // also refuses NaN
    return value;
  }

  double number(std::string_view key, const Range& range) const {
    return number_of(key, at(key, expected(range)), range);
  }

  /// Returns a whole number, which may be written as an integer or as a float: 16 or 24e9.
  int64_t whole(std::string_view key, const Range& range) const {
    const double value = number(key, range);
    if (std::floor(value) != value) refuse(key, at(key, ""), "a whole number");
    return static_cast<int64_t>(value);
  }

  std::string text(std::string_view key) const {
    constexpr size_t kMaxBytes = 200;
    const std::string wanted = "a text of 1 to 200 bytes";
    const toml::node& node = at(key, wanted);
    const std::string value = node.value<std::string>().value_or("");
    if (!node.is_string() || value.empty() || value.size() > kMaxBytes) refuse(key, node, wanted);
    return value;
  }

  const toml::table& table(std::string_view key, const std::string& wanted) const {
    const toml::node& node = at(key, wanted);
    if (!node.is_table()) refuse(key, node, wanted);
    return *node.as_table();
  }

  /// Returns the array at this key, or null if the key is absent.
  const toml::array* array(std::string_view key, const std::string& wanted) const {
    const toml::node* node = table_.get(key);
    if (node != nullptr && !node->is_array()) refuse(key, *node, wanted);
    return node == nullptr ? nullptr : node->as_array();
  }

 private:
  std::string path(std::string_view key) const {
    return name_.empty() ? std::string(key) : name_ + "." + std::string(key);
  }

  [[noreturn]] void fail(uint32_t line, const std::string& what) const {
    throw std::runtime_error(fmt::format("{}, line {}: {}", origin_, std::max(line, 1u), what));
  }

  const toml::table& table_;
  const std::string& name_;
  const std::string& origin_;
};

template <class T>
std::vector<std::string> keys_of(std::span<const Figure<T>> figures, std::vector<std::string> keys) {
  for (const Figure<T>& figure : figures) keys.emplace_back(figure.key);
  return keys;
}

std::vector<ReadRate> read_rates(const Section& host, const std::string& origin) {
  const std::string wanted = "an array of { threads = N, bytes_per_s = R }, ascending in threads";
  const toml::node& node = host.at("ram_read", wanted);
  const toml::array* array = host.array("ram_read", wanted);
  const std::string name = "host.ram_read";
  std::vector<ReadRate> rates;
  for (const toml::node& element : *array) {
    if (!element.is_table()) host.refuse("ram_read", element, wanted);
    const Section rate(*element.as_table(), name, origin,
                       {"threads", "bytes_per_s", "slowest_bytes_per_s", "fastest_bytes_per_s"});
    rates.push_back({.n_threads = static_cast<int>(rate.whole("threads", kThreads)),
                     .bytes_per_s = rate.number("bytes_per_s", kBytesPerSecond)});
    for (const auto& [key, member] : {std::pair{"slowest_bytes_per_s", &ReadRate::slowest_bytes_per_s},
                                      std::pair{"fastest_bytes_per_s", &ReadRate::fastest_bytes_per_s}}) {
      if (element.as_table()->contains(key)) rates.back().*member = rate.number(key, kBytesPerSecond);
    }
    if (rates.size() > 1 && rates.back().n_threads <= rates[rates.size() - 2].n_threads) {
      rate.refuse("threads", rate.at("threads", ""), "more than in the element before");
    }
  }
  if (rates.empty()) host.refuse("ram_read", node, wanted);
  return rates;
}

HostProfile read_host(const toml::table& table, const std::string& origin) {
  const std::string name = "host";
  const Section host(table, name, origin,
                     keys_of<HostProfile>(kHostFigures, {"cpu", "cores", "numa_nodes", "ram_bytes",
                                                         "ram_read", "numa_read_bytes_per_s"}));
  HostProfile found;
  found.cpu = host.text("cpu");
  found.n_cores = static_cast<int>(host.whole("cores", kCores));
  found.n_numa_nodes = static_cast<int>(host.whole("numa_nodes", kNodes));
  found.ram_bytes = host.whole("ram_bytes", kBytes);
  found.ram_read = read_rates(host, origin);
  const std::string wanted = "an array of one rate per NUMA node";
  if (const toml::array* nodes = host.array("numa_read_bytes_per_s", wanted)) {
    for (const toml::node& node : *nodes) {
      found.numa_read_bytes_per_s.push_back(host.number_of("numa_read_bytes_per_s", node, kBytesPerSecond));
    }
    if (found.numa_read_bytes_per_s.size() != static_cast<size_t>(found.n_numa_nodes)) {
      host.refuse("numa_read_bytes_per_s", *nodes, wanted);
    }
  }
  for (const Figure<HostProfile>& figure : kHostFigures)
    found.*figure.value = host.number(figure.key, figure.range);
  return found;
}

GpuProfile read_gpu(const toml::table& table, const std::string& origin) {
  const std::string name = "gpu";
  const Section gpu(table, name, origin,
                    keys_of<GpuProfile>(kGpuFigures, {"name", "compute_capability", "vram_bytes"}));
  GpuProfile found;
  found.name = gpu.text("name");
  const std::string capability = gpu.text("compute_capability");
  char dot = 0, rest = 0;
  const int n_read =
      std::sscanf(capability.c_str(), "%2d%c%1d%c", &found.compute_major, &dot, &found.compute_minor, &rest);
  if (n_read != 3 || dot != '.' || found.compute_major < 1 || found.compute_minor < 0) {
    gpu.refuse("compute_capability", gpu.at("compute_capability", ""), "a text such as \"8.9\"");
  }
  found.vram_bytes = gpu.whole("vram_bytes", kBytes);
  for (const Figure<GpuProfile>& figure : kGpuFigures) {
    if (!figure.optional || table.contains(figure.key))
      found.*figure.value = gpu.number(figure.key, figure.range);
  }
  return found;
}

// ---- writing ----

/// Removes the UTF-8 character at the start of the text, and returns it. Returns U+FFFD if the text does not
/// start with a valid character.
uint32_t next_character(std::string_view& text) {
  const auto byte = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t size = byte(0) < 0x80 ? 1 : byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  uint32_t character = size == 1 ? byte(0) : byte(0) & (0x7fU >> size);
  bool good = size <= text.size() && (size == 1 || (byte(0) >= 0xc2 && byte(0) <= 0xf4));
  for (size_t i = 1; good && i < size; ++i) {
    good = (byte(i) & 0xc0) == 0x80;
    character = character << 6 | (byte(i) & 0x3f);
  }
  text.remove_prefix(good ? size : 1);
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = character >= 0xd800 && character < 0xe000;
  return good && !surrogate && character >= kLeast[size] && character <= 0x10ffff ? character : 0xfffd;
}

/// Returns the text as a TOML string in ASCII. Escapes every character that would end the string or is not
/// printable.
std::string toml_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const uint32_t c = next_character(text);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c >= ' ' && c < 0x7f) {
      out += static_cast<char>(c);
    } else {
      out += c > 0xffff ? fmt::format("\\U{:08X}", c) : fmt::format("\\u{:04X}", c);
    }
  }
  return out + "\"";
}

template <class T>
std::string figures_toml(std::span<const Figure<T>> figures, const T& section) {
  std::string text;
  for (const Figure<T>& figure : figures) {
    const double value = section.*figure.value;
    if (!figure.optional || value > 0) text += fmt::format("{} = {}\n", figure.key, value);
  }
  return text;
}

/// Throws if the text has a byte beyond ASCII. Outside of strings, toml++ 3.3 tests whether a character
/// beyond ASCII is a blank, and the test has undefined behavior for most of these characters. The profiles
/// that Hearth writes contain only ASCII (see toml_string()).
void check_ascii(std::string_view toml, const std::string& origin) {
  const auto* odd = std::ranges::find_if(toml, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  if (odd == toml.end()) return;
  throw std::runtime_error(fmt::format(
      "{}, line {}: a character beyond ASCII; write it as \\uXXXX within a text, and leave it out elsewhere.",
      origin, 1 + std::count(toml.begin(), odd, '\n')));
}

}  // namespace

MachineProfile parse_machine(std::string_view toml, const std::string& origin) {
  check_ascii(toml, origin);
  toml::table document;
  try {
    document = toml::parse(toml);
  } catch (const toml::parse_error& error) {
    throw std::runtime_error(fmt::format("{}, line {}: this is not TOML: {}.", origin,
                                         error.source().begin.line, error.description()));
  }
  const std::string top_name;
  const Section top(document, top_name, origin, {"name", "host", "gpu"});
  MachineProfile machine;
  machine.name = top.text("name");
  machine.host = read_host(top.table("host", "a table [host]"), origin);
  if (document.contains("gpu")) machine.gpu = read_gpu(top.table("gpu", "a table [gpu]"), origin);
  return machine;
}

MachineProfile read_machine(const std::string& path) {
  // A profile has about 2 KB. The limit prevents reading a whole model file by mistake.
  constexpr std::uintmax_t kMaxBytes = 1 << 20;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    throw std::runtime_error(path + ": there is no such file; expected a machine's profile in TOML.");
  }
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (error || bytes > kMaxBytes) {
    throw std::runtime_error(path + ": has over 1 MiB; expected a machine's profile in TOML.");
  }
  std::string text(bytes, '\0');
  std::ifstream in(path, std::ios::binary);
  if (!in || !in.read(text.data(), static_cast<std::streamsize>(bytes))) {
    throw std::runtime_error(path + ": cannot be read; check its permissions.");
  }
  return parse_machine(text, path);
}

std::string machine_toml(const MachineProfile& machine) {
  const HostProfile& host = machine.host;
  std::string text = fmt::format(
      "name = {}\n\n[host]\ncpu = {}\ncores = {}\nnuma_nodes = {}\nram_bytes = {}\n",
      toml_string(machine.name), toml_string(host.cpu), host.n_cores, host.n_numa_nodes, host.ram_bytes);
  text += "ram_read = [\n";
  for (const ReadRate& rate : host.ram_read) {
    text += fmt::format("  {{ threads = {}, bytes_per_s = {}", rate.n_threads, rate.bytes_per_s);
    if (rate.slowest_bytes_per_s > 0) {
      text += fmt::format(", slowest_bytes_per_s = {}, fastest_bytes_per_s = {}", rate.slowest_bytes_per_s,
                          rate.fastest_bytes_per_s);
    }
    text += " },\n";
  }
  text += "]\n";
  if (!host.numa_read_bytes_per_s.empty()) {
    text += fmt::format("numa_read_bytes_per_s = [{}]\n", fmt::join(host.numa_read_bytes_per_s, ", "));
  }
  text += figures_toml<HostProfile>(kHostFigures, host);
  if (!machine.gpu) return text;
  const GpuProfile& gpu = *machine.gpu;
  text += fmt::format("\n[gpu]\nname = {}\ncompute_capability = \"{}.{}\"\nvram_bytes = {}\n",
                      toml_string(gpu.name), gpu.compute_major, gpu.compute_minor, gpu.vram_bytes);
  return text + figures_toml<GpuProfile>(kGpuFigures, gpu);
}

}  // namespace hearth
