// CUDA's API: capturing streams into graphs, and running graphs.
#include <cuda_runtime.h>

#include <memory>

#include "tests/support/cudaemu/api_calls.h"
#include "tests/support/cudaemu/graph.h"
#include "tests/support/cudaemu/simulation.h"
#include "tests/support/cudaemu/stream.h"

using namespace hearth::cudaemu;

namespace {

cudaError_t begin_capture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (is_default(handle)) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  stream->capture = std::make_shared<Capture>(*stream, mode);
  stream->last_nodes.clear();
  return cudaSuccess;
}

cudaError_t end_capture(cudaStream_t handle, cudaGraph_t* out) {
  *out = nullptr;
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (&capture->origin() != stream) return cudaErrorStreamCaptureUnmatched;
  if (const cudaError_t error = capture->end()) return error;
  *out = std::make_unique<CUgraph_st>(capture->graph()).release();
  return cudaSuccess;
}

/// Ends the capture even though the call fails, as CUDA does.
void drop_capture(cudaStream_t handle) {
  const Stream* stream = find_stream(handle);
  if (stream == nullptr) return;
  if (const std::shared_ptr<Capture> capture = stream->capture; capture && &capture->origin() == stream)
    capture->end();
}

/// Makes the executable graph do what `graph` does from its next launch on; launches under way are not
/// changed.
cudaError_t update(CUgraphExec_st& exec, const Graph& graph, cudaGraphExecUpdateResultInfo& info) {
  info = {};
  info.result = cudaGraphExecUpdateSuccess;
  if (!exec.graph->has_shape_of(graph)) {
    info.result = cudaGraphExecUpdateErrorTopologyChanged;
    return cudaErrorGraphExecUpdateFailure;
  }
  exec.graph = std::make_shared<Graph>(graph);
  return cudaSuccess;
}

cudaError_t launch(const CUgraphExec_st& exec, cudaStream_t handle) {
  const Stream* stream = find_stream(handle);
  if (stream != nullptr && stream->capture != nullptr)
    return cudaErrorNotSupported;  // graphs within graphs are not supported
  call_simulated(SimulatedCall::kGraph);
  return enqueue_always(handle, [graph = exec.graph, handle] { graph->run(handle); });
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return api_call("cudaStreamBeginCapture", [&] { return begin_capture(stream, mode); });
}
cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return api_call("cudaStreamIsCapturing", [&] {
    const Stream* stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *status = stream->capture != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  const cudaError_t error = api_call("cudaStreamEndCapture", [&] { return end_capture(stream, out); });
  if (error != cudaSuccess) drop_capture(stream);
  return error;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  return api_call("cudaGraphInstantiate", [&] {
    *out = std::make_unique<CUgraphExec_st>(*graph).release();
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api_release("cudaGraphDestroy", [&] {
    delete graph;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return api_release("cudaGraphExecDestroy", [&] {
    delete exec;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* n) {
  return api_call("cudaGraphGetNodes", [&] {
    if (nodes != nullptr) return cudaErrorNotSupported;  // only the number of nodes is supported
    *n = graph->nodes.size();
    return cudaSuccess;
  });
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  return api_call("cudaGraphExecUpdate", [&] { return update(*exec, *graph, *info); });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return api_call("cudaGraphLaunch", [&] { return launch(*exec, stream); });
}
}
