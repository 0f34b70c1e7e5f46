// The one file that knows cpp-httplib. Of it are used: request line and header parsing, chunked bodies,
// Expect, status lines, headers and chunked answers. Its accept loop, thread pool, keep-alive and routing are
// replaced: they hold a thread per connection, end on ECONNABORTED, refuse descriptors past FD_SETSIZE, leave
// heads and lines unlimited, and match paths with a recursive std::regex.
#include "server/http/http_server.h"

#include <httplib.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <optional>
#include <set>

#include "kernels/mutex.h"
#include "server/api/error.h"
#include "server/http/connection_poller.h"
#include "server/http/http_target.h"
#include "server/http/listen_socket.h"
#include "server/http/worker_pool.h"

namespace hearth {
namespace {

// A connection is closed after so many requests, so that load balancers in front of a restarted server even
// out.
constexpr int kMaxRequestsPerConnection = 10'000;
// When no thread is free, a body that has been on its way for longer loses its thread. A megabyte takes that
// long over a line of 8 Mbit/s.
constexpr std::chrono::seconds kBusyBodyTime{1};

/// A connection as httplib wants to see it.
class ConnectionStream final : public httplib::Stream {
 public:
  explicit ConnectionStream(Connection& connection) : connection_(connection) {}
  bool is_readable() const override { return true; }
  bool is_writable() const override { return connection_.client_alive(); }
  ssize_t read(char* to, size_t size) override { return connection_.read(to, size); }
  ssize_t write(const char* from, size_t size) override {
    return connection_.write({from, size}) ? static_cast<ssize_t>(size) : -1;
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip = connection_.remote_address();
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  // httplib refuses descriptors that do not fit a select() set; nothing selects on this one.
  socket_t socket() const override { return 0; }

 private:
  Connection& connection_;
};

/// The client while no status is out.
class Waiting final : public ResponseClient {
 public:
  Waiting(const Connection& connection, std::optional<GenerationRecord>& record)
      : connection_(connection), record_(record) {}
  bool client_alive() override { return connection_.client_alive(); }
  void report(const GenerationRecord& record) override { record_ = record; }

 private:
  const Connection& connection_;
  std::optional<GenerationRecord>& record_;
};

class Sink final : public ResponseSink {
 public:
  Sink(httplib::DataSink& sink, const Connection& connection, std::optional<GenerationRecord>& record)
      : sink_(sink), connection_(connection), record_(record) {}
  bool write(std::string_view bytes) override {
    // An empty chunk would end a chunked body.
    return bytes.empty() || sink_.write(bytes.data(), bytes.size());
  }
  bool client_alive() override { return connection_.client_alive(); }
  void report(const GenerationRecord& record) override { record_ = record; }

 private:
  httplib::DataSink& sink_;
  const Connection& connection_;
  std::optional<GenerationRecord>& record_;
};

/// One request on its way through httplib's callbacks, which know only their Request and Response.
struct Exchange {
  Connection* connection = nullptr;
  HttpRequest request;
  int status = 0;
  bool is_http10 = false;
  bool parsed = false;  // httplib understood the head
  bool has_body = false;
  bool keep = true;               // may the connection carry another request?
  bool broken = false;            // the body was not completed
  std::optional<ApiError> fault;  // found in the head: answered before the body is read
  std::optional<GenerationRecord> generation;
};
thread_local Exchange* current_exchange = nullptr;  // httplib calls back on the thread that called it

std::optional<ApiError> head_fault(const httplib::Request& request, uint64_t max_body_bytes) {
  const size_t n_lengths = request.get_header_value_count("Content-Length");
  const size_t n_encodings = request.get_header_value_count("Transfer-Encoding");
  const std::string length = request.get_header_value("Content-Length");
  // What a proxy could understand differently from us is refused (RFC 9112, 6.3).
  const bool is_number = !length.empty() && length.find_first_not_of("0123456789") == std::string::npos;
  if (n_lengths > 1 || n_encodings > 1 || (n_lengths == 1 && n_encodings == 1) ||
      (n_lengths == 1 && !is_number)) {
    return ApiError{400, "Content-Length and Transfer-Encoding of the request are contradictory or malformed",
                    "", ""};
  }
  std::string encoding = request.get_header_value("Transfer-Encoding");
  for (char& c : encoding) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (n_encodings == 1 && encoding != "chunked") {
    return ApiError{501, "Transfer-Encoding must be chunked or absent", "", ""};
  }
  if (!request.get_header_value("Content-Encoding").empty() &&
      request.get_header_value("Content-Encoding") != "identity") {
    return ApiError{415, "compressed request bodies are not taken; send the body without Content-Encoding",
                    "", ""};
  }
  // 19 digits and more are too large for what is compared below, and for any server.
  if (is_number && (length.size() > 18 || std::stoull(length) > max_body_bytes)) {
    return ApiError{
        413,
        "the request body is larger than " + std::to_string(max_body_bytes >> 20) + " MiB (--max-body-mib)",
        "", ""};
  }
  return std::nullopt;
}

std::string reason(int status) {
  switch (status) {
    case 408:
      return "the request did not arrive in time";
    case 413:
      return "the request body is too large";
    case 414:
      return "the request line is too long";
    case 431:
      return "the request headers are too large";
    case 503:
      return "the server is answering as many requests as it can; try again shortly";
    default:
      return "the bytes received are not an HTTP/1.1 request; note that this port does not speak TLS";
  }
}

/// A whole answer for requests that never reach httplib.
std::string refusal_bytes(int status) {
  const std::string body = error_json({status, reason(status), "", ""});
  std::string answer =
      "HTTP/1.1 " + std::to_string(status) + " Refused\r\nContent-Type: application/json\r\n";
  answer += "Content-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n";
  if (status == 503) answer += "Retry-After: 1\r\n";
  return answer + "\r\n" + body;
}

}  // namespace

class HttpServer::Implementation final : private httplib::Server {
 public:
  Implementation(const HttpServerOptions& options, HttpServer::Handler handler, AccessLog access_log,
                 FailureLog failure_log);
  ~Implementation() override { stop(std::chrono::milliseconds(0)); }

  int port() const { return port_; }
  void start() { poller_->start(); }
  void stop_keeping_alive() { keeping_alive_ = false; }
  bool wait_until_idle(std::chrono::milliseconds time) {
    MutexLock lock(mutex_);
    return served_.wait_for(lock.for_wait(), time,
                            [this]() HEARTH_REQUIRES(mutex_) { return active_.empty(); });
  }
  void stop(std::chrono::milliseconds grace);

 private:
  void serve(std::unique_ptr<Connection> connection);
  void take_head(httplib::Request& request, Exchange& exchange);
  bool read_body(const httplib::ContentReader& reader, Exchange& exchange);
  void answer(httplib::Response& response);
  void send(HttpResponse answer, Exchange& exchange, httplib::Response& response);
  bool hand_over(std::unique_ptr<Connection>& connection);

  const HttpServerOptions options_;
  const HttpServer::Handler handler_;
  const AccessLog access_log_;
  const FailureLog failure_log_;
  int port_ = 0;
  std::atomic<bool> keeping_alive_{true};

  Mutex mutex_;
  std::condition_variable served_;
  std::set<Connection*> active_ HEARTH_GUARDED_BY(mutex_);  // connections that workers hold
  // Those of them whose body is still on its way, and since when
  std::map<Connection*, SteadyTime> receiving_ HEARTH_GUARDED_BY(mutex_);

  std::unique_ptr<ConnectionPoller>
      poller_;  // before the pool: workers give back to it until they are joined
  std::unique_ptr<WorkerPool> pool_;
};

HttpServer::Implementation::Implementation(const HttpServerOptions& options, HttpServer::Handler handler,
                                           AccessLog access_log, FailureLog failure_log)
    : options_(options),
      handler_(std::move(handler)),
      access_log_(std::move(access_log)),
      failure_log_(std::move(failure_log)) {
  ListenSocket listening = open_listen_socket(options.host, options.port);
  port_ = listening.port;
  // httplib takes an invalid descriptor here as "shutting down" and cuts every answer. It does nothing else
  // with it.
  svr_sock_ = listening.fd.get();

  // take_head() has made every request a bare GET, HEAD or POST of "/"; our handler knows the real one.
  Get("/", [this](const httplib::Request&, httplib::Response& response) { answer(response); });
  Post("/",
       [this](const httplib::Request&, httplib::Response& response, const httplib::ContentReader& reader) {
         if (!current_exchange->fault) read_body(reader, *current_exchange);
         answer(response);
       });
  set_expect_100_continue_handler([this](const httplib::Request&, httplib::Response& response) {
    if (!current_exchange->fault) return 100;
    answer(response);
    return response.status;
  });
  set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (current_exchange->status != 0) return;  // an error of the handler's own, body and all
    response.set_content(error_json({response.status, reason(response.status), "", ""}), "application/json");
    current_exchange->keep = false;
  });
  set_post_routing_handler([](const httplib::Request&, httplib::Response& response) {
    current_exchange->status = response.status;
    if (current_exchange->keep) return;
    response.headers.erase("Keep-Alive");
    response.headers.erase("Connection");
    response.set_header("Connection", "close");
  });
  set_keep_alive_max_count(kMaxRequestsPerConnection);
  set_keep_alive_timeout(std::chrono::duration_cast<std::chrono::seconds>(PollerOptions{}.idle_time).count());

  pool_ = std::make_unique<WorkerPool>(options.max_threads,
                                       [this](std::unique_ptr<Connection> c) { serve(std::move(c)); });
  PollerOptions poller_options;
  poller_options.max_waiting = options.max_idle_connections;
  poller_options.head_time = options.head_time;
  poller_ = std::make_unique<ConnectionPoller>(
      std::move(listening.fd), poller_options,
      [this](std::unique_ptr<Connection>& connection) { return hand_over(connection); }, refusal_bytes);
}

void HttpServer::Implementation::stop(std::chrono::milliseconds grace) {
  keeping_alive_ = false;
  if (!poller_) return;
  poller_->stop();
  {
    MutexLock lock(mutex_);
    served_.wait_for(lock.for_wait(), grace, [this]() HEARTH_REQUIRES(mutex_) { return active_.empty(); });
    for (Connection* connection : active_) connection->break_off();
  }
  pool_.reset();
  poller_.reset();
}

void HttpServer::Implementation::serve(std::unique_ptr<Connection> connection) {
  {
    const MutexLock lock(mutex_);
    active_.insert(connection.get());
  }
  Exchange exchange;
  exchange.connection = connection.get();
  current_exchange = &exchange;
  const SteadyTime begin = std::chrono::steady_clock::now();
  connection->begin_body();
  ConnectionStream stream(*connection);
  bool client_closes = false, sent = false;
  try {
    sent = process_request(stream, ++connection->n_requests >= kMaxRequestsPerConnection, client_closes,
                           [this, &exchange](httplib::Request& request) { take_head(request, exchange); });
  } catch (const std::exception& error) {
    failure_log_(error.what(), exchange.request.request_id);
    exchange.broken = true;
  }
  current_exchange = nullptr;

  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  const bool complete = sent && !exchange.broken;
  access_log_({exchange.request.method, exchange.request.path, connection->remote_address(),
               exchange.request.request_id, exchange.status, connection->bytes_sent(), elapsed.count(),
               complete, exchange.generation});
  {
    const MutexLock lock(mutex_);
    active_.erase(connection.get());
  }
  served_.notify_all();
  if (exchange.broken) connection->reset_on_close();
  if (!complete) return;
  if (!exchange.keep || client_closes || !exchange.parsed ||
      connection->n_requests >= kMaxRequestsPerConnection) {
    connection->finish_sending();
    connection->lingering = true;
  }
  poller_->give_back(std::move(connection));
}

void HttpServer::Implementation::take_head(httplib::Request& request, Exchange& exchange) {
  exchange.parsed = true;
  HttpRequest& ours = exchange.request;
  ours.method = request.method;
  ours.path = normalised_path(request.path);
  ours.remote_address = exchange.connection->remote_address();
  ours.request_id = request_id_from(request.get_header_value("x-request-id"));
  for (const auto& [name, value] : request.headers) {
    // httplib adds these four itself.
    if (name == "REMOTE_ADDR" || name == "REMOTE_PORT" || name == "LOCAL_ADDR" || name == "LOCAL_PORT")
      continue;
    ours.headers.emplace_back(name, value);
  }
  exchange.is_http10 = request.version == "HTTP/1.0";
  if (exchange.is_http10) exchange.keep = false;
  // httplib takes a chunk that is longer than it said for the end of the body; the rest must not be read as a
  // request.
  if (request.has_header("Transfer-Encoding")) exchange.keep = false;
  exchange.fault = head_fault(request, options_.max_body_bytes);
  exchange.has_body =
      request.has_header("Transfer-Encoding") || request.get_header_value("Content-Length") != "0";
  if (!request.has_header("Transfer-Encoding") && !request.has_header("Content-Length"))
    exchange.has_body = false;
  // What httplib would make of these: forms it takes apart, ranges of answers, compressed streams that are
  // held back.
  request.headers.erase("Content-Type");
  request.headers.erase("Accept-Encoding");
  request.ranges.clear();
  request.path = "/";
  request.method = exchange.has_body ? "POST" : request.method == "HEAD" ? "HEAD" : "GET";
}

/// To a worker, if one is free. If none is, clients that are slow to send their bodies have to give way: they
/// would hold the threads for as long as a body may take.
bool HttpServer::Implementation::hand_over(std::unique_ptr<Connection>& connection) {
  if (pool_->try_run(connection)) return true;
  const SteadyTime limit = std::chrono::steady_clock::now() - kBusyBodyTime;
  const MutexLock lock(mutex_);
  for (const auto& [receiving, since] : receiving_) {
    if (since < limit) receiving->break_off();
  }
  return false;
}

bool HttpServer::Implementation::read_body(const httplib::ContentReader& reader, Exchange& exchange) {
  const auto set_receiving = [this, &exchange](bool is_receiving) {
    const MutexLock lock(mutex_);
    if (is_receiving) {
      receiving_.emplace(exchange.connection, std::chrono::steady_clock::now());
    } else {
      receiving_.erase(exchange.connection);
    }
  };
  std::string& body = exchange.request.body;
  bool too_large = false;
  set_receiving(true);
  const bool complete = reader([&](const char* bytes, size_t n) {
    too_large = body.size() + n > options_.max_body_bytes;
    if (!too_large) body.append(bytes, n);
    return !too_large;
  });
  set_receiving(false);
  if (too_large) {
    exchange.fault = ApiError{413,
                              "the request body is larger than " +
                                  std::to_string(options_.max_body_bytes >> 20) + " MiB (--max-body-mib)",
                              "", ""};
  } else if (!complete) {
    exchange.fault =
        ApiError{400, "the request body ended early, came too slowly or is badly chunked", "", ""};
  }
  return complete;
}

void HttpServer::Implementation::answer(httplib::Response& response) {
  Exchange& exchange = *current_exchange;
  HttpResponse ours;
  if (exchange.fault) {
    ours = error_response(*exchange.fault);
    exchange.keep = false;  // its body, or a part of it, is still on the way
  } else {
    try {
      ours = handler_(exchange.request);
      if (ours.before_status) {
        Waiting client(*exchange.connection, exchange.generation);
        if (std::optional<HttpResponse> instead = ours.before_status(client)) ours = std::move(*instead);
      }
    } catch (const std::exception& error) {
      failure_log_(error.what(), exchange.request.request_id);
      ours = error_response({500, "the server failed to answer this request; its log says why", "", ""});
    }
  }
  if (!keeping_alive_) exchange.keep = false;
  send(std::move(ours), exchange, response);
}

void HttpServer::Implementation::send(HttpResponse ours, Exchange& exchange, httplib::Response& response) {
  exchange.status = response.status = ours.status;
  for (const auto& [name, value] : ours.headers) response.headers.emplace(name, value);
  response.headers.emplace("x-request-id", exchange.request.request_id);
  if (!ours.produce) {
    response.set_content(ours.body, ours.content_type);
    return;
  }
  // std::function copies; the producer owns a request's work and must not be copied with it.
  const std::shared_ptr<HttpResponse> owner = std::make_shared<HttpResponse>(std::move(ours));
  const auto provide = [this, owner, &exchange](size_t, httplib::DataSink& sink) {
    Sink ours_sink(sink, *exchange.connection, exchange.generation);
    bool complete = false;
    try {
      complete = owner->produce(ours_sink);
    } catch (const std::exception& error) {
      failure_log_(error.what(), exchange.request.request_id);
    }
    exchange.broken = !complete;
    if (complete) sink.done();
    return complete;
  };
  if (exchange.is_http10) {
    response.set_content_provider(owner->content_type,
                                  provide);  // HTTP/1.0 knows no chunks: the close is the end
  } else {
    response.set_chunked_content_provider(owner->content_type, provide);
  }
}

HttpServer::HttpServer(const HttpServerOptions& options, Handler handler, AccessLog access_log,
                       FailureLog failure_log)
    : implementation_(std::make_unique<Implementation>(options, std::move(handler), std::move(access_log),
                                                       std::move(failure_log))) {}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return implementation_->port(); }
void HttpServer::start() { implementation_->start(); }
void HttpServer::stop_keeping_alive() { implementation_->stop_keeping_alive(); }
bool HttpServer::wait_until_idle(std::chrono::milliseconds time) {
  return implementation_->wait_until_idle(time);
}
void HttpServer::stop(std::chrono::milliseconds grace) { implementation_->stop(grace); }

}  // namespace hearth
