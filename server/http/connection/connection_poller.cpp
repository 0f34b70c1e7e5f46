// One poll() over all waiting connections; see the header.
#include "server/http/connection/connection_poller.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace hearth {
namespace {

using std::chrono::milliseconds;

// How long an answered client may keep sending before its connection is closed. Closing at once would reset
// the connection, and the client might never read the answer.
constexpr milliseconds kLingerTime{2000};
// When no descriptors are left, every accept() fails at once; the pause gives workers time to close
// connections.
constexpr milliseconds kAcceptPause{50};

std::string numeric_address(const sockaddr_storage& address, socklen_t size) {
  std::array<char, NI_MAXHOST> name{};
  const int failed = ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, name.data(),
                                   name.size(), nullptr, 0, NI_NUMERICHOST);
  return failed != 0 ? "unknown" : std::string(name.data());
}

}  // namespace

ConnectionPoller::ConnectionPoller(UniqueFd listen_fd, PollerOptions options,
                                   std::function<bool(std::unique_ptr<Connection>&)> on_request,
                                   std::function<std::string(int)> refusal)
    : listen_fd_(std::move(listen_fd)),
      options_(std::move(options)),
      on_request_(std::move(on_request)),
      refusal_(std::move(refusal)),
      wake_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!wake_fd_) throw std::system_error(errno, std::generic_category(), "eventfd");
}

ConnectionPoller::~ConnectionPoller() { stop(); }

void ConnectionPoller::start() {
  thread_ = std::thread([this] { run(); });
}

void ConnectionPoller::stop() {
  stopping_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
}

void ConnectionPoller::wake() {
  const uint64_t one = 1;
  // The write fails only if the counter is full, and then the poller is awake anyway.
  [[maybe_unused]] const ssize_t n = ::write(wake_fd_.get(), &one, sizeof(one));
}

void ConnectionPoller::give_back(std::unique_ptr<Connection> connection) {
  const milliseconds time = connection->lingering ? kLingerTime : options_.idle_time;
  connection->deadline = options_.now() + time;
  {
    const MutexLock lock(mutex_);
    returned_.push_back(std::move(connection));
  }
  wake();
}

void ConnectionPoller::run() {
  std::vector<pollfd> polled;
  while (!stopping_) {
    polled.clear();
    polled.push_back({wake_fd_.get(), POLLIN, 0});
    polled.push_back({options_.now() >= accept_again_ ? listen_fd_.get() : -1, POLLIN, 0});
    for (const std::unique_ptr<Connection>& connection : waiting_)
      polled.push_back({connection->fd(), POLLIN, 0});
    ::poll(polled.data(), polled.size(), wait_ms());

    // Handle the polled connections first, while the indices of waiting_ still match those of `polled`, and
    // new connections afterward.
    for (size_t i = 2; i < polled.size(); ++i) {
      if (polled[i].revents != 0 && !advance(waiting_[i - 2])) waiting_[i - 2].reset();
    }
    std::erase(waiting_, nullptr);
    if (polled[0].revents != 0) take_returned();
    if (polled[1].revents != 0) accept_all();
    expire();
  }
  listen_fd_.reset();
  waiting_.clear();
  const MutexLock lock(mutex_);
  returned_.clear();
}

int ConnectionPoller::wait_ms() const {
  SteadyTime next = options_.now() + milliseconds(1000);
  for (const std::unique_ptr<Connection>& connection : waiting_) next = std::min(next, connection->deadline);
  if (accept_again_ > options_.now()) next = std::min(next, accept_again_);
  const milliseconds left = std::chrono::duration_cast<milliseconds>(next - options_.now()) + milliseconds(1);
  return static_cast<int>(std::max<long>(0, left.count()));
}

void ConnectionPoller::take_returned() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(wake_fd_.get(), &count, sizeof(count));
  std::vector<std::unique_ptr<Connection>> returned;
  {
    const MutexLock lock(mutex_);
    returned.swap(returned_);
  }
  for (std::unique_ptr<Connection>& connection : returned) {
    // The next request may have arrived together with the previous one and be in the buffer already, where
    // poll() does not see it.
    if (advance(connection)) waiting_.push_back(std::move(connection));
  }
}

void ConnectionPoller::accept_all() {
  // Bounded, so that a flood of new connections does not starve the waiting connections.
  for (int i = 0; i < 64; ++i) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    UniqueFd fd(::accept4(listen_fd_.get(), reinterpret_cast<sockaddr*>(&address), &size,
                          SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      // If descriptors or memory ran out, make room, because half-open connections must not keep new clients
      // out until they expire. Any other error concerns only the connection that was to be accepted.
      const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (exhausted && close_first_to_expire()) continue;
      if (exhausted) accept_again_ = options_.now() + kAcceptPause;
      if (exhausted || errno == EAGAIN || errno == EWOULDBLOCK) return;
      continue;
    }
    const int on = 1;
    // Disables Nagle's algorithm, so that each token is sent at once instead of waiting for the next one.
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    std::unique_ptr<Connection> connection =
        std::make_unique<Connection>(std::move(fd), numeric_address(address, size), options_.stall_time);
    connection->deadline = options_.now() + options_.head_time;
    if (advance(connection)) waiting_.push_back(std::move(connection));
  }
}

bool ConnectionPoller::advance(std::unique_ptr<Connection>& connection) {
  if (connection->lingering) return connection->discard_input();
  switch (connection->receive_head()) {
    case Connection::Head::kIncomplete:
      // The first byte of a request on an idle connection starts the deadline of its head; later bytes do not
      // extend it.
      if (connection->has_input()) {
        connection->deadline = std::min(connection->deadline, options_.now() + options_.head_time);
      }
      return true;
    case Connection::Head::kClosed:
      return false;
    case Connection::Head::kBad:
      refuse(*connection, connection->bad_status());
      return true;
    case Connection::Head::kComplete:
      break;
  }
  if (on_request_(connection)) return false;
  refuse(*connection, 503);
  return true;
}

void ConnectionPoller::refuse(Connection& connection, int status) {
  const std::string answer = refusal_(status);
  // Sends once without waiting: a fresh connection has room for this little, and the poller must not block.
  ::send(connection.fd(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  connection.finish_sending();
  connection.lingering = true;
  connection.deadline = options_.now() + kLingerTime;
}

void ConnectionPoller::expire() {
  const SteadyTime time = options_.now();
  for (std::unique_ptr<Connection>& connection : waiting_) {
    if (connection->deadline > time) continue;
    // A client that began a request gets an answer; an idle connection is just closed.
    if (!connection->lingering && connection->has_input()) {
      refuse(*connection, 408);
    } else {
      connection.reset();
    }
  }
  std::erase(waiting_, nullptr);
  while (waiting_.size() > options_.max_waiting) close_first_to_expire();
}

/// Returns false if no connection is waiting.
bool ConnectionPoller::close_first_to_expire() {
  const auto first = std::min_element(waiting_.begin(), waiting_.end(),
                                      [](const auto& a, const auto& b) { return a->deadline < b->deadline; });
  if (first == waiting_.end()) return false;
  waiting_.erase(first);
  return true;
}

}  // namespace hearth
