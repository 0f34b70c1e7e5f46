// Tests what the probe reports about emulated GPUs and drivers, and about their absence.
#include "kernels/cuda/runtime/device.h"

#include "kernels/cuda/runtime/cuda_error.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"

using namespace hearth::cuda;
namespace cudaemu = hearth::cudaemu;

namespace {

/// An emulated machine; the previous one is restored at the end.
class Machine {
 public:
  Machine() : before_(cudaemu::config()) {}
  ~Machine() { cudaemu::config() = before_; }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  cudaemu::Config* operator->() { return &cudaemu::config(); }

 private:
  cudaemu::Config before_;
};

std::string reason() {
  const std::variant<Device, std::string> found = probe();
  REQUIRE(std::holds_alternative<std::string>(found));
  // This error must not show at the check of the next call.
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  return std::get<std::string>(found);
}

}  // namespace

TEST_CASE("the probe finds a GPU with its facts") {
  Machine machine;
  machine->vram_bytes = size_t{24} << 30;
  machine->compute_capability = 89;
  const std::variant<Device, std::string> found = probe();
  REQUIRE(std::holds_alternative<Device>(found));
  const Device& device = std::get<Device>(found);
  CHECK(device.name == "emulated");
  CHECK(device.compute_capability == Version{8, 9});
  CHECK(device.total_bytes == uint64_t{24} << 30);
  CHECK(device.runtime == Version{CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10});
  CHECK(device.driver == device.runtime);
  CHECK(device.uuid == "GPU-" + std::string(32, '0'));
  CHECK(device.bus_id.empty());  // the emulator has no bus
  CHECK_FALSE(device.pcie);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("free memory falls by what is allocated") {
  const Device device = std::get<Device>(probe());
  const uint64_t before = free_bytes(device);
  CHECK(before <= device.total_bytes);
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 1 << 20) == cudaSuccess);
  CHECK(free_bytes(device) <= before - (1 << 20));
  REQUIRE(cudaFree(memory) == cudaSuccess);
  cudaemu::fail_next("cudaMemGetInfo", 0, cudaErrorInitializationError);
  CHECK_THROWS_AS(free_bytes(device), CudaError);
}

TEST_CASE("the probe says why there is no GPU to use") {
  Machine machine;
  SECTION("no driver") {
    machine->driver = 0;
    CHECK(reason() == "no NVIDIA driver");
  }
  SECTION("a driver older than the runtime's major version") {
    machine->driver = 11040;
    CHECK(reason() == driver_too_old({11, 4}, {CUDART_VERSION / 1000, 0}));
  }
  SECTION("no device") {
    machine->n_devices = 0;
    CHECK(reason() == "no NVIDIA GPU");
  }
  SECTION("a device that is too old") {
    machine->compute_capability = 70;
    CHECK(reason() == "emulated has compute capability 7.0, below 7.5");
  }
  SECTION("a driver that fails") {
    cudaemu::fail_next("cudaGetDeviceCount", 0, cudaErrorSystemNotReady);
    CHECK(reason().starts_with("the NVIDIA driver does not answer: "));
  }
  SECTION("a device that fails") {
    cudaemu::fail_next("cudaGetDeviceProperties", 0, cudaErrorDevicesUnavailable);
    CHECK(reason().starts_with("CUDA failed while reading the GPU's properties: "));
  }
  SECTION("the oldest device that will do") {
    machine->compute_capability = 75;
    CHECK(std::holds_alternative<Device>(probe()));
  }
}

TEST_CASE("a driver that is too old is reported with what to install") {
  CHECK(driver_too_old({11, 4}, {13, 0}) ==
        "the NVIDIA driver is too old: it runs CUDA 11.4, this program needs 13.0 or newer; install driver "
        "580 or "
        "newer, or 525 and build with CUDA 12");
  CHECK(driver_too_old({12, 8}, {13, 2}) ==
        "the NVIDIA driver is too old: it runs CUDA 12.8, this program needs 13.0 or newer; install driver "
        "580 or "
        "newer, or build with CUDA 12, which this driver runs");
  CHECK(driver_too_old({11, 4}, {12, 9}) ==
        "the NVIDIA driver is too old: it runs CUDA 11.4, this program needs 12.0 or newer; install driver "
        "525 or newer");
  CHECK(driver_too_old({13, 0}, {14, 1}) ==
        "the NVIDIA driver is too old: it runs CUDA 13.0, this program needs 14.0 or newer");
}

TEST_CASE("the probe runs a kernel, and says what to do where there is no code for the GPU") {
  Machine machine;
  machine->compute_capability = 103;
  SECTION("no image") {
    cudaemu::fail_next("launch", 0, cudaErrorNoKernelImageForDevice);
    CHECK(reason() ==
          "emulated has compute capability 10.3, and this program has no code for it, only code for "
          "7.5 and 8.0 "
          "and PTX for 9.0 (no kernel image is available for execution on the device); build it with "
          "-DHEARTH_CUDA_ARCHITECTURES=103, or install a newer driver, which may compile the PTX");
  }
  SECTION("PTX that is newer than the driver") {
    cudaemu::fail_next("launch", 0, cudaErrorUnsupportedPtxVersion);
    CHECK(reason().find("unsupported toolchain") != std::string::npos);
  }
  SECTION("an image that the driver finds out about when the kernel runs") {
    cudaemu::fail_next("cudaStreamSynchronize", 0, cudaErrorInvalidKernelImage);
    CHECK(reason().find("-DHEARTH_CUDA_ARCHITECTURES=103") != std::string::npos);
  }
  SECTION("a kernel that fails") {
    cudaemu::fail_next("launch", 0, cudaErrorLaunchFailure);
    CHECK(reason().starts_with("CUDA failed while running a trial kernel: "));
  }
  SECTION("a kernel that computes nothing") {
    machine->drops_kernels = true;
    CHECK(reason() == "emulated computes wrong numbers in a trial kernel: the driver or the GPU is faulty");
  }
  SECTION("no memory") {
    cudaemu::fail_next("cudaHostAlloc", 0, cudaErrorMemoryAllocation);
    CHECK(reason() == "there is no memory for a trial kernel");
  }
  CHECK(std::holds_alternative<Device>(probe()) == !machine->drops_kernels);
}

TEST_CASE("GPU architectures are printed in the usual notation") {
  Device device;
  device.name = "X";
  device.compute_capability = {12, 1};
  const auto says = [&](const char* architectures, const std::string& part) {
    INFO(no_code_for(device, architectures, "why"));
    return no_code_for(device, architectures, "why").find(part) != std::string::npos;
  };
  CHECK(says("80", "code for 8.0 and PTX for 8.0 (why); build it with -DHEARTH_CUDA_ARCHITECTURES=121, or"));
  CHECK(says("75-real 90a-real 120-real", "code for 7.5, 9.0a and 12.0, and no PTX (why); build"));
  CHECK(says("90-virtual", "code for none and PTX for 9.0 ("));
  CHECK(says("native", "code for native and PTX for native ("));
  CHECK_FALSE(says("80-real", "newer driver"));
}

TEST_CASE("a GPU is described by name, memory, compute capability, driver and link") {
  const Device device{.name = "Model X",
                      .compute_capability = {8, 6},
                      .total_bytes = uint64_t{24576} << 20,
                      .driver = {12, 8},
                      .runtime = {12, 4},
                      .pcie = PcieLink{4, 16}};
  CHECK(describe(device) ==
        "CUDA: Model X, 24576 MiB, compute capability 8.6, driver for CUDA 12.8, PCIe 4 x16");
  CHECK(describe("no NVIDIA driver") == "CUDA: none (no NVIDIA driver), running on the CPU");
}
