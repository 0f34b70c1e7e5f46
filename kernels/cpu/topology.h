// Which processors this process may use: affinity mask, SMT siblings, cgroup quota.
//
// The thread pool uses it to choose the number of its threads and their processors. Called at start, from any
// thread. Every function reads files of /proc and /sys and treats a missing or unreadable file as "no such
// limit".
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace hearth {

/// The CPU numbers that the calling thread may run on, ascending (sched_getaffinity, which respects a
/// container's cpuset). Never empty: {0} if the kernel does not say.
std::vector<int> allowed_cpus();

/// Binds the calling thread to these CPUs if the system allows it; otherwise the thread stays where it was.
void keep_thread_to(const std::vector<int>& cpus);

/// One CPU of each physical core among `cpus`, in their order. SMT siblings share one core's arithmetic, so a
/// second compute thread on the core only takes cache from the first. `sys` is where sysfs is mounted.
std::vector<int> one_cpu_per_core(const std::vector<int>& cpus, const std::filesystem::path& sys = "/sys");

/// Groups `cpus` by NUMA node, in their order: CPUs of one node are near to the same memory. Returns one
/// group of all if the system does not report nodes.
std::vector<std::vector<int>> cpus_by_numa_node(const std::vector<int>& cpus,
                                                const std::filesystem::path& sys = "/sys");

/// The total bytes of the last-level caches that `cpus` use; 0 if the system does not report them. A virtual
/// machine may report the caches of a whole server.
size_t last_level_cache_bytes(const std::vector<int>& cpus, const std::filesystem::path& sys = "/sys");

/// The processor's name; "unknown processor" if the system does not say.
std::string processor_name(const std::filesystem::path& proc = "/proc");

/// How many CPUs' worth of time the cgroups of this process allow, rounded down but at least 1; 0 if
/// unlimited. Understands cgroup v2 (cpu.max of the group and of all its parents) and v1 (cpu.cfs_quota_us).
int cgroup_cpu_limit(const std::filesystem::path& proc = "/proc", const std::filesystem::path& sys = "/sys");

}  // namespace hearth
