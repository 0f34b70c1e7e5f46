// Selects the NUMA nodes for a process's memory, if the machine has several nodes with memory of their own.
//
// All threads read the weights, so their pages should be spread over all nodes. Then reads use the memory of
// all nodes, and no node is a bottleneck. ModelRuntime::load calls this before it reads the file and starts
// threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace hearth {

/// The numbers of the NUMA nodes that `cpus` belong to, ascending; empty if the system does not report nodes.
/// `sys` is where sysfs is mounted.
std::vector<int> numa_nodes_of(const std::vector<int>& cpus, const std::filesystem::path& sys = "/sys");

enum class MemorySpread : uint8_t {
  kNone,     // the system's default: a page is on the node whose thread touches it first
  kSpread,   // page by page over all nodes
  kRefused,  // the system does not allow it
};

/// From now on, new pages are placed on `nodes` in turn, if the calling thread or a thread that it starts
/// later touches them first. This includes pages of files that are not in the page cache yet. Does nothing
/// with fewer than two nodes, or if the process was started with a policy of its own (numactl).
MemorySpread spread_memory(const std::vector<int>& nodes);

}  // namespace hearth
