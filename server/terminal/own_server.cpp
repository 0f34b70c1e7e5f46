// See the header.
#include "server/terminal/own_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "server/json/json.h"
#include "server/process/healthcheck.h"

extern char** environ;

namespace hearth {
namespace {

constexpr std::chrono::milliseconds kTick{100};
constexpr size_t kMostLogBytes = 1 << 20;

std::vector<std::string> clean_environment() {
  std::vector<std::string> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("HEARTH_")) kept.emplace_back(*variable);
  }
  return kept;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

/// Returns the share of the load that is done, from the answer of GET /health.
double progress_of(const std::string& answer) {
  const Json health = Json::parse(answer, nullptr, false);
  return health.is_object() && health.contains("progress") && health["progress"].is_number()
             ? health["progress"].get<double>()
             : 0.0;
}

}  // namespace

OwnServer::OwnServer(const std::vector<std::string>& arguments)
    : log_(::memfd_create("hearthd-log", MFD_CLOEXEC)) {
  if (!log_) throw std::runtime_error("the system grants no memory for the log of the server");
  std::vector<std::string> command = {"hearthd", "--host", "127.0.0.1",    "--port", "0",
                                      "--page",  "off",    "--log-format", "json"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = clean_environment();
  const std::vector<char*> argv = pointers(command), environment = pointers(variables);
  const pid_t parent = ::getpid();
  child_ = ::fork();
  if (child_ < 0) throw std::runtime_error("the system grants no process for the server");
  if (child_ > 0) return;
  // Ctrl-C in the terminal must reach only the parent.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int nothing = ::open("/dev/null", O_RDWR);
  const bool is_ready = nothing >= 0 && ::dup2(nothing, STDIN_FILENO) >= 0 &&
                        ::dup2(nothing, STDOUT_FILENO) >= 0 && ::dup2(log_.get(), STDERR_FILENO) >= 0;
  if (is_ready && ::getppid() == parent) ::execve("/proc/self/exe", argv.data(), environment.data());
  ::_exit(127);
}

OwnServer::~OwnServer() {
  if (child_ <= 0) return;
  ::kill(child_, SIGTERM);
  ::waitpid(child_, &status_, 0);
}

bool OwnServer::has_ended() {
  if (child_ > 0 && ::waitpid(child_, &status_, WNOHANG) == child_) child_ = -1;
  return child_ <= 0;
}

int OwnServer::read_log() {
  std::string text(kMostLogBytes, '\0');
  const ssize_t n = ::pread(log_.get(), text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  int port = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const Json entry = Json::parse(line, nullptr, false);
    if (!entry.is_object()) {
      if (line.starts_with("hearthd: ")) error_ = line.substr(9);
      continue;
    }
    const std::string message = entry.value("message", "");
    if (entry.value("level", "") == "error") error_ = message;
    if (message.starts_with("listening on ")) port = entry.value("port", 0);
  }
  return port;
}

std::string OwnServer::wait(const std::function<void(double)>& progress) {
  for (int port = 0;; std::this_thread::sleep_for(kTick)) {
    const bool ended = has_ended();
    if (ended || port == 0) port = read_log();
    if (ended) {
      throw std::runtime_error(error_.empty() ? "the server of this chat ended without an error" : error_);
    }
    if (port == 0) continue;
    const HealthcheckResult health = check_health("127.0.0.1", port);
    if (health.healthy) return "http://127.0.0.1:" + std::to_string(port);
    progress(progress_of(health.answer));
  }
}

}  // namespace hearth
