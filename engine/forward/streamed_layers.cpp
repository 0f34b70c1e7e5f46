// See the header.
#include "engine/forward/streamed_layers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/quant/coded_columns.h"

namespace hearth {
namespace {

/// The page size of file mappings. Memory is locked in whole pages, and no page may be locked twice.
constexpr uintptr_t kPage = 4096;

struct Pages {
  uintptr_t begin, end;
};

Pages pages_of(const std::byte* data, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  return {begin / kPage * kPage, (begin + bytes + kPage - 1) / kPage * kPage};
}

/// Merges ranges that overlap or touch.
std::vector<Pages> joined(std::vector<Pages> parts) {
  std::ranges::sort(parts, {}, &Pages::begin);
  std::vector<Pages> out;
  for (const Pages& part : parts) {
    if (!out.empty() && part.begin <= out.back().end) {
      out.back().end = std::max(out.back().end, part.end);
    } else {
      out.push_back(part);
    }
  }
  return out;
}

/// Page-locks the ranges. Returns whether all of them could be locked.
bool pin(ComputeDevice& device, std::vector<Pages> parts) {
  bool all = true;
  for (const Pages& pages : joined(std::move(parts))) {
    all = device.pin_to_copy(reinterpret_cast<const std::byte*>(pages.begin), pages.end - pages.begin) && all;
  }
  return all;
}

}  // namespace

bool pin_streamed_layers(const Devices& devices, const Weights& weights, const KvMemory& kv) {
  std::vector<Pages> parts;
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    if (devices.on_device(static_cast<int>(i))) continue;
    const LayerWeights& layer = weights.layers[i];
    for (const Linear* part :
         {&layer.q, &layer.k, &layer.v, &layer.attention_out, &layer.gate, &layer.up, &layer.down}) {
      const Matrix& matrix = part->weight;
      if (matrix)
        parts.push_back(pages_of(matrix.data, static_cast<size_t>(matrix.n_rows) * matrix.stride_bytes()));
    }
    const KvLayer kept = kv.layer(static_cast<int>(i));
    for (const void* part : {kept.k, kept.v})
      parts.push_back(pages_of(static_cast<const std::byte*>(part), kv.bytes_of_keys(static_cast<int>(i))));
  }
  return pin(*devices.device(), std::move(parts));
}

bool pin_experts(ComputeDevice& device, std::span<const std::span<const Expert>> layers) {
  std::vector<Pages> parts;
  const auto add = [&](const Matrix& matrix) {
    if (matrix)
      parts.push_back(pages_of(matrix.data, static_cast<size_t>(matrix.n_rows) * matrix.stride_bytes()));
  };
  for (const std::span<const Expert> experts : layers) {
    for (const Expert& expert : experts) {
      add(expert.gate);
      add(expert.up);
      if (expert.down_columns) {
        parts.push_back(pages_of(expert.down_columns.begin(), packed_columns_bytes(expert.down)));
      } else {
        add(expert.down);
      }
    }
  }
  return pin(device, std::move(parts));
}

}  // namespace hearth
