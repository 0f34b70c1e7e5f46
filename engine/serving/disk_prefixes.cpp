// See the header.
#include "engine/serving/disk_prefixes.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace hearth {
namespace {

// Limits of copying between two steps: the number of files to write, which together have the keys and values
// of 256 tokens, and the number of bytes that were read. For a model with 128 KB per token, the former takes
// 8 ms, and the latter some 30 ms.
constexpr int kSavesAtOnce = 16;
constexpr size_t kReadAtOnce = size_t{128} << 20;

DiskCache::Sizes sizes_of(const StepLimits& limits) {
  return {.block_bytes = limits.block_bytes,
          .state_bytes = limits.state_bytes,
          .has_states = limits.n_snapshots > 0};
}

}  // namespace

DiskPrefixes::DiskPrefixes(const DiskCacheOptions& options, Inputs inputs)
    : in_(std::move(inputs)),
      limits_(in_.model.limits()),
      model_key_(options.model),
      keys_(static_cast<size_t>(limits_.n_blocks)),
      used_(keys_.size()),
      disk_(options, sizes_of(limits_), in_.wake) {
  assert(limits_.copies);
  in_.blocks.track_unsaved();
}

std::span<std::byte> DiskPrefixes::content(std::span<std::byte> file) const {
  return file.subspan(disk_header_bytes(block_tokens()));
}

/// Returns the index of a slot's KV block in the block tables.
size_t DiskPrefixes::table_index(int slot, int index) const {
  return static_cast<size_t>(slot) * static_cast<size_t>(in_.blocks.max_blocks()) +
         static_cast<size_t>(index);
}

void DiskPrefixes::admitted(Sequence& sequence, int slot) {
  if (sequence.was_set_back || sequence.request.computes_whole_prompt()) return;
  const int n_begin = sequence.n_computed / limits_.block_tokens;
  const int n_end = (sequence.n_prompt - 1) / limits_.block_tokens;
  touch(slot, n_begin);
  if (n_begin >= n_end) return;
  const auto end = sequence.tokens.begin() + static_cast<std::ptrdiff_t>(n_end) * limits_.block_tokens;
  sequence.awaits_disk = true;
  loads_.push_back({.ticket = sequence.admission, .slot = slot, .n_begin = n_begin, .state = {}});
  disk_.read({.ticket = sequence.admission,
              .tokens = {sequence.tokens.begin(), end},
              .block_tokens = limits_.block_tokens,
              .n_begin = n_begin,
              .n_end = n_end});
}

/// Records that the first n_blocks KV blocks of a slot were used now. Later KV blocks get older times, so
/// that their files are deleted first.
void DiskPrefixes::touch(int slot, int n_blocks) {
  std::vector<PrefixKey> keys;
  const BlockFiles::Time now = std::chrono::system_clock::now();
  for (int i = 0; i < n_blocks; ++i) {
    const int32_t id = in_.blocks.tables()[table_index(slot, i)];
    used_[static_cast<size_t>(id)] = now - std::chrono::microseconds(i + 1);
    if (!in_.blocks.is_unsaved(id)) keys.push_back(keys_[static_cast<size_t>(id)]);
  }
  disk_.touch(std::move(keys), now);
}

/// Returns the sequence of a load; null if it has lost its slot.
Sequence* DiskPrefixes::sequence_of(const Load& load) const {
  Sequence* const sequence = in_.scheduler.slots()[static_cast<size_t>(load.slot)].get();
  const bool same = sequence != nullptr && sequence->admission == load.ticket && sequence->awaits_disk;
  return same ? sequence : nullptr;
}

void DiskPrefixes::drop_lost() {
  std::erase_if(loads_, [this](const Load& load) {
    if (sequence_of(load) != nullptr) return false;
    disk_.cancel(load.ticket);
    return true;
  });
}

bool DiskPrefixes::work() {
  drop_lost();
  size_t n_read = 0;
  while (n_read < kReadAtOnce) {
    std::optional<DiskCache::Piece> piece = disk_.take();
    if (!piece) break;
    n_read += piece->file.size();
    take(*std::move(piece));
  }
  int n_saved = 0;
  while (n_saved < kSavesAtOnce && (save_block() || save_state())) ++n_saved;
  return n_read >= kReadAtOnce || n_saved == kSavesAtOnce;
}

void DiskPrefixes::forget(int slot) {
  std::vector<PrefixKey> keys;
  for (const int32_t id :
       in_.blocks.tables().subspan(table_index(slot, 0), static_cast<size_t>(in_.blocks.max_blocks()))) {
    if (id < 0 || !in_.blocks.is_registered(id)) break;
    if (!in_.blocks.is_unsaved(id)) keys.push_back(keys_[static_cast<size_t>(id)]);
    in_.blocks.mark_saved(id);
    in_.blocks.mark_state_saved(id);
  }
  disk_.remove(std::move(keys));
}

void DiskPrefixes::take(DiskCache::Piece piece) {
  const auto load = std::ranges::find(loads_, piece.ticket, &Load::ticket);
  if (load == loads_.end()) return disk_.give_back(std::move(piece.file));  // cancelled
  if (piece.is_end) {
    Load ended = std::move(*load);
    loads_.erase(load);
    return end(std::move(ended));
  }
  if (piece.part == DiskPart::kState) {
    load->state = std::move(piece.file);
    load->n_state_blocks = piece.index + 1;
    return;
  }
  take_block(*load, piece);
  disk_.give_back(std::move(piece.file));
}

void DiskPrefixes::take_block(const Load& load, DiskCache::Piece& piece) {
  const int n = (piece.index + 1) * limits_.block_tokens;
  const size_t at = table_index(load.slot, piece.index);
  assert(sequence_of(load) != nullptr && sequence_of(load)->n_computed == n - limits_.block_tokens);
  in_.blocks.extend(load.slot, n);
  const bool has_window = !in_.blocks.window_tables().empty();
  in_.model.copy_in(in_.blocks.tables()[at], has_window ? in_.blocks.window_tables()[at] : -1,
                    content(piece.file));
  in_.scheduler.computed(load.slot, limits_.block_tokens);
  const int32_t id = in_.blocks.tables()[at];  // another KV block if an equal one was registered meanwhile
  in_.blocks.mark_saved(id);
  keys_[static_cast<size_t>(id)] = piece.key;
  used_[static_cast<size_t>(id)] = std::chrono::system_clock::now();
}

void DiskPrefixes::end(Load load) {
  Sequence& sequence = *sequence_of(load);
  sequence.awaits_disk = false;
  const int n_read = sequence.n_computed - load.n_begin * limits_.block_tokens;
  if (n_read > 0 && limits_.n_snapshots > 0 && !restore_state(load, sequence))
    return in_.on_set_back(in_.scheduler.set_back(load.slot));
  n_read_tokens_ += static_cast<uint64_t>(n_read);
  if (n_read > 0) touch(load.slot, sequence.n_computed / limits_.block_tokens);
  in_.on_read(sequence);
}

/// Continues the sequence's recurrent states after the KV blocks that were read. Returns false if the state
/// that belongs there is missing.
bool DiskPrefixes::restore_state(Load& load, Sequence& sequence) {
  if (sequence.n_computed != load.n_state_blocks * limits_.block_tokens) return false;
  const int32_t id = in_.blocks.tables()[table_index(load.slot, load.n_state_blocks - 1)];
  if (in_.blocks.snapshot_of(id) == SnapshotPool::kNone) {
    const int32_t snapshot = in_.blocks.take_snapshot();
    if (snapshot == SnapshotPool::kNone) return false;
    in_.model.copy_state_in(snapshot, content(load.state));
    in_.blocks.keep_snapshot(load.slot, sequence.n_computed, snapshot, /*passing=*/false);
    in_.blocks.mark_state_saved(id);
  }
  in_.model.restore_states(load.slot, in_.blocks.snapshot_of(id), sequence.n_computed);
  disk_.give_back(std::move(load.state));
  return true;
}

DiskBlock DiskPrefixes::disk_block(int32_t id) const {
  const int32_t parent = in_.blocks.parent_of(id);
  const std::span<const int32_t> tokens = in_.blocks.registered_tokens(id);
  return {.parent = parent < 0 ? model_key_ : keys_[static_cast<size_t>(parent)],
          .tokens = {tokens.begin(), tokens.end()}};
}

/// Hands over one KV block to be written. Returns false if there is none, or no room for it now.
bool DiskPrefixes::save_block() {
  const int32_t id = in_.blocks.first_unsaved();
  if (id < 0) return false;
  const bool has_window = !in_.blocks.window_tables().empty();
  const int32_t window = in_.blocks.window_of(id);
  std::optional<std::vector<std::byte>> file = disk_.room_for(DiskPart::kBlock, block_tokens());
  if (!file) return false;
  DiskBlock block = disk_block(id);
  const int32_t parent = in_.blocks.parent_of(id);
  const BlockFiles::Time now = std::chrono::system_clock::now();
  const BlockFiles::Time before = parent < 0 ? now : std::min(now, used_[static_cast<size_t>(parent)]);
  const BlockFiles::Time used = before - std::chrono::microseconds(1);
  keys_[static_cast<size_t>(id)] = block.key();
  used_[static_cast<size_t>(id)] = used;
  in_.blocks.mark_saved(id);
  if (has_window && window < 0) {  // its window block has been evicted, so it is not whole
    disk_.give_back(*std::move(file));
    return true;
  }
  in_.model.copy_out(id, window, content(*file));
  disk_.save(std::move(block), DiskPart::kBlock, *std::move(file), used);
  return true;
}

/// Like save_block(), but for a snapshot.
bool DiskPrefixes::save_state() {
  const int32_t id = in_.blocks.first_unsaved_state();
  if (id < 0 || in_.blocks.is_unsaved(id)) return false;  // its key is known when it is saved
  std::optional<std::vector<std::byte>> file = disk_.room_for(DiskPart::kState, block_tokens());
  if (!file) return false;
  in_.model.copy_state_out(in_.blocks.snapshot_of(id), content(*file));
  in_.blocks.mark_state_saved(id);
  disk_.save(disk_block(id), DiskPart::kState, *std::move(file), used_[static_cast<size_t>(id)]);
  return true;
}

DiskFigures DiskPrefixes::figures() const {
  const DiskCache::Figures files = disk_.figures();
  return {.bytes = files.bytes, .n_written_bytes = files.n_written_bytes, .n_read_tokens = n_read_tokens_};
}

void DiskPrefixes::finish(DiskCache::Clock::time_point deadline) {
  for (;;) {
    bool handed_over = false;
    while (save_block() || save_state()) handed_over = true;
    if (!disk_.write_out(deadline) || !handed_over) return;
  }
}

}  // namespace hearth
