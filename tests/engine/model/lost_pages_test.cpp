// A mapped file that is truncated while in use, each case in a process of its own: a noted loss stays noted,
// and without survive_lost_pages() SIGBUS ends the process.
#include "engine/model/gguf/lost_pages.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "engine/model/gguf/mapped_file.h"
#include "engine/model/model_file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

using namespace hearth;
using hearth::test::TempFolder;

namespace {

constexpr size_t kPages = 64, kPage = 4096;

/// Returns the exit code of a child process that runs `inside`, or its signal as a negative number.
int in_child(const std::function<int()>& inside) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGBUS, SIG_DFL);  // a sanitizer has a handler of its own
    ::_exit(inside());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::filesystem::path file_of_ones(const TempFolder& folder) {
  const std::filesystem::path path = folder.path() / "model.gguf";
  std::ofstream(path) << std::string(kPages * kPage, '\1');
  return path;
}

/// Returns 0 if pages before the cut contain ones and those after it zeros, and the loss is reported.
int read_after_cut(const std::filesystem::path& path, bool survive) {
  if (survive) gguf::survive_lost_pages();
  const gguf::MappedFile file = gguf::MappedFile::open(path);
  const auto at = [&](size_t page) {
    return static_cast<const volatile std::byte&>(file.bytes()[page * kPage]);
  };
  int wrong = at(40) == std::byte{1} && !gguf::lost_file() ? 0 : 1;
  std::filesystem::resize_file(path, 10 * kPage);
  std::byte behind{1};
  std::thread([&] { behind = at(40); }).join();
  wrong |= behind == std::byte{0} && at(63) == std::byte{0} ? 0 : 2;
  wrong |= at(9) == std::byte{1} ? 0 : 4;
  wrong |= gguf::lost_file().value_or("").ends_with(
               "model.gguf: the file was cut short while it was in use: 40,960 of 262,144 bytes are left; "
               "put the whole file "
               "back, by renaming it into place")
               ? 0
               : 8;
  try {
    gguf::refuse_lost_file();
    wrong |= 16;
  } catch (const ModelFileError&) {
  }
  wrong |= at(20) == std::byte{0} ? 0 : 32;  // before the first missing page that was read, but after the cut
  return wrong;
}

}  // namespace

TEST_CASE("lost pages: pages behind the cut read as zeros, and the loss is reported") {
  const TempFolder folder;
  const std::filesystem::path path = file_of_ones(folder);
  CHECK(in_child([&] { return read_after_cut(path, true); }) == 0);
}

TEST_CASE("lost pages: without the handler a lost page ends the process") {
  const TempFolder folder;
  const std::filesystem::path path = file_of_ones(folder);
  CHECK(in_child([&] { return read_after_cut(path, false); }) == -SIGBUS);
}

TEST_CASE("lost pages: a temporary loss is reported too; closed mappings are no longer watched") {
  const TempFolder folder;
  const std::filesystem::path path = file_of_ones(folder);
  const auto inside = [&] {
    gguf::survive_lost_pages();
    for (int i = 0; i < 3000; ++i) gguf::MappedFile::open(path);  // more than the table has entries
    const gguf::MappedFile file = gguf::MappedFile::open(path);
    std::filesystem::resize_file(path, 0);
    const std::byte lost = static_cast<const volatile std::byte&>(file.bytes()[0]);
    std::filesystem::resize_file(path, kPages * kPage);
    const std::string told = gguf::lost_file().value_or("");
    return lost == std::byte{0} && told.find("cannot be read anymore") != std::string::npos ? 0 : 1;
  };
  CHECK(in_child(inside) == 0);
}

TEST_CASE("lost pages: SIGBUS outside a model's pages ends the process as before") {
  CHECK(in_child([] {
          gguf::survive_lost_pages();
          ::raise(SIGBUS);
          return 0;
        }) == -SIGBUS);
}
