// Files of KV blocks: what was written is read back, whatever is damaged is not, and the limit holds.
#include "engine/kv/block_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

using namespace hearth;
namespace fs = std::filesystem;

namespace {

constexpr size_t kContent = 100;
constexpr uint64_t kMuch = 1 << 30;

DiskBlock block_of(int seed) {
  DiskBlock block;
  block.parent.fill(static_cast<uint8_t>(seed));
  for (int i = 0; i < 4; ++i) block.tokens.push_back(seed * 100 + i);
  return block;
}

std::vector<std::byte> file_of(const DiskBlock& block, DiskPart part, uint8_t content) {
  std::vector<std::byte> file(disk_header_bytes(block.tokens.size()) + kContent, std::byte{content});
  fill_disk_header(block, part, file);
  return file;
}

BlockFiles::Time hour(int n) { return BlockFiles::Time(std::chrono::hours(300000 + n)); }

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

}  // namespace

TEST_CASE("block files: a file is read as it was written, by its block only") {
  const test::TempFolder folder;
  BlockFiles files(folder.path(), kMuch);
  const DiskBlock block = block_of(1);
  const std::vector<std::byte> file = file_of(block, DiskPart::kBlock, 7);
  CHECK_FALSE(files.has(block.key(), DiskPart::kBlock));
  REQUIRE_FALSE(files.write(block.key(), DiskPart::kBlock, file, hour(0)));
  CHECK(files.has(block.key(), DiskPart::kBlock));
  CHECK_FALSE(files.has(block.key(), DiskPart::kState));
  std::vector<std::byte> read;
  REQUIRE(files.read(block, DiskPart::kBlock, file.size(), read));
  CHECK(read == file);
  CHECK_FALSE(files.read(block, DiskPart::kState, file.size(), read));
  CHECK_FALSE(files.read(block_of(2), DiskPart::kBlock, file.size(), read));
  CHECK(files.contents().bytes == file.size());
  CHECK(files.contents().n_files == 1);
  // A second write changes nothing but the time.
  REQUIRE_FALSE(files.write(block.key(), DiskPart::kBlock, file, hour(1)));
  CHECK(files.contents().n_files == 1);
}

TEST_CASE("block files: only their owner may read them") {
  const test::TempFolder folder;
  BlockFiles files(folder.path(), kMuch);
  const mode_t before = ::umask(0);
  const DiskBlock block = block_of(1);
  files.write(block.key(), DiskPart::kBlock, file_of(block, DiskPart::kBlock, 7), hour(0));
  ::umask(before);
  struct stat about {};
  REQUIRE(::stat((folder / (hex_text(block.key()) + ".kv")).c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
}

TEST_CASE("block files: keys depend on all tokens and on the parent") {
  std::set<PrefixKey> keys;
  DiskBlock block = block_of(1);
  keys.insert(block.key());
  for (int32_t& token : block.tokens) {
    ++token;
    keys.insert(block.key());
  }
  for (uint8_t& byte : block.parent) {
    ++byte;
    keys.insert(block.key());
  }
  CHECK(keys.size() == 1 + 4 + 32);
}

TEST_CASE("block files: every changed byte and every other length is noticed") {
  const test::TempFolder folder;
  BlockFiles files(folder.path(), kMuch);
  const DiskBlock block = block_of(3);
  const std::vector<std::byte> file = file_of(block, DiskPart::kState, 9);
  const fs::path path = folder / (hex_text(block.key()) + ".state");
  std::vector<std::byte> read;
  const auto put = [&](std::span<const std::byte> bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  };
  for (size_t i = 0; i < file.size(); ++i) {
    std::vector<std::byte> changed = file;
    changed[i] ^= std::byte{16};
    put(changed);
    REQUIRE_FALSE(files.read(block, DiskPart::kState, file.size(), read));
    REQUIRE_FALSE(fs::exists(path));
  }
  for (size_t n = 0; n <= file.size() + 1; ++n) {
    if (n == file.size()) continue;
    std::vector<std::byte> other = file;
    other.resize(n);
    put(other);
    REQUIRE_FALSE(files.read(block, DiskPart::kState, file.size(), read));
    REQUIRE_FALSE(is_disk_file(block, DiskPart::kState, other));
  }
  put(file);
  CHECK(files.read(block, DiskPart::kState, file.size(), read));
}

TEST_CASE("block files: a damaged file is replaced when it is written again") {
  const test::TempFolder folder;
  BlockFiles files(folder.path(), kMuch);
  const DiskBlock block = block_of(3);
  const std::vector<std::byte> file = file_of(block, DiskPart::kBlock, 9);
  std::ofstream(folder / (hex_text(block.key()) + ".kv")) << std::string(file.size(), 'x');
  REQUIRE_FALSE(files.write(block.key(), DiskPart::kBlock, file, hour(0)));
  CHECK(files.contents().n_files == 1);
  std::vector<std::byte> read;
  CHECK(files.read(block, DiskPart::kBlock, file.size(), read));
}

TEST_CASE("block files: links, folders and pipes are not read") {
  const test::TempFolder folder, other;
  BlockFiles files(folder.path(), kMuch);
  const DiskBlock block = block_of(4);
  const std::vector<std::byte> file = file_of(block, DiskPart::kBlock, 9);
  BlockFiles(other.path(), kMuch).write(block.key(), DiskPart::kBlock, file, hour(0));
  const std::string name = hex_text(block.key()) + ".kv";
  std::vector<std::byte> read;
  fs::create_symlink(other / name, folder / name);
  CHECK_FALSE(files.read(block, DiskPart::kBlock, file.size(), read));
  fs::remove(folder / name);
  fs::create_directory(folder / name);
  CHECK_FALSE(files.read(block, DiskPart::kBlock, file.size(), read));
  fs::remove(folder / name);
  REQUIRE(::mkfifo((folder / name).c_str(), 0600) == 0);
  CHECK_FALSE(files.read(block, DiskPart::kBlock, file.size(), read));
  CHECK(fs::exists(other / name));
}

TEST_CASE("block files: the least recently used files are deleted, and no others") {
  const test::TempFolder folder;
  const size_t n_bytes = disk_header_bytes(4) + kContent;
  std::ofstream(folder / "notes.txt") << "mine";
  const auto path_of = [&](int seed) { return folder / (hex_text(block_of(seed).key()) + ".kv"); };
  BlockFiles files(folder.path(), 10 * n_bytes);
  for (int i = 0; i < 10; ++i)
    files.write(block_of(i).key(), DiskPart::kBlock, file_of(block_of(i), DiskPart::kBlock, 1), hour(i));
  CHECK(files.contents().n_files == 10);
  files.touch(block_of(0).key(), DiskPart::kBlock, hour(20));
  files.write(block_of(10).key(), DiskPart::kBlock, file_of(block_of(10), DiskPart::kBlock, 1), hour(10));
  CHECK(files.contents().n_files == 10);
  CHECK(fs::exists(path_of(0)));
  CHECK_FALSE(fs::exists(path_of(1)));
  for (int i = 2; i <= 10; ++i) CHECK(fs::exists(path_of(i)));
  CHECK(fs::exists(folder / "notes.txt"));
  // Another program's files count, too, and a smaller limit holds at once.
  const BlockFiles::Contents left = BlockFiles(folder.path(), 3 * n_bytes).tidy();
  CHECK(left.n_files == 2);
  CHECK(left.bytes == 2 * n_bytes);
  CHECK(fs::exists(path_of(0)));
  CHECK(fs::exists(path_of(10)));
  // A file that exceeds the limit alone is not written.
  BlockFiles small(folder.path(), n_bytes / 2);
  CHECK_FALSE(small.write(block_of(30).key(), DiskPart::kBlock, file_of(block_of(30), DiskPart::kBlock, 1),
                          hour(30)));
  CHECK_FALSE(fs::exists(path_of(30)));
}

TEST_CASE("block files: what a killed writer left is deleted, but not what another writes now") {
  const test::TempFolder folder;
  const std::string name = hex_text(block_of(1).key());
  const fs::path left = folder / (name + ".kv.part-1-1"), now = folder / (name + ".kv.part-1-2");
  for (const fs::path& path : {left, now}) std::ofstream(path) << "half";
  fs::last_write_time(left, fs::file_time_type::clock::now() - std::chrono::hours(1));
  BlockFiles files(folder.path(), kMuch);
  CHECK(files.tidy().n_files == 0);
  CHECK(names_in(folder.path()) == std::set<std::string>{now.filename().string()});
}

TEST_CASE("block files: a missing folder is a reason, not an error") {
  const test::TempFolder folder;
  BlockFiles files(folder / "gone", kMuch);
  const DiskBlock block = block_of(1);
  const std::vector<std::byte> file = file_of(block, DiskPart::kBlock, 7);
  CHECK(files.write(block.key(), DiskPart::kBlock, file, hour(0)));
  std::vector<std::byte> read;
  CHECK_FALSE(files.read(block, DiskPart::kBlock, file.size(), read));
  CHECK(files.tidy().n_files == 0);
}
