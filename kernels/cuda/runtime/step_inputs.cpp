// Implements StepInputs.
#include "kernels/cuda/runtime/step_inputs.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <stdexcept>

namespace hearth::cuda {
namespace {

constexpr size_t kAlign = 64;            // integers: 256 bytes
constexpr int64_t kFewestPerBlock = 16;  // the smallest size of a KV block
constexpr size_t kTables = 2;   // block table arrays: layers with a window may have an array of their own
constexpr size_t kArrays = 16;  // maximum number of arrays in a step that are not block tables or runs

constexpr size_t kRunWords = sizeof(DeviceRun) / sizeof(int32_t);
static_assert(sizeof(DeviceRun) == kRunWords * sizeof(int32_t));

}  // namespace

size_t StepInputs::size(const StepBounds& bounds) {
  const auto tokens = static_cast<size_t>(bounds.max_tokens);
  // max_tokens is at least the number of sequences, so there are at most max_tokens block tables per array.
  const size_t tables = tokens * static_cast<size_t>(bounds.max_context / kFewestPerBlock + 1);
  const size_t longest = std::max(tokens, static_cast<size_t>(bounds.max_cols)) + 1;
  const size_t runs = bounds.recurrent ? tokens * kRunWords + kAlign : 0;
  return kTables * tables + kArrays * (longest + kAlign) + runs;
}

void StepInputs::reserve(const StepBounds& bounds, int32_t* device) {
  device_ = device;
  pinned_ = PinnedArray<int32_t>(size(bounds));
  known_.reserve(kArrays + kTables);
}

void StepInputs::begin_step() {
  used_ = 0;
  known_.clear();
  runs_ = {};
}

void StepInputs::copy(size_t at, size_t n, StepRecorder& recorder) {
  recorder.note(at);
  recorder.note(n);
  recorder.enqueue([to = device_ + at, from = pinned_.data() + at, n, stream = recorder.stream()] {
    check(cudaMemcpyAsync(to, from, n * sizeof(int32_t), cudaMemcpyHostToDevice, stream),
          "copying a step's positions");
  });
}

int32_t* StepInputs::known(const int32_t* host, size_t n) const {
  for (const Known& array : known_) {
    if (array.host == host && array.n == n) return array.device;
  }
  return nullptr;
}

int32_t* StepInputs::room(size_t n) {
  if (n > pinned_.size() - used_) {
    throw std::length_error("A step's positions and tables take more than was reserved for them.");
  }
  return pinned_.data() + used_;
}

int32_t* StepInputs::send(const int32_t* host, size_t n_host, size_t n, StepRecorder& recorder) {
  int32_t* device = device_ + used_;
  copy(used_, n, recorder);
  used_ = std::min(pinned_.size(), (used_ + n + kAlign - 1) / kAlign * kAlign);
  known_.push_back({host, n_host, device});
  return device;
}

const int32_t* StepInputs::on_device(std::span<const int32_t> host, StepRecorder& recorder) {
  if (host.empty()) return device_;
  if (const int32_t* device = known(host.data(), host.size())) return device;
  std::memcpy(room(host.size()), host.data(), host.size_bytes());
  return send(host.data(), host.size(), host.size(), recorder);
}

/// Copies the first n_columns columns of all tables, and returns the copy [n_tables, n_columns] on the
/// device.
const int32_t* StepInputs::tables_on_device(const KvPlaces& host, int n_columns, StepRecorder& recorder) {
  const auto n_tables = static_cast<size_t>(host.n_tables), n = static_cast<size_t>(n_columns),
             stride = static_cast<size_t>(host.max_blocks);
  if (const int32_t* device = known(host.block_tables, n_tables * stride)) return device;
  int32_t* to = room(n_tables * n);
  for (size_t i = 0; i < n_tables; ++i) std::copy_n(host.block_tables + i * stride, n, to + i * n);
  return send(host.block_tables, n_tables * stride, n_tables * n, recorder);
}

KvPlaces StepInputs::on_device(const KvPlaces& host, int block_tokens, int longest, StepRecorder& recorder) {
  const auto n = static_cast<size_t>(host.n_tokens);
  if (n == 0) return host;
  assert(*std::max_element(host.table_of, host.table_of + n) < host.n_tables);
  const int n_columns = std::min(host.max_blocks, (longest + block_tokens - 1) / block_tokens);
  return {.n_tokens = host.n_tokens,
          .positions = on_device({host.positions, n}, recorder),
          .table_of = on_device({host.table_of, n}, recorder),
          .block_tables = tables_on_device(host, n_columns, recorder),
          .max_blocks = n_columns,
          .n_seen = host.n_seen == nullptr ? nullptr : on_device({host.n_seen, n}, recorder),
          .n_tables = host.n_tables};
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

const DeviceRun* StepInputs::on_device(std::span<const RecurrentRun> runs, size_t n_entries,
                                       StepRecorder& recorder) {
  const size_t n = n_entries * kRunWords;
  auto* const entries = reinterpret_cast<DeviceRun*>(room(n));
  for (size_t i = 0; i < n_entries; ++i) entries[i] = i < runs.size() ? device_run(runs[i]) : DeviceRun{};
  const auto* const words = reinterpret_cast<const int32_t*>(entries);
  if (runs_.n != n || !std::equal(words, words + n, runs_.host))
    runs_ = {words, n, send(words, n, n, recorder)};
  return reinterpret_cast<const DeviceRun*>(runs_.device);
}

}  // namespace hearth::cuda
