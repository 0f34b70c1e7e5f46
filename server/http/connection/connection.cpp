// Reads and writes with deadlines on a socket that never blocks.
#include "server/http/connection/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace hearth {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A body may take kBodyTime and one second per 16 KiB. Usual DSL and mobile connections are faster than that.
constexpr seconds kBodyTime{20};
constexpr uint64_t kBodyBytesPerSecond = 16 * 1024;

/// Waits for events on fd until the deadline. Returns false on timeout or error.
bool wait_for(int fd, short events, SteadyTime deadline) {
  for (;;) {
    const milliseconds left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now()) +
        milliseconds(1);
    if (left <= milliseconds(0)) return false;
    pollfd entry{fd, events, 0};
    const int n = ::poll(&entry, 1, static_cast<int>(left.count()));
    if (n > 0) return true;
    if (n == 0 || errno != EINTR) return false;
  }
}

/// Whether the line has no control characters except tabs. A proxy may end a line at a bare CR, LF or NUL,
/// but this server does not.
bool is_head_text(std::string_view line) {
  return std::none_of(line.begin(), line.end(),
                      [](unsigned char c) { return (c < ' ' && c != '\t') || c == 127; });
}

/// Whether the line is "name:value" and its name is a token (RFC 9112, 5). HTTP implementations differ on a
/// blank before the colon, a folded line and a line without a colon. An attacker could use the differences to
/// smuggle requests past a proxy.
bool is_field(std::string_view line) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  const std::string_view name = line.substr(0, line.find(':'));
  return !name.empty() && name.size() < line.size() &&
         std::all_of(name.begin(), name.end(), [kMarks](unsigned char c) {
           return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                  kMarks.find(static_cast<char>(c)) != std::string_view::npos;
         });
}

}  // namespace

Connection::Connection(UniqueFd fd, std::string remote_address, milliseconds stall_time, SslHandle session)
    : channel_(std::move(fd), std::move(session)),
      remote_address_(std::move(remote_address)),
      stall_time_(stall_time) {}

Connection::Head Connection::receive_head() {
  input_.erase(0, used_);
  used_ = scanned_ = 0;
  // The buffer may already contain a pipelined request. Otherwise, the socket is read, but not far beyond the
  // head, because the body is read later.
  Head head = check_head();
  while (head == Head::kIncomplete) {
    std::array<char, 4096> chunk;
    const ssize_t n = channel_.receive(chunk.data(), chunk.size());
    if (n == ByteChannel::kWait) return Head::kIncomplete;
    if (n == ByteChannel::kNotTls) return Head::kNotTls;
    if (n <= 0) return Head::kClosed;
    input_.append(chunk.data(), static_cast<size_t>(n));
    head = check_head();
  }
  return head;
}

Connection::Head Connection::check_head() {
  const auto bad = [this](int status) {
    bad_status_ = status;
    return Head::kBad;
  };
  // Empty lines before the request line are skipped (RFC 9112, 2.2).
  if (scanned_ == 0) input_.erase(0, std::min(input_.find_first_not_of("\r\n"), input_.size()));
  if (input_.empty()) return Head::kIncomplete;
  // Methods consist of capital letters. A TLS greeting or a stray byte is refused immediately, not at the
  // head's deadline.
  if (input_[0] < 'A' || input_[0] > 'Z') return bad(400);
  const size_t end = input_.find("\r\n\r\n", scanned_);
  scanned_ = input_.size() < 3 ? 0 : input_.size() - 3;
  const size_t first_line = std::min(input_.find("\r\n"), input_.size());
  if (first_line > kMaxLineBytes) return bad(414);
  if (end == std::string::npos) return input_.size() > kMaxHeadBytes ? bad(431) : Head::kIncomplete;
  if (end > kMaxHeadBytes) return bad(431);
  size_t n_lines = 0;
  for (size_t begin = 0; begin < end; ++n_lines) {
    const size_t line_end = input_.find("\r\n", begin);
    if (line_end - begin > kMaxLineBytes) return bad(431);
    const std::string_view line = std::string_view(input_).substr(begin, line_end - begin);
    if (!is_head_text(line) || (n_lines > 0 && !is_field(line))) return bad(400);
    begin = line_end + 2;
  }
  return n_lines > kMaxHeaderLines ? bad(431) : Head::kComplete;
}

std::string Connection::take_head() {
  used_ = input_.find("\r\n\r\n") + 4;
  return input_.substr(0, used_);
}

void Connection::begin_body() {
  body_start_ = std::chrono::steady_clock::now();
  body_bytes_ = bytes_sent_ = 0;
}

ssize_t Connection::read(char* to, size_t size) {
  if (used_ < input_.size()) {
    const size_t n = std::min(size, input_.size() - used_);
    std::memcpy(to, input_.data() + used_, n);
    used_ += n;
    return static_cast<ssize_t>(n);
  }
  // A whole block is received into input_, so that callers can read chunk lines byte by byte without a system
  // call for each byte. used_ counts the bytes of the block that have been returned.
  input_.resize(16 * 1024);
  used_ = 0;
  ssize_t n = ByteChannel::kWait;
  for (;;) {
    n = channel_.receive(input_.data(), input_.size());
    if (n != ByteChannel::kWait) break;
    const seconds earned(body_bytes_ / kBodyBytesPerSecond);
    if (!wait_for(fd(), channel_.wanted_events(), body_start_ + kBodyTime + earned)) break;
  }
  input_.resize(n > 0 ? static_cast<size_t>(n) : 0);
  if (n <= 0) return n == ByteChannel::kClosed ? 0 : -1;
  body_bytes_ += static_cast<uint64_t>(n);
  return read(to, size);
}

bool Connection::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = channel_.send(bytes);
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
      bytes_sent_ += static_cast<uint64_t>(n);
      continue;
    }
    if (n != ByteChannel::kWait) return false;
    const SteadyTime latest = std::chrono::steady_clock::now() + stall_time_;
    if (!wait_for(fd(), channel_.wanted_events(), latest)) return false;
  }
  return true;
}

bool Connection::client_alive() { return channel_.peer_listens(); }

void Connection::send_last(std::string_view bytes) {
  channel_.send(bytes);
  finish_sending();
}

void Connection::break_off() const { ::shutdown(fd(), SHUT_RDWR); }

void Connection::reset_on_close() {
  const linger hard{1, 0};
  ::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

void Connection::finish_sending() { channel_.finish_sending(); }

bool Connection::discard_input() {
  input_.clear();
  used_ = 0;
  // The loop is bounded, because the poller serves other connections too.
  for (int i = 0; i < 16; ++i) {
    const ssize_t n = channel_.discard();
    if (n <= 0) return n == ByteChannel::kWait;
  }
  return true;
}

}  // namespace hearth
