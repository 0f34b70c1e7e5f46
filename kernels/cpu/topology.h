// Which processors this process may use: affinity mask, SMT siblings, cgroup quota.
//
// The thread pool sizes and places itself by it. Read at start, from any thread; every function reads files
// of /proc and /sys and treats what is missing or unreadable as "no such limit".
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace hearth {

/// The CPU numbers that the calling thread may run on, ascending (sched_getaffinity, which respects a
/// container's cpuset). Never empty: {0} if the kernel does not say.
std::vector<int> allowed_cpus();

/// Keeps the calling thread to these CPUs, where the system allows it; else it runs where it did.
void keep_thread_to(const std::vector<int>& cpus);

/// One CPU of each physical core among `cpus`, in their order: SMT siblings share one core's arithmetic, and
/// a second kernel thread on it only takes cache from the first. `sys` is where sysfs is mounted.
std::vector<int> one_cpu_per_core(const std::vector<int>& cpus, const std::filesystem::path& sys = "/sys");

/// Groups `cpus` by NUMA node, in their order: CPUs of one node are near to the same memory. One group of all
/// if the system does not say.
std::vector<std::vector<int>> cpus_by_numa_node(const std::vector<int>& cpus,
                                                const std::filesystem::path& sys = "/sys");

/// Bytes of all caches of the last level that `cpus` have between them; 0 if the system does not say. A
/// virtual machine may be told those of a whole server.
size_t last_level_cache_bytes(const std::vector<int>& cpus, const std::filesystem::path& sys = "/sys");

/// The processor's name; "unknown processor" if the system does not say.
std::string processor_name(const std::filesystem::path& proc = "/proc");

/// CPUs' worth of time that the cgroups of this process allow, rounded down but at least 1; 0 if unlimited.
/// Understands cgroup v2 (cpu.max of the group and of all its parents) and v1 (cpu.cfs_quota_us).
int cgroup_cpu_limit(const std::filesystem::path& proc = "/proc", const std::filesystem::path& sys = "/sys");

}  // namespace hearth
