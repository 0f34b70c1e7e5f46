// Calls Landlock's system calls directly, because glibc has no functions for them. Defines constants of newer
// kernels, because the headers of Debian 12 end at version 2 of the interface.
#include "server/process/landlock.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

#include "kernels/base/unique_fd.h"

namespace hearth {
namespace {

// Numbers of the system calls, which are equal on all architectures.
constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;
constexpr unsigned kAskVersion = 1;
constexpr int kPathBeneath = 1;

// The values of LANDLOCK_ACCESS_FS_* in linux/landlock.h.
constexpr uint64_t kExecute = 1 << 0, kWriteFile = 1 << 1, kReadFile = 1 << 2, kReadDir = 1 << 3,
                   kRemoveFile = 1 << 5, kMakeRegular = 1 << 8, kRefer = 1 << 13, kTruncate = 1 << 14,
                   kIoctlDevice = 1 << 15;
constexpr uint64_t kOfVersion1 = (1 << 13) - 1;
constexpr uint64_t kOfFiles = kExecute | kWriteFile | kReadFile | kTruncate | kIoctlDevice;
constexpr uint64_t kBindTcp = 1 << 0, kConnectTcp = 1 << 1;

struct RulesetAttributes {
  uint64_t files, network;
};
struct __attribute__((packed)) PathRule {
  uint64_t allowed;
  int32_t parent;
};

uint64_t known_rights(int abi) {
  return kOfVersion1 | (abi >= 2 ? kRefer : 0) | (abi >= 3 ? kTruncate : 0) | (abi >= 5 ? kIoctlDevice : 0);
}

/// Allows these rights below a path. Returns nullopt on success or if the path does not exist, otherwise a
/// phrase with the reason.
std::optional<std::string> allow(const UniqueFd& ruleset, const std::filesystem::path& path,
                                 uint64_t rights) {
  const UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd) return std::nullopt;
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return std::nullopt;
  const PathRule rule{S_ISDIR(status.st_mode) ? rights : rights & kOfFiles, fd.get()};
  if (::syscall(kAddRule, ruleset.get(), kPathBeneath, &rule, 0) == 0) return std::nullopt;
  return path.string() + ": " + std::strerror(errno);
}

}  // namespace

std::variant<Landlocked, std::string> confine_files(const FileRights& rights) {
  const long version = ::syscall(kCreateRuleset, nullptr, 0, kAskVersion);
  if (version < 1) {
    return std::string(errno == EOPNOTSUPP ? "Landlock is switched off in this kernel"
                                           : "this kernel has no Landlock (it came with Linux 5.13)");
  }
  Landlocked done{.abi = static_cast<int>(version), .network = version >= 4};
  const uint64_t known = known_rights(done.abi);
  const RulesetAttributes attributes{known, kBindTcp | kConnectTcp};
  const size_t size = done.network ? sizeof(attributes) : sizeof(attributes.files);
  const UniqueFd ruleset(static_cast<int>(::syscall(kCreateRuleset, &attributes, size, 0)));
  if (!ruleset) return std::string("Landlock takes no rules: ") + std::strerror(errno);
  const uint64_t read = kReadFile | kReadDir;
  const uint64_t write =
      (read | kWriteFile | kRemoveFile | kMakeRegular | kRefer | kTruncate | kIoctlDevice) & known;
  for (const auto& [paths, allowed] :
       {std::pair{&rights.readable, read}, std::pair{&rights.writable, write}}) {
    for (const std::filesystem::path& path : *paths) {
      if (const std::optional<std::string> why = allow(ruleset, path, allowed)) return *why;
    }
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::syscall(kRestrictSelf, ruleset.get(), 0) != 0)
    return std::string("Landlock could not be entered: ") + std::strerror(errno);
  return done;
}

int count_threads() {
  std::error_code error;
  int n = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/task", error), end; !error && entry != end;
       entry.increment(error))
    ++n;
  return n;
}

}  // namespace hearth
