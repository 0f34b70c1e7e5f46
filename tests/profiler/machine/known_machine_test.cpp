// The stored profile of a machine: read back for the same machine only, measured again if it is damaged, and
// used without storing if it cannot be stored.
#include "profiler/machine/known_machine.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "kernels/base/whole_file.h"
#include "profiler/machine/machine_toml.h"
#include "profiler/machine/shipped_machines.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

namespace fs = std::filesystem;

Hardware sample_hardware() {
  Hardware hardware;
  hardware.cpu = "Imaginary 9000";
  hardware.processors = {0, 1, 2, 3};
  hardware.n_cores = 2;
  hardware.numa_nodes = {{0, 2}};
  hardware.ram_bytes = uint64_t{64} << 30;
  hardware.isa = Isa::kAvx2;
  hardware.gpu = cuda::Device{};
  hardware.gpu->name = "Imaginary GPU";
  hardware.gpu->uuid = "GPU-00";
  hardware.gpu->total_bytes = uint64_t{24} << 30;
  hardware.gpu->driver = {13, 0};
  return hardware;
}

MachineProfile profile(double vram_bytes_per_s = 1e12) {
  MachineProfile machine = shipped_machine("rtx4090").value();
  machine.gpu->vram_bytes_per_s = vram_bytes_per_s;
  return machine;
}

/// Measures one figure more each time, and counts measurements.
struct Meter {
  int n_measured = 0;
  bool complete = true;
  Measure measure() {
    return [this](const Hardware&) {
      ++n_measured;
      return Probe{.machine = profile(n_measured * 1e11), .notes = {}, .complete = complete};
    };
  }
};

Environment cache_in(const fs::path& folder) { return {{"XDG_CACHE_HOME", folder.string()}}; }

std::string text_of(const fs::path& file) { return read_whole_file(file, 1 << 20); }

TEST_CASE("a machine is measured once, and again on request") {
  const TempFolder folder;
  Meter meter;
  const Environment environment = cache_in(folder.path());
  const KnownMachine first = known_machine(environment, sample_hardware(), false, meter.measure()).value();
  CHECK(first.measured_now);
  CHECK(first.notes.empty());
  CHECK(first.file == folder / "hearth" / kept_name(identity_of(sample_hardware())));
  const KnownMachine second = known_machine(environment, sample_hardware(), false, meter.measure()).value();
  CHECK_FALSE(second.measured_now);
  CHECK(second.machine == first.machine);
  CHECK(second.file == first.file);
  CHECK(meter.n_measured == 1);
  const KnownMachine third = known_machine(environment, sample_hardware(), true, meter.measure()).value();
  CHECK(third.measured_now);
  CHECK_FALSE(third.machine == first.machine);
  CHECK(known_machine(environment, sample_hardware(), false, meter.measure())->machine == third.machine);
  CHECK(meter.n_measured == 2);
  // People and --machine can read the stored file.
  CHECK(read_machine(third.file) == third.machine);
  for (const auto& entry : fs::directory_iterator(folder / "hearth")) CHECK(entry.path() == third.file);
}

TEST_CASE("everything a machine's speed depends on is part of its identity") {
  const auto changed = [](auto&& change) {
    Hardware hardware = sample_hardware();
    change(hardware);
    return identity_of(hardware) != identity_of(sample_hardware());
  };
  CHECK_FALSE(changed([](Hardware&) {}));
  CHECK_FALSE(changed([](Hardware& h) { h.ram_bytes -= 5'000'000; }));  // the kernel's own share
  CHECK_FALSE(changed([](Hardware& h) { h.no_gpu = "a reason"; }));
  CHECK(changed([](Hardware& h) { h.cpu = "Imaginary 9001"; }));
  CHECK(changed([](Hardware& h) { h.processors.pop_back(); }));
  CHECK(changed([](Hardware& h) { h.processors.back() = 7; }));
  CHECK(changed([](Hardware& h) { h.n_cores = 1; }));  // a cgroup's quota
  CHECK(changed([](Hardware& h) { h.numa_nodes = {{0}, {2}}; }));
  CHECK(changed([](Hardware& h) { h.ram_bytes /= 2; }));
  CHECK(changed([](Hardware& h) { h.isa = Isa::kScalar; }));
  CHECK(changed([](Hardware& h) { h.gpu.reset(); }));
  CHECK(changed([](Hardware& h) { h.gpu->name = "other"; }));
  CHECK(changed([](Hardware& h) { h.gpu->uuid = "GPU-01"; }));
  CHECK(changed([](Hardware& h) { h.gpu->bus_id = "0000:3B:00.0"; }));
  CHECK(changed([](Hardware& h) { h.gpu->total_bytes /= 2; }));
  CHECK(changed([](Hardware& h) { h.gpu->driver = {13, 1}; }));
}

TEST_CASE("each machine has a file of its own in a shared folder") {
  const TempFolder folder;
  const Environment environment = cache_in(folder.path());
  Meter meter;
  Hardware other = sample_hardware();
  other.processors = {0};
  other.n_cores = 1;
  const KnownMachine one = known_machine(environment, sample_hardware(), false, meter.measure()).value();
  const KnownMachine two = known_machine(environment, other, false, meter.measure()).value();
  CHECK(one.file != two.file);
  CHECK(known_machine(environment, sample_hardware(), false, meter.measure())->machine == one.machine);
  CHECK(known_machine(environment, other, false, meter.measure())->machine == two.machine);
  CHECK(meter.n_measured == 2);

  // A file copied to another machine's name is not used.
  fs::copy_file(one.file, two.file, fs::copy_options::overwrite_existing);
  const KnownMachine again = known_machine(environment, other, false, meter.measure()).value();
  CHECK(again.measured_now);
  REQUIRE(again.notes.size() == 1);
  CHECK_THAT(again.notes[0], ContainsSubstring(two.file.string() + ": is the profile of another machine."));
  CHECK_THAT(again.notes[0], ContainsSubstring("measured again"));
  CHECK_FALSE(known_machine(environment, other, false, meter.measure())->measured_now);
}

TEST_CASE("a kept profile is refused with any byte changed, and at any length") {
  const std::string identity = identity_of(sample_hardware());
  const std::string whole = kept_text(profile(), identity);
  CHECK(parse_kept(whole, identity, "f") == profile());
  const auto is_refused = [&](const std::string& text) {
    try {
      parse_kept(text, identity, "f");
    } catch (const std::runtime_error& error) {
      return std::string_view(error.what()).starts_with("f: ");
    }
    return false;
  };
  for (size_t n = 0; n < whole.size(); ++n) {
    CAPTURE(n);
    REQUIRE(is_refused(whole.substr(0, n)));
    for (const unsigned change : {0x01u, 0x20u, 0x80u}) {
      std::string damaged = whole;
      damaged[n] = static_cast<char>(static_cast<unsigned char>(damaged[n]) ^ change);
      REQUIRE(is_refused(damaged));
    }
  }
  CHECK(is_refused(whole + "\n"));
  CHECK(is_refused(whole + whole));
  CHECK(is_refused(""));
  CHECK(is_refused(machine_toml(profile())));
  std::string older = whole;
  older.replace(older.find("format 1"), 8, "format 0");
  CHECK(is_refused(older));
}

TEST_CASE("a file that is not a kept profile is reported and replaced") {
  const TempFolder folder;
  const Environment environment = cache_in(folder.path());
  Meter meter;
  const fs::path file = known_machine(environment, sample_hardware(), false, meter.measure())->file;
  for (const std::string& text :
       {std::string(), std::string("\0\xff", 2), std::string("[host"), std::string((1 << 20) + 1, '#')}) {
    std::ofstream(file, std::ios::binary) << text;
    const KnownMachine known = known_machine(environment, sample_hardware(), false, meter.measure()).value();
    CHECK(known.measured_now);
    REQUIRE(known.notes.size() == 1);
    CHECK_THAT(known.notes[0], ContainsSubstring(file.string()));
    CHECK(known.notes[0].find('\n') == std::string::npos);
    CHECK_FALSE(known_machine(environment, sample_hardware(), false, meter.measure())->measured_now);
  }
  // Neither is one with correct checksums but impossible figures.
  MachineProfile nonsense = profile();
  nonsense.gpu->launch_s = 1e9;
  std::ofstream(file, std::ios::binary) << kept_text(nonsense, identity_of(sample_hardware()));
  CHECK(known_machine(environment, sample_hardware(), false, meter.measure())->measured_now);
}

TEST_CASE("a pipe or a folder in the kept profile's place causes no wait") {
  const TempFolder folder;
  const Environment environment = cache_in(folder.path());
  Meter meter;
  const fs::path file = known_machine(environment, sample_hardware(), false, meter.measure())->file;
  fs::remove(file);
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  KnownMachine known = known_machine(environment, sample_hardware(), false, meter.measure()).value();
  CHECK(known.measured_now);
  CHECK(known.file.empty());
  REQUIRE(known.notes.size() == 2);
  CHECK_THAT(known.notes[0], ContainsSubstring("is not a plain file"));
  CHECK_THAT(known.notes[1], ContainsSubstring("What is measured is not kept: "));
  fs::remove(file);
  fs::create_directories(file / "inner");
  known = known_machine(environment, sample_hardware(), false, meter.measure()).value();
  CHECK(known.measured_now);
  CHECK(known.file.empty());
}

TEST_CASE("without a folder that can be written a machine is measured each time") {
  const TempFolder folder;
  Meter meter;
  const auto problem = [&](const Environment& environment) {
    const KnownMachine known = known_machine(environment, sample_hardware(), false, meter.measure()).value();
    CHECK(known.measured_now);
    CHECK(known.file.empty());
    REQUIRE(known.notes.size() == 1);
    CHECK_THAT(known.notes[0], ContainsSubstring("What is measured is not kept: "));
    return known.notes[0];
  };
  CHECK_THAT(problem({}), ContainsSubstring("neither XDG_CACHE_HOME nor HOME names a folder"));
  CHECK_THAT(problem({{"HOME", "relative"}}), ContainsSubstring("neither"));
  CHECK_THAT(problem({{"HOME", "/proc/none"}}),
             ContainsSubstring("/proc/none/.cache/hearth cannot be made: "));
  std::ofstream(folder / "file") << "x";
  CHECK_THAT(problem(cache_in(folder / "file")), ContainsSubstring("cannot be made"));
  if (geteuid() != 0) {  // root may write anywhere
    fs::create_directory(folder / "hearth");
    fs::permissions(folder / "hearth", fs::perms::owner_read | fs::perms::owner_exec);
    CHECK_THAT(problem(cache_in(folder.path())), ContainsSubstring("a file cannot be made beside it"));
    fs::permissions(folder / "hearth", fs::perms::owner_all);
  }
  // HOME is used if the other variable is missing or relative.
  const KnownMachine at_home = known_machine({{"HOME", folder.path().string()}, {"XDG_CACHE_HOME", "x"}},
                                             sample_hardware(), false, meter.measure())
                                   .value();
  CHECK(at_home.file.parent_path() == folder.path() / ".cache" / "hearth");
}

TEST_CASE("an incomplete profile is not kept, and a stopped probe gives nothing") {
  const TempFolder folder;
  const Environment environment = cache_in(folder.path());
  Meter meter;
  meter.complete = false;
  CHECK(known_machine(environment, sample_hardware(), false, meter.measure())->file.empty());
  CHECK(fs::is_empty(folder / "hearth"));
  CHECK_FALSE(known_machine(environment, sample_hardware(), false,
                            [](const Hardware&) { return std::optional<Probe>(); }));
  CHECK(fs::is_empty(folder / "hearth"));
}

TEST_CASE("several processes that keep the same machine at once do not corrupt it") {
  const TempFolder folder;
  const Environment environment = cache_in(folder.path());
  std::vector<std::jthread> threads;
  std::atomic<int> n_bad{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const KnownMachine known =
            known_machine(environment, sample_hardware(), t % 2 == 0, [&](const Hardware&) {
              return Probe{.machine = profile((t + 1) * 1e11), .notes = {}, .complete = true};
            }).value();
        if (!known.notes.empty() || known.file.empty()) ++n_bad;
      }
    });
  }
  threads.clear();
  CHECK(n_bad == 0);
  const fs::path file = folder / "hearth" / kept_name(identity_of(sample_hardware()));
  CHECK_NOTHROW(parse_kept(text_of(file), identity_of(sample_hardware()), "f"));
  for (const auto& entry : fs::directory_iterator(folder / "hearth")) CHECK(entry.path() == file);
}

TEST_CASE("a probe told to stop does so before it measures") {
  std::stop_source stop;
  stop.request_stop();
  int n_told = 0;
  const ProbeOptions options{.progress = [&](double, std::string_view) { ++n_told; },
                             .stop = stop.get_token()};
  CHECK_FALSE(probe_machine(sample_hardware(), options));
  CHECK(n_told == 0);
}

TEST_CASE("reading is measured with doubling numbers of threads, up to all") {
  CHECK(thread_counts(1) == std::vector<int>{1});
  CHECK(thread_counts(2) == std::vector<int>{1, 2});
  CHECK(thread_counts(6) == std::vector<int>{1, 2, 4, 6});
  CHECK(thread_counts(8) == std::vector<int>{1, 2, 4, 8});
}

}  // namespace
}  // namespace hearth::test
