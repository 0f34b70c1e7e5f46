// Adapter for cpp-httplib 0.11.4 to 0.53.1. No public function of the library accepts a connected socket, so
// this file calls the protected Server::process_request, whose parameters differ between versions.
#include "server/http/message/http_framing.h"

#include <httplib.h>

namespace hearth {
namespace {

struct Current {
  const HttpResponse& response;
  Framing framing;
  bool is_whole;
};
thread_local const Current* current = nullptr;  // the response in progress, for the library's callbacks

/// Passes a fixed head without a body to the library. No function is marked override, because library
/// versions declare different functions. socket() is not used, but returns 0: old versions refuse large
/// descriptors.
class FramedStream final : public httplib::Stream {
 public:
  // NOLINTBEGIN(modernize-use-override)
  FramedStream(bool is_head, const SendBytes& send)
      : head_(is_head ? "HEAD / HTTP/1.1\r\n\r\n" : "GET / HTTP/1.1\r\n\r\n"), send_(send) {}
  bool is_readable() const { return true; }
  bool wait_readable() const { return true; }
  bool is_writable() const { return true; }
  bool wait_writable() const { return true; }
  ssize_t read(char* to, size_t size) {
    const size_t n = head_.copy(to, size);
    head_.erase(0, n);
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* from, size_t size) {
    sent = sent && send_({from, size});
    return sent ? static_cast<ssize_t>(size) : -1;
  }
  void get_remote_ip_and_port(std::string&, int&) const {}
  void get_local_ip_and_port(std::string&, int&) const {}
  socket_t socket() const { return 0; }
  time_t duration() const { return 0; }
  // NOLINTEND(modernize-use-override)

  bool sent = true;  // whether all bytes so far were sent

 private:
  std::string head_;
  const SendBytes& send_;
};

class Library final : private httplib::Server {
 public:
  Library() {
    svr_sock_ = 0;  // at INVALID_SOCKET, the library would break off every answer
    Get("/", [](const httplib::Request&, httplib::Response& to) {
      const HttpResponse& from = current->response;
      to.status = from.status;
      if (current->is_whole) return to.set_content(from.body, from.content_type);
      // Called by the library for the body, after it has sent the head. The handler writes the body itself.
      const auto stop = [](size_t, httplib::DataSink&) { return false; };
      if (current->framing.is_http10) return to.set_content_provider(from.content_type, stop);
      to.set_chunked_content_provider(from.content_type, stop);
    });
    set_post_routing_handler([](const httplib::Request&, httplib::Response& to) {
      to.headers.erase("Keep-Alive");
      to.headers.erase("Connection");  // newer versions add it after errors
      for (const auto& [name, value] : current->response.headers) to.headers.emplace(name, value);
    });
  }

  template <class Stream>  // a template, because `requires` can only test dependent expressions
  void process(Stream& stream) {
    bool closed = false;
    if constexpr (requires { this->process_request(stream, false, closed, nullptr); })
      this->process_request(stream, false, closed, nullptr);  // the parameters of versions up to 0.17
    else
      this->process_request(stream, "", 0, "", 0, false, closed, nullptr);
  }
};

bool frame(const Current& what, const SendBytes& send) {
  static Library library;
  current = &what;
  FramedStream stream(what.framing.is_head, send);
  library.process(stream);
  current = nullptr;
  return stream.sent;
}

}  // namespace

bool send_whole(const HttpResponse& response, Framing framing, const SendBytes& send) {
  return frame({response, framing, true}, send);
}

bool send_head(const HttpResponse& head, Framing framing, const SendBytes& send) {
  return frame({head, framing, false}, send);
}

}  // namespace hearth
