// Two threads between the engine and the files of cached prefixes: one writes, one reads. The engine thread
// never waits for a disk.
//
// The engine thread hands over copies of KV blocks. If the disk is slower than the model, there is no room
// for further copies for a while; the caller then keeps its blocks or loses them. After an error, nothing is
// written for a minute. Reads run in turn, one file of each read at a time, so that a short read does not
// wait for a long one; read files wait in memory until the engine thread takes them, up to a limit.
//
// Used by DiskPrefixes (engine/serving). All functions are for the engine thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "engine/kv/block_files.h"
#include "kernels/base/mutex.h"

namespace hearth {

/// Where prefixes are kept, and for which model.
struct DiskCacheOptions {
  std::filesystem::path folder;
  uint64_t max_bytes = 0;  // of all files; 0: nothing is kept
  /// Hash of everything that the bits of keys, values and states depend on.
  PrefixKey model{};
  /// Called with a sentence if the folder cannot be used. Any thread; may be empty.
  std::function<void(const std::string& sentence)> warn;
  /// Called with what is in the folder when the cache begins to use it; may be empty.
  std::function<void(const BlockFiles::Contents& there)> opened = {};
};

class DiskCache {
 public:
  using Clock = std::chrono::steady_clock;
  /// Bytes of a file's content, without the header.
  struct Sizes {
    size_t block_bytes = 0, state_bytes = 0;
    bool has_states = false;  // prefixes are used only up to a KV block with a state
    /// Limits for the bytes that wait to be written, and for those that were read. One file may exceed them.
    /// The second is larger, because the engine thread may take files only once in a step, which may last for
    /// a second.
    size_t most_save_bytes = size_t{64} << 20, most_read_bytes = size_t{256} << 20;
    size_t of(DiskPart part) const { return part == DiskPart::kBlock ? block_bytes : state_bytes; }
  };
  /// Starts the threads. wake: called by them when something was read, or when there is room again.
  DiskCache(const DiskCacheOptions& options, Sizes sizes, std::function<void()> wake);
  /// Waits until the files in progress are done. What still waits to be written is lost.
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  // -- writing --

  /// Returns memory for a file of a KV block with this many tokens; the content begins after the header.
  /// Returns nullopt if there is no room now.
  std::optional<std::vector<std::byte>> room_for(DiskPart part, size_t n_tokens);
  /// Hands over memory from room_for(), with its content filled, to be written.
  void save(DiskBlock block, DiskPart part, std::vector<std::byte> file, BlockFiles::Time used);
  /// Marks the files of these prefixes as used.
  void touch(std::vector<PrefixKey> keys, BlockFiles::Time used);
  /// Deletes the files of these prefixes.
  void remove(std::vector<PrefixKey> keys);
  /// Writes everything that waits, on the calling thread, and ends the writing thread: on a busy machine that
  /// thread hardly gets a processor. What is saved later waits for the next call. Returns false at the
  /// deadline; what still waits is then lost with this object.
  bool write_out(Clock::time_point deadline);

  // -- reading --

  /// Begins to read the KV blocks [n_begin, n_end) of a text, up to the first one without a file. Reads that
  /// have not ended must have different tickets.
  struct Wanted {
    uint64_t ticket = 0;
    std::vector<int32_t> tokens;  // of the KV blocks [0, n_end)
    int block_tokens = 0;
    int n_begin = 0, n_end = 0;
  };
  void read(Wanted wanted);
  /// One file of a read. With states, the state after the last KV block comes first.
  struct Piece {
    uint64_t ticket = 0;
    bool is_end = false;  // the read has ended; there is no file
    DiskPart part = DiskPart::kBlock;
    int index = 0;  // of the KV block in the text
    PrefixKey key{};
    std::vector<std::byte> file;  // header and content
  };
  /// Returns the next piece; those of a read come in order. Returns nullopt if there is none yet.
  std::optional<Piece> take();
  /// Gives memory back for later pieces.
  void give_back(std::vector<std::byte> file);
  /// Ends a read early. Pieces that take() still returns for it must be ignored.
  void cancel(uint64_t ticket);

  /// Totals since the start, and the folder's contents as this program last saw them.
  struct Figures {
    uint64_t bytes = 0;
    uint64_t n_written_bytes = 0;
  };
  Figures figures() const { return {.bytes = bytes_, .n_written_bytes = n_written_bytes_}; }

 private:
  struct Save {
    DiskBlock block;
    DiskPart part = DiskPart::kBlock;
    std::vector<std::byte> file;
    std::vector<PrefixKey> touched;  // if not empty, nothing is written
    bool remove = false;             // delete the files of `touched`
    BlockFiles::Time used;
  };
  struct Reading {
    Wanted wanted;
    std::vector<PrefixKey> keys;  // of the KV blocks [0, n_end); empty until the read begins
    int next = 0;                 // index of the next KV block
  };

  void write_all(const std::stop_token& stop);
  size_t write_next();
  std::optional<std::string> write(Save& save);
  void read_all(const std::stop_token& stop);
  bool read_next(Reading& reading);
  bool read_file(const Reading& reading, int index, DiskPart part);
  DiskBlock block_of(const Reading& reading, int index) const;
  std::vector<std::byte> spare() HEARTH_REQUIRES(mutex_);

  const DiskCacheOptions options_;
  const Sizes sizes_;
  const std::function<void()> wake_;
  BlockFiles written_;     // writing thread; after write_out() its caller
  const BlockFiles read_;  // reading thread

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Save> saves_ HEARTH_GUARDED_BY(mutex_);
  size_t n_save_bytes_ HEARTH_GUARDED_BY(mutex_) = 0;  // including the file that is being written
  Clock::time_point paused_until_ HEARTH_GUARDED_BY(mutex_) = {};
  std::deque<Reading> readings_ HEARTH_GUARDED_BY(mutex_);
  std::vector<uint64_t> tickets_ HEARTH_GUARDED_BY(mutex_);  // of reads that have not ended
  std::deque<Piece> pieces_ HEARTH_GUARDED_BY(mutex_);
  size_t n_piece_bytes_ HEARTH_GUARDED_BY(mutex_) = 0;
  std::vector<std::vector<std::byte>> spares_ HEARTH_GUARDED_BY(mutex_);

  std::string last_warning_;  // writing thread
  std::atomic<uint64_t> bytes_{0}, n_written_bytes_{0};
  std::jthread writer_, reader_;  // last members
};

}  // namespace hearth
