// Graphs: operations and what each depends on, recorded from streams and run again and again.
#pragma once

#include <driver_types.h>

#include <memory>
#include <vector>

#include "tests/support/cudaemu/stream.h"

namespace hearth::cudaemu {

struct Graph {
  struct Node {
    Operation operation;
    std::vector<int> depends_on;
  };
  std::vector<Node> nodes;

  /// Every node after those it depends on; which of the ready ones first is the schedule's choice. One at a
  /// time, where a device may run independent ones together.
  void run(cudaStream_t stream) const;
  /// Whether it differs from `other` in arguments and sizes only, as an update of an executable graph may.
  bool has_shape_of(const Graph& other) const;
};

/// A graph being recorded, from the stream it began in and those that joined it by events.
class Capture {
 public:
  Capture(Stream& origin, cudaStreamCaptureMode mode);

  Stream& origin() const { return *streams_.front(); }
  bool has_ended() const { return ended_; }
  void join(Stream& stream);
  void add(Stream& stream, Operation operation);
  /// Sets the streams free. An error if a forbidden call came between, or a stream that joined was never
  /// joined back into the origin.
  cudaError_t end();
  const Graph& graph() const { return graph_; }

 private:
  friend cudaError_t forbid_while_capturing();
  bool forbids_here() const;
  bool is_joined() const;

  Graph graph_;
  std::vector<Stream*> streams_;
  const cudaStreamCaptureMode mode_;
  const std::thread::id thread_ = std::this_thread::get_id();
  bool ended_ = false, invalid_ = false;
};

/// Whether any stream captures, in any thread.
bool is_capturing();
/// Where a capture forbids the calling thread what waits or may wait for the device, an error; and that
/// capture is spoilt. A global one forbids it to all threads, a thread-local one to its own, a relaxed one to
/// none.
cudaError_t forbid_while_capturing();

}  // namespace hearth::cudaemu

struct CUgraph_st final : hearth::cudaemu::Graph {
  explicit CUgraph_st(const hearth::cudaemu::Graph& graph) : Graph(graph) {}
};
struct CUgraphExec_st final {
  std::shared_ptr<const hearth::cudaemu::Graph> graph;
};
