// The threads between the engine and the files: order, limits, cancelled reads, and a folder that fails.
#include "engine/kv/disk_cache.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

using namespace hearth;

namespace {

constexpr int kTokens = 4;  // of a KV block
constexpr size_t kMostBytes = 1 << 20;
const auto kPatience = std::chrono::seconds(60);

std::vector<int32_t> text(int n_blocks, int seed) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n_blocks * kTokens; ++i) tokens.push_back(seed * 1000 + i);
  return tokens;
}

struct Disk {
  explicit Disk(const std::filesystem::path& folder, size_t block_bytes = 64, size_t state_bytes = 0)
      : cache({.folder = folder,
               .max_bytes = uint64_t{1} << 40,
               .model = {},
               .warn = [this](const std::string&) { ++n_warnings; }},
              {.block_bytes = block_bytes,
               .state_bytes = state_bytes,
               .has_states = state_bytes > 0,
               .most_save_bytes = kMostBytes,
               .most_read_bytes = kMostBytes},
              [this] {
                const std::lock_guard lock(mutex);
                ++n_wakes;
                woken.notify_all();
              }) {}

  /// Saves the KV blocks of a text; the content of each is its index.
  void save(const std::vector<int32_t>& tokens, DiskPart part = DiskPart::kBlock, int first = 0) {
    PrefixKey key{};
    for (int i = 0; i < static_cast<int>(tokens.size()) / kTokens; ++i) {
      const auto begin = tokens.begin() + i * kTokens;
      DiskBlock block{.parent = key, .tokens = {begin, begin + kTokens}};
      key = block.key();
      if (i < first) continue;
      std::optional<std::vector<std::byte>> file = cache.room_for(part, kTokens);
      if (!file && cache.write_out(DiskCache::Clock::now() + kPatience)) file = cache.room_for(part, kTokens);
      REQUIRE(file);
      std::ranges::fill(*file, static_cast<std::byte>(i));
      cache.save(std::move(block), part, *std::move(file), std::chrono::system_clock::now());
    }
    REQUIRE(cache.write_out(DiskCache::Clock::now() + kPatience));
  }
  DiskCache::Piece next() {
    const auto deadline = DiskCache::Clock::now() + kPatience;
    std::unique_lock lock(mutex);
    for (;;) {
      const int n_seen = n_wakes;
      if (std::optional<DiskCache::Piece> piece = cache.take()) return *std::move(piece);
      if (!woken.wait_until(lock, deadline, [&] { return n_wakes != n_seen; }))
        throw std::runtime_error("nothing was read");
    }
  }
  void read(uint64_t ticket, const std::vector<int32_t>& tokens, int n_begin) {
    const int n_end = static_cast<int>(tokens.size()) / kTokens;
    cache.read(
        {.ticket = ticket, .tokens = tokens, .block_tokens = kTokens, .n_begin = n_begin, .n_end = n_end});
  }

  std::atomic<int> n_warnings = 0;
  std::mutex mutex;
  std::condition_variable woken;
  int n_wakes = 0;
  DiskCache cache;
};

}  // namespace

TEST_CASE("disk cache: a text is read up to its first missing block") {
  const test::TempFolder folder;
  Disk(folder.path()).save(text(5, 1));
  Disk disk(folder.path());
  CHECK(disk.cache.figures().bytes == 5 * (disk_header_bytes(kTokens) + 64));
  std::vector<int32_t> longer = text(5, 1);
  longer[3 * kTokens] = 77;  // the fourth block has other tokens
  disk.read(9, longer, 1);
  for (const int index : {1, 2}) {
    const DiskCache::Piece piece = disk.next();
    CHECK_FALSE(piece.is_end);
    CHECK(piece.ticket == 9);
    CHECK(piece.index == index);
    CHECK(piece.file.back() == static_cast<std::byte>(index));
  }
  CHECK(disk.next().is_end);
}

TEST_CASE("disk cache: reads take turns") {
  const test::TempFolder folder;
  Disk disk(folder.path(), kMostBytes / 4);
  disk.save(text(8, 1));
  disk.save(text(1, 2));
  disk.read(1, text(8, 1), 0);  // stops at the limit until something is taken
  disk.read(2, text(1, 2), 0);
  std::map<uint64_t, int> n_read;
  std::vector<uint64_t> ended;
  while (ended.size() < 2) {
    const DiskCache::Piece piece = disk.next();
    if (piece.is_end) {
      ended.push_back(piece.ticket);
    } else {
      ++n_read[piece.ticket];
    }
  }
  CHECK(ended == std::vector<uint64_t>{2, 1});
  CHECK(n_read[1] == 8);
  CHECK(n_read[2] == 1);
}

TEST_CASE("disk cache: with states, a text ends with the last state that is whole") {
  const test::TempFolder folder;
  Disk disk(folder.path(), 64, 200);
  const std::vector<int32_t> tokens = text(6, 1);
  disk.save(tokens);
  disk.read(1, tokens, 0);
  CHECK(disk.next().is_end);  // no state
  disk.save({tokens.begin(), tokens.begin() + 2 * kTokens}, DiskPart::kState, 1);
  disk.save({tokens.begin(), tokens.begin() + 4 * kTokens}, DiskPart::kState, 3);
  for (const int n : {4, 2}) {
    disk.read(static_cast<uint64_t>(n), tokens, 0);
    const DiskCache::Piece state = disk.next();
    CHECK(state.part == DiskPart::kState);
    CHECK(state.index == n - 1);
    CHECK(state.file.size() == disk_header_bytes(kTokens) + 200);
    for (int i = 0; i < n; ++i) CHECK(disk.next().index == i);
    CHECK(disk.next().is_end);
    const PrefixKey key = state.key;
    std::filesystem::resize_file(folder / (hex_text(key) + ".state"), 10);  // damaged
  }
}

TEST_CASE("disk cache: a cancelled read ends, and its memory limit holds") {
  const test::TempFolder folder;
  const size_t block_bytes = kMostBytes / 4;
  Disk disk(folder.path(), block_bytes);
  disk.save(text(8, 1));
  disk.read(1, text(8, 1), 0);
  int n_read = 0;
  for (; n_read < 3; ++n_read) CHECK(disk.next().index == n_read);
  disk.cache.cancel(1);
  disk.read(2, text(1, 3), 0);  // not there
  for (;;) {
    const DiskCache::Piece piece = disk.next();
    if (piece.ticket == 2) {
      CHECK(piece.is_end);
      break;
    }
    ++n_read;
  }
  CHECK(n_read < 8);
}

TEST_CASE("disk cache: a thread writes what is saved, and at the end the caller writes the rest") {
  const test::TempFolder folder;
  Disk disk(folder.path());
  const auto save = [&](int seed) {
    std::optional<std::vector<std::byte>> file = disk.cache.room_for(DiskPart::kBlock, kTokens);
    REQUIRE(file);
    disk.cache.save({.parent = {}, .tokens = text(1, seed)}, DiskPart::kBlock, *std::move(file),
                    std::chrono::system_clock::now());
  };
  save(1);
  {
    std::unique_lock lock(disk.mutex);
    REQUIRE(disk.woken.wait_until(lock, DiskCache::Clock::now() + kPatience,
                                  [&] { return disk.cache.figures().n_written_bytes > 0; }));
  }
  const uint64_t one = disk.cache.figures().n_written_bytes;
  CHECK(disk.cache.write_out(DiskCache::Clock::now() + kPatience));
  for (const int seed : {2, 3}) save(seed);
  CHECK(disk.cache.figures().n_written_bytes == one);  // nobody writes now
  CHECK_FALSE(disk.cache.write_out(DiskCache::Clock::time_point::min()));
  CHECK(disk.cache.write_out(DiskCache::Clock::now() + kPatience));
  CHECK(disk.cache.figures().n_written_bytes == 3 * one);
}

TEST_CASE("disk cache: what does not fit while the disk is busy is refused") {
  const test::TempFolder folder;
  Disk disk(folder.path(), kMostBytes * 2);
  std::optional<std::vector<std::byte>> file = disk.cache.room_for(DiskPart::kBlock, kTokens);
  REQUIRE(file);  // one file may exceed the limit
  disk.cache.save({.parent = {}, .tokens = text(1, 1)}, DiskPart::kBlock, *std::move(file),
                  std::chrono::system_clock::now());
  const bool has_room = disk.cache.room_for(DiskPart::kBlock, kTokens).has_value();
  const bool is_written = disk.cache.figures().n_written_bytes > 0;
  CHECK((!has_room || is_written));
  CHECK(disk.cache.write_out(DiskCache::Clock::now() + kPatience));
  CHECK(disk.cache.room_for(DiskPart::kBlock, kTokens));
}

TEST_CASE("disk cache: a folder that cannot be written is told once, and left alone for a while") {
  const test::TempFolder folder;
  Disk disk(folder / "gone");
  disk.save(text(1, 1));
  CHECK(disk.n_warnings == 1);
  CHECK(disk.cache.figures().n_written_bytes == 0);
  CHECK_FALSE(disk.cache.room_for(DiskPart::kBlock, kTokens));
  disk.read(1, text(1, 1), 0);
  CHECK(disk.next().is_end);
}
