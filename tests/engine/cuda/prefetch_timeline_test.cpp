// Tests when neurons move: while kernels of the layers run, on a separate stream, and never into a row that
// enqueued work may still read. Some cases have a slow emulated bus or delayed streams.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "engine/load_hooks.h"
#include "engine/model_runtime.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "tests/engine/cuda/on_device.h"
#include "tests/engine/cuda/shares.h"
#include "tests/support/catch.h"
#include "tests/support/cudaemu/control.h"
#include "tests/support/golden.h"

namespace hearth::testing {
namespace {

using Clock = std::chrono::steady_clock;

/// Restores the emulated machine at the end.
struct ConfigGuard {
  ~ConfigGuard() { cudaemu::config() = saved; }
  const cudaemu::Config saved = cudaemu::config();
};

/// The times at which the work before each gate was done, and the gates that existed before each start().
struct Log {
  struct Gate {
    Log* log;
    int layer;
  };
  struct Start {
    int layer;
    size_t n_gates;  // gates of its layer that existed before it
    size_t n_moves;
  };
  void at_gate(int layer, void* stream) {
    const std::lock_guard lock(mutex);
    gates.push_back({this, layer});
    ++n_gates[layer];
    cuda::check(cudaLaunchHostFunc(static_cast<cudaStream_t>(stream), passed, &gates.back()),
                "logging a gate");
  }
  static void passed(void* gate) {
    const auto& at = *static_cast<Gate*>(gate);
    const std::lock_guard lock(at.log->mutex);
    at.log->done[at.layer].push_back(Clock::now());
  }

  std::mutex mutex;
  std::deque<Gate> gates;
  std::map<int, size_t> n_gates;
  std::map<int, std::vector<Clock::time_point>> done;
  std::vector<Start> starts;
};

class Logged final : public RowCopier {
 public:
  Logged(std::unique_ptr<RowCopier> copier, Log& log) : copier_(std::move(copier)), log_(log) {}
  void gate(int layer, void* stream) override {
    log_.at_gate(layer, stream);
    copier_->gate(layer, stream);
  }
  void start(int layer, std::span<const RowChange> moves) override {
    {
      const std::lock_guard lock(log_.mutex);
      log_.starts.push_back({layer, log_.n_gates[layer], moves.size()});
    }
    copier_->start(layer, moves);
  }
  Copied wait() override { return copier_->wait(); }

 private:
  std::unique_ptr<RowCopier> copier_;
  Log& log_;
};

/// With gates on the device, only active neurons are wanted, and every token wants others.
LoadOptions options_of(int64_t n_cache) {
  LoadOptions options = device_options("arch/bamboo.powerinfer.gguf");
  options.choose_placement = placed(Share::kThird, /*all_gates=*/true, n_cache);
  return options;
}

std::vector<int32_t> some_tokens(const ModelRuntime& model) {
  return spread_tokens(40, model.facts().spec.n_vocab);
}

bool is_gather(const cudaemu::Interval& interval) {
  return interval.kind == cudaemu::WorkKind::kKernel &&
         interval.name.find("gather_bundles") != std::string::npos;
}

TEST_CASE("device rows are written only after the work that may read them is done") {
  const ConfigGuard guard;
  cudaemu::config().jitter_us = 300;
  Log log;
  const LoadOptions options = options_of(3);  // few, so that neurons leave all the time
  LoadHooks hooks;
  hooks.wrap_copier = [&](std::unique_ptr<RowCopier> copier) {
    return std::make_unique<Logged>(std::move(copier), log);
  };
  cudaemu::record_intervals(true);
  {
    const auto model = ModelRuntime::load(options, hooks);
    logits_of(*model, some_tokens(*model), 1);
    CHECK(model->placed().prefetcher->counters().evicted > 0);
  }
  std::vector<cudaemu::Interval> gathers;
  for (const cudaemu::Interval& interval : cudaemu::intervals()) {
    if (is_gather(interval)) gathers.push_back(interval);
  }
  cudaemu::record_intervals(false);
  REQUIRE(gathers.size() == log.starts.size());
  size_t n_gated = 0;
  for (size_t i = 0; i < gathers.size(); ++i) {
    const Log::Start& start = log.starts[i];
    if (start.n_gates == 0) continue;
    ++n_gated;
    REQUIRE(log.done[start.layer].size() >= start.n_gates);
    REQUIRE(log.done[start.layer][start.n_gates - 1] <= gathers[i].begin);
  }
  CHECK(n_gated > 0);
}

/// The streams on which neurons move: their only kernels are gathers.
std::set<cudaStream_t> copiers(const std::vector<cudaemu::Interval>& intervals) {
  std::set<cudaStream_t> streams;
  for (const cudaemu::Interval& interval : intervals) streams.insert(interval.stream);
  for (const cudaemu::Interval& interval : intervals) {
    if (interval.kind == cudaemu::WorkKind::kKernel && !is_gather(interval)) streams.erase(interval.stream);
  }
  return streams;
}

/// Returns whether neurons moved while a layer's kernel ran.
bool moved_beside_kernels(const std::vector<cudaemu::Interval>& intervals) {
  const std::set<cudaStream_t> moving = copiers(intervals);
  for (const cudaemu::Interval& move : intervals) {
    if (!moving.contains(move.stream)) continue;
    for (const cudaemu::Interval& work : intervals) {
      if (work.kind == cudaemu::WorkKind::kKernel && !moving.contains(work.stream) && move.overlaps(work))
        return true;
    }
  }
  return false;
}

TEST_CASE("neurons move while layers compute") {
  const ConfigGuard guard;
  const bool pinned = GENERATE(true, false);
  INFO("pinned " << pinned);
  // If pinning is refused, neurons go through a staging buffer, by copies over a slow bus.
  const LoadOptions options = options_of(60);
  if (!pinned) {
    cudaemu::config().bus_mb_per_s = 2;
    cudaemu::fail_next("cudaHostRegister", 0, cudaErrorNotSupported, 2);
  }
  const auto model = ModelRuntime::load(options);
  REQUIRE(model->facts().spec.n_layers == 2);
  cudaemu::reset_stats();
  cudaemu::record_intervals(true);
  // Repeats until the two overlap, which may take a while on a busy machine.
  bool beside = false;
  for (int i = 0; i < 200 && !beside; ++i) {
    logits_of(*model, some_tokens(*model), 1);
    beside = moved_beside_kernels(cudaemu::intervals());
  }
  CHECK(beside);
  const auto moved_as = pinned ? cudaemu::WorkKind::kKernel : cudaemu::WorkKind::kHostToDevice;
  const std::vector<cudaemu::Interval> all = cudaemu::intervals();
  const std::set<cudaStream_t> moving = copiers(all);
  CHECK(std::ranges::any_of(all, [&](const cudaemu::Interval& interval) {
    return moving.contains(interval.stream) && interval.kind == moved_as;
  }));
  CHECK(cudaemu::stats().pageable_async == 0);
  CHECK(cudaemu::stats().default_stream == 0);
  cudaemu::record_intervals(false);
}

}  // namespace
}  // namespace hearth::testing
