// See the header.
#include "server/models/local_model.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>

#include "engine/model/gguf/part.h"
#include "profiler/store/find_model.h"
#include "profiler/store/reference.h"
#include "server/models/pull.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

constexpr int kFailed = 1, kRefused = 2;

std::vector<std::string*> model_options(Options& options) {
  std::vector<std::string*> all = {&options.model, &options.draft_model, &options.embedding_model};
  for (std::string& model : options.more_models) all.push_back(&model);
  return all;
}

/// Downloads the model in the child process. Returns the exit code: kFailed for a temporary failure, after
/// which a service manager restarts the server; kRefused for a permanent failure.
int pull_here(const std::string& text, const Options& options, const Environment& environment) {
  const PullSignals signals;
  const auto fail = [](int code, const char* why) {
    std::fprintf(stderr, "hearthd: %s\n", why);
    return code;
  };
  try {
    pull_model({.model = text, .sha256 = {}, .token_file = {}}, options, environment);
    return 0;
  } catch (const PullInterrupted&) {
    return 128 + PullSignals::signal();
  } catch (const PassingPullError& error) {
    return fail(kFailed, error.what());
  } catch (const std::exception& error) {
    return fail(kRefused, error.what());
  }
}

/// Runs pull_here() in a child process, forwards SIGINT and SIGTERM to it, and waits for its end.
int pull_in_child(const std::string& text, const Options& options, const Environment& environment,
                  const std::function<void()>& waiting) {
  sigset_t ending, before;
  sigemptyset(&ending);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&ending, signal);
  ::sigprocmask(SIG_BLOCK, &ending, &before);
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    // The child gets a process group of its own, so that Ctrl-C in a terminal reaches only the parent, which
    // forwards the signal. Otherwise the child would get the signal twice, and the second signal would end it
    // immediately.
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::_exit(::getppid() == parent ? pull_here(text, options, environment) : kFailed);
  }
  if (child < 0) throw ReferenceError("no process can be started to pull " + text);
  int status = 0;
  for (;;) {
    const timespec second{1, 0};
    const int signal = ::sigtimedwait(&ending, nullptr, &second);
    if (signal == SIGINT || signal == SIGTERM) ::kill(child, signal);
    if (::waitpid(child, &status, WNOHANG) == child) break;
    if (waiting) waiting();
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

void use_local_models(Options& options, const Environment& environment) {
  for (std::string* const model : model_options(options))
    if (!model->empty()) *model = local_model(*model, options, environment).string();
}

int pull_and_use_models(Options& options, const Environment& environment,
                        const std::function<void()>& waiting) {
  for (std::string* const model : model_options(options)) {
    if (can_be_pulled(*model, options, environment)) {
      const int code = pull_in_child(*model, options, environment, waiting);
      if (code != 0) return code;
    }
    *model = local_model(*model, options, environment).string();
  }
  return 0;
}

ModelsInUse::ModelsInUse(const Options& options) {
  Options served = options;
  for (const std::string* model : model_options(served)) {
    if (model->empty()) continue;
    const std::optional<gguf::SplitName> split = gguf::parse_split_name(*model);
    for (int part = 1; part <= (split ? split->count : 1); ++part) {
      const fs::path path = split ? gguf::split_path(*split, part) : fs::path(*model);
      UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
      if (fd && ::flock(fd.get(), LOCK_SH | LOCK_NB) == 0) locks_.push_back(std::move(fd));
    }
  }
}

}  // namespace hearth
