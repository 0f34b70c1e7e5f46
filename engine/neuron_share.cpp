// A layout of neurons shared between a device and host memory: the device's rows, packed, and where they lie.
#include <algorithm>
#include <cstring>

#include "engine/neuron_layout.h"
#include "kernels/quant/coded_columns.h"

namespace hearth {
namespace {

/// One layer's rows on their way to the device. The backend has copied them when resident() returns.
class ShareBuilder {
 public:
  ShareBuilder(const NeuronLayer& host, const NeuronLayout::LayerShare& share, Backend& backend)
      : host_(host), share_(share), backend_(backend) {}

  NeuronLayer build(NeuronResidency& residency) {
    const FfnNeurons& from = host_.ffn;
    const int64_t d_ff = from.gate.n_rows;
    NeuronLayer out;
    FfnNeurons& to = out.ffn;
    to.activation = from.activation;
    to.gate = share_.all_gates ? all_rows(from.gate) : hot_rows(from.gate);
    if (from.up) to.up = hot_rows(from.up);
    to.gate_bias = backend_.resident(from.gate_bias, d_ff);
    to.up_bias = backend_.resident(from.up_bias, d_ff);
    to.down = hot_columns(from.down);
    out.predictor_out = backend_.resident(host_.predictor_out);

    residency.host = from;
    residency.all_gates = share_.all_gates;
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
    return backend_.resident(reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T));
  }

  Matrix packed(const Matrix& from, std::span<const int32_t> rows) {
    const size_t row = row_bytes(from.dtype, from.n_cols);
    std::vector<std::byte> bytes(rows.size() * row);
    for (size_t i = 0; i < rows.size(); ++i) std::memcpy(bytes.data() + i * row, from.row(rows[i]), row);
    return {place(bytes), from.dtype, static_cast<int64_t>(rows.size()), from.n_cols};
  }
  Matrix hot_rows(const Matrix& from) { return packed(from, share_.hot); }
  Matrix all_rows(const Matrix& from) {
    std::vector<int32_t> all(static_cast<size_t>(from.n_rows));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    return packed(from, all);
  }

  DownColumns hot_columns(const DownColumns& from) {
    DownColumns to = from;
    to.bias = backend_.resident(from.bias, from.n_cols);
    if (from.rows) {
      to.rows = hot_rows(from.rows);
      return to;
    }
    // Codes go with their neurons; the scales that groups of them share go whole.
    CodedColumns& coded = to.coded;
    const size_t code_bytes = static_cast<size_t>(coded.n_cols_padded) * static_cast<size_t>(coded.bits) / 8;
    std::vector<std::byte> codes(share_.hot.size() * code_bytes);
    for (size_t i = 0; i < share_.hot.size(); ++i) {
      std::memcpy(codes.data() + i * code_bytes,
                  from.coded.codes + static_cast<size_t>(share_.hot[i]) * from.coded.stride, code_bytes);
    }
    coded.codes = place(codes);
    coded.stride = code_bytes;
    const int64_t groups = (from.n_neurons + coded.group - 1) / coded.group;
    const size_t table_bytes =
        static_cast<size_t>(groups * coded.n_cols_padded) * (coded.half_scales ? 2 : sizeof(float));
    coded.scales = backend_.resident(from.coded.scales, table_bytes);
    if (coded.mins != nullptr) coded.mins = backend_.resident(from.coded.mins, table_bytes);
    return to;
  }

  const NeuronLayer& host_;
  const NeuronLayout::LayerShare& share_;
  Backend& backend_;
};

}  // namespace

NeuronLayout NeuronLayout::shared(std::span<const LayerShare> shares, Backend& backend) const {
  NeuronLayout out;
  for (size_t i = 0; i < layers_.size(); ++i) {
    out.residencies_.push_back(std::make_unique<NeuronResidency>());
    out.residencies_.back()->layer = static_cast<int>(i);
    ShareBuilder builder(layers_[i], shares[i], backend);
    out.layers_.push_back(builder.build(*out.residencies_.back()));
  }
  return out;
}

}  // namespace hearth
