// See the header.
#include "kernels/cuda/runtime/step_inputs.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace hearth::cuda {
namespace {

constexpr size_t kAlign = 64;            // integers: 256 bytes
constexpr int64_t kFewestPerBlock = 16;  // the smallest size of a KV block
constexpr size_t kTables = 2;            // arrays of block tables: layers with a window may have their own
constexpr size_t kArrays = 16;           // the most arrays that a step has besides those

}  // namespace

size_t StepInputs::size(const StepBounds& bounds) {
  const auto tokens = static_cast<size_t>(bounds.max_tokens);
  // A step has at most as many sequences, and so block tables, as tokens.
  const size_t tables = tokens * static_cast<size_t>(bounds.max_context / kFewestPerBlock + 1);
  const size_t longest = std::max(tokens, static_cast<size_t>(bounds.max_cols)) + 1;
  return kTables * tables + kArrays * (longest + kAlign);
}

void StepInputs::reserve(const StepBounds& bounds, int32_t* device) {
  device_ = device;
  pinned_ = PinnedArray<int32_t>(size(bounds));
  known_.reserve(kArrays + kTables);
}

void StepInputs::begin_step() {
  used_ = 0;
  known_.clear();
}

void StepInputs::copy(size_t at, size_t n, StepRecorder& recorder) {
  recorder.note(at);
  recorder.note(n);
  recorder.enqueue([to = device_ + at, from = pinned_.data() + at, n, stream = recorder.stream()] {
    check(cudaMemcpyAsync(to, from, n * sizeof(int32_t), cudaMemcpyHostToDevice, stream),
          "copying a step's positions");
  });
}

const int32_t* StepInputs::on_device(std::span<const int32_t> host, StepRecorder& recorder) {
  if (host.empty()) return device_;
  for (const Known& known : known_) {
    if (known.host == host.data() && known.n == host.size()) return known.device;
  }
  if (host.size() > pinned_.size() - used_) {
    throw std::length_error("A step's positions and tables take more than was reserved for them.");
  }
  std::memcpy(pinned_.data() + used_, host.data(), host.size_bytes());
  int32_t* device = device_ + used_;
  copy(used_, host.size(), recorder);
  used_ = std::min(pinned_.size(), (used_ + host.size() + kAlign - 1) / kAlign * kAlign);
  known_.push_back({host.data(), host.size(), device});
  return device;
}

KvPlaces StepInputs::on_device(const KvPlaces& host, StepRecorder& recorder) {
  const auto n = static_cast<size_t>(host.n_tokens);
  if (n == 0) return host;
  const int n_tables = 1 + *std::max_element(host.table_of, host.table_of + n);
  const size_t table_ids = static_cast<size_t>(n_tables) * static_cast<size_t>(host.max_blocks);
  return {.n_tokens = host.n_tokens,
          .positions = on_device({host.positions, n}, recorder),
          .table_of = on_device({host.table_of, n}, recorder),
          .block_tables = on_device({host.block_tables, table_ids}, recorder),
          .max_blocks = host.max_blocks,
          .n_seen = host.n_seen == nullptr ? nullptr : on_device({host.n_seen, n}, recorder)};
}

DeviceList StepInputs::list(std::span<const int32_t> host, StepRecorder& recorder) {
  const size_t at = used_;
  const auto n = static_cast<int32_t>(host.size());
  if (at + 1 > pinned_.size())
    throw std::length_error("A step's lists take more than was reserved for them.");
  pinned_.data()[at] = n;
  copy(at, 1, recorder);
  used_ += kAlign;
  return {const_cast<int32_t*>(on_device(host, recorder)), device_ + at, n};
}

}  // namespace hearth::cuda
