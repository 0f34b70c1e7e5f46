// Tests when the two devices of a step work: the CPU computes its share of a layer after the device's
// hand-over, while the device computes its own share, and the device adds the CPU's sums after that. Runs on
// a slow emulated device; checks order and overlap, never durations.
#include <algorithm>
#include <string>
#include <vector>

#include "engine/model_runtime.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"
#include "tests/support/golden.h"

namespace hearth::testing {
namespace {

/// A device that waits before each of its operations; the previous one is restored at the end.
class SlowDevice {
 public:
  explicit SlowDevice(int jitter_us) : before_(cudaemu::config()) { cudaemu::config().jitter_us = jitter_us; }
  ~SlowDevice() {
    cudaemu::record_intervals(false);
    cudaemu::config() = before_;
  }
  SlowDevice(const SlowDevice&) = delete;
  SlowDevice& operator=(const SlowDevice&) = delete;

 private:
  cudaemu::Config before_;
};

struct Timeline {
  std::vector<cudaemu::Interval> device;  // intervals of kernels and copies, in the order of the stream
  std::vector<Trace::Span> cold;          // the CPU's shares, in their order
};

/// Eight tokens one by one; the device has a third of the neurons.
Timeline run(const std::string& name, const std::string& mode) {
  Trace trace;
  LoadOptions options = device_options("arch/" + name, mode);
  options.context_tokens = 16;
  options.prefill_chunk = 8;
  options.choose_placement = placed(Share::kThird, false);
  options.trace = &trace;
  const auto model = ModelRuntime::load(options);
  const size_t n_before = trace.spans().size();
  cudaemu::record_intervals(true);
  logits_of(*model, std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8}, 1);
  Timeline timeline{.device = cudaemu::intervals(), .cold = {}};
  const std::vector<Trace::Span> spans = trace.spans();
  for (size_t i = n_before; i < spans.size(); ++i) {
    if (spans[i].name == std::string("FFN, cold neurons")) timeline.cold.push_back(spans[i]);
  }
  return timeline;
}

std::vector<cudaemu::Interval> kernels_named(const Timeline& timeline, const std::string& part) {
  std::vector<cudaemu::Interval> found;
  for (const cudaemu::Interval& interval : timeline.device) {
    if (interval.name.find(part) != std::string::npos) found.push_back(interval);
  }
  return found;
}

/// Checks the order of a run on a device that waits up to jitter_us before each operation. Returns whether
/// the CPU computed at least half of its shares while the device computed its own.
bool computes_beside(const std::string& mode, int jitter_us) {
  const SlowDevice device(jitter_us);
  const Timeline timeline = run("bamboo.powerinfer.gguf", mode);
  const std::vector<cudaemu::Interval> given = kernels_named(timeline, "hand_over"),
                                       merged = kernels_named(timeline, "end_sums");
  INFO(mode << ", " << jitter_us << " us");
  REQUIRE(timeline.cold.size() == 8 * 2);  // tokens, layers
  REQUIRE(given.size() == timeline.cold.size());
  REQUIRE(merged.size() == timeline.cold.size());
  size_t n_beside = 0;
  for (size_t i = 0; i < timeline.cold.size(); ++i) {
    const Trace::Span& cold = timeline.cold[i];
    CHECK(cold.layer == static_cast<int>(i % 2));
    CHECK(given[i].begin <= cold.begin);
    CHECK(cold.end <= merged[i].begin);
    n_beside += std::ranges::any_of(timeline.device, [&](const cudaemu::Interval& own) {
      return given[i].end <= own.begin && own.end <= merged[i].begin && cold.begin < own.end;
    });
  }
  return n_beside >= timeline.cold.size() / 2;
}

TEST_CASE(
    "the CPU's share of a layer lies between its hand-over and its merging, beside the device's share") {
  const std::string mode = GENERATE("exact", "predicted", "dense");
  // On a busy machine the CPU's thread may be delayed until the device is done. The slower the device, the
  // longer that delay must be, so slower devices are tried.
  bool beside = false;
  for (int jitter_us = 2000; jitter_us <= 128'000 && !beside; jitter_us *= 4) {
    beside = computes_beside(mode, jitter_us);
  }
  CHECK(beside);
}

}  // namespace
}  // namespace hearth::testing
