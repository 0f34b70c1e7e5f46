// Memory policy: the nodes of a made-up tree, and the policy that the system reports afterward.
#include "kernels/cpu/threads/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/skip.h"

namespace hearth {
namespace {

/// The calling thread's policy; -1 if the system has none.
int policy_here() {
  int policy = -1;
  return syscall(SYS_get_mempolicy, &policy, nullptr, 0UL, nullptr, 0UL) == 0 ? policy : -1;
}

}  // namespace

TEST_CASE("nodes are those of the processors that may be used", "[numa]") {
  const std::filesystem::path sys =
      std::filesystem::temp_directory_path() / ("hearth-numa-" + std::to_string(getpid()));
  CHECK(numa_nodes_of({0, 1}, sys).empty());
  for (const int node : {0, 1, 10}) {
    const std::filesystem::path folder = sys / "devices/system/node" / ("node" + std::to_string(node));
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "cpulist") << (node == 10 ? 2 : node) << "\n";
  }
  CHECK(numa_nodes_of({0, 2}, sys) == std::vector<int>{0, 10});
  CHECK(numa_nodes_of({1}, sys) == std::vector<int>{1});
  std::filesystem::remove_all(sys);
}

TEST_CASE("the memory policy is left alone on a machine with one node", "[numa]") {
  const int before = policy_here();
  CHECK(spread_memory({}) == MemorySpread::kNone);
  CHECK(spread_memory({0}) == MemorySpread::kNone);
  CHECK(policy_here() == before);
}

TEST_CASE("memory is interleaved for the thread and those it starts", "[numa]") {
  std::thread([] {  // this thread may keep the policy
    if (policy_here() != MPOL_DEFAULT)
      return testing::skip("this system has no memory policy, or has one set");
    // Nodes that the machine lacks are skipped, so this runs everywhere.
    const MemorySpread spread = spread_memory({0, 1});
    if (spread == MemorySpread::kRefused) return testing::skip("this system refuses memory policies");
    CHECK(spread == MemorySpread::kSpread);
    CHECK(policy_here() == MPOL_INTERLEAVE);
    CHECK(spread_memory({0, 1}) == MemorySpread::kSpread);  // again: a second model
    int inherited = -1;
    std::thread([&] { inherited = policy_here(); }).join();
    CHECK(inherited == MPOL_INTERLEAVE);
  })
      .join();
  CHECK(policy_here() != MPOL_INTERLEAVE);  // this thread's policy has not changed
}

TEST_CASE("a memory policy that the process was started with stays", "[numa]") {
  std::thread([] {
    const unsigned long node0 = 1;
    if (syscall(SYS_set_mempolicy, MPOL_BIND, &node0, 65UL) != 0) {
      return testing::skip("this system refuses memory policies");
    }
    CHECK(spread_memory({0, 1}) == MemorySpread::kNone);
    CHECK(policy_here() == MPOL_BIND);
  }).join();
}

}  // namespace hearth
