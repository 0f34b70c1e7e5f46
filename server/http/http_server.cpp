// Connections, workers and the steps of one request.
//
// cpp-httplib only writes the heads of answers (http_framing). The library's accept loop, thread pool,
// keep-alive, parsing and routing are replaced here, because the library uses one thread per connection, ends
// when accept() reports ECONNABORTED, refuses descriptors above FD_SETSIZE, matches paths with a recursive
// std::regex, and refuses chunked bodies with trailers.
#include "server/http/http_server.h"

#include <array>
#include <cassert>
#include <charconv>
#include <ctime>
#include <stdexcept>
#include <utility>

#include "server/http/connection/listen_socket.h"
#include "server/http/error_response.h"
#include "server/http/message/http_date.h"
#include "server/http/message/http_framing.h"
#include "server/http/message/request_body.h"
#include "server/http/message/request_head.h"
#include "server/http/message/trace_context.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

// A connection is closed after this many requests. Load balancers then spread clients evenly again after a
// restart.
constexpr int kMaxRequestsPerConnection = 10'000;
// If no thread is free, a connection is cut off if its body has been arriving for longer than this. A line of
// 8 Mbit/s transfers a megabyte in this time.
constexpr std::chrono::seconds kBusyBodyTime{1};

/// Returns a chunk of a body (RFC 9112, 7.1). An empty `bytes` gives the chunk that ends the body.
std::string chunk_of(std::string_view bytes) {
  std::array<char, 16> size{};
  const std::to_chars_result end = std::to_chars(size.begin(), size.end(), bytes.size(), 16);
  return std::string(size.data(), end.ptr).append("\r\n").append(bytes).append("\r\n");
}

/// Returns the whole answer to a request that is refused without a worker.
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

/// Marks a connection as held by a worker while this object exists.
class HttpServer::Active final {
 public:
  Active(HttpServer& server, Connection& connection) : server_(server), connection_(connection) {
    const MutexLock lock(server_.mutex_);
    server_.active_.insert(&connection_);
  }
  ~Active() {
    {
      const MutexLock lock(server_.mutex_);
      server_.active_.erase(&connection_);
    }
    server_.served_.notify_all();
  }
  Active(const Active&) = delete;
  Active& operator=(const Active&) = delete;

 private:
  HttpServer& server_;
  Connection& connection_;
};

/// Marks a connection as receiving a body while this object exists.
class HttpServer::Receiving final {
 public:
  Receiving(HttpServer& server, Connection& connection) : server_(server), connection_(connection) {
    const MutexLock lock(server_.mutex_);
    server_.receiving_.emplace(&connection_, server_.options_.now());
  }
  ~Receiving() {
    const MutexLock lock(server_.mutex_);
    server_.receiving_.erase(&connection_);
  }
  Receiving(const Receiving&) = delete;
  Receiving& operator=(const Receiving&) = delete;

 private:
  HttpServer& server_;
  Connection& connection_;
};

/// One request, on a worker's thread.
class HttpServer::Exchange final : public ResponseWriter {
 public:
  Exchange(HttpServer& server, Connection& connection)
      : server_(server),
        connection_(connection),
        head_(parse_head(connection.take_head(), server.options_.max_body_bytes)),
        memory_(server.body_memory_),
        body_left_(head_.fault || !head_.body.is_empty()),
        keep_(!head_.closes && connection.n_requests < kMaxRequestsPerConnection) {
    head_.request.remote_address = connection.remote_address();
  }

  /// Answers the request and destroys the Admission, which ends the request's count in its key's limits. The
  /// destructor of this object would be too late, because the client may already send its next request.
  void run();

  bool keeps_connection() const { return keep_; }
  /// Whether the whole answer was sent.
  bool is_complete() const { return complete_; }
  /// Whether only a part of the answer was sent, so that the connection must be broken.
  bool is_broken() const { return broken_; }
  AccessRecord record(double seconds) const;

  void send(HttpResponse response) override;
  bool begin(std::string_view content_type, HttpHeaders headers) override;
  bool write(std::string_view bytes) override;
  void finish() override;
  void release_body() override;
  bool client_alive() override { return connection_.client_alive(); }
  void report(const GenerationRecord& record) override { generation_ = record; }

 private:
  const HttpRequest& request() const { return head_.request; }
  SendBytes to_client() {
    return [this](std::string_view bytes) { return connection_.write(bytes); };
  }
  void answer();
  bool write_piece(std::string_view bytes);
  void refuse(const ApiError& error) { send(error_response(error, server_.options_.error_style(request()))); }
  std::optional<ApiError> receive_body();
  void add_headers(HttpHeaders& headers);

  HttpServer& server_;
  Connection& connection_;
  RequestHead head_;
  BodyMemory::Share memory_;                     // memory of the request's body
  std::optional<LargeBodyPlaces::Place> place_;  // set for a large body
  bool body_left_;                               // whether bytes of the body have not been received
  bool keep_;                                    // whether the connection can be used for another request
  bool has_begun_ = false;                       // whether the answer's head was sent, or sending it failed
  bool complete_ = false, broken_ = false;
  bool lost_ = false;    // whether sending a part of the answer failed; nothing more is sent
  int status_ = 0;       // 0 until it is decided
  HttpHeaders headers_;  // headers of every answer to this request
  std::string key_name_;
  std::optional<GenerationRecord> generation_;
};

void HttpServer::Exchange::run() {
  try {
    answer();
    if (!has_begun_) throw std::logic_error("a handler made no answer");
  } catch (const std::exception& error) {
    server_.failure_log_(error.what(), request().request_id);
    if (!has_begun_)
      refuse({500, "the server failed to answer this request; its log says why", "", "internal_error"});
  }
}

void HttpServer::Exchange::answer() {
  if (head_.fault) return refuse(*head_.fault);
  Admission admission = server_.gate_(head_.request);
  headers_ = std::move(admission.headers);
  key_name_ = admission.key_name;
  if (admission.at_once) return send(std::move(*admission.at_once));
  if (const std::optional<ApiError> fault = receive_body()) return refuse(*fault);
  if (head_.request.body.size() >= LargeBodyPlaces::kLargeBytes) place_.emplace(server_.large_bodies_);
  admission.answer(request(), *this);
}

/// Receives the body. Returns an error if the body is not accepted.
std::optional<ApiError> HttpServer::Exchange::receive_body() {
  if (!body_left_) return std::nullopt;
  if (head_.expects_continue) connection_.write("HTTP/1.1 100 Continue\r\n\r\n");
  std::string& body = head_.request.body;
  bool has_room = true;
  const auto read = [&](char* to, size_t size) {
    has_room = memory_.grow_to(body.size() + size);
    return has_room ? connection_.read(to, size) : -1;
  };
  std::optional<ApiError> fault;
  {
    const Receiving receiving(server_, connection_);
    fault = hearth::receive_body(head_.body, server_.options_.max_body_bytes, read, body);
  }
  if (has_room && memory_.grow_to(body.size())) {
    body_left_ = fault.has_value();
    return fault;
  }
  server_.cut_slow_bodies(&connection_);
  std::string().swap(body);
  headers_.emplace_back("Retry-After", "1");
  return ApiError{503, "the server is receiving as many large requests as its memory allows; try again soon",
                  "", ""};
}

void HttpServer::Exchange::release_body() {
  std::string().swap(head_.request.body);
  memory_.release();
  place_.reset();
}

/// Decides whether the connection stays open. Adds the headers that every answer has.
void HttpServer::Exchange::add_headers(HttpHeaders& headers) {
  headers.insert(headers.end(), headers_.begin(), headers_.end());
  headers.emplace_back("Date", http_date(std::time(nullptr)));
  headers.emplace_back("x-request-id", request().request_id);
  if (body_left_ || !server_.keeping_alive_) keep_ = false;
  if (!keep_) {
    headers.emplace_back("Connection", "close");
    return;
  }
  const auto idle = std::chrono::duration_cast<std::chrono::seconds>(PollerOptions{}.idle_time).count();
  headers.emplace_back(
      "Keep-Alive", "timeout=" + std::to_string(idle) + ", max=" + std::to_string(kMaxRequestsPerConnection));
  if (head_.framing.is_http10) headers.emplace_back("Connection", "keep-alive");
}

void HttpServer::Exchange::send(HttpResponse response) {
  assert(!has_begun_);
  release_body();
  has_begun_ = true;
  status_ = response.status;
  add_headers(response.headers);
  complete_ = send_whole(response, head_.framing, to_client());
}

bool HttpServer::Exchange::begin(std::string_view content_type, HttpHeaders headers) {
  assert(!has_begun_);
  release_body();
  has_begun_ = true;
  status_ = 200;
  if (head_.framing.is_http10) keep_ = false;  // the end of the connection ends the body
  add_headers(headers);
  const bool sent = send_head({.content_type = std::string(content_type), .headers = std::move(headers)},
                              head_.framing, to_client());
  if (head_.framing.is_head) {
    complete_ = sent;
  } else {
    broken_ = true;  // until the body has been finished
    lost_ = !sent;
  }
  return sent;
}

bool HttpServer::Exchange::write(std::string_view bytes) {
  if (!broken_ || lost_) return false;  // the answer to HEAD has no body
  if (bytes.empty()) return true;       // an empty chunk would end the body
  return write_piece(bytes);
}

bool HttpServer::Exchange::write_piece(std::string_view bytes) {
  lost_ = !(head_.framing.is_http10 ? connection_.write(bytes) : connection_.write(chunk_of(bytes)));
  return !lost_;
}

void HttpServer::Exchange::finish() {
  if (!broken_ || lost_ || !write_piece({})) return;
  broken_ = false;
  complete_ = true;
}

AccessRecord HttpServer::Exchange::record(double seconds) const {
  return {.method = request().method,
          .path = request().path,
          .remote_address = request().sender.empty() ? connection_.remote_address() : request().sender,
          .request_id = request().request_id,
          .status = status_,
          .bytes = connection_.bytes_sent(),
          .seconds = seconds,
          .complete = complete_,
          .generation = generation_,
          .key_name = key_name_,
          .trace_id = trace_id_of(request().header("traceparent")).value_or("")};
}

HttpServer::HttpServer(const HttpServerOptions& options, Gate gate, AccessLog access_log,
                       FailureLog failure_log)
    : options_(options),
      gate_(std::move(gate)),
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
  poller_options.tls = options.tls;
  poller_options.now = options.now;
  poller_ = std::make_unique<ConnectionPoller>(
      std::move(listening.fd), poller_options,
      [this](std::unique_ptr<Connection>& connection) { return hand_over(connection); }, refusal_bytes);
}

HttpServer::~HttpServer() { stop(std::chrono::milliseconds(0)); }

void HttpServer::start() { poller_->start(); }

bool HttpServer::wait_until_idle(std::chrono::milliseconds time) {
  MutexLock lock(mutex_);
  return served_.wait_for(lock.for_wait(), time,
                          [this]() HEARTH_REQUIRES(mutex_) { return active_.empty(); });
}

void HttpServer::stop(std::chrono::milliseconds grace) {
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

/// Serves one request of a connection on a worker. If memory for the request's head or the access log runs
/// out, the connection is closed, and the server continues.
void HttpServer::serve(std::unique_ptr<Connection> connection) {
  try {
    if (answer_request(*connection)) poller_->give_back(std::move(connection));
  } catch (const std::exception& error) {
    if (connection) connection->reset_on_close();  // the client may have received a part of an answer
    failure_log_(error.what(), "");
  }
}

/// Returns true if the connection returns to the poller.
bool HttpServer::answer_request(Connection& connection) {
  const Active active(*this, connection);
  const SteadyTime begin = std::chrono::steady_clock::now();
  connection.begin_body();
  ++connection.n_requests;
  Exchange exchange(*this, connection);
  exchange.run();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  access_log_(exchange.record(elapsed.count()));
  if (exchange.is_broken()) connection.reset_on_close();
  if (!exchange.is_complete()) return false;
  if (!exchange.keeps_connection()) {
    connection.finish_sending();
    connection.lingering = true;
  }
  return true;
}

/// Passes the connection to a worker if one is free. Otherwise, closes the connections of clients that send
/// their bodies slowly, because they would occupy the threads for a long time.
bool HttpServer::hand_over(std::unique_ptr<Connection>& connection) {
  if (pool_->try_run(connection)) return true;
  cut_slow_bodies(nullptr);
  return false;
}

void HttpServer::cut_slow_bodies(const Connection* except) {
  const SteadyTime limit = options_.now() - kBusyBodyTime;
  const MutexLock lock(mutex_);
  for (const auto& [receiving, since] : receiving_) {
    if (since < limit && receiving != except) receiving->break_off();
  }
}

}  // namespace hearth
