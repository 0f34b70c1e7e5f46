// Graphs: operations and what each depends on, recorded from streams and run again and again.
#pragma once

#include <driver_types.h>

#include <memory>
#include <vector>

#include "tests/support/cudaemu/stream.h"

namespace hearth::cudaemu {

struct Graph {
  struct Node {
    Operation run;
    std::vector<int> depends_on;
  };
  std::vector<Node> nodes;

  /// Every node after those it depends on; which of the ready ones first is the schedule's choice.
  void run() const;
};

/// A graph being recorded, from the stream it began in and those that joined it by events.
class Capture {
 public:
  explicit Capture(Stream& origin);

  Stream& origin() const { return *streams_.front(); }
  bool has_ended() const { return ended_; }
  void join(Stream& stream);
  void add(Stream& stream, Operation operation);
  /// Sets the streams free. False if a stream that joined was never joined back into the origin.
  bool end();
  const Graph& graph() const { return graph_; }

 private:
  Graph graph_;
  std::vector<Stream*> streams_;
  bool ended_ = false;
};

/// Whether any stream captures: much of the API is forbidden then.
bool is_capturing_anywhere();

}  // namespace hearth::cudaemu

struct CUgraph_st final : hearth::cudaemu::Graph {
  explicit CUgraph_st(const hearth::cudaemu::Graph& graph) : Graph(graph) {}
};
struct CUgraphExec_st final {
  std::shared_ptr<const hearth::cudaemu::Graph> graph;
};
