// Graphs: operations and their dependencies, recorded from streams and run repeatedly.
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

  /// Runs every node after the nodes that it depends on. Runs one node at a time, although a device may run
  /// independent nodes together; the schedule chooses among the nodes that are ready.
  void run(cudaStream_t stream) const;
  /// Returns whether the graphs differ only in arguments and sizes, which an update of an executable graph
  /// may change.
  bool has_shape_of(const Graph& other) const;
};

/// A graph during recording. It records the stream in which it began, and the streams that joined it by
/// events.
class Capture {
 public:
  Capture(Stream& origin, cudaStreamCaptureMode mode);

  Stream& origin() const { return *streams_.front(); }
  bool has_ended() const { return ended_; }
  void join(Stream& stream);
  void add(Stream& stream, Operation operation);
  /// Ends the capture for its streams. Returns an error if a forbidden call was made meanwhile, or if a
  /// stream that joined was never joined back into the origin.
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

/// The device memory that executable graphs take.
size_t graph_vram_bytes();

/// Returns whether any stream of any thread captures.
bool is_capturing();
/// Called by API functions that wait, or may wait, for the device. If a capture forbids the calling thread to
/// wait, returns an error and invalidates that capture. A global capture forbids waiting to all threads, a
/// thread-local capture to its own thread, and a relaxed capture to none.
cudaError_t forbid_while_capturing();

}  // namespace hearth::cudaemu

struct CUgraph_st final : hearth::cudaemu::Graph {
  explicit CUgraph_st(const hearth::cudaemu::Graph& graph) : Graph(graph) {}
};
struct CUgraphExec_st final {
  /// Takes Config::graph_bytes of device memory until it is destroyed.
  explicit CUgraphExec_st(const hearth::cudaemu::Graph& recorded);
  ~CUgraphExec_st();
  CUgraphExec_st(const CUgraphExec_st&) = delete;
  CUgraphExec_st& operator=(const CUgraphExec_st&) = delete;

  std::shared_ptr<const hearth::cudaemu::Graph> graph;
  const size_t vram_bytes;
};
