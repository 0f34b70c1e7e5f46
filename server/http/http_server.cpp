// Connections, workers and the steps of one request; see the header.
//
// cpp-httplib only frames answers (http_framing). Its accept loop, thread pool, keep-alive, parsing and
// routing are replaced: they hold a thread per connection, end on ECONNABORTED, refuse descriptors above
// FD_SETSIZE, match paths with a recursive std::regex, and refuse chunked bodies with trailers.
#include "server/http/http_server.h"

#include <atomic>
#include <condition_variable>
#include <ctime>
#include <map>
#include <optional>
#include <semaphore>
#include <set>
#include <utility>

#include "kernels/base/mutex.h"
#include "server/http/connection/connection_poller.h"
#include "server/http/connection/listen_socket.h"
#include "server/http/connection/worker_pool.h"
#include "server/http/error_response.h"
#include "server/http/message/body_memory.h"
#include "server/http/message/http_date.h"
#include "server/http/message/http_framing.h"
#include "server/http/message/request_body.h"
#include "server/http/message/request_head.h"
#include "server/http/message/trace_context.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

// A connection is closed after this many requests, so that load balancers in front of a restarted server
// spread its clients again.
constexpr int kMaxRequestsPerConnection = 10'000;
// When no thread is free, a body that has been arriving for longer loses its thread. In this time a line of 8
// Mbit/s transfers a megabyte.
constexpr std::chrono::seconds kBusyBodyTime{1};
// Parsed JSON takes up to 16 times the bytes of its text, so few bodies of at least this size are handled at
// once.
constexpr size_t kLargeBodyBytes = 1 << 20;
constexpr int kLargeBodiesAtOnce = 4;

using Places = std::counting_semaphore<kLargeBodiesAtOnce>;

/// Waits for one of the places for large bodies, and gives it back.
class Place {
 public:
  explicit Place(Places& places) : places_(places) { places_.acquire(); }
  ~Place() { places_.release(); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  Places& places_;
};

/// The client of one request, both before its status is sent and while its body is produced.
class Client final : public ResponseSink {
 public:
  using Send = FramedExchange::TakePiece;
  Client(const Connection& connection, std::optional<GenerationRecord>& record, Send send = {})
      : connection_(connection), record_(record), send_(std::move(send)) {}
  bool write(std::string_view bytes) override {
    return bytes.empty() || send_(bytes.data(), bytes.size());  // an empty chunk would end a chunked body
  }
  bool client_alive() override { return connection_.client_alive(); }
  void report(const GenerationRecord& record) override { record_ = record; }

 private:
  const Connection& connection_;
  std::optional<GenerationRecord>& record_;
  const Send send_;
};

/// The whole answer to a request that no worker takes.
std::string refusal_bytes(int status) {
  const std::string body = error_json({status, transport_fault(status), "", ""});
  std::string answer =
      "HTTP/1.1 " + std::to_string(status) + " Refused\r\nContent-Type: application/json\r\n";
  answer += "Content-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n";
  answer += "Date: " + http_date(std::time(nullptr)) + "\r\n";
  if (status == 503) answer += "Retry-After: 1\r\n";
  return answer + "\r\n" + body;
}

}  // namespace

class HttpServer::Implementation final {
 public:
  Implementation(const HttpServerOptions& options, HttpServer::Handler handler, AccessLog access_log,
                 FailureLog failure_log);
  ~Implementation() { stop(std::chrono::milliseconds(0)); }

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
  class Exchange;

  void serve(std::unique_ptr<Connection> connection);
  bool hand_over(std::unique_ptr<Connection>& connection);
  void cut_slow_bodies(const Connection* except);
  void set_receiving(Connection& connection, bool is_receiving);

  const HttpServerOptions options_;
  const HttpServer::Handler handler_;
  const AccessLog access_log_;
  const FailureLog failure_log_;
  int port_ = 0;
  std::atomic<bool> keeping_alive_{true};
  BodyMemory body_memory_;
  Places large_bodies_{kLargeBodiesAtOnce};

  Mutex mutex_;
  std::condition_variable served_;
  std::set<Connection*> active_ HEARTH_GUARDED_BY(mutex_);  // connections held by workers
  // Connections of active_ whose body is still arriving, and since when.
  std::map<Connection*, SteadyTime> receiving_ HEARTH_GUARDED_BY(mutex_);

  // Declared before the pool, because workers give connections back to the poller until they are joined.
  std::unique_ptr<ConnectionPoller> poller_;
  std::unique_ptr<WorkerPool> pool_;
};

/// One request on a worker's thread.
class HttpServer::Implementation::Exchange final : public FramedExchange {
 public:
  Exchange(Implementation& server, Connection& connection)
      : server_(server),
        connection_(connection),
        head_(parse_head(connection.take_head(), server.options_.max_body_bytes)),
        memory_(server.body_memory_),
        keep_(!head_.closes && connection.n_requests < kMaxRequestsPerConnection) {
    head_.request.remote_address = connection.remote_address();
  }

  const HttpRequest& request() const { return head_.request; }
  bool keeps_connection() const { return keep_; }
  bool is_broken() const { return broken_ || status_ == 0; }
  void fail(const std::exception& error) {
    server_.failure_log_(error.what(), head_.request.request_id);
    broken_ = true;
  }
  AccessRecord record(double seconds, bool complete) const {
    return {request().method,
            request().path,
            request().sender.empty() ? connection_.remote_address() : request().sender,
            request().request_id,
            status_,
            connection_.bytes_sent(),
            seconds,
            complete,
            generation_,
            request().key_name,
            trace_id_of(request().header("traceparent")).value_or("")};
  }

  /// Once the answer has ended: the client may send its next request before this one is forgotten.
  void give_place_back() { head_.request.place.reset(); }

  const Framing& framing() const override { return head_.framing; }
  bool write(std::string_view bytes) override { return connection_.write(bytes); }
  bool client_alive() const override { return connection_.client_alive(); }
  HttpResponse answer() override;
  bool produce(HttpResponse& response, const TakePiece& send) override;

 private:
  std::optional<HttpResponse> refused();
  void receive_body();
  HttpResponse handle();
  HttpResponse faulty() const;
  HttpResponse failed(const std::exception& error) const;
  HttpResponse call_handler();

  Implementation& server_;
  Connection& connection_;
  RequestHead head_;
  BodyMemory::Share memory_;  // for the request's body
  bool keep_;                 // the connection may carry another request
  bool broken_ = false;       // the answer's body was not completed
  int status_ = 0;            // 0: not yet decided
  std::optional<GenerationRecord> generation_;
};

HttpResponse HttpServer::Implementation::Exchange::answer() {
  std::optional<HttpResponse> refusal = refused();
  // A refused request's body, or what is left of it after a fault, is still on its way.
  if (refusal && !head_.body.is_empty()) keep_ = false;
  if (!refusal) receive_body();
  if (head_.fault || !server_.keeping_alive_) keep_ = false;
  HttpResponse response = refusal ? std::move(*refusal) : head_.fault ? faulty() : handle();
  const bool is_http10 = head_.framing.is_http10;
  if (is_http10 && response.produce) keep_ = false;  // closing the connection ends the body
  status_ = response.status;
  if (status_ == 503 && head_.fault) response.headers.emplace_back("Retry-After", "1");
  response.headers.emplace_back("Date", http_date(std::time(nullptr)));
  response.headers.emplace_back("x-request-id", head_.request.request_id);
  if (keep_) {
    const auto idle = std::chrono::duration_cast<std::chrono::seconds>(PollerOptions{}.idle_time).count();
    response.headers.emplace_back("Keep-Alive", "timeout=" + std::to_string(idle) +
                                                    ", max=" + std::to_string(kMaxRequestsPerConnection));
    if (is_http10) response.headers.emplace_back("Connection", "keep-alive");
  } else {
    response.headers.emplace_back("Connection", "close");
  }
  return response;
}

HttpResponse HttpServer::Implementation::Exchange::handle() {
  try {
    HttpResponse response = call_handler();
    std::string().swap(head_.request.body);  // hundreds of requests may wait, each with megabytes
    memory_.release();
    if (!response.before_status) return response;
    Client client(connection_, generation_);
    std::optional<HttpResponse> instead = response.before_status(client);
    if (!instead) return response;
    instead->headers.insert(instead->headers.end(), response.headers.begin(), response.headers.end());
    return std::move(*instead);
  } catch (const std::exception& error) {
    return failed(error);
  }
}

HttpResponse HttpServer::Implementation::Exchange::faulty() const {
  return error_response(*head_.fault, server_.options_.error_style(head_.request));
}

HttpResponse HttpServer::Implementation::Exchange::failed(const std::exception& error) const {
  server_.failure_log_(error.what(), head_.request.request_id);
  return error_response(
      {500, "the server failed to answer this request; its log says why", "", "internal_error"},
      server_.options_.error_style(head_.request));
}

/// The gate's answer to a request that may not be made.
std::optional<HttpResponse> HttpServer::Implementation::Exchange::refused() {
  if (head_.fault || !server_.options_.gate) return std::nullopt;
  try {
    return server_.options_.gate(head_.request);
  } catch (const std::exception& error) {
    return failed(error);
  }
}

HttpResponse HttpServer::Implementation::Exchange::call_handler() {
  if (head_.request.body.size() < kLargeBodyBytes) return server_.handler_(head_.request);
  const Place place(server_.large_bodies_);
  return server_.handler_(head_.request);
}

void HttpServer::Implementation::Exchange::receive_body() {
  if (head_.body.is_empty()) return;
  if (head_.expects_continue) connection_.write("HTTP/1.1 100 Continue\r\n\r\n");
  server_.set_receiving(connection_, true);
  std::string& body = head_.request.body;
  bool has_room = true;
  const auto read = [&](char* to, size_t size) {
    has_room = memory_.grow_to(body.size() + size);
    return has_room ? connection_.read(to, size) : -1;
  };
  head_.fault = hearth::receive_body(head_.body, server_.options_.max_body_bytes, read, body);
  server_.set_receiving(connection_, false);
  if (has_room && memory_.grow_to(body.size())) return;
  server_.cut_slow_bodies(&connection_);
  std::string().swap(body);
  head_.fault = ApiError{
      503, "the server is receiving as many large requests as its memory allows; try again soon", "", ""};
}

bool HttpServer::Implementation::Exchange::produce(HttpResponse& response, const TakePiece& send) {
  Client client(connection_, generation_, send);
  bool complete = false;
  try {
    complete = response.produce(client);
  } catch (const std::exception& error) {
    fail(error);
  }
  broken_ = !complete;
  return complete;
}

HttpServer::Implementation::Implementation(const HttpServerOptions& options, HttpServer::Handler handler,
                                           AccessLog access_log, FailureLog failure_log)
    : options_(options),
      handler_(std::move(handler)),
      access_log_(std::move(access_log)),
      failure_log_(std::move(failure_log)),
      body_memory_(options.max_bodies_bytes) {
  ListenSocket listening = open_listen_socket(options.host, options.port);
  port_ = listening.port;
  pool_ = std::make_unique<WorkerPool>(options.max_threads,
                                       [this](std::unique_ptr<Connection> c) { serve(std::move(c)); });
  PollerOptions poller_options;
  poller_options.max_waiting = options.max_idle_connections;
  poller_options.head_time = options.head_time;
  poller_options.stall_time = options.stall_time;
  poller_options.now = options.now;
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
  const SteadyTime begin = std::chrono::steady_clock::now();
  connection->begin_body();
  ++connection->n_requests;
  Exchange exchange(*this, *connection);
  bool sent = false;
  try {
    sent = frame(exchange);
  } catch (const std::exception& error) {
    exchange.fail(error);
  }

  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  exchange.give_place_back();
  const bool complete = sent && !exchange.is_broken();
  access_log_(exchange.record(elapsed.count(), complete));
  {
    const MutexLock lock(mutex_);
    active_.erase(connection.get());
  }
  served_.notify_all();
  if (exchange.is_broken()) connection->reset_on_close();
  if (!complete) return;
  if (!exchange.keeps_connection()) {
    connection->finish_sending();
    connection->lingering = true;
  }
  poller_->give_back(std::move(connection));
}

/// Passes the connection to a worker if one is free. If none is, clients that send their bodies slowly lose
/// their connections, because they would hold the threads for as long as a body may take.
bool HttpServer::Implementation::hand_over(std::unique_ptr<Connection>& connection) {
  if (pool_->try_run(connection)) return true;
  cut_slow_bodies(nullptr);
  return false;
}

void HttpServer::Implementation::cut_slow_bodies(const Connection* except) {
  const SteadyTime limit = options_.now() - kBusyBodyTime;
  const MutexLock lock(mutex_);
  for (const auto& [receiving, since] : receiving_) {
    if (since < limit && receiving != except) receiving->break_off();
  }
}

void HttpServer::Implementation::set_receiving(Connection& connection, bool is_receiving) {
  const MutexLock lock(mutex_);
  if (is_receiving) {
    receiving_.emplace(&connection, options_.now());
  } else {
    receiving_.erase(&connection);
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
