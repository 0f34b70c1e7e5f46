// Reading of the processor topology. See the header.
#include "kernels/cpu/topology.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>

namespace hearth {
namespace {

/// First line of a file, or an empty string.
std::string first_line(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Whole CPUs in quota / period microseconds; 0 if that is no limit.
int whole_cpus(int64_t quota_us, int64_t period_us) {
  if (quota_us <= 0 || period_us <= 0) return 0;
  return static_cast<int>(std::max<int64_t>(1, quota_us / period_us));
}

/// The smaller of two limits, where 0 means none.
int tighter(int a, int b) {
  if (a == 0 || b == 0) return std::max(a, b);
  return std::min(a, b);
}

/// cgroup v2: "max 100000" or "150000 100000".
int limit_v2(const std::filesystem::path& group) {
  std::istringstream line(first_line(group / "cpu.max"));
  int64_t quota_us = 0, period_us = 0;
  if (!(line >> quota_us >> period_us)) return 0;
  return whole_cpus(quota_us, period_us);
}

/// cgroup v1: two files; a quota of -1 is none.
int limit_v1(const std::filesystem::path& group) {
  std::istringstream quota(first_line(group / "cpu.cfs_quota_us"));
  std::istringstream period(first_line(group / "cpu.cfs_period_us"));
  int64_t quota_us = 0, period_us = 0;
  if (!(quota >> quota_us) || !(period >> period_us)) return 0;
  return whole_cpus(quota_us, period_us);
}

/// The tightest limit of a group and its parents up to the mount. Inside a container the group's path may
/// name what lies outside of its own mount; the mount's root is then the group, which is why it is always
/// read.
template <class Limit>
int limit_up_to_root(const std::filesystem::path& mount, const std::string& group, Limit limit_of) {
  int limit = limit_of(mount);
  std::filesystem::path path;
  for (const std::filesystem::path& part : std::filesystem::path(group).relative_path()) {
    path /= part;
    limit = tighter(limit, limit_of(mount / path));
  }
  return limit;
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
  // The kernel refuses a mask smaller than its own; 8192 CPUs is the largest CONFIG_NR_CPUS on x86.
  constexpr int kMaxCpus = 8192;
  struct FreeSet {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  const std::unique_ptr<cpu_set_t, FreeSet> set(CPU_ALLOC(kMaxCpus));
  const size_t bytes = CPU_ALLOC_SIZE(kMaxCpus);
  std::vector<int> cpus;
  if (set != nullptr && sched_getaffinity(0, bytes, set.get()) == 0) {
    for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set.get())) cpus.push_back(cpu);
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

std::vector<int> one_cpu_per_core(const std::vector<int>& cpus, const std::filesystem::path& sys) {
  std::set<std::string> seen;
  std::vector<int> first_of_core;
  for (int cpu : cpus) {
    const std::string name = "cpu" + std::to_string(cpu);
    // The list of a core's siblings is the same text for each of them, so it names the core.
    std::string core = first_line(sys / "devices/system/cpu" / name / "topology/thread_siblings_list");
    if (core.empty()) core = name;
    if (seen.insert(core).second) first_of_core.push_back(cpu);
  }
  return first_of_core;
}

int cgroup_cpu_limit(const std::filesystem::path& proc, const std::filesystem::path& sys) {
  const std::filesystem::path root = sys / "fs/cgroup";
  std::ifstream groups(proc / "self/cgroup");
  int limit = 0;
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
