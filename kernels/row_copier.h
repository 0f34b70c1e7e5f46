// Copies neurons' rows from host memory to device rows while the device does other work.
//
// kernels/cuda/hybrid/cuda_row_copier.h implements it for CUDA; tests have their own implementations. One
// thread calls start() and wait() in turn; the engine thread may call gate() at any time. Methods throw
// exceptions whose text is a sentence; a copier that has thrown must not be used again.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/row_prefetcher.h"

namespace hearth {

/// The two ways to copy rows from pinned host memory. kernels/DECISIONS.md compares them.
enum class CopyWay : uint8_t {
  kGather,  // one kernel launch reads the host rows over the bus and writes the device rows
  kDma,     // one copy per matrix for each run of neighboring rows
};

class RowCopier {
 public:
  /// Waits for unfinished copies. Afterward the memory that they read and write may be freed.
  virtual ~RowCopier() = default;

  /// Delays later copies to device rows of the layer until all work that is now enqueued on `stream` (a
  /// cudaStream_t for CUDA) is done. The call itself does not wait.
  virtual void gate(int layer, void* stream) = 0;

  /// Begins to copy each neuron's rows to its device row. There may be at most RowPrefetcher::kMaxChanges
  /// neurons, and no two for the same device row. May wait until staging memory is free. The caller may reuse
  /// the list when the call returns.
  virtual void start(int layer, std::span<const RowChange> moves) = 0;

  /// The bytes that were copied since the last wait(), and how long the link was busy with them.
  struct Copied {
    int64_t bytes = 0;
    double seconds = 0;
  };
  /// Waits, without using processor time, until all copies that were started are done.
  virtual Copied wait() = 0;
};

}  // namespace hearth
