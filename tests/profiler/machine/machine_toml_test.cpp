// Machine profiles: what is written can be read again, bit for bit; any other content of a file gives one
// message with its line.
#include "profiler/machine/machine_toml.h"

#include <algorithm>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

MachineProfile sample() {
  MachineProfile machine;
  machine.name = "a \"quoted\" machine \\ \n\x01 with ümlaut";
  machine.host = {.cpu = "Imaginary 9000",
                  .n_cores = 8,
                  .n_numa_nodes = 2,
                  .ram_bytes = 64'000'000'000,
                  .ram_read = {{1, 1.0 / 3 * 1e10}, {2, 2e10}, {8, 6.7e10, 6.1e10, 7.1e10}},
                  .numa_read_bytes_per_s = {3.1e10, 3.2e10},
                  .sparse_row_share = 0.87,
                  .multiply_adds_per_s = 1.5e12};
  machine.gpu = GpuProfile{.name = "Imaginary GPU",
                           .compute_major = 12,
                           .compute_minor = 0,
                           .vram_bytes = 24'000'000'000,
                           .vram_bytes_per_s = 9.2e11,
                           .to_device_pinned_bytes_per_s = 2.5e10,
                           .to_device_pageable_bytes_per_s = 1.1e10,
                           .from_device_pinned_bytes_per_s = 2.6e10,
                           .from_device_pageable_bytes_per_s = 1.2e10,
                           .launch_s = 1.1e-6,
                           .round_trip_s = 1.7e-5,
                           .multiply_adds_per_s = 5e13};
  return machine;
}

std::string refusal(const std::string& toml) {
  try {
    parse_machine(toml, "m.toml");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

/// The sample's text with one line replaced. n: receives the line's number, from 1.
std::string with(const std::string& line, const std::string& instead, int* n = nullptr) {
  std::string text = machine_toml(sample());
  const size_t at = text.find("\n" + line);
  REQUIRE(at != std::string::npos);
  if (n != nullptr) {
    *n = 2 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n'));
  }
  return text.replace(at + 1, text.find('\n', at + 1) - at - 1, instead);
}

TEST_CASE("a machine profile that is written is read again, bit for bit") {
  const MachineProfile machine = sample();
  CHECK(parse_machine(machine_toml(machine), "m.toml") == machine);
  MachineProfile without = machine;
  without.gpu.reset();
  without.host.numa_read_bytes_per_s.clear();
  without.host.n_numa_nodes = 1;
  const MachineProfile read = parse_machine(machine_toml(without), "m.toml");
  CHECK(read == without);
  CHECK_FALSE(read == machine);
}

TEST_CASE("rates between measured ones are interpolated linearly") {
  const MachineProfile machine = sample();
  CHECK(machine.ram_read_bytes_per_s(2) == 2e10);
  CHECK(machine.ram_read_bytes_per_s(5) == Approx((2e10 + 6.7e10) / 2));
  CHECK(machine.ram_read_bytes_per_s(8) == 6.7e10);
  CHECK(machine.ram_read_bytes_per_s(64) == 6.7e10);
  CHECK(machine.ram_read_bytes_per_s() == 6.7e10);
  MachineProfile late = machine;
  late.host.ram_read = {{4, 4e10}, {8, 3e10}};
  CHECK(late.ram_read_bytes_per_s(1) == Approx(1e10));
  CHECK(late.ram_read_bytes_per_s() == 4e10);
}

TEST_CASE("a wrong value is refused with its line, its value and what is expected") {
  struct Case {
    const char *line, *instead, *found, *expected;
  };
  const Case cases[] = {
      {"vram_bytes_per_s", "vram_bytes_per_s = 920", "gpu.vram_bytes_per_s is 920",
       "1e+07 to 1e+16 bytes per second"},
      {"vram_bytes_per_s", "vram_bytes_per_s = nan", "is nan", "a number from"},
      {"vram_bytes_per_s", "vram_bytes_per_s = inf", "is inf", "a number from"},
      {"vram_bytes_per_s", "vram_bytes_per_s = -1e11", "is -1", "a number from"},
      {"vram_bytes_per_s", "vram_bytes_per_s = \"fast\"", "is \"fast\"", "a number from"},
      {"vram_bytes_per_s", "vram_bytes_per_s = true", "is true", "a number from"},
      {"launch_s", "launch_s = 3.5", "gpu.launch_s is 3.5", "1e-09 to 1 seconds"},
      {"launch_s", "launch_s = 1979-05-27", "is a date or a time", "seconds"},
      {"launch_s", "lanch_s = 1e-6", "'gpu.lanch_s' is not known", "did you mean launch_s?"},
      {"launch_s", "color = 1", "'gpu.color' is not known", "expected name, compute_capability"},
      {"launch_s", "launch_s = {}", "is a table", "seconds"},
      {"vram_bytes =", "vram_bytes = 24", "gpu.vram_bytes is 24", "bytes"},
      {"vram_bytes =", "vram_bytes = 24000000000.5", "is 24000000000.5", "a whole number"},
      {"compute_capability", "compute_capability = 8.9", "is 8.9", "a text"},
      {"compute_capability", "compute_capability = \"eight\"", "is \"eight\"", "a text such as \"8.9\""},
      {"compute_capability", "compute_capability = \"8.95\"", "is \"8.95\"", "a text such as \"8.9\""},
      {"cores", "cores = 0", "host.cores is 0", "physical cores"},
      {"cores", "cores = 9223372036854775807", "is 9223372036854775807", "physical cores"},
      {"sparse_row_share", "sparse_row_share = 87", "is 87", "of the sequential rate"},
      {"multiply_adds_per_s", "multiply_adds_per_s = 900", "host.multiply_adds_per_s is 900",
       "multiply-adds"},
      {"cpu", "cpu = \"\"", "host.cpu is \"\"", "a text of 1 to 200 bytes"},
      {"numa_read", "numa_read_bytes_per_s = [1e10]", "is an array", "one rate per NUMA node"},
      {"numa_read", "numa_read_bytes_per_s = [1e10, 1]", "is 1", "bytes per second"},
      {"numa_read", "numa_read_bytes_per_s = 1e10", "is 1", "an array"},
      {"  { threads = 2", "  { threads = 1, bytes_per_s = 2e10 },", "threads is 1",
       "more than in the element before"},
      {"  { threads = 8", "  { threads = 8, bytes_per_s = 6e10, slowest_bytes_per_s = 1 },",
       "host.ram_read.slowest_bytes_per_s is 1", "bytes per second"},
      {"  { threads = 2", "  7,", "is 7", "ascending in threads"},
      {"  { threads = 2", "  { threads = 2 },", "'host.ram_read.bytes_per_s' is missing", "bytes per second"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.instead);
    int line = 0;
    const std::string sentence = refusal(with(one.line, one.instead, &line));
    CHECK_THAT(sentence, ContainsSubstring("m.toml, line " + std::to_string(line) + ": "));
    CHECK_THAT(sentence, ContainsSubstring(one.found));
    CHECK_THAT(sentence, ContainsSubstring(one.expected));
    CHECK(sentence.find('\n') == std::string::npos);
  }
}

TEST_CASE("a machine profile is written in ASCII, and other characters are refused") {
  MachineProfile machine = sample();
  machine.name = "K\xc3\xb6ln \xe6\x97\xa5 \xf0\x9f\x94\xa5 \"x\\ \x1f\x7f";
  const std::string toml = machine_toml(machine);
  CHECK_THAT(toml, ContainsSubstring(R"("K\u00F6ln \u65E5 \U0001F525 \"x\\ \u001F\u007F")"));
  CHECK(parse_machine(toml, "m.toml") == machine);
  machine.name = "\xc3|\xff|\xed\xa0\x80|\xe0\x80\x80";
  CHECK(parse_machine(machine_toml(machine), "m.toml").name == "\ufffd|\ufffd|\ufffd|\ufffd");
  for (const std::string odd : {"\xef\xbb\xaf", "\xc3\xa9", "\xe2\x80\xa8", "\xff"})
    CHECK_THAT(refusal("name = \"x\"\n#" + odd), ContainsSubstring("line 2: a character beyond ASCII"));
}

TEST_CASE("a missing key of a machine profile is named with its table") {
  CHECK_THAT(refusal(with("launch_s", "")),
             ContainsSubstring("'gpu.launch_s' is missing; expected a number"));
  CHECK_THAT(refusal(""), ContainsSubstring("m.toml, line 1: 'name' is missing"));
  CHECK_THAT(refusal("name = \"x\""), ContainsSubstring("'host' is missing; expected a table [host]"));
  CHECK_THAT(refusal("name = \"x\"\nhost = 1"),
             ContainsSubstring("m.toml, line 2: host is 1; expected a table"));
  CHECK_THAT(refusal("name = \"x\"\n[host]\n"), ContainsSubstring("m.toml, line 2: 'host."));
  std::string empty = machine_toml(sample());
  const size_t from = empty.find("ram_read = ["), to = empty.find("]\n", from);
  empty.replace(from, to - from + 1, "ram_read = []");
  CHECK_THAT(refusal(empty), ContainsSubstring("host.ram_read is an array; expected an array of {"));
}

TEST_CASE("text that is not TOML is refused with its line") {
  for (const char* text : {"name = ", "name", "[host", "name = \"x", "= 1", "name = 'x'\nname = 'y'",
                           "GGUF\x03", "{\"name\": 1}"}) {
    CAPTURE(text);
    CHECK_THAT(refusal(text), ContainsSubstring("m.toml, line "));
    CHECK_THAT(refusal(text), ContainsSubstring("this is not TOML: "));
  }
  CHECK_THAT(refusal("\xff\xfe"), ContainsSubstring("m.toml, line 1: a character beyond ASCII"));
  CHECK_THAT(refusal(std::string(100000, '[')), ContainsSubstring("m.toml, line 1"));
  CHECK_THAT(refusal("name = " + std::string(100000, '[')), ContainsSubstring("m.toml, line 1"));
  CHECK_THAT(refusal(std::string(1, '\0')), ContainsSubstring("m.toml, line 1"));
}

TEST_CASE("a damaged machine profile is read or refused, at every length and byte") {
  const std::string whole = machine_toml(sample());
  std::mt19937 random(7);
  const auto try_it = [](const std::string& text) {
    // any exception other than std::runtime_error would end the test
    const std::string sentence = refusal(text);
    if (!sentence.empty()) CHECK_THAT(sentence, ContainsSubstring("m.toml, line "));
  };
  for (size_t n = 0; n < whole.size(); ++n) {
    try_it(whole.substr(0, n));
    std::string flipped = whole;
    flipped[n] = static_cast<char>(static_cast<unsigned char>(flipped[n]) ^ (1u << random() % 8));
    try_it(flipped);
  }
}

TEST_CASE("files that cannot be machine profiles are refused before they are read") {
  const TempFolder folder;
  const auto refused = [](const std::filesystem::path& path) {
    try {
      read_machine(path);
    } catch (const std::runtime_error& error) {
      CHECK_THAT(error.what(), ContainsSubstring(path.string()));
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(refused(folder / "none"), ContainsSubstring("there is no such file"));
  CHECK_THAT(refused(folder.path()), ContainsSubstring("there is no such file"));
  std::ofstream(folder / "large") << std::string((1 << 20) + 1, '#');
  CHECK_THAT(refused(folder / "large"), ContainsSubstring("over 1 MiB"));
  std::ofstream(folder / "m.toml") << machine_toml(sample());
  CHECK(read_machine(folder / "m.toml") == sample());
}

}  // namespace
}  // namespace hearth::test
