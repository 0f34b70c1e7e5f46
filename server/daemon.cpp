// See the header.
#include "server/daemon.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "profiler/machine/cache_folder.h"
#include "server/endpoints/api_path.h"
#include "server/endpoints/endpoints.h"
#include "server/http/connection/listen_socket.h"
#include "server/prefix_cache.h"
#include "server/process/descriptor_limit.h"
#include "server/process/logging.h"
#include "server/reload.h"

namespace hearth {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// HTTP threads in addition to those of the requests in the engine's slots and queue, which have one each.
// They send refusals, answer /health and /v1/models, and read slow bodies.
constexpr size_t kSpareThreads = 128;
// Reserved file descriptors for the log, model, trace, ports, signals and libraries.
constexpr size_t kOwnDescriptors = 64;
// Interval at which main checks the load, the watchdog and the drain. A signal wakes main immediately.
constexpr milliseconds kTick{100};
// Interval of progress lines during a load. A load that takes less time logs no progress line.
constexpr seconds kLoadProgressEvery{2};
// The maximum wait, after the engine has drained, until clients have received the last bytes.
constexpr milliseconds kLastBytes{2000};
// The maximum wait, after the engine has failed, until clients have received their error answers.
constexpr milliseconds kLastErrors{5000};
constexpr int kTryAgainExit = 1;  // makes supervisors start hearthd again

void warn_if_open(const Options& options, const Auth& auth) {
  if (!options.api_key_file.empty() && is_readable_by_all(options.api_key_file))
    log_warning("every user of this machine may read " + options.api_key_file + "; run chmod 600 on it");
  if (auth.required() || is_loopback(options.host)) return;
  log_warning("anyone who can reach " + options.host +
              " may use this server: set HEARTH_API_KEY or --api-key-file, or listen on 127.0.0.1");
}

void log_tls(const TlsIdentity& tls) {
  const TlsFacts facts = tls.facts();
  log_info("TLS: the certificate is for " + describe(facts));
  if (is_readable_by_all(tls.files().key))
    log_warning("every user of this machine may read " + tls.files().key + "; run chmod 600 on it");
  const std::string warning = date_warning(facts, tls.files().certificate);
  if (!warning.empty()) log_warning(warning);
}

int64_t to_ms(double time_s) { return std::llround(time_s * 1000); }

/// Whether the request is a successful probe. The access log omits these, because probes arrive every few
/// seconds.
bool is_routine(const AccessRecord& record) {
  const Endpoint* const endpoint = find_destination(record.path, record.method, false).endpoint;
  return record.status == 200 && endpoint != nullptr && endpoint->is_probe;
}

void log_access(const AccessRecord& record) {
  if (is_routine(record)) return;
  LogFields fields = {{"status", record.status}, {"ms", to_ms(record.seconds)}};
  const char* ended = record.complete ? "complete" : "broken off";
  if (const std::optional<GenerationRecord>& generation = record.generation) {
    if (!generation->model.empty()) fields.push_back({"model", generation->model});
    fields.insert(fields.end(), {{"prompt_tokens", generation->n_prompt},
                                 {"cached_tokens", generation->n_cached},
                                 {"matched_tokens", generation->n_matched},
                                 {"generated_tokens", generation->n_generated}});
    if (generation->n_matched_messages)
      fields.push_back({"matched_messages", *generation->n_matched_messages});
    if (generation->has_times) {
      fields.insert(fields.end(), {{"queue_ms", to_ms(generation->queue_seconds)},
                                   {"prefill_ms", to_ms(generation->prefill_seconds)},
                                   {"decode_ms", to_ms(generation->decode_seconds)}});
    }
    if (*generation->finish_reason != 0) fields.push_back({"finish_reason", generation->finish_reason});
    // An answer that was generated but not sent in full must not be logged as complete.
    if (record.complete || generation->ended != std::string_view("complete")) ended = generation->ended;
  }
  fields.insert(fields.end(), {{"bytes", record.bytes},
                               {"id", record.request_id},
                               {"client", record.remote_address},
                               {"ended", ended}});
  if (!record.key_name.empty()) fields.push_back({"key", record.key_name});
  if (!record.trace_id.empty()) fields.push_back({"trace_id", record.trace_id});
  log_info(record.method + " " + record.path, fields);
}

HttpServerOptions server_options(const Options& options, const TlsIdentity* tls) {
  HttpServerOptions server;
  server.tls = tls;
  server.host = options.host;
  server.port = options.port;
  server.error_style = error_style;
  server.max_body_bytes = static_cast<uint64_t>(options.max_body_mib) << 20;
  server.max_threads =
      static_cast<size_t>(options.slots) + static_cast<size_t>(options.queue) + kSpareThreads;
  // Requests for one model run while requests for others wait.
  if (names_several(options))
    server.max_threads += static_cast<size_t>(options.slots) + static_cast<size_t>(options.queue);
  if (!options.embedding_model.empty())
    server.max_threads += kEmbeddingSlots + static_cast<size_t>(options.queue);
  return server;
}

/// Raises the limit on file descriptors, so that there is one for each running request and each waiting
/// connection.
void make_room_for_clients(const HttpServerOptions& server) {
  const size_t wanted = server.max_threads + server.max_idle_connections + kOwnDescriptors;
  const size_t limit = raise_descriptor_limit(wanted);
  if (limit >= wanted) return;
  log_warning(
      "the system allows this process fewer open descriptors than it may need, so connections that wait may "
      "be closed early; "
      "raise the limit (ulimit -Hn, systemd's LimitNOFILE)",
      {{"limit", limit}, {"wanted", wanted}});
}

/// Few threads and connections suffice, because usually one scraper sends requests.
HttpServerOptions metrics_server_options(const Options& options, const TlsIdentity* tls) {
  HttpServerOptions server;
  server.tls = tls;
  server.host = options.host;
  server.port = options.metrics_port;
  server.error_style = error_style;
  server.max_body_bytes = 4096;
  server.max_threads = 8;
  server.max_idle_connections = 32;
  return server;
}

void log_failure(const std::string& what, const std::string& id) {
  log_error("request failed: " + what, {{"id", id}});
}

}  // namespace

Daemon::Daemon(const Invocation& invocation, const Environment& environment, const std::string& version,
               ModelFiles files, const StopSignals& signals, const Recorders& recorders)
    : invocation_(invocation),
      options_(invocation_.options),
      version_(version),
      environment_(environment),
      auth_(read_all_keys(options_.api_key_file, options_.api_key)),
      tls_(open_tls({.certificate = options_.tls_cert, .key = options_.tls_key})),
      cache_(cache_folder(environment)),
      sandbox_(options_, cache_),
      files_(std::move(files)),
      signals_(signals),
      service_manager_(environment_value(environment, "NOTIFY_SOCKET"),
                       environment_value(environment, "WATCHDOG_USEC")),
      pool_(options_, environment_, cache_, version_, recorders),
      metrics_(pool_.state(), version, pool_.catalog()),
      routes_(pool_.state(), metrics_,
              {.auth = auth_,
               .cors = CorsPolicy(options_.cors_origin),
               .hosts = HostPolicy(options_.host, options_.allowed_host),
               .proxies = TrustedProxies(options_.trusted_proxy),
               .has_page = options_.page == Options::Page::kOn,
               .has_tls = tls_ != nullptr},
              [this](const HttpRequest& request) { return pool_.handle_admin(request); },
              {.catalog = pool_.catalog(), .most_waiting = options_.queue, .unloaded = &pool_.listed()}) {
  warn_if_open(options_, auth_);
  make_prefix_folder(options_, cache_);
  if (tls_ != nullptr) log_tls(*tls_);
  const HttpServerOptions server_settings = server_options(options_, tls_.get());
  make_room_for_clients(server_settings);
  server_ = std::make_unique<HttpServer>(
      server_settings, [this](HttpRequest& request) { return routes_.admit(request); },
      [this](const AccessRecord& record) {
        metrics_.count(record);
        log_access(record);
      },
      log_failure);
  if (options_.metrics_port > 0) {
    metrics_server_ = std::make_unique<HttpServer>(
        metrics_server_options(options_, tls_.get()),
        [this](const HttpRequest& request) { return Admission{.at_once = metrics_.serve_alone(request)}; },
        [](const AccessRecord&) {}, log_failure);
  }
}

Daemon::~Daemon() = default;

Daemon::Outcome Daemon::run() {
  sandbox_.before_threads();
  server_->start();
  log_always("listening on " + url_of(*server_), {{"port", server_->port()}});
  if (metrics_server_ != nullptr) {
    metrics_server_->start();
    log_info("metrics on " + url_of(*metrics_server_) + "/metrics");
  }
  if (!options_.model.empty()) service_manager_.notify("STATUS=Loading " + options_.model);
  last_progress_ = Clock::now();
  pool_.begin(std::move(files_));
  if (!pool_.is_starting()) {
    service_manager_.notify("READY=1\nSTATUS=Serving " + std::to_string(pool_.catalog()->models().size()) +
                            " models");
    log_info("ready", {{"load_ms", 0}, {"models", pool_.catalog()->models().size()}});
  }
  for (;;) {
    if (const std::optional<int> signal = signals_.wait_for(pool_.is_changing() ? kTick / 10 : kTick)) {
      log_info("stopping" + of_requests(), {{"signal", *signal}});
      break;
    }
    if (signals_.skip_asked()) skip_profiling();
    const StopSignals::Hangup hangup = signals_.hangup();
    if (hangup == StopSignals::Hangup::kTerminalClosed) {
      log_info("stopping because the terminal was closed", {{"signal", SIGHUP}});
      break;
    }
    if (hangup == StopSignals::Hangup::kReload) {
      if (const std::optional<Options> now = reload(invocation_, environment_, auth_, tls_.get()))
        pool_.reload(*now);
    }
    look_after_models();
    service_manager_.beat(pool_.is_alive());
    if (const std::optional<std::string> why = pool_.failure()) return end_after_failure(*why);
  }
  return pool_.is_starting() ? abandon_loading() : drain();
}

/// Returns a clause about the requests that a stop waits for.
std::string Daemon::of_requests() const {
  const int n = pool_.n_unfinished();
  if (n == 0) return "";
  return ": " + std::to_string(n) + (n == 1 ? " request has" : " requests have") + " up to " +
         std::to_string(options_.drain_seconds) + " s to end; Ctrl-C or another signal ends " +
         (n == 1 ? "it" : "them") + " at once";
}

std::string Daemon::url_of(const HttpServer& server) const {
  return local_url(options_.host, server.port(), tls_ != nullptr);
}

void Daemon::look_after_models() {
  for (const ModelPool::Event& event : pool_.tick()) {
    if (event.what == ModelHost::Event::kReady) {
      tell_ready(*event.host);
    } else {
      log_progress(event);
    }
  }
}

void Daemon::log_progress(const ModelPool::Event& event) {
  const Clock::time_point now = Clock::now(), start = event.host->load_start();
  const double elapsed = std::chrono::duration<double>(now - start).count();
  const double done = event.progress;
  if (now - std::max(last_progress_, start) < kLoadProgressEvery || done <= 0) return;
  last_progress_ = now;
  log_info("loading", {{"percent", static_cast<int>(done * 100)},
                       {"seconds_left", static_cast<int>(elapsed / done * (1 - done))}});
  // A long load must not look like a hang, so the service manager's start timeout is extended.
  if (pool_.is_starting()) service_manager_.notify("EXTEND_TIMEOUT_USEC=30000000");
}

void Daemon::tell_ready(const ModelHost& host) {
  sandbox_.once_loaded();
  const ServingModel& model = *host.model();
  service_manager_.notify("READY=1\nSTATUS=Serving " + model.ready().name);
  const std::string url = url_of(*server_);
  const int64_t load_ms = to_ms(std::chrono::duration<double>(Clock::now() - host.load_start()).count());
  pool_.start_profiling(host);
  if (pool_.has_several()) return log_info("ready", {{"model", model.ready().name}, {"load_ms", load_ms}});
  log_info("ready", {{"load_ms", load_ms}});
  if (options_.page == Options::Page::kOn && model.generates()) return log_info("open " + url);
  log_info("try: curl " + url +
           (model.ranks() ? R"(/v1/rerank -d '{"query":"capital of France","documents":["Paris","Rome"]}')"
            : !model.generates() ? R"(/v1/embeddings -d '{"input":"The capital of France is Paris."}')"
            : model.can_chat()   ? R"(/v1/chat/completions -d '{"messages":[{"role":"user",)"
                                   R"("content":"What is the capital of France?"}],"temperature":0}')"
                                 : R"(/v1/completions -d '{"prompt":"Once upon a time","temperature":0}')"));
}

void Daemon::skip_profiling() {
  if (!pool_.skip_profiling()) log_info("SIGUSR1: there is no profiling to skip");
}

Daemon::Outcome Daemon::abandon_loading() {
  pool_.set_stopping();
  service_manager_.notify("STOPPING=1");
  pool_.abandon_loads();
  const Clock::time_point deadline = Clock::now() + kLastBytes;
  while (!pool_.has_ended()) {
    // After the deadline, the process exits without waiting for the load, which may be reading from a slow
    // disk. Nothing is being served, and nothing must be saved.
    if (signals_.wait_for(kTick) || Clock::now() > deadline) return {0, true};
  }
  server_->stop(milliseconds(0));
  return {};
}

Daemon::Outcome Daemon::drain() {
  pool_.set_stopping();
  server_->stop_keeping_alive();
  service_manager_.notify("STOPPING=1\nSTATUS=Finishing running answers");
  service_manager_.notify("EXTEND_TIMEOUT_USEC=" +
                          std::to_string((options_.drain_seconds + 10LL) * 1'000'000));
  const Clock::time_point deadline = Clock::now() + seconds(options_.drain_seconds);
  pool_.abandon_loads();  // stops the load of a replacement model, if any
  draining_ = std::async(std::launch::async, [this, deadline] { return pool_.drain(deadline); });
  while (draining_.wait_for(seconds(0)) != std::future_status::ready) {
    service_manager_.beat(pool_.is_alive());
    if (const std::optional<int> signal = signals_.wait_for(kTick / 4)) {
      log_warning("second signal: stopping at once", {{"signal", *signal}});
      return {128 + *signal, true};
    }
  }
  if (!draining_.get()) {
    log_warning("answers still running after --drain-seconds were cut",
                {{"drain_seconds", options_.drain_seconds}});
  }
  if (const std::optional<std::string> why = pool_.failure()) return end_after_failure(*why);
  pool_.finish_profile();
  server_->stop(kLastBytes);
  log_info("stopped");
  // A replacement model may still be loading from a slow disk. The process then exits without waiting for the
  // load.
  return {.exit_code = 0, .at_once = pool_.is_loading() && !pool_.has_ended()};
}

// The engine has ended all its requests with an error. New requests get 503 until the process exits. Nothing
// is freed: after a GPU fault, it is safest to leave memory and threads to the operating system.
Daemon::Outcome Daemon::end_after_failure(const std::string& why) {
  log_error("the engine has failed, and hearthd ends so that its supervisor can restart it",
            {{"why", why}, {"exit_code", kTryAgainExit}});
  service_manager_.notify("STOPPING=1\nSTATUS=The engine has failed");
  server_->stop_keeping_alive();
  server_->wait_until_idle(kLastErrors);
  pool_.finish_trace();
  return {kTryAgainExit, true};
}

}  // namespace hearth
