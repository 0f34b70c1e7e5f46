// Adapter for cpp-httplib 0.11.4 to 0.53.1; see the header. The library's public functions take no accepted
// socket, so this calls Server::process_request, which is protected and has other parameters in later
// versions.
#include "server/http/message/http_framing.h"

#include <httplib.h>

#include <memory>

namespace hearth {
namespace {

struct Current {
  FramedExchange& exchange;
  std::shared_ptr<HttpResponse> response;  // shared with the provider: std::function copies its captures
};
thread_local Current* current = nullptr;  // the library calls back on the thread that called it

/// Gives the library a fixed head and no body. Nothing is marked override, because library versions declare
/// different functions. socket() is not used, but old versions refuse large descriptors.
class FramedStream final : public httplib::Stream {
 public:
  // NOLINTBEGIN(modernize-use-override)
  explicit FramedStream(FramedExchange& exchange) : exchange_(exchange) {}
  bool is_readable() const { return true; }
  bool wait_readable() const { return true; }
  bool is_writable() const { return exchange_.client_alive(); }
  bool wait_writable() const { return exchange_.client_alive(); }
  ssize_t read(char* to, size_t size) {
    const size_t n = head_.copy(to, size);
    head_.erase(0, n);
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* from, size_t size) {
    return exchange_.write({from, size}) ? static_cast<ssize_t>(size) : -1;
  }
  void get_remote_ip_and_port(std::string&, int&) const {}
  void get_local_ip_and_port(std::string&, int&) const {}
  socket_t socket() const { return 0; }
  time_t duration() const { return 0; }
  // NOLINTEND(modernize-use-override)

 private:
  FramedExchange& exchange_;
  std::string head_ = exchange_.framing().is_head ? "HEAD / HTTP/1.1\r\n\r\n" : "GET / HTTP/1.1\r\n\r\n";
};

class Library final : private httplib::Server {
 public:
  Library() {
    svr_sock_ = 0;  // INVALID_SOCKET would mean "shutting down" and cut every answer
    Get("/", [](const httplib::Request&, httplib::Response& to) { answer(to); });
    set_post_routing_handler([](const httplib::Request&, httplib::Response& to) {
      to.headers.erase("Keep-Alive");
      to.headers.erase("Connection");  // newer versions add it after errors
      for (const auto& [name, value] : current->response->headers) to.headers.emplace(name, value);
    });
  }

  template <class Stream>  // a template, for "requires" asks only in templates
  bool process(Stream& stream) {
    bool closed = false;
    if constexpr (requires { this->process_request(stream, false, closed, nullptr); }) {
      return this->process_request(stream, false, closed, nullptr);  // up to 0.17
    } else {
      return this->process_request(stream, "", 0, "", 0, false, closed, nullptr);
    }
  }

  static void answer(httplib::Response& to) {
    const auto ours = std::make_shared<HttpResponse>(current->exchange.answer());
    current->response = ours;
    to.status = ours->status;
    if (!ours->produce) return to.set_content(ours->body, ours->content_type);
    const auto provide = [ours, &exchange = current->exchange](size_t, httplib::DataSink& sink) {
      const bool complete = exchange.produce(*ours, sink.write);
      if (complete) sink.done();
      return complete;
    };
    if (current->exchange.framing().is_http10) return to.set_content_provider(ours->content_type, provide);
    to.set_chunked_content_provider(ours->content_type, provide);
  }
};

}  // namespace

bool frame(FramedExchange& exchange) {
  static Library library;
  Current here{exchange, std::make_shared<HttpResponse>()};
  current = &here;
  FramedStream stream(exchange);
  const bool sent = library.process(stream);
  current = nullptr;
  return sent;
}

}  // namespace hearth
