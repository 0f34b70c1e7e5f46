// Reads the processor topology from /proc and /sys.
#include "kernels/cpu/threads/topology.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

namespace hearth {
namespace {

constexpr int kMaxCpus = 8192;  // the largest CONFIG_NR_CPUS on x86
constexpr size_t kCpuSetBytes = CPU_ALLOC_SIZE(kMaxCpus);

struct FreeSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CpuSet = std::unique_ptr<cpu_set_t, FreeSet>;

/// Allocates a set of kMaxCpus CPUs; null if there is no memory.
CpuSet make_cpu_set() { return CpuSet(CPU_ALLOC(kMaxCpus)); }

/// Returns the first line of a file, or an empty string.
std::string first_line(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Returns how many CPUs a quota per period (both in microseconds) allows; 0 if there is no limit.
double cpus_of_quota(int64_t quota_us, int64_t period_us) {
  if (quota_us <= 0 || period_us <= 0) return 0.0;
  return static_cast<double>(quota_us) / static_cast<double>(period_us);
}

/// Returns the smaller of two limits, where 0 means no limit.
double tighter(double a, double b) {
  if (a == 0.0 || b == 0.0) return std::max(a, b);
  return std::min(a, b);
}

/// cgroup v2: "max 100000" or "150000 100000".
double limit_v2(const std::filesystem::path& group) {
  std::istringstream line(first_line(group / "cpu.max"));
  int64_t quota_us = 0, period_us = 0;
  if (!(line >> quota_us >> period_us)) return 0;
  return cpus_of_quota(quota_us, period_us);
}

/// cgroup v1: two files; a quota of -1 means no limit.
double limit_v1(const std::filesystem::path& group) {
  std::istringstream quota(first_line(group / "cpu.cfs_quota_us"));
  std::istringstream period(first_line(group / "cpu.cfs_period_us"));
  int64_t quota_us = 0, period_us = 0;
  if (!(quota >> quota_us) || !(period >> period_us)) return 0;
  return cpus_of_quota(quota_us, period_us);
}

/// Returns the tightest limit of a group and its parents, up to the root of the mount. The root is always
/// read: inside a container, the path of the process's group may not exist below the mount, because the root
/// of the mount is this group.
template <class Limit>
double limit_up_to_root(const std::filesystem::path& mount, const std::string& group, Limit limit_of) {
  double limit = limit_of(mount);
  std::filesystem::path path;
  for (const std::filesystem::path& part : std::filesystem::path(group).relative_path()) {
    path /= part;
    limit = tighter(limit, limit_of(mount / path));
  }
  return limit;
}

/// Parses the numbers of a list such as "0-3,8,10-11"; stops at anything else.
std::vector<int> listed_cpus(const std::string& list) {
  std::vector<int> cpus;
  std::istringstream in(list);
  int first = 0;
  while (in >> first) {
    int last = first;
    if (in.peek() == '-') in.ignore() >> last;
    for (int cpu = first; cpu <= last && last < kMaxCpus; ++cpu) cpus.push_back(cpu);
    if (in.peek() == ',') in.ignore();
  }
  return cpus;
}

// Intel's efficiency cores have vector units of 128 bits, and its performance cores of 256 bits.
constexpr double kEfficientCoreSpeed = 0.5;
// Cores below this relative speed are left out by default. A thread's first piece is at most half an equal
// share of the work (piece_schedule.h), so a core that is half as fast as the others is not the last to
// finish.
constexpr double kLeastSpeed = 0.5;
// CPUs above this relative speed count as equally fast, because even cores of one kind differ by a few
// percent in their highest clock.
constexpr double kLikeSpeed = 0.8;

/// Reads a number above 0 for each CPU from the file `name` in the CPU's folder. Returns an empty list if a
/// number is missing.
std::vector<double> numbers_of(const std::vector<int>& cpus, const std::filesystem::path& sys,
                               const std::string& name) {
  std::vector<double> numbers;
  for (const int cpu : cpus) {
    std::istringstream text(first_line(sys / "devices/system/cpu" / ("cpu" + std::to_string(cpu)) / name));
    double number = 0.0;
    if (!(text >> number) || number <= 0.0) return {};
    numbers.push_back(number);
  }
  return numbers;
}

bool lists_cpu_controller(const std::string& controllers) {
  std::istringstream list(controllers);
  std::string name;
  while (std::getline(list, name, ',')) {
    if (name == "cpu") return true;
  }
  return false;
}

}  // namespace

std::vector<int> allowed_cpus() {
  const CpuSet set = make_cpu_set();
  std::vector<int> cpus;
  // Linux refuses a set that is smaller than its own CPU mask, so this set has room for kMaxCpus CPUs.
  if (set != nullptr && sched_getaffinity(0, kCpuSetBytes, set.get()) == 0) {
    for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), kCpuSetBytes, set.get())) cpus.push_back(cpu);
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

void keep_thread_to(const std::vector<int>& cpus) {
  const CpuSet set = make_cpu_set();
  if (set == nullptr) return;
  CPU_ZERO_S(kCpuSetBytes, set.get());
  for (const int cpu : cpus) {
    if (cpu >= 0 && cpu < kMaxCpus) CPU_SET_S(static_cast<size_t>(cpu), kCpuSetBytes, set.get());
  }
  sched_setaffinity(0, kCpuSetBytes, set.get());
}

std::vector<int> one_cpu_per_core(const std::vector<int>& cpus, const std::filesystem::path& sys) {
  std::set<std::string> seen;
  std::vector<int> first_of_core;
  for (int cpu : cpus) {
    const std::string name = "cpu" + std::to_string(cpu);
    // The list of siblings is the same text for all CPUs of a core, so it identifies the core.
    std::string core = first_line(sys / "devices/system/cpu" / name / "topology/thread_siblings_list");
    if (core.empty()) core = name;
    if (seen.insert(core).second) first_of_core.push_back(cpu);
  }
  return first_of_core;
}

std::vector<double> cpu_speeds(const std::vector<int>& cpus, const std::filesystem::path& sys) {
  std::vector<double> speeds = numbers_of(cpus, sys, "cpu_capacity");
  if (speeds.empty()) speeds = numbers_of(cpus, sys, "cpufreq/cpuinfo_max_freq");
  if (speeds.empty()) speeds.assign(cpus.size(), 1.0);
  const std::vector<int> efficient = listed_cpus(first_line(sys / "devices/cpu_atom/cpus"));
  for (size_t i = 0; i < cpus.size(); ++i) {
    if (std::ranges::find(efficient, cpus[i]) != efficient.end()) speeds[i] *= kEfficientCoreSpeed;
  }
  const double fastest = speeds.empty() ? 1.0 : std::ranges::max(speeds);
  for (double& speed : speeds) speed /= fastest;
  return speeds;
}

std::vector<int> fast_cpus(const std::vector<int>& cpus, const std::filesystem::path& sys) {
  const std::vector<double> speeds = cpu_speeds(cpus, sys);
  std::vector<int> fast;
  for (size_t i = 0; i < cpus.size(); ++i) {
    if (speeds[i] >= kLeastSpeed) fast.push_back(cpus[i]);
  }
  return fast;
}

bool speeds_differ(const std::vector<int>& cpus, const std::filesystem::path& sys) {
  const std::vector<double> speeds = cpu_speeds(cpus, sys);
  return std::ranges::any_of(speeds, [](double speed) { return speed < kLikeSpeed; });
}

std::map<int, std::vector<int>> numa_nodes(const std::vector<int>& cpus, const std::filesystem::path& sys) {
  std::map<int, std::vector<int>> nodes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(sys / "devices/system/node", error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("node") || name.find_first_not_of("0123456789", 4) != std::string::npos) continue;
    const std::vector<int> own = listed_cpus(first_line(entry.path() / "cpulist"));
    const int number = static_cast<int>(std::strtol(name.c_str() + 4, nullptr, 10));
    for (const int cpu : cpus) {
      if (std::find(own.begin(), own.end(), cpu) != own.end()) nodes[number].push_back(cpu);
    }
  }
  return nodes;
}

std::vector<std::vector<int>> cpus_by_numa_node(const std::vector<int>& cpus,
                                                const std::filesystem::path& sys) {
  std::map<int, std::vector<int>> nodes = numa_nodes(cpus, sys);
  if (nodes.empty()) return {cpus};
  std::vector<std::vector<int>> found;
  for (auto& [number, own] : nodes) found.push_back(std::move(own));
  return found;
}

namespace {

/// The data caches of `cpus`, by level and by the list of CPUs that share the cache. This list identifies the
/// cache.
std::map<int, std::map<std::string, size_t>> cache_bytes(const std::vector<int>& cpus,
                                                         const std::filesystem::path& sys) {
  std::map<int, std::map<std::string, size_t>> caches;
  for (const int cpu : cpus) {
    std::error_code error;
    const std::filesystem::path folder = sys / "devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "cache";
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      if (first_line(entry.path() / "type") == "Instruction") continue;
      std::istringstream size(first_line(entry.path() / "size"));  // "307200K"
      std::istringstream level(first_line(entry.path() / "level"));
      size_t kilobytes = 0;
      char unit = 0;
      int number = 0;
      if (size >> kilobytes >> unit && unit == 'K' && level >> number) {
        caches[number][first_line(entry.path() / "shared_cpu_list")] = kilobytes << 10;
      }
    }
  }
  return caches;
}

}  // namespace

size_t first_level_cache_bytes(const std::vector<int>& cpus, const std::filesystem::path& sys) {
  const std::map<int, std::map<std::string, size_t>> caches = cache_bytes(cpus, sys);
  const auto first = caches.find(1);
  if (first == caches.end()) return 0;
  size_t bytes = std::numeric_limits<size_t>::max();
  for (const auto& [shared_by, of_one] : first->second) bytes = std::min(bytes, of_one);
  return bytes;
}

bool l1_is_large(const std::vector<int>& cpus, const std::filesystem::path& sys) {
  return first_level_cache_bytes(cpus, sys) >= size_t{48} << 10;
}

size_t last_level_cache_bytes(const std::vector<int>& cpus, const std::filesystem::path& sys) {
  const std::map<int, std::map<std::string, size_t>> caches = cache_bytes(cpus, sys);
  size_t bytes = 0;
  if (!caches.empty()) {
    for (const auto& [shared_by, of_one] : caches.rbegin()->second) bytes += of_one;
  }
  return bytes;
}

std::string processor_name(const std::filesystem::path& proc) {
  std::ifstream in(proc / "cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    if (!line.starts_with("model name")) continue;  // "model name	: AMD EPYC 9R45"
    const size_t colon = line.find(':');
    const size_t begin = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  // Arm's cpuinfo gives numbers instead of a name; small boards have a device tree that names the board.
  std::string board;
  std::ifstream tree(proc / "device-tree/model");  // ends with a zero byte: "Raspberry Pi 5 Model B Rev 1.0"
  if (std::getline(tree, board, '\0') && !board.empty()) return board;
  return "unknown processor";
}

double cgroup_cpu_limit(const std::filesystem::path& proc, const std::filesystem::path& sys) {
  const std::filesystem::path root = sys / "fs/cgroup";
  std::ifstream groups(proc / "self/cgroup");
  double limit = 0;
  std::string line;
  // Lines are "hierarchy:controllers:path"; v2's hierarchy is 0 and lists no controllers.
  while (std::getline(groups, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (line.starts_with("0::")) {
      limit = tighter(limit, limit_up_to_root(root, group, limit_v2));
    } else if (lists_cpu_controller(controllers)) {
      limit = tighter(limit, limit_up_to_root(root / "cpu", group, limit_v1));
    }
  }
  return limit;
}

}  // namespace hearth
