// The denied system calls, and the filter program that compares each call with them.
#include "server/process/seccomp.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace hearth {
namespace {

constexpr int kDenied[] = {
    // Starting programs.
    SYS_execve,
    SYS_execveat,
    // Inspecting other processes, and entering other namespaces.
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
    SYS_perf_event_open,
    SYS_setns,
    SYS_unshare,
    // Changing the mounted file systems.
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_open_by_handle_at,
    SYS_quotactl,
    SYS_swapon,
    SYS_swapoff,
    // Calls that change the kernel, or that use kernel code with a history of bugs.
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_bpf,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    // Changing the machine.
    SYS_reboot,
    SYS_acct,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
#ifdef SYS_pidfd_getfd  // missing in older headers, or only on x86-64
    SYS_pidfd_getfd,
#endif
#ifdef SYS_mount_setattr
    SYS_mount_setattr,
#endif
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_iopl
    SYS_iopl,
    SYS_ioperm,
#endif
};

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
constexpr uint32_t kFirstForeign = 0x40000000;  // numbers from here on are calls of x32
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
constexpr uint32_t kFirstForeign = 0xffffffff;
#else
constexpr uint32_t kArchitecture = 0;
constexpr uint32_t kFirstForeign = 0;
#endif

sock_filter statement(uint16_t code, uint32_t k) { return {code, 0, 0, k}; }
/// Returns an instruction that compares a value and then skips `if_true` or `if_false` instructions.
sock_filter jump(uint16_t code, uint32_t k, uint8_t if_true, uint8_t if_false) {
  return {code, if_true, if_false, k};
}

std::vector<sock_filter> filter_program() {
  const sock_filter deny = statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  std::vector<sock_filter> program = {statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
                                      jump(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
                                      deny,
                                      statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                      jump(BPF_JMP | BPF_JGE | BPF_K, kFirstForeign, 0, 1),
                                      deny};
  for (const int number : kDenied) {
    program.push_back(jump(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1));
    program.push_back(deny);
  }
  program.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  return program;
}

}  // namespace

std::span<const int> denied_system_calls() { return kDenied; }

std::optional<std::string> deny_system_calls() {
  if (kArchitecture == 0) return "this kind of processor is not supported";
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return std::string("the kernel grants no no_new_privs: ") + std::strerror(errno);
  std::vector<sock_filter> instructions = filter_program();
  const sock_fprog program{static_cast<unsigned short>(instructions.size()), instructions.data()};
  const long result = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (result == 0) return std::nullopt;
  if (result > 0) return "a thread has a filter of its own";
  return std::string("the kernel takes no seccomp filter: ") + std::strerror(errno);
}

}  // namespace hearth
