// The poller calls poll() on all waiting connections at once.
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
#include <new>
#include <system_error>
#include <utility>

#include "server/process/logging.h"

namespace hearth {
namespace {

using std::chrono::milliseconds;

// The time for which a client may keep sending after its answer. If the connection were closed immediately,
// it would be reset, and the client might never read the answer.
constexpr milliseconds kLingerTime{2000};
// Without free descriptors, every accept() fails immediately. During the pause, workers can close
// connections.
constexpr milliseconds kAcceptPause{50};

// In plain text, because the client is often a browser.
constexpr std::string_view kUseHttps =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 88\r\n"
    "Connection: close\r\n\r\n"
    "This port speaks HTTPS. Begin the address with https:// instead of http://, or use TLS.\n";

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
  // The write fails only if the eventfd's counter is full. In this case, the poller has not yet handled
  // earlier wakes, so it will not sleep.
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
      polled.push_back({connection->fd(), connection->wanted_events(), 0});
    ::poll(polled.data(), polled.size(), wait_ms());

    // Polled connections are handled before new ones, because the indices of waiting_ must match those of
    // `polled`.
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
    // The next request may have arrived with the previous one. It is then in the buffer, where poll() does
    // not detect it.
    if (advance(connection)) waiting_.push_back(std::move(connection));
  }
}

void ConnectionPoller::accept_all() {
  // The loop is bounded, so that many new connections do not delay the waiting ones.
  for (int i = 0; i < 64; ++i) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    UniqueFd fd(::accept4(listen_fd_.get(), reinterpret_cast<sockaddr*>(&address), &size,
                          SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      // If descriptors or memory ran out, a waiting connection is closed: half-open connections must not keep
      // new clients out until they expire. Other errors concern only the connection that accept() should have
      // returned.
      const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (exhausted && close_first_to_expire()) continue;
      if (exhausted) accept_again_ = options_.now() + kAcceptPause;
      if (exhausted || errno == EAGAIN || errno == EWOULDBLOCK) return;
      continue;
    }
    add(std::move(fd), numeric_address(address, size));
  }
}

void ConnectionPoller::add(UniqueFd fd, std::string remote_address) try {
  const int on = 1;
  // Without Nagle's algorithm, each token is sent immediately instead of waiting for the next one.
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  SslHandle session = options_.tls == nullptr ? nullptr : options_.tls->new_session(fd.get());
  std::unique_ptr<Connection> connection = std::make_unique<Connection>(
      std::move(fd), std::move(remote_address), options_.stall_time, std::move(session));
  connection->deadline = options_.now() + options_.head_time;
  if (advance(connection)) waiting_.push_back(std::move(connection));
} catch (const std::bad_alloc&) {
  log_error("a connection was closed because there is no memory for it");
}

bool ConnectionPoller::advance(std::unique_ptr<Connection>& connection) {
  if (connection->lingering) return connection->discard_input();
  switch (connection->receive_head()) {
    case Connection::Head::kIncomplete:
      // The first byte of a request starts the deadline of its head. Later bytes do not extend it.
      if (connection->has_input()) {
        connection->deadline = std::min(connection->deadline, options_.now() + options_.head_time);
      }
      return true;
    case Connection::Head::kClosed:
      if (!connection->tls_failure().empty()) {
        log_debug("a connection ended because TLS failed",
                  {{"client", connection->remote_address()}, {"why", connection->tls_failure()}});
      }
      connection->finish_sending();
      return false;
    case Connection::Head::kBad:
      refuse(*connection, refusal_(connection->bad_status()));
      return true;
    case Connection::Head::kNotTls:
      refuse(*connection, kUseHttps);
      return true;
    case Connection::Head::kComplete:
      break;
  }
  if (on_request_(connection)) return false;
  refuse(*connection, refusal_(503));
  return true;
}

void ConnectionPoller::refuse(Connection& connection, std::string_view answer) {
  // The poller must not block. The send buffer of a new connection has room for a short answer.
  connection.send_last(answer);
  connection.lingering = true;
  connection.deadline = options_.now() + kLingerTime;
}

void ConnectionPoller::expire() {
  const SteadyTime time = options_.now();
  for (std::unique_ptr<Connection>& connection : waiting_) {
    if (connection->deadline > time) continue;
    // A client that has begun a request gets an answer. An idle connection is closed without one.
    if (!connection->lingering && connection->has_input()) {
      refuse(*connection, refusal_(408));
    } else {
      connection->finish_sending();
      connection.reset();
    }
  }
  std::erase(waiting_, nullptr);
  while (waiting_.size() > options_.max_waiting) close_first_to_expire();
}

/// Closes the waiting connection with the nearest deadline. Returns false if none is waiting.
bool ConnectionPoller::close_first_to_expire() {
  const auto first = std::min_element(waiting_.begin(), waiting_.end(),
                                      [](const auto& a, const auto& b) { return a->deadline < b->deadline; });
  if (first == waiting_.end()) return false;
  waiting_.erase(first);
  return true;
}

}  // namespace hearth
