// The processors that this process may use: affinity mask, SMT siblings, speeds, cgroup quota.
//
// The thread pool uses these functions to choose the number of its threads and their processors. Called at
// start, from any thread. The functions read files of /proc and /sys. If a file is missing or unreadable,
// they assume that the limit in it does not exist.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace hearth {

/// The CPU numbers that the calling thread may run on, ascending (sched_getaffinity, which respects a
/// container's cpuset). Never empty: {0} if Linux does not report them.
std::vector<int> allowed_cpus();

/// Binds the calling thread to these CPUs if the system allows it; otherwise the thread stays where it was.
void keep_thread_to(const std::vector<int>& cpus);

/// Returns one CPU of each physical core among `cpus`, in the order of `cpus`. SMT siblings share one core's
/// arithmetic, so a second compute thread on the core only takes cache from the first. `sys` is where sysfs
/// is mounted.
std::vector<int> one_cpu_per_core(const std::vector<int>& cpus, const std::filesystem::path& sys = "/sys");

/// Returns the vector arithmetic speed of each of `cpus`, relative to the fastest. It is taken from
/// cpu_capacity (Arm), or else from the highest clock. The clock of Intel's efficiency cores counts half,
/// because their vector units are half as wide. All 1 if the system does not report it.
std::vector<double> cpu_speeds(const std::vector<int>& cpus, const std::filesystem::path& sys = "/sys");

/// Returns the CPUs among `cpus` that are at least half as fast as the fastest, in the order of `cpus`.
std::vector<int> fast_cpus(const std::vector<int>& cpus, const std::filesystem::path& sys = "/sys");

/// Whether some of `cpus` are so much slower than others that work should be divided into smaller pieces.
bool speeds_differ(const std::vector<int>& cpus, const std::filesystem::path& sys = "/sys");

/// The CPUs among `cpus` that belong to each NUMA node, by node number; nodes without CPUs are left out.
/// Empty if the system does not report nodes.
std::map<int, std::vector<int>> numa_nodes(const std::vector<int>& cpus,
                                           const std::filesystem::path& sys = "/sys");

/// Groups `cpus` by NUMA node, in the order of `cpus`. The CPUs of a node are close to the same memory.
/// Returns one group with all of them if the system does not report nodes.
std::vector<std::vector<int>> cpus_by_numa_node(const std::vector<int>& cpus,
                                                const std::filesystem::path& sys = "/sys");

/// The total bytes of the last-level caches that `cpus` use; 0 if the system does not report them. A virtual
/// machine may report the caches of a whole server.
size_t last_level_cache_bytes(const std::vector<int>& cpus, const std::filesystem::path& sys = "/sys");

/// Returns the bytes of the smallest first-level data cache of `cpus`; 0 if the system does not report the
/// caches.
size_t first_level_cache_bytes(const std::vector<int>& cpus, const std::filesystem::path& sys = "/sys");

/// Whether the first-level data caches of `cpus` hold 48 KB, so that more rows can be read at once. Zen 5 and
/// Intel's cores since Ice Lake have 48 KB; Zen 4 and most other cores have 32 KB.
bool l1_is_large(const std::vector<int>& cpus, const std::filesystem::path& sys = "/sys");

/// The processor's name, or the board's name if the system reports only that, or "unknown processor".
std::string processor_name(const std::filesystem::path& proc = "/proc");

/// How many CPUs the cgroups of this process allow on average, for example 1.5; 0 if unlimited. Understands
/// cgroup v2 (cpu.max of the group and of all its parents) and v1 (cpu.cfs_quota_us).
double cgroup_cpu_limit(const std::filesystem::path& proc = "/proc",
                        const std::filesystem::path& sys = "/sys");

}  // namespace hearth
