// Changes which experts are in a device's slots: see HybridExperts::begin_change().
//
// An expert is first copied to a place in a stream buffer, which decoding does not use, on the stream of
// copies. When the copy is complete, the device's own stream moves the expert from there to the slot, between
// two steps. So an evicted expert is used until the other one has arrived, and every slot has an expert at
// any time. The move reads and writes device memory, which takes a few percent of the time of the copy. Owned
// by CudaHybridExperts; engine thread.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "kernels/cuda/hybrid/device_work.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/streaming/streamed_share.h"
#include "kernels/hybrid_experts.h"

namespace hearth::cuda {

class ExpertChanges {
 public:
  /// Both must outlive this object.
  ExpertChanges(DeviceWork& work, StreamedShare& streamed) : work_(work), streamed_(streamed) {}

  int most(const Expert& one) const;
  void begin(const SlotChange& change);
  int n_arrived() const;
  void end(int n);
  double seconds() const { return seconds_; }

 private:
  struct Marks {
    TimeMark began, ended;
  };
  /// A change under way.
  struct Copy {
    SlotChange change;
    size_t buffer;
    const std::byte* place;
    std::unique_ptr<Marks> marks;
  };
  int per_buffer(const Expert& one) const;
  void move(const Copy& copy) const;

  DeviceWork& work_;
  StreamedShare& streamed_;
  std::deque<Copy> copies_;  // in the order in which they began
  std::vector<std::unique_ptr<Marks>> unused_marks_;
  int next_place_ = 0;
  double seconds_ = 0;
};

}  // namespace hearth::cuda
