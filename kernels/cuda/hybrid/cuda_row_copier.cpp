// Implements the RowCopier of a CUDA device. A layer has up to three parts, one per matrix. A move copies one
// row of each part.
#include "kernels/cuda/hybrid/cuda_row_copier.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "kernels/cuda/hybrid/gather_bundles.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/device_memory.h"

namespace hearth::cuda {
namespace {

/// The source and the destination of the rows of one layer.
struct Layer {
  Layer(const HybridLayer& layer, bool gathers) : pinned(layer.host_pinned), first(layer.first_on_host) {
    const FfnNeurons &host = layer.host, &device = layer.device;
    if (!layer.all_gates) add(host.gate, device.gate);
    if (host.up) add(host.up, device.up);
    if (host.down.rows) {
      add(host.down.rows, device.down.rows);
    } else {
      const CodedColumns &from = host.down.coded, &to = device.down.coded;
      add(from.codes, from.stride, to.codes, to.stride,
          static_cast<size_t>(from.n_cols_padded) * static_cast<size_t>(from.bits) / 8);
    }
    if (pinned && gathers && first < host.down.n_neurons) map();
  }

  size_t bundle_bytes() const {
    size_t bytes = 0;
    for (int i = 0; i < n_parts; ++i) bytes += parts[i].bytes;
    return bytes;
  }

  bool pinned = false;
  int64_t first = 0;  // lower neurons are not in host memory
  std::array<BundlePart, 3> parts;
  std::array<const std::byte*, 3> mapped{};  // the device's address of each part's `from`
  int n_parts = 0;
  Event readers;  // recorded behind the last work that may read device rows that are now empty

 private:
  void add(const Matrix& from, const Matrix& to) {
    add(from.data, from.stride_bytes(), to.data, to.stride_bytes(), row_bytes(from.dtype, from.n_cols));
  }
  void add(const std::byte* from, size_t from_stride, const std::byte* to, size_t to_stride, size_t bytes) {
    // Matrices on the device are const for everything but the copier, which fills their device rows.
    BundlePart part{from, from_stride, const_cast<std::byte*>(to), to_stride, bytes, 1};
    const auto all = reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to) | from_stride |
                     to_stride | bytes | 16;
    part.word = 1 << std::countr_zero(all);
    parts[static_cast<size_t>(n_parts++)] = part;
  }
  void map() {
    for (int i = 0; i < n_parts; ++i) {
      const BundlePart& part = parts[static_cast<size_t>(i)];
      // Ask for the address of the first row that exists, because the memory of the rows before it may have
      // been freed.
      const size_t at = static_cast<size_t>(first) * part.from_stride;
      void* there = nullptr;
      check(cudaHostGetDevicePointer(&there, const_cast<std::byte*>(part.from + at), 0),
            "asking where the device finds pinned neurons");
      mapped[static_cast<size_t>(i)] = static_cast<std::byte*>(there) - at;
    }
  }
};

class CudaRowCopier final : public RowCopier {
 public:
  CudaRowCopier(std::span<const HybridLayer* const> layers, const RowCopierOptions& options)
      : options_(options), moves_(RowPrefetcher::kMaxChanges) {
    for (const HybridLayer* shared : layers) {
      const auto [at, is_new] = layers_.try_emplace(shared->layer, *shared, gathers());
      assert(is_new);
      const Layer& layer = at->second;
      if (!layer.pinned)
        half_bytes_ = std::max({half_bytes_, options.staging_bytes / 2, layer.bundle_bytes()});
    }
    staging_ = PinnedArray<std::byte>(2 * half_bytes_);
  }
  ~CudaRowCopier() override { cudaStreamSynchronize(stream_); }

  void gate(int layer, void* stream) override {
    check(cudaEventRecord(layers_.at(layer).readers, static_cast<cudaStream_t>(stream)),
          "marking the last use of emptied device rows");
  }

  void start(int layer, std::span<const RowChange> moves) override {
    assert(moves.size() <= RowPrefetcher::kMaxChanges);
    if (moves.empty()) return;
    finish_started();  // there is one list of moves and one pair of events, so wait for the last start()
    const Layer& of = layers_.at(layer);
    check(cudaStreamWaitEvent(stream_, of.readers, 0), "waiting for the last use of emptied device rows");
    began_.record(stream_);
    started_ = {layer, static_cast<int64_t>(moves.size() * of.bundle_bytes())};
    if (!of.pinned) {
      stage(of, moves);
    } else if (gathers()) {
      gather(of, moves);
    } else {
      for (int i = 0; i < of.n_parts; ++i) copy_runs(of.parts[static_cast<size_t>(i)], moves);
    }
    ended_.record(stream_);
  }

  Copied wait() override {
    finish_started();
    return std::exchange(copied_, {});
  }

 private:
  bool gathers() const { return options_.way == CopyWay::kGather; }

  void finish_started() {
    const Started done = std::exchange(started_, {});
    if (done.bytes == 0) return;
    ended_.wait();
    const double seconds = ended_.seconds_since(began_);
    copied_.bytes += done.bytes;
    copied_.seconds += seconds;
    if (options_.trace == nullptr) return;
    const auto end = Trace::Clock::now();
    const auto span =
        std::chrono::duration_cast<Trace::Clock::duration>(std::chrono::duration<double>(seconds));
    options_.trace->add({"PCIe", "neurons for the cache", done.layer, end - span, end, done.bytes});
  }

  void gather(const Layer& of, std::span<const RowChange> moves) {
    std::copy(moves.begin(), moves.end(), moves_.data());
    BundleGather op{.parts = {},
                    .n_parts = of.n_parts,
                    .moves = moves_.data(),
                    .n_moves = static_cast<int>(moves.size())};
    for (size_t i = 0; i < static_cast<size_t>(of.n_parts); ++i) {
      op.parts[i] = of.parts[i];
      op.parts[i].from = of.mapped[i];
    }
    gather_bundles(op, stream_);
  }

  /// Copies rows in runs. Adjacent neurons that go to adjacent device rows take one copy.
  void copy_runs(const BundlePart& part, std::span<const RowChange> moves) {
    for (size_t i = 0, n = 0; i < moves.size(); i += n) {
      for (n = 1; i + n < moves.size() && follows(moves[i + n - 1], moves[i + n]);) ++n;
      copy_rows(part, part.from + static_cast<size_t>(moves[i].neuron) * part.from_stride, part.from_stride,
                moves[i].device_row, n);
    }
  }
  static bool follows(const RowChange& a, const RowChange& b) {
    return b.neuron == a.neuron + 1 && b.device_row == a.device_row + 1;
  }

  /// Copies through the staging memory: one half is filled while the other half is copied to the device.
  void stage(const Layer& of, std::span<const RowChange> moves) {
    const size_t n_fit = half_bytes_ / of.bundle_bytes();
    for (size_t half = 0; !moves.empty(); half = 1 - half) {
      const std::span<const RowChange> now = moves.first(std::min(n_fit, moves.size()));
      moves = moves.subspan(now.size());
      copied_from_[half].wait();
      std::byte* to = staging_.data() + half * half_bytes_;
      for (const BundlePart& part : std::span(of.parts).first(static_cast<size_t>(of.n_parts))) {
        for (size_t i = 0; i < now.size(); ++i) {
          std::memcpy(to + i * part.bytes, part.from + static_cast<size_t>(now[i].neuron) * part.from_stride,
                      part.bytes);
        }
        for (size_t i = 0, n = 0; i < now.size(); i += n) {
          for (n = 1; i + n < now.size() && now[i + n].device_row == now[i + n - 1].device_row + 1;) ++n;
          copy_rows(part, to + i * part.bytes, part.bytes, now[i].device_row, n);
        }
        to += now.size() * part.bytes;
      }
      copied_from_[half].record(stream_);
    }
  }

  /// Copies n rows, which are from_stride bytes apart, to the device rows from `device_row` on.
  void copy_rows(const BundlePart& part, const std::byte* from, size_t from_stride, int32_t device_row,
                 size_t n) {
    std::byte* to = part.to + static_cast<size_t>(device_row) * part.to_stride;
    if (n == 1 || (from_stride == part.bytes && part.to_stride == part.bytes)) {
      check(cudaMemcpyAsync(to, from, n * part.bytes, cudaMemcpyHostToDevice, stream_),
            "copying neurons to the cache");
    } else {
      check(cudaMemcpy2DAsync(to, part.to_stride, from, from_stride, part.bytes, n, cudaMemcpyHostToDevice,
                              stream_),
            "copying neurons to the cache");
    }
  }

  const RowCopierOptions options_;
  std::map<int, Layer> layers_;  // by number
  PinnedArray<RowChange> moves_;
  PinnedArray<std::byte> staging_;
  size_t half_bytes_ = 0;
  TimeMark copied_from_[2];  // one event for each half of the staging memory

  struct Started {
    int layer = 0;
    int64_t bytes = 0;  // 0: nothing was started
  };
  Started started_;
  Copied copied_;  // since the last wait()
  TimeMark began_, ended_;
  Stream stream_;  // declared last, so that it is destroyed before everything that its work uses
};

}  // namespace

std::unique_ptr<RowCopier> make_row_copier(std::span<const HybridLayer* const> layers,
                                           const RowCopierOptions& options) {
  return std::make_unique<CudaRowCopier>(layers, options);
}

}  // namespace hearth::cuda
