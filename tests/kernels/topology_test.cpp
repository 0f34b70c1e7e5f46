// Processors and quotas as described in /proc and /sys, from made-up trees of both.
#include "kernels/cpu/threads/topology.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "kernels/cpu/isa/isa.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

/// A folder of its own, removed at the end.
class Tree {
 public:
  Tree() : root_(fs::temp_directory_path() / ("hearth-topology-" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~Tree() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  void file(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  double limit() const { return cgroup_cpu_limit(root_ / "proc", root_ / "sys"); }
  fs::path sys() const { return root_ / "sys"; }

 private:
  fs::path root_;
};

}  // namespace

TEST_CASE("processors are sorted by NUMA node, and nodes without any are left out", "[topology]") {
  const Tree tree;
  using Nodes = std::vector<std::vector<int>>;
  CHECK(cpus_by_numa_node({0, 3}, tree.sys()) == Nodes{{0, 3}});  // no nodes are listed
  tree.file("sys/devices/system/node/node10/cpulist", "2-3,6\n");
  tree.file("sys/devices/system/node/node2/cpulist", "0-1,4,5\n");
  tree.file("sys/devices/system/node/node3/cpulist", "\n");  // memory only
  tree.file("sys/devices/system/node/possible", "0-15\n");
  tree.file("sys/devices/system/node/nodes/cpulist", "0-15\n");
  CHECK(cpus_by_numa_node({0, 1, 2, 3, 6}, tree.sys()) == Nodes{{0, 1}, {2, 3, 6}});
  CHECK(cpus_by_numa_node({3, 2}, tree.sys()) == Nodes{{3, 2}});
  CHECK(cpus_by_numa_node({7}, tree.sys()) == Nodes{{7}});
  tree.file("sys/devices/system/node/node2/cpulist", "nonsense, 5-2, 0-99999999999\n");
  CHECK(cpus_by_numa_node({0, 2}, tree.sys()) == Nodes{{2}});
}

TEST_CASE("the last caches count once each, however many share them", "[topology]") {
  const Tree tree;
  CHECK(last_level_cache_bytes({0, 1}, tree.sys()) == 0);
  const auto cache = [&](int cpu, int index, const char* size, const char* level, const char* shared) {
    const std::string folder =
        "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index);
    tree.file(folder + "/size", size);
    tree.file(folder + "/level", level);
    tree.file(folder + "/shared_cpu_list", shared);
  };
  for (int cpu = 0; cpu < 4; ++cpu) {
    cache(cpu, 2, "1024K", "2", std::to_string(cpu).c_str());
    cache(cpu, 3, "32768K", "3", cpu < 2 ? "0-1" : "2-3");
  }
  CHECK(last_level_cache_bytes({0}, tree.sys()) == size_t{32} << 20);
  CHECK(last_level_cache_bytes({0, 1}, tree.sys()) == size_t{32} << 20);
  CHECK(last_level_cache_bytes({0, 1, 2, 3}, tree.sys()) == size_t{64} << 20);
  tree.file("sys/devices/system/cpu/cpu2/cache/index3/size", "much");
  CHECK(last_level_cache_bytes({0, 2}, tree.sys()) == size_t{32} << 20);

  CHECK(first_level_cache_bytes({0, 1}, tree.sys()) == 0);
  for (int cpu = 0; cpu < 4; ++cpu) {
    cache(cpu, 0, cpu < 2 ? "48K" : "32K", "1", std::to_string(cpu).c_str());
    tree.file("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index0/type", "Data");
    cache(cpu, 1, "16K", "1", std::to_string(cpu).c_str());
    tree.file("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index1/type", "Instruction");
  }
  CHECK(first_level_cache_bytes({0, 1}, tree.sys()) == size_t{48} << 10);
  CHECK(first_level_cache_bytes({0, 1, 2}, tree.sys()) == size_t{32} << 10);
  CHECK(l1_is_large({0, 1}, tree.sys()));
  CHECK_FALSE(l1_is_large({0, 1, 2}, tree.sys()));
}

TEST_CASE("the processor's name is found", "[topology]") {
  const Tree tree;
  CHECK(processor_name(tree.sys().parent_path() / "proc") == "unknown processor");
  tree.file("proc/cpuinfo",
            "processor\t: 0\nmodel\t\t: 17\nmodel name\t: Imaginary 9000 @ 5 GHz\nmodel name\t: other\n");
  CHECK(processor_name(tree.sys().parent_path() / "proc") == "Imaginary 9000 @ 5 GHz");
  tree.file("proc/cpuinfo", "model name\n");
  CHECK(processor_name(tree.sys().parent_path() / "proc") == "unknown processor");
  tree.file("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\n");
  tree.file("proc/device-tree/model", std::string("Imaginary Board 5\0", 18));
  CHECK(processor_name(tree.sys().parent_path() / "proc") == "Imaginary Board 5");
}

TEST_CASE("a cgroup v2 quota is that of the group or of a parent, the tightest", "[topology]") {
  const Tree tree;
  CHECK(tree.limit() == 0);
  tree.file("proc/self/cgroup", "0::/outer/inner\n");
  CHECK(tree.limit() == 0);
  tree.file("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
  CHECK(tree.limit() == 0);
  tree.file("sys/fs/cgroup/outer/inner/cpu.max", "650000 100000\n");
  CHECK(tree.limit() == 6.5);
  tree.file("sys/fs/cgroup/outer/cpu.max", "400000 100000\n");
  CHECK(tree.limit() == 4);
  tree.file("sys/fs/cgroup/cpu.max", "150000 100000\n");  // a container's mount is its own group
  CHECK(tree.limit() == 1.5);
  tree.file("sys/fs/cgroup/cpu.max", "50000 100000\n");
  CHECK(tree.limit() == 0.5);
  tree.file("sys/fs/cgroup/cpu.max", "nonsense");
  CHECK(tree.limit() == 4);
}

TEST_CASE("a cgroup v1 quota is read from the cpu controller", "[topology]") {
  const Tree tree;
  tree.file("proc/self/cgroup", "3:cpuset:/\n2:cpu,cpuacct:/box\n0::/\nno colons here\n");
  tree.file("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n");
  tree.file("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  CHECK(tree.limit() == 0);
  tree.file("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "150000\n");
  CHECK(tree.limit() == 1.5);
}

TEST_CASE("siblings of one core count once", "[topology]") {
  const Tree tree;
  tree.file("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,4\n");
  tree.file("sys/devices/system/cpu/cpu4/topology/thread_siblings_list", "0,4\n");
  tree.file("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,5\n");
  const std::vector<int> cores = one_cpu_per_core({0, 1, 4, 7, 9}, tree.sys());
  CHECK(cores == std::vector<int>{0, 1, 7, 9});  // nothing is known about 7 and 9
}

TEST_CASE("cores of unknown speed all count as fast", "[topology]") {
  const Tree tree;
  CHECK(cpu_speeds({0, 5}, tree.sys()) == std::vector<double>{1, 1});
  CHECK(fast_cpus({0, 5}, tree.sys()) == std::vector<int>{0, 5});
  CHECK_FALSE(speeds_differ({0, 5}, tree.sys()));
  CHECK(cpu_speeds({}, tree.sys()).empty());
}

TEST_CASE("little cores are recognized by their capacity, and left out below half", "[topology]") {
  const Tree tree;
  const char* const capacity[] = {"250", "250", "512", "1024"};
  for (int cpu = 0; cpu < 4; ++cpu) {
    tree.file("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpu_capacity", capacity[cpu]);
    // Equal clocks do not tell how much a core does per cycle.
    tree.file("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq/cpuinfo_max_freq", "2000000\n");
  }
  CHECK(cpu_speeds({1, 2, 3}, tree.sys()) == std::vector<double>{250.0 / 1024, 0.5, 1});
  CHECK(fast_cpus({0, 1, 2, 3}, tree.sys()) == std::vector<int>{2, 3});
  CHECK(speeds_differ({2, 3}, tree.sys()));
  // A process restricted to the little cores has no faster ones.
  CHECK(fast_cpus({0, 1}, tree.sys()) == std::vector<int>{0, 1});
  CHECK_FALSE(speeds_differ({0, 1}, tree.sys()));
}

TEST_CASE("an efficiency core counts half of what its clock suggests", "[topology]") {
  const Tree tree;
  const auto clock = [&](int cpu, const char* khz) {
    tree.file("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq/cpuinfo_max_freq", khz);
  };
  clock(0, "5000000\n");
  clock(1, "5200000\n");  // a preferred core of the same kind
  clock(2, "3900000\n");
  clock(3, "3900000\n");
  CHECK(fast_cpus({0, 1, 2, 3}, tree.sys()) == std::vector<int>{0, 1, 2, 3});
  CHECK(speeds_differ({0, 1, 2, 3}, tree.sys()));
  tree.file("sys/devices/cpu_core/cpus", "0-1\n");
  tree.file("sys/devices/cpu_atom/cpus", "2-3\n");
  CHECK(cpu_speeds({1, 2}, tree.sys()) == std::vector<double>{1, 0.375});
  CHECK(fast_cpus({0, 1, 2, 3}, tree.sys()) == std::vector<int>{0, 1});
  CHECK_FALSE(speeds_differ({0, 1}, tree.sys()));
  CHECK(fast_cpus({2, 3}, tree.sys()) == std::vector<int>{2, 3});
  clock(1, "0\n");  // unknown for one core, so the clocks are not used
  CHECK(cpu_speeds({0, 1, 2}, tree.sys()) == std::vector<double>{1, 1, 0.5});
}

TEST_CASE("instruction sets have names, and the plain one runs everywhere", "[isa]") {
  const std::vector<Isa> supported = supported_isas();
  REQUIRE_FALSE(supported.empty());
  CHECK(supported.back() == Isa::kScalar);
  for (Isa isa : kAllIsas) CHECK(isa_from_name(isa_name(isa)) == isa);
  for (Isa isa : supported) CHECK(is_built(isa));
  CHECK(supported.front() != Isa::kAmx);  // AMX is used only if it is named
  CHECK_FALSE(isa_from_name("avx").has_value());
  CHECK_FALSE(isa_from_name("").has_value());
}

}  // namespace hearth
