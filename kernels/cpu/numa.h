// Where a process's memory lies on a machine with several NUMA nodes, each of which has memory of its own.
//
// Weights are read by all threads, so their pages should lie on all nodes: then every node's memory works, and no node
// is the bottleneck. ModelRuntime::load calls it before it reads the file and starts threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace hearth {

/// The numbers of the NUMA nodes that `cpus` belong to, ascending; empty if the system does not report nodes. `sys` is
/// where sysfs is mounted.
std::vector<int> numa_nodes_of(const std::vector<int>& cpus, const std::filesystem::path& sys = "/sys");

enum class MemorySpread : uint8_t {
  kNone,     // as the system does it: memory is on the node whose thread uses it first
  kSpread,   // page by page over all nodes
  kRefused,  // the system does not allow it
};

/// From now on the pages that the calling thread touches first lie on `nodes` in turn, and so do those of threads that it
/// starts later. Pages of files count too, unless they are in the page cache already: these stay where they are. Does
/// nothing with fewer than two nodes, or if the process was started with a policy of its own (numactl).
MemorySpread spread_memory(const std::vector<int>& nodes);

}  // namespace hearth
