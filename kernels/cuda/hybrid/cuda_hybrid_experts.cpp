// Implements CudaHybridExperts. For each layer, the engine calls begin(), wait() and end() in this order.
#include "kernels/cuda/hybrid/cuda_hybrid_experts.h"

#include <algorithm>
#include <array>

#include "kernels/base/trace.h"
#include "kernels/cpu/isa/activation_row.h"
#include "kernels/cuda/ops/expert_types.h"
#include "kernels/quant/coded_columns.h"

namespace hearth::cuda {

void CudaHybridExperts::reserve(const StepBounds& bounds) {
  const auto d_model = static_cast<size_t>(bounds.d_model > 0 ? bounds.d_model : bounds.max_cols);
  const auto pairs =
      static_cast<size_t>(bounds.max_expert_tokens) * static_cast<size_t>(bounds.n_experts_used);
  rows_ = PinnedArray<float>(pairs * d_model);
  slot_is_read_.resize(static_cast<size_t>(bounds.n_experts));
}

DeviceChoice CudaHybridExperts::choice() const {
  return work_.scratch().experts.choice_of(call_.n_tokens, call_.router.n_used);
}

ExpertChoice CudaHybridExperts::arrived_choice() const {
  return {.n_tokens = call_.n_tokens,
          .n_used = call_.router.n_used,
          .experts = reinterpret_cast<const int32_t*>(given_.first),
          .weights = given_.first + choice().n_pairs()};
}

std::span<const int32_t> CudaHybridExperts::arrived_slots() const {
  const int64_t n = choice().n_pairs();
  return {reinterpret_cast<const int32_t*>(given_.first) + 2 * n, static_cast<size_t>(n)};
}

ExpertGroups CudaHybridExperts::groups() const {
  return groups_in(work_.scratch().experts.groups, call_.n_tokens, call_.router.n_used,
                   call_.router.n_experts, layer_.device->n_slots);
}

/// Whether the step copies missing experts to the device. This depends on the mean number of tokens that
/// chose an expert, because one copy serves all of them.
bool CudaHybridExperts::streams() const {
  const Router& router = call_.router;
  const Expert& one = layer_.host.front();
  return !layer_.all_resident() && work_.recorder().enqueues_at_once() && streamed_.buffer_bytes() > 0 &&
         division_.copies(int64_t{call_.n_tokens} * router.n_used / router.n_experts) &&
         streamed_bytes(one.gate) + streamed_bytes(one.up) <= streamed_.buffer_bytes() &&
         (skips_zeros() ? packed_columns_bytes(one.down) : streamed_bytes(one.down)) <=
             streamed_.buffer_bytes();
}

void CudaHybridExperts::begin(const HybridExpertLayer& layer, const HybridExpertCall& call) {
  layer_ = layer;
  call_ = call;
  streamed_now_ = streams();
  on_host_ = !layer.all_resident();
  if (streamed_now_) divide_missing();
  hands_over_ = call.wants_choice || on_host_;
  const QuantizedActivations x = weighs_input() ? QuantizedActivations() : quantized_input();
  if (streamed_now_) return begin_streamed(x);
  const DeviceChoice choice = this->choice();
  const ExpertGroups groups = this->groups();
  work_.enqueue(
      [=, logits = call.logits, router = call.router, slot_of = layer.device->slot_of,
       stream = work_.stream()] { route_and_group(logits, router, slot_of, choice, groups, stream); });
  const QuantizedActivations read = routed_input(x);
  if (hands_over_) hand_over_choice();
  work_.mark("attention, router", layer.layer);
  multiply(input_stage(read), groups);
  activate(groups);
  multiply(down_stage(), groups);
}

/// Returns what experts read, in quantized form.
QuantizedActivations CudaHybridExperts::quantized_input() {
  return work_.quantized(input(), call_.n_tokens, layer_.device->up.n_cols);
}

/// Returns x, the quantized input, if experts read it as it is. Otherwise multiplies the input by the weights
/// of the choice, and returns the product in quantized form.
QuantizedActivations CudaHybridExperts::routed_input(const QuantizedActivations& x) {
  if (!weighs_input()) return x;
  const int64_t n_cols = layer_.device->up.n_cols;
  work_.enqueue([=, choice = choice(), from = call_.x, out = call_.weighted_x,
                 quantized = work_.writes_input(call_.weighted_x, call_.n_tokens, n_cols),
                 stream = work_.stream()] { weigh_inputs(choice, from, n_cols, out, stream, quantized); });
  return quantized_input();
}

/// Enqueues the hand-over of the choice and, if the CPU computes missing experts, of their input.
void CudaHybridExperts::hand_over_choice() {
  const DeviceChoice choice = this->choice();
  const auto n_choice = ExpertScratch::kChoiceWords * static_cast<size_t>(choice.n_pairs());
  const auto n_x = on_host_ ? static_cast<size_t>(call_.n_tokens * layer_.device->up.n_cols) : 0;
  work_.enqueue([=, stream = work_.stream(),
                 what = exchange_.begin({reinterpret_cast<const float*>(choice.experts), n_choice},
                                        {input(), n_x})] { hearth::cuda::hand_over(what, stream); });
  given_ = exchange_.arrived();
}

/// Decides which of the missing experts are copied to the device, and which the CPU computes.
void CudaHybridExperts::divide_missing() {
  copied_.clear();
  for (int32_t e = 0; e < call_.router.n_experts; ++e) {
    if (layer_.device->slots[static_cast<size_t>(e)] < 0) copied_.push_back(e);
  }
  division_.divide(layer_.layer, call_.n_tokens, call_.router.n_used, call_.router.n_experts, copied_,
                   on_cpu_);
  on_host_ = !on_cpu_.empty();
}

/// Begins a layer that streams: enqueues the copies of experts, and the products of these and of the resident
/// experts. The copies are not part of recorded graphs, because long steps are not recorded.
void CudaHybridExperts::begin_streamed(const QuantizedActivations& x) {
  const int n_experts = call_.router.n_experts, n_slots = layer_.device->n_slots;
  ExpertBits skipped;
  for (const int32_t e : on_cpu_) skipped.insert(e);
  int32_t* const numbers = work_.scratch().experts.numbers;
  number_experts(layer_.device->slot_of, n_experts, n_slots, skipped, numbers, work_.stream());
  const ExpertGroups all = groups_in(work_.scratch().experts.groups, call_.n_tokens, call_.router.n_used,
                                     n_experts, n_slots + static_cast<int>(copied_.size()));
  route_and_group(call_.logits, call_.router, numbers, choice(), all, work_.stream());
  const QuantizedActivations read = routed_input(x);
  if (hands_over_) hand_over_choice();
  work_.mark("attention, router", layer_.layer);
  ExpertGroups resident = all;
  resident.end_slot = n_slots;
  for (const Stage& stage : {input_stage(read), down_stage()}) {
    if (stage.inputs.by_pair) activate(all);
    multiply(stage, resident);
    multiply_copied(stage, all);
  }
}

CudaHybridExperts::Stage CudaHybridExperts::input_stage(const QuantizedActivations& x) const {
  const ExpertScratch& scratch = work_.scratch().experts;
  const DeviceExperts& device = *layer_.device;
  const bool gated = static_cast<bool>(device.gate);
  const ExpertProduct up{.weight = device.up,
                         .n_rows = d_expert(),
                         .bias = device.up_bias,
                         .out = gated ? scratch.ups : scratch.hidden};
  const ExpertInputs inputs{.x = input(), .quantized = x};
  if (!gated) return {{up, ExpertProduct()}, {&Expert::up, nullptr}, inputs};
  const ExpertProduct gate{
      .weight = device.gate, .n_rows = d_expert(), .bias = device.gate_bias, .out = scratch.hidden};
  return {{gate, up}, {&Expert::gate, &Expert::up}, inputs};
}

CudaHybridExperts::Stage CudaHybridExperts::down_stage() const {
  const ExpertScratch& scratch = work_.scratch().experts;
  if (skips_zeros())
    return {.products = {}, .parts = {}, .inputs = {.quantized = {}, .by_pair = true}, .skips_zeros = true};
  const ExpertProduct down{.weight = layer_.device->down,
                           .n_rows = d_model(),
                           .bias = layer_.device->down_bias,
                           .out = scratch.rows};
  return {{down, ExpertProduct()},
          {&Expert::down, nullptr},
          {.x = scratch.hidden, .quantized = quantized_hidden(), .by_pair = true}};
}

/// Returns the lists of active neurons. They replace the inputs of list_active().
ActiveOfRows CudaHybridExperts::active_of_rows() const {
  const ExpertScratch& scratch = work_.scratch().experts;
  return {.ids = reinterpret_cast<int32_t*>(scratch.ups), .values = scratch.hidden, .n = scratch.n_active};
}

/// Returns the arrays for the quantized output of the activation, or null arrays if the down matrices do not
/// need it.
QuantizedActivations CudaHybridExperts::quantized_hidden() const {
  if (!uses_quantized_activations(layer_.device->down.dtype)) return {};
  return quantized_in(work_.scratch().experts.quantized_hidden, static_cast<int>(choice().n_pairs()),
                      d_expert());
}

/// Enqueues the products of a stage for the experts in slots.
void CudaHybridExperts::multiply(const Stage& stage, const ExpertGroups& groups) {
  if (stage.skips_zeros) {
    const DeviceExperts& device = *layer_.device;
    return work_.enqueue(
        [=, first = device.down_columns, bytes = device.down_slot_bytes, bias = device.down_bias,
         active = active_of_rows(), rows = work_.scratch().experts.rows,
         stream = work_.stream()] { add_active_rows(first, bytes, active, groups, bias, rows, stream); });
  }
  work_.enqueue(
      [=, stream = work_.stream()] { expert_products(stage.products, stage.inputs, groups, stream); });
}

/// Brings the copied experts to the device piece by piece. A piece has as many experts as fit into a buffer.
/// For each piece, calls copies_of(experts), brings these strips of n_rows rows, sets the slots of `groups`
/// to those of the experts, and calls compute(experts, buffer).
template <class Copies, class Compute>
void CudaHybridExperts::for_each_piece(size_t bytes_of_expert, int64_t n_rows, Copies&& copies_of,
                                       ExpertGroups& groups, Compute&& compute) {
  const size_t most = streamed_.buffer_bytes() / bytes_of_expert;
  for (size_t first = 0; first < copied_.size(); first += most) {
    const std::span<const int32_t> experts =
        std::span(copied_).subspan(first, std::min(most, copied_.size() - first));
    const StreamedShare::Piece piece = streamed_.bring(copies_of(experts), {0, 0, n_rows}, layer_.host_pinned,
                                                       work_.scratch(), work_.stream());
    groups.first_slot = layer_.device->n_slots + static_cast<int>(first);
    groups.end_slot = groups.first_slot + static_cast<int>(experts.size());
    if (on_host_ && first + most >= copied_.size()) last_piece_.record(work_.stream());
    compute(experts, piece.buffer);
    streamed_.give_back(piece, work_.stream());
  }
}

/// Enqueues the products of a stage for the copied experts, piece by piece. The buffer of a piece contains
/// several experts. For each matrix of the stage, it holds the rows of these experts one after the other, as
/// in the file. If slots need another row layout, the converted rows follow.
void CudaHybridExperts::multiply_copied(const Stage& stage, ExpertGroups groups) {
  if (stage.skips_zeros) return add_copied_rows(groups);
  const Expert& one = layer_.host.front();
  size_t bytes_of_expert = 0;
  for (size_t p = 0; p < stage.n_parts(); ++p) bytes_of_expert += streamed_bytes(one.*stage.parts[p]);
  const auto copies_of = [&](std::span<const int32_t> experts) { return strips_of(stage, experts); };
  const auto compute = [&](std::span<const int32_t> experts, std::byte* buffer) {
    std::array<ExpertProduct, 2> products = stage.products;
    std::byte* at = buffer;
    for (size_t p = 0; p < stage.n_parts(); ++p) {
      const Matrix& part = one.*stage.parts[p];
      products[p].weight.data = at;
      at += part.bytes() * experts.size();
    }
    for (size_t p = 0; p < stage.n_parts(); ++p) {
      const Matrix& part = one.*stage.parts[p];
      if (slot_rows_as_in_file(part.dtype)) continue;
      const auto n_rows = part.n_rows * static_cast<int64_t>(experts.size());
      at = buffer + piece_bytes(static_cast<size_t>(at - buffer));
      write_slots(products[p].weight.data, part.dtype, n_rows, part.n_cols, at, work_.stream());
      products[p].weight.data = at;
      at += static_cast<size_t>(n_rows) * slot_row_bytes(part.dtype, part.n_cols);
    }
    expert_products(products, stage.inputs, groups, work_.stream());
  };
  for_each_piece(bytes_of_expert, stage.products[0].n_rows, copies_of, groups, compute);
}

/// Like multiply_copied(), for down columns. The buffer of a piece contains the packed columns of several
/// experts.
void CudaHybridExperts::add_copied_rows(ExpertGroups groups) {
  const Matrix& down = layer_.host.front().down;
  const size_t bytes = packed_columns_bytes(down);
  // A copy consists of equal rows, which must fit into small staging buffers.
  constexpr size_t kRow = 64;
  const auto copies_of = [&](std::span<const int32_t> experts) {
    strips_.clear();
    for (const int32_t e : experts) {
      strips_.push_back({.data = layer_.host[static_cast<size_t>(e)].down_columns.begin(),
                         .stride = kRow,
                         .width = kRow,
                         .pitch = kRow,
                         .begin = strips_.size() * bytes});
    }
    return std::span<const Strip>(strips_);
  };
  const auto add = [&](std::span<const int32_t> /*experts*/, std::byte* buffer) {
    add_active_rows(packed_columns(down, buffer), bytes, active_of_rows(), groups, layer_.device->down_bias,
                    work_.scratch().experts.rows, work_.stream());
  };
  for_each_piece(bytes, static_cast<int64_t>(bytes / kRow), copies_of, groups, add);
}

/// Returns the copies that bring the stage's matrices of these experts to the device buffer.
std::span<const Strip> CudaHybridExperts::strips_of(const Stage& stage, std::span<const int32_t> experts) {
  strips_.clear();
  size_t at = 0;
  for (size_t p = 0; p < stage.n_parts(); ++p) {
    for (const int32_t e : experts) {
      const Matrix& from = layer_.host[static_cast<size_t>(e)].*stage.parts[p];
      const size_t row = row_bytes(from.dtype, from.n_cols);
      strips_.push_back(
          {.data = from.data, .stride = from.stride_bytes(), .width = row, .pitch = row, .begin = at});
      at += from.bytes();
    }
  }
  return strips_;
}

/// Enqueues the activation. If zeros are skipped, it becomes the lists of active neurons.
void CudaHybridExperts::activate(const ExpertGroups& groups) {
  const ExpertScratch& scratch = work_.scratch().experts;
  const bool gated = static_cast<bool>(layer_.device->gate);
  if (skips_zeros()) {
    return work_.enqueue([=, act = layer_.activation, d_expert = d_expert(), gates = scratch.hidden,
                          ups = gated ? scratch.ups : nullptr, active = active_of_rows(),
                          counts = work_.scratch().counts, stream = work_.stream()] {
      list_active(act, gates, ups, groups, d_expert, active, counts, stream);
    });
  }
  work_.enqueue([=, act = layer_.activation, d_expert = d_expert(), hidden = scratch.hidden,
                 ups = gated ? scratch.ups : nullptr, quantized = quantized_hidden(),
                 stream = work_.stream()] {
    expert_activation(act, hidden, ups, groups, d_expert, hidden, stream, quantized);
  });
}

ExpertChoice CudaHybridExperts::wait() {
  if (!streamed_now_) work_.mark("resident experts", layer_.layer);
  if (!hands_over_) return {};
  work_.recorder().end_segment();
  const TraceBlock waiting(work_.trace(), "engine", "waiting for the device", layer_.layer);
  exchange_.wait(work_.stream());
  return arrived_choice();
}

void CudaHybridExperts::end(const GatedSharedExpert& shared, ExpertCounts& counts) {
  if (on_host_) {
    const TraceBlock computing(work_.trace(), "CPU", "missing experts", layer_.layer);
    host_.missing_expert_rows(layer_.host, layer_.activation, given_.second, arrived_choice(),
                              arrived_slots().data(), rows_.data(), counts);
  }
  if (streamed_now_ && !copied_.empty()) division_.ended(/*cpu_was_last=*/on_host_ && last_piece_.reached());
  if (streamed_now_ && hands_over_) division_.chose(layer_.layer, call_.router.n_experts, arrived_choice());
  if (streamed_now_ && !on_host_) {
    count_all(call_.router.n_experts, counts);
    counts.streamed += choice().n_pairs();
  } else if (hands_over_) {
    count_resident(counts);
  } else {
    count_all(choice().n_pairs(), counts);
  }
  if (skips_zeros()) work_.count_experts(counts);
  work_.begin_span();
  const int64_t d_model = this->d_model();
  work_.writes(call_.out, call_.n_tokens * d_model);
  DeviceChoice summed = choice();
  if (weighs_input()) summed.weights = nullptr;
  work_.enqueue([=, this, row_of_pair = groups().row_of_pair, out = call_.out,
                 host_rows = on_host_ ? rows_.data() : nullptr, stream = work_.stream()] {
    combine(summed, row_of_pair, work_.scratch().experts.rows, host_rows, shared, d_model, out, stream);
  });
}

/// Counts a step in which the device computes all pairs.
void CudaHybridExperts::count_all(int64_t n_read, ExpertCounts& counts) const {
  counts.chosen += choice().n_pairs();
  counts.resident += choice().n_pairs();
  counts.read += n_read;
  if (skips_zeros()) counts.neurons += choice().n_pairs() * d_expert();
}

/// Counts the pairs that the device computes, of a choice that was handed over.
void CudaHybridExperts::count_resident(ExpertCounts& counts) {
  std::ranges::fill(slot_is_read_, uint8_t{0});
  for (const int32_t slot : arrived_slots()) {
    if (slot < 0) continue;
    ++counts.chosen;
    ++counts.resident;
    counts.streamed += slot >= layer_.device->n_slots ? 1 : 0;
    if (skips_zeros()) counts.neurons += d_expert();
    counts.read += slot_is_read_[static_cast<size_t>(slot)] == 0 ? 1 : 0;
    slot_is_read_[static_cast<size_t>(slot)] = 1;
  }
}

}  // namespace hearth::cuda
