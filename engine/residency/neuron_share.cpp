// A layout of neurons shared between a device and host memory: the device's rows, packed, and where they lie.
#include <algorithm>
#include <cstring>

#include "engine/residency/neuron_layout.h"
#include "kernels/quant/coded_columns.h"

namespace hearth {
namespace {

/// One layer's rows on their way to the device. The backend has copied them when resident() returns.
class ShareBuilder {
 public:
  ShareBuilder(const NeuronLayer& host, const LayerPlacement& share, Memory& memory)
      : host_(host), share_(share), memory_(memory) {}

  /// `residency` is filled if the device has not all neurons; else the layer is told to be whole.
  NeuronLayer build(NeuronResidency& residency) {
    const FfnNeurons& from = host_.ffn;
    const int64_t d_ff = from.gate.n_rows;
    NeuronLayer out;
    FfnNeurons& to = out.ffn;
    to.activation = from.activation;
    to.gate = share_.all_gates ? all_rows(from.gate) : slot_rows(from.gate);
    if (from.up) to.up = slot_rows(from.up);
    to.gate_bias = memory_.resident(from.gate_bias, d_ff);
    to.up_bias = memory_.resident(from.up_bias, d_ff);
    to.down = hot_columns(from.down);
    out.predictor_out = memory_.resident(host_.predictor_out);

    const auto n_hot = static_cast<int64_t>(share_.hot.size());
    if (n_hot == d_ff) return out;

    residency.host = from;
    residency.all_gates = share_.all_gates;
    residency.n_hot = n_hot;
    residency.n_slots = n_hot + share_.n_cache;
    std::vector<uint64_t> bits(static_cast<size_t>((d_ff + 63) / 64));
    std::vector<int32_t> slots(static_cast<size_t>(d_ff), -1);
    for (size_t slot = 0; slot < share_.hot.size(); ++slot) {
      const auto id = static_cast<size_t>(share_.hot[slot]);
      bits[id / 64] |= uint64_t{1} << (id % 64);
      slots[id] = static_cast<int32_t>(slot);
    }
    residency.resident = reinterpret_cast<uint64_t*>(const_cast<std::byte*>(place(bits)));
    residency.slot_of = reinterpret_cast<int32_t*>(const_cast<std::byte*>(place(slots)));
    to.residency = &residency;
    return out;
  }

 private:
  template <class T>
  const std::byte* place(const std::vector<T>& values) {
    return memory_.resident(reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T));
  }

  /// n rows of row_bytes each, the i-th from row_at(i), and n_more rows' room behind them, on the device.
  template <class RowAt>
  const std::byte* place_rows(size_t n, size_t n_more, size_t row_bytes, const RowAt& row_at) {
    const size_t bytes = (n + n_more) * row_bytes;
    if (!memory_.reads()) return memory_.resident(nullptr, bytes);
    std::vector<std::byte> packed(bytes);
    for (size_t i = 0; i < n; ++i) std::memcpy(packed.data() + i * row_bytes, row_at(i), row_bytes);
    return memory_.resident(packed.data(), bytes);
  }

  size_t n_hot() const { return share_.hot.size(); }
  size_t n_cache() const { return static_cast<size_t>(share_.n_cache); }

  Matrix slot_rows(const Matrix& from) {
    const std::byte* rows = place_rows(n_hot(), n_cache(), row_bytes(from.dtype, from.n_cols),
                                       [&](size_t i) { return from.row(share_.hot[i]); });
    return {rows, from.dtype, static_cast<int64_t>(n_hot() + n_cache()), from.n_cols};
  }
  Matrix all_rows(const Matrix& from) {
    const std::byte* rows =
        place_rows(static_cast<size_t>(from.n_rows), 0, row_bytes(from.dtype, from.n_cols),
                   [&](size_t i) { return from.row(static_cast<int64_t>(i)); });
    return {rows, from.dtype, from.n_rows, from.n_cols};
  }

  DownColumns hot_columns(const DownColumns& from) {
    DownColumns to = from;
    to.bias = memory_.resident(from.bias, from.n_cols);
    if (from.rows) {
      to.rows = slot_rows(from.rows);
      return to;
    }
    // Codes go with their neurons; the scales that groups of them share go whole.
    CodedColumns& coded = to.coded;
    const size_t code_bytes = static_cast<size_t>(coded.n_cols_padded) * static_cast<size_t>(coded.bits) / 8;
    coded.codes = place_rows(n_hot(), n_cache(), code_bytes, [&](size_t i) {
      return from.coded.codes + static_cast<size_t>(share_.hot[i]) * from.coded.stride;
    });
    coded.stride = code_bytes;
    const int64_t groups = (from.n_neurons + coded.group - 1) / coded.group;
    const size_t table_bytes =
        static_cast<size_t>(groups * coded.n_cols_padded) * (coded.half_scales ? 2 : sizeof(float));
    coded.scales = memory_.resident(from.coded.scales, table_bytes);
    if (coded.mins != nullptr) coded.mins = memory_.resident(from.coded.mins, table_bytes);
    return to;
  }

  const NeuronLayer& host_;
  const LayerPlacement& share_;
  Memory& memory_;
};

}  // namespace

void NeuronLayout::add_shared(const NeuronLayer& host, const LayerPlacement& placement, Memory& memory) {
  auto residency = std::make_unique<NeuronResidency>();
  ShareBuilder builder(host, placement, memory);
  layers_.push_back(builder.build(*residency));
  if (layers_.back().ffn.residency == nullptr) residency.reset();
  residencies_.push_back(std::move(residency));
}

}  // namespace hearth
