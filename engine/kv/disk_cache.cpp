// See the header.
#include "engine/kv/disk_cache.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace hearth {
namespace {

// After an error, nothing is written for this time: a full disk does not empty itself at once.
constexpr std::chrono::minutes kPause{1};
// Most buffers that are kept for later files.
constexpr size_t kMostSpares = 16;
// If more than this waits for a disk that does not answer, the last uses of prefixes are not recorded.
constexpr size_t kMostSaves = 1000;
// The writing thread yields the processor to threads that compute.
constexpr int kWriterNice = 15;

/// Lets the calling thread run wherever the process may run. The thread that loads a model is bound to the
/// processor of a compute thread, and threads that it starts inherit this; the main thread is not bound.
void leave_processor() {
  cpu_set_t set;
  if (::sched_getaffinity(::getpid(), sizeof(set), &set) == 0) ::sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace

DiskCache::DiskCache(const DiskCacheOptions& options, Sizes sizes, std::function<void()> wake)
    : options_(options),
      sizes_(sizes),
      wake_(std::move(wake)),
      written_(options.folder, options.max_bytes),
      read_(options.folder, options.max_bytes) {
  const BlockFiles::Contents there = written_.tidy();
  bytes_ = there.bytes;
  if (options_.opened) options_.opened(there);
  writer_ = std::jthread([this](const std::stop_token& stop) { write_all(stop); });
  reader_ = std::jthread([this](const std::stop_token& stop) { read_all(stop); });
}

DiskCache::~DiskCache() {
  writer_.request_stop();
  reader_.request_stop();
}

std::optional<std::vector<std::byte>> DiskCache::room_for(DiskPart part, size_t n_tokens) {
  const size_t n_bytes = disk_header_bytes(n_tokens) + sizes_.of(part);
  const MutexLock lock(mutex_);
  if (Clock::now() < paused_until_ || (n_save_bytes_ > 0 && n_save_bytes_ + n_bytes > sizes_.most_save_bytes))
    return std::nullopt;
  std::vector<std::byte> file = spare();
  file.resize(n_bytes);
  return file;
}

std::vector<std::byte> DiskCache::spare() {
  if (spares_.empty()) return {};
  std::vector<std::byte> taken = std::move(spares_.back());
  spares_.pop_back();
  return taken;
}

void DiskCache::save(DiskBlock block, DiskPart part, std::vector<std::byte> file, BlockFiles::Time used) {
  const MutexLock lock(mutex_);
  n_save_bytes_ += file.size();
  saves_.push_back(
      {.block = std::move(block), .part = part, .file = std::move(file), .touched = {}, .used = used});
  changed_.notify_all();
}

void DiskCache::touch(std::vector<PrefixKey> keys, BlockFiles::Time used) {
  const MutexLock lock(mutex_);
  if (keys.empty() || saves_.size() > kMostSaves) return;
  saves_.push_back({.block = {}, .file = {}, .touched = std::move(keys), .used = used});
  changed_.notify_all();
}

void DiskCache::remove(std::vector<PrefixKey> keys) {
  if (keys.empty()) return;
  const MutexLock lock(mutex_);
  saves_.push_back({.block = {}, .file = {}, .touched = std::move(keys), .remove = true, .used = {}});
  changed_.notify_all();
}

bool DiskCache::write_out(Clock::time_point deadline) {
  writer_.request_stop();
  if (writer_.joinable()) writer_.join();
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (saves_.empty()) return true;
    }
    if (Clock::now() >= deadline) return false;
    write_next();
  }
}

void DiskCache::write_all(const std::stop_token& stop) {
  leave_processor();
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kWriterNice);
  for (;;) {
    {
      MutexLock lock(mutex_);
      changed_.wait(lock.for_wait(), stop, [this]() HEARTH_REQUIRES(mutex_) { return !saves_.empty(); });
    }
    if (stop.stop_requested()) return;
    if (write_next() <= sizes_.most_save_bytes / 2) wake_();
  }
}

/// Writes what waits the longest. Returns the bytes that still wait. REQUIRES: something waits.
size_t DiskCache::write_next() {
  Save save;
  {
    const MutexLock lock(mutex_);
    save = std::move(saves_.front());
    saves_.pop_front();
  }
  const std::optional<std::string> why = write(save);
  const MutexLock lock(mutex_);
  n_save_bytes_ -= save.file.size();
  if (spares_.size() < kMostSpares) spares_.push_back(std::move(save.file));
  if (why) {
    paused_until_ = Clock::now() + kPause;
    saves_.clear();
    n_save_bytes_ = 0;
  }
  return n_save_bytes_;
}

/// Returns the reason if a file could not be written.
std::optional<std::string> DiskCache::write(Save& save) {
  BlockFiles::Time used = save.used;
  for (const PrefixKey& key : save.touched) {
    used -= std::chrono::microseconds(1);  // a later KV block of a prefix is deleted earlier
    for (const DiskPart part : {DiskPart::kBlock, DiskPart::kState}) {
      if (save.remove) {
        written_.remove(key, part);
      } else if (part == DiskPart::kBlock || sizes_.has_states) {
        written_.touch(key, part, used);
      }
    }
  }
  if (!save.touched.empty()) return std::nullopt;
  fill_disk_header(save.block, save.part, save.file);
  const std::optional<std::string> why = written_.write(save.block.key(), save.part, save.file, used);
  bytes_ = written_.contents().bytes;
  if (!why) {
    n_written_bytes_ += save.file.size();
  } else if (options_.warn && *why != std::exchange(last_warning_, *why)) {
    options_.warn("the disk cache " + options_.folder.string() + " cannot be written (" + *why +
                  "); nothing is written to it for a minute, then it is tried again");
  }
  return why;
}

void DiskCache::read(Wanted wanted) {
  const MutexLock lock(mutex_);
  tickets_.push_back(wanted.ticket);
  readings_.push_back({.wanted = std::move(wanted), .keys = {}});
  changed_.notify_all();
}

std::optional<DiskCache::Piece> DiskCache::take() {
  const MutexLock lock(mutex_);
  if (pieces_.empty()) return std::nullopt;
  Piece piece = std::move(pieces_.front());
  pieces_.pop_front();
  n_piece_bytes_ -= piece.file.size();
  changed_.notify_all();
  return piece;
}

void DiskCache::give_back(std::vector<std::byte> file) {
  const MutexLock lock(mutex_);
  if (spares_.size() < kMostSpares) spares_.push_back(std::move(file));
}

void DiskCache::cancel(uint64_t ticket) {
  const MutexLock lock(mutex_);
  std::erase(tickets_, ticket);
  changed_.notify_all();
}

void DiskCache::read_all(const std::stop_token& stop) {
  leave_processor();
  for (;;) {
    Reading reading;
    {
      MutexLock lock(mutex_);
      const bool more = changed_.wait(lock.for_wait(), stop, [this]() HEARTH_REQUIRES(mutex_) {
        return !readings_.empty() && (n_piece_bytes_ < sizes_.most_read_bytes || pieces_.empty());
      });
      if (!more || stop.stop_requested()) return;
      reading = std::move(readings_.front());
      readings_.pop_front();
      if (std::ranges::find(tickets_, reading.wanted.ticket) == tickets_.end()) continue;  // cancelled
    }
    const bool more = read_next(reading);
    {
      const MutexLock lock(mutex_);
      if (more) {
        readings_.push_back(std::move(reading));
      } else {
        std::erase(tickets_, reading.wanted.ticket);
        pieces_.push_back({.ticket = reading.wanted.ticket, .is_end = true, .key = {}, .file = {}});
      }
    }
    wake_();
  }
}

/// Reads one file. Returns false if the read ends.
bool DiskCache::read_next(Reading& reading) {
  const Wanted& wanted = reading.wanted;
  if (reading.keys.empty()) {
    PrefixKey key = options_.model;
    const std::span<const int32_t> tokens = wanted.tokens;
    const auto width = static_cast<size_t>(wanted.block_tokens);
    for (size_t i = 0; i < static_cast<size_t>(wanted.n_end); ++i)
      reading.keys.push_back(key = key_after(key, tokens.subspan(i * width, width)));
    reading.next = wanted.n_begin;
    if (!sizes_.has_states) return true;
    // Read the state first, because nothing is used without it.
    int n = wanted.n_begin;
    while (n < wanted.n_end && read_.has(reading.keys[static_cast<size_t>(n)], DiskPart::kBlock)) ++n;
    while (n > wanted.n_begin && !read_file(reading, n - 1, DiskPart::kState)) --n;
    reading.wanted.n_end = n;
    return n > wanted.n_begin;
  }
  if (reading.next >= wanted.n_end) return false;
  return read_file(reading, reading.next++, DiskPart::kBlock);
}

/// Reads one file and adds it to the pieces. Returns false if it is not there.
bool DiskCache::read_file(const Reading& reading, int index, DiskPart part) {
  std::vector<std::byte> file;
  {
    const MutexLock lock(mutex_);
    file = spare();
  }
  const DiskBlock block = block_of(reading, index);
  const size_t n_bytes = disk_header_bytes(block.tokens.size()) + sizes_.of(part);
  const bool is_there = read_.read(block, part, n_bytes, file);
  const MutexLock lock(mutex_);
  if (!is_there) {
    spares_.push_back(std::move(file));
    return false;
  }
  n_piece_bytes_ += n_bytes;
  pieces_.push_back({.ticket = reading.wanted.ticket,
                     .part = part,
                     .index = index,
                     .key = reading.keys[static_cast<size_t>(index)],
                     .file = std::move(file)});
  return true;
}

DiskBlock DiskCache::block_of(const Reading& reading, int index) const {
  const auto width = static_cast<std::ptrdiff_t>(reading.wanted.block_tokens);
  const auto begin = reading.wanted.tokens.begin() + index * width;
  return {.parent = index == 0 ? options_.model : reading.keys[static_cast<size_t>(index) - 1],
          .tokens = {begin, begin + width}};
}

}  // namespace hearth
