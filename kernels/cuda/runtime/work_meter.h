// Collects the declared work of launched kernels (kernels/cuda/ops/kernel_work.h), for benchmarks that
// compare it with kernel times. Without a meter, a launch only checks a pointer.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/cuda/ops/kernel_work.h"

namespace hearth::cuda {

/// During its lifetime, an object collects the declarations of all launches. At most one object may exist at
/// a time, and only its thread may launch kernels.
class WorkMeter {
 public:
  WorkMeter() { at_work_ = this; }
  ~WorkMeter() { at_work_ = nullptr; }
  WorkMeter(const WorkMeter&) = delete;
  WorkMeter& operator=(const WorkMeter&) = delete;

  /// Returns the object that exists, or null.
  static WorkMeter* current() { return at_work_; }

  void add(std::function<KernelWork()> work) { works_.push_back(std::move(work)); }
  int n_launches() const { return static_cast<int>(works_.size()); }
  /// Returns the sum of all declarations. Its class is the class of the declaration with the most bytes.
  /// REQUIRES: the device has finished the work, and the host can read the list lengths and token positions
  /// that were passed to the kernels, because the declarations read them.
  KernelWork sum() const {
    KernelWork sum;
    double most = -1;
    for (const std::function<KernelWork()>& declared : works_) {
      const KernelWork work = declared();
      if (work.bytes > most) sum.kind = work.kind;
      most = std::max(most, work.bytes);
      sum.bytes += work.bytes;
      sum.host_reads += work.host_reads;
      sum.host_writes += work.host_writes;
      sum.multiply_adds += work.multiply_adds;
      sum.instructions += work.instructions;
    }
    return sum;
  }

 private:
  static inline WorkMeter* at_work_ = nullptr;
  std::vector<std::function<KernelWork()>> works_;
};

}  // namespace hearth::cuda
