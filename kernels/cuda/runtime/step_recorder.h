// Records steps as CUDA graphs and plays them back. A decode step makes some thousand launches, for which the
// host needs more time than the device. The next step of the same shape makes the same launches.
//
// Owned by DeviceWork, which passes all work for the device through the recorder; engine thread. The first
// step of a shape enqueues its work at once. The second step collects the work of each segment, captures it
// as a graph at the end of the segment, and launches the graph. From the third step on, only the graphs are
// launched. A segment ends where the host computes a part of the step, because a graph cannot wait for the
// host. Values that change from step to step reach the graphs through memory: step inputs are at fixed
// addresses in pinned memory, and kernels read counts and lists from memory.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/compute_device.h"

namespace hearth::cuda {

/// A graph that can be launched.
class GraphExec {
 public:
  GraphExec() = default;
  explicit GraphExec(cudaGraphExec_t exec) : exec_(exec) {}
  GraphExec(GraphExec&& other) noexcept : exec_(std::exchange(other.exec_, nullptr)) {}
  GraphExec& operator=(GraphExec&& other) noexcept {
    std::swap(exec_, other.exec_);
    return *this;
  }
  ~GraphExec() {
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
  }
  operator cudaGraphExec_t() const { return exec_; }  // NOLINT: used like the handle

 private:
  cudaGraphExec_t exec_ = nullptr;
};

class StepRecorder {
 public:
  /// Records the work of `stream`, which must outlive the recorder. If not enabled, all work is enqueued at
  /// once.
  StepRecorder(cudaStream_t stream, bool enabled) : stream_(stream), enabled_(enabled) {}

  cudaStream_t stream() const { return stream_; }

  /// Returns the shape with `longest` rounded up (longest_class()). The recorder compares rounded shapes,
  /// because the exact `longest` grows with every token.
  static StepShape rounded(StepShape shape);

  /// Begins a step. If the last segment of the previous step was not ended, the recording of that step is not
  /// used.
  void begin_step(const StepShape& shape);

  /// Drops all recordings. REQUIRES: the device has finished their graphs, and no step is being played back.
  void forget();

  /// work() must enqueue operations on the stream. enqueue() calls it at once, or the end of the segment
  /// calls it, or nothing calls it because a recorded graph replaces it. REQUIRES: `work` holds copies of the
  /// values that it needs, and the values are the same in every step of the shape.
  template <class Work>
  void enqueue(Work&& work) {
    if (enqueues_at_once()) return work();
    note(1);
    if (mode_ == Mode::kRecord) works_.emplace_back(std::forward<Work>(work));
  }

  /// Whether enqueue() calls work() at once. Otherwise the work becomes part of a graph that is launched when
  /// the segment ends.
  bool enqueues_at_once() const {
    return mode_ == Mode::kAtOnce ||
           (mode_ == Mode::kPlay && segment_ == recordings_[current_].segments.size());
  }

  /// Adds a number to the segment's signature. REQUIRES: every step of the shape adds this number at this
  /// point.
  void note(uint64_t number) {
    if (!enqueues_at_once()) signature_ = signature_ * 0x100000001b3 + number;
  }

  /// Ends the segment: unless its work was enqueued at once, calls before_launch() and launches the recorded
  /// work. Throws std::logic_error if the calls in the segment differ from the recorded calls.
  template <class F>
  void end_segment(F&& before_launch) {
    if (enqueues_at_once() || signature_ == 0) return;
    before_launch();
    launch();
  }
  void end_segment() {
    end_segment([] {});
  }

 private:
  /// The maximum number of shapes, and the maximum number of bytes of device memory that their graphs may
  /// take. If one of these limits is exceeded, the recorder drops the least recently used shapes. Decoding
  /// has a shape for every combination of a number of tokens and a longest_class(). For example, four
  /// sequences with drafts of up to seven tokens can have 32 numbers of tokens. The driver allocates graphs
  /// in the device memory that remains free when the memory budget is "auto" (kLeftFree in
  /// engine/resolved_load.cpp). It does not report the size of graphs, so the recorder measures the decrease
  /// of free memory.
  static constexpr size_t kMaxShapes = 64, kMaxBytes = size_t{160} << 20;

  enum class Mode { kAtOnce, kRecord, kPlay };
  struct Segment {
    GraphExec graph;
    uint64_t signature = 0;  // of the calls in it
  };
  struct Recording {
    StepShape shape;
    uint64_t last_step = 0;
    bool whole = false;
    size_t bytes = 0;  // decrease of the free device memory while the graphs were made
    std::vector<Segment> segments;
  };

  void end_recording(bool whole);
  size_t find_or_add(const StepShape& shape);
  void launch();
  void record_and_launch();
  /// Captures works_ as a graph. Returns an empty GraphExec if there is too little memory.
  GraphExec capture();

  cudaStream_t stream_;
  bool enabled_;
  Mode mode_ = Mode::kAtOnce;
  std::vector<Recording> recordings_;
  size_t current_ = 0;  // index in the recordings
  size_t segment_ = 0;  // index of the open segment
  uint64_t signature_ = 0;
  uint64_t n_steps_ = 0;
  size_t free_before_ = 0;  // bytes of free device memory before the current step was recorded
  std::vector<std::function<void()>> works_;
};

}  // namespace hearth::cuda
