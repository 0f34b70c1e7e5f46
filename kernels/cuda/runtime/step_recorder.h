// Steps recorded as CUDA graphs and played back: a decoding step is some thousand launches, which take the
// host longer than the device, and the next step of the same shape is the same launches again.
//
// Owned by DeviceWork, which gives it everything that goes to the device; engine thread. A shape's
// first step runs as it comes. In its second the work of a segment is kept until the segment ends, captured
// as a graph and launched. From the third on nothing is enqueued but those graphs. Segments end where the
// host takes part, because a graph cannot wait for it. What changes from step to step reaches the graphs
// through memory: step inputs in pinned places that stay the same, counts and lists that the kernels read.
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
  operator cudaGraphExec_t() const { return exec_; }  // NOLINT: stands for it

 private:
  cudaGraphExec_t exec_ = nullptr;
};

class StepRecorder {
 public:
  /// Of this stream's work, which outlives it. Not enabled: all work is enqueued as it comes.
  StepRecorder(cudaStream_t stream, bool enabled) : stream_(stream), enabled_(enabled) {}

  cudaStream_t stream() const { return stream_; }

  /// The shape that steps are told apart by: `longest` rounded up, for it grows with every token.
  static StepShape rounded(StepShape shape);

  /// Begins a step. A step that was not waited for to its end is not recorded.
  void begin_step(const StepShape& shape);

  /// Drops all recordings. REQUIRES: the device has done with them, and no step is being played back.
  void forget();

  /// work() enqueues something on the stream: now, or when the segment ends, or never, for the graph does it.
  /// REQUIRES: it holds by value what it needs, and that is the same in every step of the shape.
  template <class Work>
  void enqueue(Work&& work) {
    if (enqueues_at_once()) return work();
    note(1);
    if (mode_ == Mode::kRecord) works_.emplace_back(std::forward<Work>(work));
  }

  /// Whether enqueue() does so now, and not in a graph to be launched at the segment's end.
  bool enqueues_at_once() const {
    return mode_ == Mode::kAtOnce ||
           (mode_ == Mode::kPlay && segment_ == recordings_[current_].segments.size());
  }

  /// A number that must be the same in this place of every step of the shape.
  void note(uint64_t number) {
    if (!enqueues_at_once()) signature_ = signature_ * 0x100000001b3 + number;
  }

  /// Launches what the segment holds, if that was not enqueued at once, after calling before_launch().
  /// Throws std::logic_error if the calls are not those that were recorded.
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
  /// Shapes that are kept; the one that was not used for the longest time goes. Decoding has one for every
  /// number of sequences and power of two of `longest`, of which few are in use at a time; and each graph
  /// takes memory of the driver's.
  static constexpr size_t kMaxShapes = 8;

  enum class Mode { kAtOnce, kRecord, kPlay };
  struct Segment {
    GraphExec graph;
    uint64_t signature = 0;  // of the calls in it
  };
  struct Recording {
    StepShape shape;
    uint64_t last_step = 0;
    bool whole = false;
    std::vector<Segment> segments;
  };

  size_t find_or_add(const StepShape& shape);
  void launch();
  void record_and_launch();
  /// The works as a graph; none if there is no memory for one.
  GraphExec capture();

  cudaStream_t stream_;
  bool enabled_;
  Mode mode_ = Mode::kAtOnce;
  std::vector<Recording> recordings_;
  size_t current_ = 0;  // of the recordings
  size_t segment_ = 0;  // of its segments: the one that is open
  uint64_t signature_ = 0;
  uint64_t n_steps_ = 0;
  std::vector<std::function<void()>> works_;
};

}  // namespace hearth::cuda
