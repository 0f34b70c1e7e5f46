// See the header.
#include "engine/forward/state_memory.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "engine/forward/layer_call.h"

namespace hearth {
namespace {

int n_recurrent_layers(const ModelSpec& spec) {
  int n = 0;
  for (int i = 0; i < spec.n_layers; ++i) n += spec.layer(i).recurrent ? 1 : 0;
  return n;
}

}  // namespace

LayerStates::LayerStates(Memory& memory, const RecurrentShape& shape, int n_slots)
    : states(floats(memory, n_slots, shape.state_floats())),
      tails(floats(memory, n_slots, shape.tail_floats())),
      log(floats(memory, n_slots, kMaxStateDrafts * shape.log_floats())) {}

RecurrentMemory LayerStates::view() const {
  return {
      .states = states.floats(), .tails = tails.floats(), .log = log.floats(), .max_drafts = kMaxStateDrafts};
}

StagedStates::StagedStates(Memory& memory, const RecurrentShape& shape)
    : states(floats(memory, kMostStateCopies, shape.state_floats())),
      tails(floats(memory, kMostStateCopies, shape.tail_floats())) {}

StateMemory::StateMemory(const ModelSpec& spec, int n_slots, int n_snapshots, const Devices& devices)
    : shape_(spec.recurrent) {
  if (!shape_) return;
  slots_.resize(static_cast<size_t>(n_slots));
  runs_.reserve(slots_.size());
  layers_.resize(static_cast<size_t>(spec.n_layers));
  for (int i = 0; i < spec.n_layers; ++i) {
    if (!spec.layer(i).recurrent) continue;
    Layer& layer = layers_[static_cast<size_t>(i)];
    layer.backend = &devices.of_layer(i);
    layer.on_device = devices.on_device(i);
    layer.slots = LayerStates(*layer.backend, shape_, n_slots);
    layer.memory = layer.slots.view();
    const auto of_snapshots = [&](int64_t n_floats) {
      snapshots_.push_back(floats(devices.cpu(), n_snapshots, n_floats));
      return snapshots_.back().floats();
    };
    layer.snapshots = {.states = of_snapshots(shape_.state_floats()),
                       .tails = of_snapshots(shape_.tail_floats())};
  }
  if (devices.device() == nullptr) return;
  staged_ = StagedStates(devices.device()->backend(), shape_);
  staging_ = {.states = staged_.states.floats(), .tails = staged_.tails.floats()};
}

double StateMemory::snapshot_bytes(const ModelSpec& spec) {
  const double n_floats =
      static_cast<double>(spec.recurrent.state_floats()) + static_cast<double>(spec.recurrent.tail_floats());
  return spec.recurrent ? sizeof(float) * n_recurrent_layers(spec) * n_floats : 0.0;
}

double StateMemory::bytes_needed(const ModelSpec& spec, int n_slots, int n_snapshots) {
  if (!spec.recurrent) return 0.0;
  const double log = sizeof(float) * 1.0 * n_recurrent_layers(spec) * kMaxStateDrafts *
                     static_cast<double>(spec.recurrent.log_floats());
  return (1.0 * n_slots + n_snapshots) * snapshot_bytes(spec) + n_slots * log;
}

void StateMemory::restore(int slot, int32_t snapshot, int n_tokens) {
  if (!shape_) return;
  for (const Layer& layer : layers_) {
    if (layer.backend == nullptr || snapshot < 0) continue;
    const auto give = [&](const float* x, int64_t n, float* out) {
      if (n > 0) layer.backend->from_host(x, static_cast<size_t>(n), out);
    };
    give(layer.snapshots.state(shape_, snapshot), shape_.state_floats(), layer.memory.state(shape_, slot));
    give(layer.snapshots.tail(shape_, snapshot), shape_.tail_floats(), layer.memory.tail(shape_, slot));
  }
  slots_[static_cast<size_t>(slot)] = {.n_tokens = n_tokens};
}

StateMemory::Copies StateMemory::copies(int layer) {
  state_copies_.clear();
  tail_copies_.clear();
  const Layer& of = layers_[static_cast<size_t>(layer)];
  for (size_t i = 0; i < step_copies_.size(); ++i) {
    const StateCopy& copy = step_copies_[i];
    const RecurrentMemory& to = of.on_device ? staging_ : of.snapshots;
    const int at = of.on_device ? static_cast<int>(i) : copy.snapshot;
    if (shape_.state_floats() > 0)
      state_copies_.push_back({.after_token = copy.row, .out = to.state(shape_, at)});
    tail_copies_.push_back({.after_token = copy.row, .out = to.tail(shape_, at)});
  }
  return {.states = state_copies_, .tails = tail_copies_};
}

void StateMemory::take_copies(int layer) {
  const Layer& from = layers_[static_cast<size_t>(layer)];
  if (!from.on_device) return;
  const auto take = [&](const float* x, int64_t n, float* out) {
    if (n > 0) std::copy_n(from.backend->to_host(x, static_cast<size_t>(n)), n, out);
  };
  for (size_t i = 0; i < step_copies_.size(); ++i) {
    const int32_t snapshot = step_copies_[i].snapshot;
    const int at = static_cast<int>(i);
    take(staging_.state(shape_, at), shape_.state_floats(), from.snapshots.state(shape_, snapshot));
    take(staging_.tail(shape_, at), shape_.tail_floats(), from.snapshots.tail(shape_, snapshot));
  }
}

void StateMemory::copy_snapshot_out(int32_t snapshot, std::span<std::byte> out) const {
  const auto copy = [&](const float* x, int64_t n) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(x, static_cast<size_t>(n)));
    std::ranges::copy(bytes, out.begin());
    out = out.subspan(bytes.size());
  };
  for (const Layer& layer : layers_) {
    if (layer.backend == nullptr) continue;
    copy(layer.snapshots.state(shape_, snapshot), shape_.state_floats());
    copy(layer.snapshots.tail(shape_, snapshot), shape_.tail_floats());
  }
}

void StateMemory::copy_snapshot_in(int32_t snapshot, std::span<const std::byte> in) {
  const auto copy = [&](float* x, int64_t n) {
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(x, static_cast<size_t>(n)));
    std::ranges::copy(in.first(bytes.size()), bytes.begin());
    in = in.subspan(bytes.size());
  };
  for (const Layer& layer : layers_) {
    if (layer.backend == nullptr) continue;
    copy(layer.snapshots.state(shape_, snapshot), shape_.state_floats());
    copy(layer.snapshots.tail(shape_, snapshot), shape_.tail_floats());
  }
}

size_t StateMemory::host_bytes() const {
  size_t n = 0;
  for (const Buffer& buffer : snapshots_) n += buffer.bytes();
  for (const Layer& layer : layers_) n += layer.on_device ? 0 : layer.slots.bytes();
  return n;
}

size_t StateMemory::device_bytes() const {
  size_t n = staged_.states.bytes() + staged_.tails.bytes();
  for (const Layer& layer : layers_) n += layer.on_device ? layer.slots.bytes() : 0;
  return n;
}

std::span<const RecurrentRun> StateMemory::begin_step(const Batch& batch) {
  runs_.clear();
  if (!shape_) return runs_;
  step_copies_ = batch.state_copies;
  int first = 0;
  for (int t = 1; t <= batch.n_tokens(); ++t) {
    const auto at = static_cast<size_t>(t);
    if (t < batch.n_tokens() && batch.slots[at] == batch.slots[at - 1]) continue;
    runs_.push_back(run_of(batch, first, t));
    first = t;
  }
  return runs_;
}

/// Returns the run of the tokens [first, end), which belong to one sequence.
RecurrentRun StateMemory::run_of(const Batch& batch, int first, int end) {
  const auto fail = [&](const std::string& why) {
    throw std::logic_error("The step's tokens from " + std::to_string(first) + " on do not fit slot " +
                           std::to_string(batch.slots[static_cast<size_t>(first)]) +
                           " of the recurrent states: " + why + ".");
  };
  const int slot = batch.slots[static_cast<size_t>(first)];
  if (slot < 0 || slot >= static_cast<int>(slots_.size()))
    fail("there are " + std::to_string(slots_.size()) + " slots");
  const auto n_drafts_before = [&](int row) {
    return std::ranges::lower_bound(batch.draft_rows, row) - batch.draft_rows.begin();
  };
  RecurrentRun run{.slot = slot,
                   .first_token = first,
                   .n_tokens = end - first,
                   .n_uncertain = static_cast<int>(n_drafts_before(end) - n_drafts_before(first))};
  if (run.n_uncertain > kMaxStateDrafts)
    fail("it has " + std::to_string(run.n_uncertain) + " drafts, and at most " +
         std::to_string(kMaxStateDrafts) + " are possible");
  const int position = batch.positions[static_cast<size_t>(first)];
  Slot& state = slots_[static_cast<size_t>(slot)];
  run.fresh = position == 0;
  if (!run.fresh) run.n_replayed = position - state.n_tokens;
  if (run.n_replayed < 0 || run.n_replayed > state.n_logged) {
    fail("its state contains " + std::to_string(state.n_tokens) + " tokens and its log " +
         std::to_string(state.n_logged) + " drafts, but the step begins at position " +
         std::to_string(position));
  }
  state = {.n_tokens = position + run.n_tokens - run.n_uncertain, .n_logged = run.n_uncertain};
  return run;
}

}  // namespace hearth
