#include "kernels/cuda/runtime/step_recorder.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "kernels/cuda/runtime/cuda_error.h"

namespace hearth::cuda {
namespace {

/// Returns false if `code` means that there is too little memory. Throws CudaError for any other error.
bool had_memory(cudaError_t code, const char* doing) {
  if (code == cudaErrorMemoryAllocation) {
    // Clear the error. The device still works, and the next check must not find the error.
    cudaGetLastError();
    return false;
  }
  check(code, doing);
  return true;
}

size_t free_bytes() {
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "measuring the memory of recorded steps");
  return free;
}

}  // namespace

StepShape StepRecorder::rounded(StepShape shape) {
  shape.longest = longest_class(shape.longest);
  return shape;
}

void StepRecorder::begin_step(const StepShape& shape) {
  if (mode_ == Mode::kRecord) end_recording(works_.empty() && signature_ == 0);
  works_.clear();
  signature_ = 0;
  segment_ = 0;
  mode_ = Mode::kAtOnce;
  if (!enabled_) {
    recordings_.clear();
    return;
  }
  if (!shape.decoding) return;
  ++n_steps_;
  current_ = find_or_add(rounded(shape));
  Recording& recording = recordings_[current_];
  const bool seen = recording.last_step > 0;
  recording.last_step = n_steps_;
  if (!seen) return;
  mode_ = recording.whole ? Mode::kPlay : Mode::kRecord;
  if (mode_ != Mode::kRecord) return;
  recording.segments.clear();
  free_before_ = free_bytes();
}

/// Measures the memory of the current recording. If all recordings together take more than kMaxBytes, drops
/// old ones.
void StepRecorder::end_recording(bool whole) {
  recordings_[current_].whole = whole;
  recordings_[current_].bytes = free_before_ - std::min(free_before_, free_bytes());
  size_t bytes = 0;
  for (const Recording& recording : recordings_) bytes += recording.bytes;
  while (bytes > kMaxBytes) {
    // Drop the least recently used recording that takes memory. A shape that was seen only once has no graphs
    // yet and takes no memory, so its entry is kept.
    const auto oldest = std::ranges::min_element(recordings_, {}, [](const Recording& recording) {
      return std::pair(recording.bytes == 0, recording.last_step);
    });
    if (oldest->last_step == n_steps_) break;  // the current recording is kept, however large it is
    bytes -= oldest->bytes;
    recordings_.erase(oldest);
  }
}

size_t StepRecorder::find_or_add(const StepShape& shape) {
  const auto found = std::ranges::find(recordings_, shape, &Recording::shape);
  if (found != recordings_.end()) return static_cast<size_t>(found - recordings_.begin());
  if (recordings_.size() < kMaxShapes) {
    recordings_.push_back({.shape = shape, .segments = {}});
    return recordings_.size() - 1;
  }
  const auto oldest = std::ranges::min_element(recordings_, {}, &Recording::last_step);
  *oldest = {.shape = shape, .segments = {}};
  return static_cast<size_t>(oldest - recordings_.begin());
}

void StepRecorder::forget() {
  if (mode_ == Mode::kPlay && signature_ != 0)
    throw std::logic_error(
        "A recorded step is forgotten while it is played back; this is a mistake in Hearth.");
  for (const std::function<void()>& work : works_) work();
  works_.clear();
  signature_ = 0;
  mode_ = Mode::kAtOnce;
  recordings_.clear();
}

void StepRecorder::launch() {
  if (mode_ == Mode::kRecord) {
    record_and_launch();
  } else {
    const Segment& segment = recordings_[current_].segments[segment_];
    if (segment.signature != signature_) {
      throw std::logic_error(
          "A step has the shape of a recorded one but different work; this is a mistake in Hearth.");
    }
    check(cudaGraphLaunch(segment.graph, stream_), "launching a recorded step");
    ++segment_;
  }
  signature_ = 0;
}

void StepRecorder::record_and_launch() {
  GraphExec graph = capture();
  const bool launched = graph != nullptr && had_memory(cudaGraphLaunch(graph, stream_), "launching a graph");
  if (launched) {
    recordings_[current_].segments.push_back({std::move(graph), signature_});
  } else {
    // There is no memory for a graph. From now on, enqueue all work at once. The next begin_step() drops all
    // graphs.
    for (const std::function<void()>& work : works_) work();
    enabled_ = false;
    mode_ = Mode::kAtOnce;
  }
  works_.clear();
}

GraphExec StepRecorder::capture() {
  if (!had_memory(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording a step"))
    return {};
  cudaGraph_t graph = nullptr;
  try {
    for (const std::function<void()>& work : works_) work();
  } catch (...) {
    cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  if (!had_memory(cudaStreamEndCapture(stream_, &graph), "recording a step")) return {};
  cudaGraphExec_t exec = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  if (!had_memory(code, "making a recorded step ready")) return {};
  return GraphExec(exec);
}

}  // namespace hearth::cuda
