// Receives any bytes on a new connection. They must be refused, be incomplete, or be parsed as a head. A
// parsed head is safe to log, to route and to compare; this checks what later code relies on.
//
// The bytes go through a real socket, as in the server. One thread.
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/endpoints/endpoints.h"
#include "server/gate/auth.h"
#include "server/gate/host_policy.h"
#include "server/http/connection/connection.h"
#include "server/http/message/request_head.h"
#include "server/http/message/trace_context.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

bool has_controls(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return (c < ' ' && c != '\t') || c == 127; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hearth;
  constexpr uint64_t kLimit = 4096;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return 0;
  const UniqueFd client(ends[0]);
  Connection connection(UniqueFd(ends[1]), "127.0.0.1");
  const ssize_t sent = ::send(client.get(), data, size, MSG_NOSIGNAL);
  if (sent < 0) return 0;
  const Connection::Head state = connection.receive_head();
  if (state == Connection::Head::kBad)
    require(connection.bad_status() >= 400 && connection.bad_status() < 500);
  if (state != Connection::Head::kComplete) return 0;

  const RequestHead head = parse_head(connection.take_head(), kLimit);
  const HttpRequest& request = head.request;
  require(request.path.starts_with("/") && (request.path == "/" || !request.path.ends_with("/")));
  require(!request.request_id.empty() && request.request_id.size() <= 128 &&
          !has_controls(request.request_id));
  require(request.headers.size() <= kMaxHeaderLines);
  for (const auto& [name, value] : request.headers)
    require(!name.empty() && !has_controls(name) && !has_controls(value));
  require(head.body.is_chunked || head.body.length <= kLimit);
  if (head.fault) require(head.body.is_empty() && head.fault->status >= 400);
  if (const std::optional<std::string> id = trace_id_of(request.header("traceparent")))
    require(id->size() == 32);

  static const Auth auth(parse_key_file("name=n role=use key=k\n", "keys"));
  const Destination to = find_destination(request.path, request.method, true);
  require(to.argument.size() <= request.path.size());
  const Auth::Verdict verdict = auth.check(request, to.access == Access::kAdmin ? Role::kAdmin : Role::kUse);
  require(verdict.refusal || verdict.key_name == "n");
  static const HostPolicy hosts("127.0.0.1", {"chat.example.org"});
  if (const std::optional<ApiError> refusal = hosts.refusal(request)) require(refusal->message.size() < 1000);
  return 0;
}
