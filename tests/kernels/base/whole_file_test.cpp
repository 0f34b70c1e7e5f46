// Files that appear completely or not at all.
#include "kernels/base/whole_file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

namespace fs = std::filesystem;

std::ptrdiff_t files_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

}  // namespace

TEST_CASE("writing a whole file replaces the old one completely or not at all") {
  const TempFolder folder;
  const fs::path file = folder / "f";
  write_whole_file(file, "one");
  CHECK(read_whole_file(file, 3) == "one");
  write_whole_file(file, std::vector<std::byte>(2, std::byte{'y'}));
  CHECK(read_whole_file(file, 3) == "yy");
  write_whole_file(file, std::string(3'000'000, 'x'));
  CHECK(fs::file_size(file) == 3'000'000);
  CHECK((fs::status(file).permissions() & fs::perms::owner_write) != fs::perms::none);
  CHECK(files_in(folder.path()) == 1);
  CHECK_THROWS_WITH(read_whole_file(file, 2'999'999), ContainsSubstring("has over 2999999 bytes"));
  CHECK_THROWS_WITH(write_whole_file("/dev/null", "x"), ContainsSubstring("is not a plain file"));
  CHECK_THROWS_WITH(write_whole_file(folder.path(), "x"), ContainsSubstring("is not a plain file"));
  CHECK_THROWS_WITH(write_whole_file(folder / "none/f", "x"),
                    ContainsSubstring("a file cannot be made beside it"));
  CHECK_THROWS_WITH(read_whole_file(folder / "none", 1), ContainsSubstring("cannot be read: "));
  CHECK_THROWS_WITH(read_whole_file(folder.path(), 1), ContainsSubstring("is not a plain file"));
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(read_whole_file(folder / "pipe", 1), ContainsSubstring("is not a plain file"));
  if (fs::exists("/dev/full"))
    CHECK_THROWS_WITH(write_whole_file("/dev/full", "x"), ContainsSubstring("not a plain file"));
}

TEST_CASE("a file for its owner alone is readable to nobody else, even if the old one was") {
  const TempFolder folder;
  const fs::path file = folder / "f";
  write_whole_file(file, "one");
  fs::permissions(file, fs::perms(0644));
  write_whole_file(file, std::vector<std::byte>(1), Readers::kOwner);
  CHECK(fs::status(file).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("checking that a file can be written changes nothing") {
  const TempFolder folder;
  const fs::path file = folder / "f";
  check_writable(file);
  CHECK(files_in(folder.path()) == 0);
  write_whole_file(file, "one");
  check_writable(file);
  CHECK(read_whole_file(file, 3) == "one");
  CHECK(files_in(folder.path()) == 1);
  CHECK_THROWS_WITH(check_writable(folder / "none/f"), ContainsSubstring("a file cannot be made beside it"));
  CHECK_THROWS_WITH(check_writable(folder.path()), ContainsSubstring("is not a plain file"));
}

TEST_CASE("a whole file that cannot be written leaves the old one") {
  const TempFolder folder;
  const fs::path path = folder / "file";
  write_whole_file(path, std::string(100, 'a'));

  // Simulates a full disk for this process.
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = 5000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::string said;
  try {
    write_whole_file(path, std::string(100'000, 'b'));
  } catch (const std::runtime_error& error) {
    said = error.what();
  }
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK_THAT(said, ContainsSubstring("writing it stopped") && ContainsSubstring("is unchanged") &&
                       ContainsSubstring("make room"));
  CHECK(read_whole_file(path, 100) == std::string(100, 'a'));
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("of whole files written at once one remains intact, and a lock keeps every change") {
  const TempFolder folder;
  const fs::path path = folder / "file", counter = folder / "counter";
  write_whole_file(counter, "0");
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        for (int turn = 0; turn < 5; ++turn) {
          write_whole_file(path, std::string(10'000 + static_cast<size_t>(i), static_cast<char>('a' + i)));
          const FolderLock lock(folder_of(counter));
          write_whole_file(counter, std::to_string(std::stoi(read_whole_file(counter, 10)) + 1));
        }
      });
    }
  }
  const std::string text = read_whole_file(path, 20'000);
  CHECK(text == std::string(10'000 + static_cast<size_t>(text[0] - 'a'), text[0]));
  CHECK(read_whole_file(counter, 10) == "20");
  CHECK(files_in(folder.path()) == 2);
  CHECK(folder_of("name") == ".");
  CHECK(folder_of("a/b") == "a");
}

}  // namespace hearth::test
