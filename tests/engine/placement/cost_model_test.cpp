// Seconds for kinds of work: cases computed by hand, and what must hold for any machine.
#include "engine/placement/cost_model.h"

#include "engine/placement/kernel_costs.h"
#include "tests/engine/placement/placement_machine.h"
#include "tests/support/catch.h"

namespace hearth::testing {
namespace {

TEST_CASE("reads take their bytes over the bandwidth, rows at their share of it") {
  const CostModel cost(desktop());
  CHECK(cost.gpu_read(900e6, cuda::KernelClass::kSimple) == Approx(1e-3));
  CHECK(cost.gpu_read(0.95 * 900e6, cuda::KernelClass::kProduct) == Approx(1e-3));
  CHECK(cost.cpu_read(67e6) == Approx(1e-3));
  CHECK(cost.cpu_rows(0.7 * 67e6) == Approx(1e-3));
  CHECK(cost.stream(25e6) == Approx(1e-3));
  CHECK(cost.round_trip(25e3, 50e3) == Approx(hand_over_s(*desktop().gpu) + 3e-6));
  CHECK(cost.gpu_compute(0.9 * 80e9, DType::kQ4_0) == Approx(1e-3));
  CHECK(cost.gpu_compute(0.45 * 80e9, DType::kQ6_K) == Approx(1e-3));
  CHECK(cost.gpu_compute(0.9 * 80e9, DType::kF16, /*library=*/true) == Approx(1e-3));
  CHECK(cost.cpu_compute(1e9) == Approx(1e-3));
}

TEST_CASE("kernels take at least what their class does, however short a profile's launches are") {
  KernelCounts norms = {}, both = {};
  norms[static_cast<size_t>(cuda::KernelClass::kNorm)] = both[static_cast<size_t>(cuda::KernelClass::kNorm)] =
      2;
  both[static_cast<size_t>(cuda::KernelClass::kProduct)] = 3;
  MachineProfile machine = desktop();
  CHECK(CostModel(machine).kernels(norms) == Approx(2 * 4.7e-6));
  CHECK(CostModel(machine).kernels(both) == Approx(2 * 4.7e-6 + 3 * 3.1e-6));
  machine.gpu->launch_s = 0.1e-6;  // as a probe of trivial kernels may measure
  CHECK(CostModel(machine).kernels(both) == Approx(2 * 4.7e-6 + 3 * 3.1e-6));
  machine.gpu->launch_s = 10e-6;
  CHECK(CostModel(machine).kernels(both) == Approx(50e-6));
  machine.gpu->starts = 0.5;
  CHECK(CostModel(machine).kernels(both) == Approx(25e-6));
}

// PCIe's bytes per second during the time in which it copies.
const double kLink = 25e9 * CostModel::kLinkBusy * gather_share(*desktop().gpu);

TEST_CASE("PCIe takes the share of the CPU's rows that makes the slowest of PCIe, CPU and RAM fastest") {
  MachineProfile machine = desktop();
  // RAM is much faster than the CPU and PCIe together, so their rates add up: the CPU reads 46.9 GB/s of
  // rows, and PCIe copies kLink bytes per second of others.
  machine.host.ram_read = {{8, 670e9}};
  machine.host.sparse_row_share = 0.07;
  ColdRead read = CostModel(machine).cold_rows_brought(1, 1e6, 0);
  CHECK(1 / read.seconds_per_byte == Approx(46.9e9 + kLink));
  CHECK(read.brought_share == Approx(kLink / (46.9e9 + kLink)));
  // Half of what PCIe brings is wanted, so it counts half.
  read = CostModel(machine).cold_rows_brought(0.5, 1e6, 0);
  CHECK(1 / read.seconds_per_byte == Approx(46.9e9 + kLink / 2));
  // Two channels: both read the same RAM, so its speed limits them.
  machine = desktop();
  machine.host.sparse_row_share = 0.9;
  read = CostModel(machine).cold_rows_brought(1, 1e6, 0);
  CHECK(1 / read.seconds_per_byte == Approx(67e9));
  // A CPU that reads rows at RAM's full speed cannot be helped.
  machine.host.sparse_row_share = 1;
  read = CostModel(machine).cold_rows_brought(0.9, 1e6, 0);
  CHECK(read.brought_share == Approx(0).margin(1e-12));
  CHECK(1 / read.seconds_per_byte == Approx(67e9));
}

TEST_CASE("PCIe also brings rows while the CPU is idle") {
  MachineProfile machine = desktop();
  machine.host.ram_read = {{8, 670e9}};
  machine.host.sparse_row_share = 0.07;
  const CostModel cost(machine);
  // Rows that take the CPU 1 ms; the layer takes another 0.5 ms.
  const ColdRead read = cost.cold_rows_brought(1, 46.9e6, 0.5e-3);
  const double cpu_s = read.seconds_per_byte * 46.9e6, link_s = read.brought_share * 46.9e6 / kLink;
  CHECK(link_s == Approx(0.5e-3 + cpu_s));
  CHECK(cpu_s == Approx((1 - read.brought_share) * 1e-3));
  // No more than all rows can be brought.
  CHECK(cost.cold_rows_brought(1, 46.9e6, 1).brought_share == 1);
  CHECK(cost.cold_rows_brought(1, 46.9e6, 1).seconds_per_byte == 0);
}

TEST_CASE("bringing rows never slows a read, and stays within RAM's bandwidth") {
  for (const double rows : {0.2, 0.5, 0.9, 1.0}) {
    for (const double useful : {0.1, 0.3, 0.9, 1.0}) {
      MachineProfile machine = desktop();
      machine.host.sparse_row_share = rows;
      const CostModel cost(machine);
      const ColdRead read = cost.cold_rows_brought(useful, 1e6, 0);
      INFO(rows << " " << useful);
      CHECK(read.seconds_per_byte <= cost.cold_rows().seconds_per_byte);
      CHECK(read.brought_share >= 0);
      CHECK(read.brought_share < 1);
      const double read_of_ram = 1 - read.brought_share + read.brought_share / useful;
      CHECK(read_of_ram / read.seconds_per_byte <= 67e9 * (1 + 1e-9));
      CHECK(read.brought_share / useful / read.seconds_per_byte <= kLink * (1 + 1e-9));
    }
  }
}

TEST_CASE("without a GPU nothing is brought") {
  const CostModel cost(desktop(false));
  CHECK_FALSE(cost.has_gpu());
  CHECK(cost.cold_rows_brought(0.9, 1e6, 0).brought_share == 0);
  CHECK(cost.gpu_read(1e9, cuda::KernelClass::kProduct) == 0);
}

}  // namespace
}  // namespace hearth::testing
