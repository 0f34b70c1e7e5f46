// Sets the memory policy with two system calls, which avoids a dependency on libnuma.
#include "kernels/cpu/threads/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>

#include "kernels/cpu/threads/topology.h"

namespace hearth {
namespace {

constexpr int kMaxNodes = 1024;  // the largest number for which Linux can be built
constexpr int kWordBits = sizeof(unsigned long) * CHAR_BIT;
using NodeMask = std::array<unsigned long, kMaxNodes / kWordBits>;

/// Linux ignores the mask's last bit.
constexpr unsigned long kMaskBits = kMaxNodes + 1;

}  // namespace

std::vector<int> numa_nodes_of(const std::vector<int>& cpus, const std::filesystem::path& sys) {
  std::vector<int> nodes;
  for (const auto& [number, own] : numa_nodes(cpus, sys)) nodes.push_back(number);
  return nodes;
}

MemorySpread spread_memory(const std::vector<int>& nodes) {
  if (nodes.size() < 2) return MemorySpread::kNone;
  int policy = MPOL_DEFAULT;
  if (syscall(SYS_get_mempolicy, &policy, nullptr, 0UL, nullptr, 0UL) != 0) return MemorySpread::kRefused;
  if (policy == MPOL_INTERLEAVE) return MemorySpread::kSpread;
  if (policy != MPOL_DEFAULT) return MemorySpread::kNone;
  NodeMask mask{};
  for (const int node : nodes) {
    if (node >= kMaxNodes) continue;
    mask[static_cast<size_t>(node / kWordBits)] |= 1UL << (node % kWordBits);
  }
  const bool done = syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, mask.data(), kMaskBits) == 0;
  return done ? MemorySpread::kSpread : MemorySpread::kRefused;
}

}  // namespace hearth
