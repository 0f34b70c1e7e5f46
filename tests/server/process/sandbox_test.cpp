// Tries from inside the sandbox the actions that it forbids. Each case runs in a process of its own, because
// the sandbox cannot be left.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "kernels/base/unique_fd.h"
#include "server/process/landlock.h"
#include "server/process/seccomp.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/temp_folder.h"

using namespace hearth;
using hearth::test::TempFolder;

namespace {

constexpr int kNotThere = 77;  // the kernel lacks it

/// The exit code of a child process that runs this. Its code must return instead of failing checks of the
/// test.
int in_child(const std::function<int()>& inside) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(inside());
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

/// The errno of opening the file; 0 if it opens.
int error_of_open(const std::filesystem::path& path, int flags) {
  const UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  return fd ? 0 : errno;
}

/// Returns the errno of an attempt to run the program. The program does not exist or exits with an error, so
/// the test fails if it starts after all.
int error_of_exec(const char* program) {
  const char* const arguments[] = {program, nullptr};
  ::execv(program, const_cast<char* const*>(arguments));
  return errno;
}

/// Returns whether a TCP connection to an open port is refused for lack of a right.
bool connect_is_denied(uint16_t port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 && errno == EACCES;
}

}  // namespace

TEST_CASE("seccomp: programs cannot be started or processes inspected, even by older threads") {
  const int code = in_child([] {
    int in_thread = 0;
    UniqueFd wait, go;
    int ends[2];
    if (::pipe(ends) != 0) return 1;
    wait.reset(ends[0]);
    go.reset(ends[1]);
    std::thread before([&] {
      char byte = 0;
      if (::read(wait.get(), &byte, 1) == 1) in_thread = error_of_exec("/none");
    });
    const bool denied = !deny_system_calls();
    if (::write(go.get(), "x", 1) != 1) return 2;
    before.join();
    if (!denied) return kNotThere;
    if (in_thread != EPERM) return 3;
    if (error_of_exec("/none") != EPERM) return 4;
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 || errno != EPERM) return 5;
    if (::syscall(SYS_unshare, 0) == 0 || errno != EPERM) return 6;
    if (error_of_open("/dev/null", O_RDWR) != 0) return 7;  // what serving needs still works
    std::thread([] {}).join();
    return 0;
  });
  if (code == kNotThere) return hearth::testing::skip("this kernel takes no seccomp filter");
  CHECK(code == 0);
}

TEST_CASE("seccomp: each denied call fails with EPERM whatever its arguments") {
  const int code = in_child([] {
    if (deny_system_calls()) return kNotThere;
    for (const int number : denied_system_calls()) {
      // A call that is permitted would fail with another error (EFAULT, EBADF, EINVAL), or succeed for root.
      if (::syscall(number, -1L, -1L, -1L, -1L, -1L, -1L) != -1 || errno != EPERM) return 1;
    }
    return 0;
  });
  if (code == kNotThere) return hearth::testing::skip("this kernel takes no seccomp filter");
  CHECK(code == 0);
  const std::span<const int> denied = denied_system_calls();
  for (const int number : {SYS_execve, SYS_execveat, SYS_ptrace, SYS_mount, SYS_init_module, SYS_bpf})
    CHECK(std::ranges::find(denied, number) != denied.end());
}

TEST_CASE("Landlock: files can be read and written only where that is needed") {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "cache");
  std::filesystem::create_directory(folder / "model");
  std::filesystem::create_directory(folder / "other");
  std::ofstream(folder / "model" / "file") << "x";
  std::ofstream(folder / "other" / "file") << "x";
  const FileRights rights{.readable = {folder / "model", folder / "not there"},
                          .writable = {folder / "cache", "/dev/null"}};
  const int code = in_child([&] {
    const UniqueFd before(::open((folder / "other" / "file").c_str(), O_RDONLY | O_CLOEXEC));
    if (!std::holds_alternative<Landlocked>(confine_files(rights))) return kNotThere;
    char byte = 0;
    if (::read(before.get(), &byte, 1) != 1 || byte != 'x') return 1;  // what is open stays open
    if (error_of_open(folder / "model" / "file", O_RDONLY) != 0) return 2;
    if (error_of_open(folder / "model" / "file", O_WRONLY) != EACCES) return 3;
    if (error_of_open(folder / "model" / "new", O_RDONLY | O_CREAT) != EACCES) return 4;
    if (::mkdir((folder / "cache" / "folder").c_str(), 0700) == 0 || errno != EACCES) return 14;
    if (error_of_open(folder / "other" / "file", O_RDONLY) != EACCES) return 5;
    if (error_of_open("/etc/passwd", O_RDONLY) != EACCES) return 6;
    if (error_of_open("/dev/null", O_RDWR) != 0) return 7;
    // As whole files are written: created beside the final name, then renamed.
    if (error_of_open(folder / "cache" / "part", O_WRONLY | O_CREAT | O_EXCL) != 0) return 8;
    if (::rename((folder / "cache" / "part").c_str(), (folder / "cache" / "whole").c_str()) != 0) return 9;
    if (error_of_open(folder / "cache" / "whole", O_RDWR | O_TRUNC) != 0) return 10;
    if (::unlink((folder / "cache" / "whole").c_str()) != 0) return 11;
    if (::rename((folder / "model" / "file").c_str(), (folder / "cache" / "file").c_str()) == 0) return 12;
    if (error_of_exec("/bin/false") != EACCES) return 13;
    return 0;
  });
  if (code == kNotThere) return hearth::testing::skip("this kernel has no Landlock");
  CHECK(code == 0);
}

TEST_CASE("Landlock: outgoing connections are denied if the kernel can, and incoming ones are accepted") {
  const UniqueFd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  REQUIRE(::bind(listening.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(listening.get(), 1) == 0);
  REQUIRE(::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  const int code = in_child([&] {
    const std::variant<Landlocked, std::string> result = confine_files({});
    const Landlocked* done = std::get_if<Landlocked>(&result);
    if (done == nullptr || !done->network) return kNotThere;
    if (!connect_is_denied(ntohs(address.sin_port))) return 1;
    return UniqueFd(::accept(listening.get(), nullptr, nullptr)) ? 0 : 2;
  });
  if (code == kNotThere) return hearth::testing::skip("this kernel's Landlock knows no connections");
  CHECK(code == 0);
}
