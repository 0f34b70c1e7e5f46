#include "tests/support/cudaemu/graph.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <utility>

#include "tests/support/cudaemu/order.h"
#include "tests/support/cudaemu/stats.h"

namespace hearth::cudaemu {
namespace {

std::mutex captures_mutex;
std::vector<Capture*>& captures() {
  static std::vector<Capture*> active;
  return active;
}

std::atomic<size_t> graph_bytes_taken{0};

}  // namespace

size_t graph_vram_bytes() { return graph_bytes_taken.load(); }

void Graph::run(cudaStream_t stream) const {
  count(&Stats::graph_launches);
  std::minstd_rand random(config().seed);
  std::vector<size_t> n_missing(nodes.size()), ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    n_missing[i] = nodes[i].depends_on.size();
    if (n_missing[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    size_t chosen = 0;
    if (config().schedule == Schedule::kReverse) chosen = ready.size() - 1;
    if (config().schedule == Schedule::kRandom) chosen = random() % ready.size();
    const size_t i = ready[chosen];
    ready.erase(ready.begin() + static_cast<ptrdiff_t>(chosen));
    if (nodes[i].operation.kind == WorkKind::kKernel) count(&Stats::graph_kernels);
    execute(nodes[i].operation, stream);
    for (size_t j = 0; j < nodes.size(); ++j)
      for (const int d : nodes[j].depends_on)
        if (static_cast<size_t>(d) == i && --n_missing[j] == 0) ready.push_back(j);
  }
}

bool Graph::has_shape_of(const Graph& other) const {
  return std::equal(nodes.begin(), nodes.end(), other.nodes.begin(), other.nodes.end(),
                    [](const Node& a, const Node& b) {
                      return a.operation.kind == b.operation.kind && a.depends_on == b.depends_on;
                    });
}

Capture::Capture(Stream& origin, cudaStreamCaptureMode mode) : streams_{&origin}, mode_(mode) {
  const UnseenLock lock(captures_mutex);
  captures().push_back(this);
}

void Capture::join(Stream& stream) { streams_.push_back(&stream); }

void Capture::add(Stream& stream, Operation operation) {
  graph_.nodes.push_back({std::move(operation), stream.last_nodes});
  stream.last_nodes = {static_cast<int>(graph_.nodes.size()) - 1};
}

/// Returns whether every node comes before the last node of the origin stream.
bool Capture::is_joined() const {
  std::vector<bool> is_before(graph_.nodes.size());
  std::vector<int> open = origin().last_nodes;
  while (!open.empty()) {
    const auto i = static_cast<size_t>(open.back());
    open.pop_back();
    if (is_before[i]) continue;
    is_before[i] = true;
    open.insert(open.end(), graph_.nodes[i].depends_on.begin(), graph_.nodes[i].depends_on.end());
  }
  return std::find(is_before.begin(), is_before.end(), false) == is_before.end();
}

cudaError_t Capture::end() {
  const bool joined = is_joined();
  ended_ = true;
  {
    const UnseenLock lock(captures_mutex);
    std::erase(captures(), this);
  }
  const std::vector<Stream*> streams = std::move(streams_);
  for (Stream* stream : streams) {
    stream->last_nodes.clear();
    stream->capture = nullptr;
  }
  if (invalid_) return cudaErrorStreamCaptureInvalidated;
  return joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}

bool Capture::forbids_here() const {
  return mode_ == cudaStreamCaptureModeGlobal ||
         (mode_ == cudaStreamCaptureModeThreadLocal && thread_ == std::this_thread::get_id());
}

bool is_capturing() {
  const UnseenLock lock(captures_mutex);
  return !captures().empty();
}

cudaError_t forbid_while_capturing() {
  const UnseenLock lock(captures_mutex);
  cudaError_t error = cudaSuccess;
  for (Capture* capture : captures())
    if (capture->forbids_here()) {
      capture->invalid_ = true;
      error = cudaErrorStreamCaptureUnsupported;
    }
  return error;
}

}  // namespace hearth::cudaemu

CUgraphExec_st::CUgraphExec_st(const hearth::cudaemu::Graph& recorded)
    : graph(std::make_shared<hearth::cudaemu::Graph>(recorded)),
      vram_bytes(hearth::cudaemu::config().graph_bytes) {
  hearth::cudaemu::graph_bytes_taken += vram_bytes;
}
CUgraphExec_st::~CUgraphExec_st() { hearth::cudaemu::graph_bytes_taken -= vram_bytes; }
