#include "kernels/cuda/streaming/neuron_strips.h"

#include <algorithm>
#include <cassert>

namespace hearth::cuda {
namespace {

constexpr size_t kRowAlign = 16;     // the largest alignment of a row
constexpr size_t kSmallGap = 64;     // smaller gaps are copied, too, so that all rows are one run of bytes
constexpr size_t kStripAlign = 256;  // the alignment of strips in the buffer

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }
uintptr_t address(const std::byte* p) { return reinterpret_cast<uintptr_t>(p); }

}  // namespace

NeuronStrips::NeuronStrips(const FfnNeurons& host, bool with_gates, size_t buffer_bytes)
    : host_(host), with_gates_(with_gates) {
  if (with_gates) add(rows_of(host.gate));
  if (host.up) add(rows_of(host.up));
  add(rows_of(host.down));
  const std::span<Strip> strips(strips_.data(), n_strips_);
  size_t neuron_bytes = 0;
  for (Strip& strip : strips) {
    const bool whole = strip.stride - strip.width < kSmallGap && strip.stride % strip.align == 0;
    strip.pitch = whole ? strip.stride : rounded(strip.width, kRowAlign);
    neuron_bytes += strip.pitch;
  }
  const size_t lost = n_strips_ * kStripAlign;
  if (buffer_bytes <= lost) return;
  piece_neurons_ = static_cast<int64_t>((buffer_bytes - lost) / neuron_bytes) / kWordNeurons * kWordNeurons;
  size_t begin = 0;
  for (Strip& strip : strips) {
    strip.begin = begin;
    begin += rounded(static_cast<size_t>(piece_neurons_) * strip.pitch, kStripAlign);
  }
}

NeuronStrips::Rows NeuronStrips::rows_of(const Matrix& matrix) {
  return {matrix.data, matrix.stride_bytes(), row_bytes(matrix.dtype, matrix.n_cols)};
}

NeuronStrips::Rows NeuronStrips::rows_of(const DownColumns& down) {
  if (down.rows) return rows_of(down.rows);
  const CodedColumns& coded = down.coded;
  return {coded.codes, coded.stride,
          static_cast<size_t>(coded.n_cols_padded) * static_cast<size_t>(coded.bits) / 8};
}

size_t NeuronStrips::Rows::align() const { return std::min(bytes & ~(bytes - 1), kRowAlign); }

/// Returns whether `rows` alternate with the strip's rows in memory, and if so, widens the strip by `rows`.
bool NeuronStrips::join(const Rows& rows, Strip& strip) {
  if (rows.stride != strip.stride) return false;
  const uintptr_t begin = address(strip.data), other = address(rows.data), first = std::min(begin, other);
  const size_t width = std::max(begin + strip.width, other + rows.bytes) - first;
  if (width > strip.stride || (other - first) % rows.align() != 0 || (begin - first) % strip.align != 0) {
    return false;
  }
  strip.data = std::min(strip.data, rows.data);
  strip.width = width;
  strip.align = std::max(strip.align, rows.align());
  return true;
}

void NeuronStrips::add(const Rows& rows) {
  for (size_t i = 0; i < n_strips_; ++i) {
    if (join(rows, strips_[i])) return;
  }
  strips_[n_strips_++] = {
      .data = rows.data, .stride = rows.stride, .width = rows.bytes, .align = rows.align()};
}

const Strip& NeuronStrips::strip_of(const std::byte* row_0) const {
  const auto has = [&](const Strip& strip) {
    return address(row_0) >= address(strip.data) && address(row_0) - address(strip.data) < strip.width;
  };
  const auto found = std::ranges::find_if(strips(), has);
  assert(found != strips().end());
  return *found;
}

const std::byte* NeuronStrips::moved(const std::byte* row_0, int64_t begin, const std::byte* buffer) const {
  const Strip& strip = strip_of(row_0);
  const uintptr_t first = address(buffer) + strip.begin + (address(row_0) - address(strip.data));
  return reinterpret_cast<const std::byte*>(first - static_cast<size_t>(begin) * strip.pitch);
}

FfnNeurons NeuronStrips::in_buffer(const FfnNeurons& device, int64_t begin, const std::byte* buffer) const {
  const auto moved_matrix = [&](Matrix matrix) {
    matrix.row_stride = strip_of(matrix.data).pitch;
    matrix.data = moved(matrix.data, begin, buffer);
    return matrix;
  };
  FfnNeurons piece = device;
  if (with_gates_) piece.gate = moved_matrix(host_.gate);
  if (host_.up) piece.up = moved_matrix(host_.up);
  if (host_.down.rows) {
    piece.down.rows = moved_matrix(host_.down.rows);
  } else {
    piece.down.coded.codes = moved(host_.down.coded.codes, begin, buffer);
    piece.down.coded.stride = strip_of(host_.down.coded.codes).pitch;
  }
  return piece;
}

}  // namespace hearth::cuda
