// See the header.
#include "server/models/download.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/base/file_error.h"
#include "server/models/curl_library.h"
#include "server/models/hub.h"
#include "server/models/prefix_hash.h"

namespace hearth {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Piece sizes: large enough that a request costs nothing, small enough that all connections are busy until
// the end.
constexpr uint64_t kLeastPiece = 256 << 10, kMostPiece = 32 << 20;
constexpr int kPiecesOfConnection = 4;
constexpr int kMostHops = 10;
constexpr milliseconds kTick{100};
constexpr milliseconds kSaveEvery{1000};
constexpr milliseconds kSilentWait{2000};  // a wait longer than this is reported to the user
constexpr milliseconds kFirstWait{250}, kMostWait{30'000};
// If a server asks for a longer pause, the download fails; the user can try again another day.
constexpr int64_t kMostRetryAfterSeconds = 600;

/// The file at the URL differs from the bytes already downloaded.
struct FileChanged {
  std::string why;
};

std::string bytes_words(uint64_t n) { return file_error::with_commas(n) + " bytes"; }

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}
bool is_overload(int status) { return status == 408 || status == 425 || status == 429 || status >= 500; }

milliseconds wait_after(int n_failures) {
  milliseconds wait = kFirstWait;
  for (int i = 1; i < n_failures && wait < kMostWait; ++i) wait *= 2;
  return std::min(wait, kMostWait);
}

std::string without_query(const std::string& url) { return url.substr(0, url.find('?')); }

/// The validator from a server, prefixed with the server's name: other hosts use other validators for the
/// same bytes.
std::string validator_of(const TransferHead& head, const std::string& url) {
  const std::string& own = head.etag.empty() ? head.last_modified : head.etag;
  return own.empty() ? std::string() : origin_of(url) + " " + own;
}

class Transfers {
 public:
  Transfers() : multi_(curl_library().multi_init()) {
    if (multi_ == nullptr) throw PullError("libcurl has no memory for connections");
  }
  ~Transfers() { curl_library().multi_cleanup(multi_); }
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  void add(Exchange& exchange) { curl_library().multi_add_handle(multi_, exchange.handle()); }
  void remove(Exchange& exchange) { curl_library().multi_remove_handle(multi_, exchange.handle()); }
  /// Transfers bytes for a moment, and calls ended(handle, code) for finished requests.
  template <typename Ended>
  void turn(Ended ended) {
    const CurlLibrary& curl = curl_library();
    int n_running = 0;
    if (curl.multi_perform(multi_, &n_running) != CURLM_OK) throw PullError("libcurl has failed");
    int n_left = 0;
    while (const CURLMsg* message = curl.multi_info_read(multi_, &n_left)) {
      if (message->msg != CURLMSG_DONE) continue;
      CURL* const handle = message->easy_handle;  // removing the handle invalidates the message
      const CURLcode code = message->data.result;
      curl.multi_remove_handle(multi_, handle);
      ended(handle, code);
    }
    curl.multi_poll(multi_, nullptr, 0, static_cast<int>(kTick.count()), nullptr);
  }

 private:
  CURLM* multi_;
};

/// One connection, and the bytes it should download.
struct Connection {
  Exchange exchange;
  bool busy = false;     // a request is running
  bool whole = false;    // its answer is the whole file
  bool checked = false;  // the head of its answer was checked
  ByteRange piece;
  uint64_t at = 0;  // next expected byte
  int n_hops = 0, n_failures = 0;
  Clock::time_point not_before;
  std::string fault;  // what is wrong with the answer
};

class FileDownload {
 public:
  FileDownload(const DownloadOptions& options, const DownloadReport& report, const std::string& what,
               PartFile& part)
      : options_(options), report_(report), what_(what), part_(part) {
    for (int i = 0; i < options.n_connections; ++i) connections_.push_back(std::make_unique<Connection>());
  }
  ~FileDownload() {
    for (const std::unique_ptr<Connection>& connection : connections_)
      if (connection->busy) transfers_.remove(connection->exchange);
  }

  /// Downloads all bytes. Throws FileChanged, among others.
  void run(PrefixHash& hash) {
    if (size() > 0) part_.reserve(size());
    while (!is_whole()) {
      report_.look();
      give_work();
      transfers_.turn([this](CURL* handle, CURLcode code) { end(*connection_of(handle), code); });
      if (failure_) std::rethrow_exception(failure_);
      if (to_one_) go_to_one();
      hash.advance(part_.state().done.prefix());
      report_.progress(part_.state().done.total(), size(), loaded_);
      if (Clock::now() >= next_save_) {
        part_.save();
        next_save_ = Clock::now() + kSaveEvery;
      }
    }
    report_.progress(size(), size(), loaded_);
  }

 private:
  uint64_t size() const { return part_.state().size; }
  bool is_whole() const { return ended_ || (size() > 0 && part_.state().done.holds_all(size())); }

  Connection* connection_of(const CURL* handle) const {
    for (const std::unique_ptr<Connection>& connection : connections_)
      if (connection->exchange.handle() == handle) return connection.get();
    return nullptr;
  }

  uint64_t piece_bytes() const {
    const uint64_t share = size() / static_cast<uint64_t>(options_.n_connections * kPiecesOfConnection);
    return std::clamp(share, kLeastPiece, kMostPiece);
  }

  /// The next missing bytes that no connection is downloading.
  std::optional<ByteRange> next_piece() const {
    ByteRanges taken = part_.state().done;
    for (const std::unique_ptr<Connection>& connection : connections_)
      if (connection->busy) taken.add({connection->at, connection->piece.end});
    return taken.first_gap(0, size(), piece_bytes());
  }

  void give_work() {
    const Clock::time_point now = Clock::now();
    bool one_is_busy =
        std::ranges::any_of(connections_, [](const auto& connection) { return connection->busy; });
    for (const std::unique_ptr<Connection>& connection : connections_) {
      if (connection->busy || now < connection->not_before || now < not_before_) continue;
      // One connection finds out the file's length, or has to download all of it.
      if (one_is_busy && (one_ || size() == 0)) return;
      const std::optional<ByteRange> piece =
          one_ || size() == 0 ? ByteRange{0, size() == 0 ? kLeastPiece : size()} : next_piece();
      if (!piece) return;
      connection->piece = *piece;
      connection->at = piece->begin;
      connection->n_hops = 0;
      ask(*connection, target_.empty() ? options_.url : target_);
      one_is_busy = true;
    }
  }

  void ask(Connection& connection, const std::string& url) {
    connection.whole = connection.checked = false;
    connection.fault.clear();
    const std::optional<ByteRange> range =
        one_ ? std::nullopt : std::optional(ByteRange{connection.at, connection.piece.end});
    connection.exchange.prepare(url, range, options_.request,
                                [this, &connection](const TransferHead& head, std::string_view bytes) {
                                  return take_safely(connection, head, bytes);
                                });
    transfers_.add(connection.exchange);
    connection.busy = true;
  }

  /// take() for libcurl, which cannot handle exceptions.
  bool take_safely(Connection& connection, const TransferHead& head, std::string_view bytes) noexcept try {
    return take(connection, head, bytes);
  } catch (...) {
    failure_ = std::current_exception();
    return false;
  }

  bool take(Connection& connection, const TransferHead& head, std::string_view bytes) {
    if (head.status != 200 && head.status != 206) return true;  // its body is ignored
    if (!connection.checked && !check(connection, head)) return false;
    const uint64_t end = size() > 0 && connection.whole ? size() : connection.piece.end;
    const size_t n = static_cast<size_t>(std::min<uint64_t>(bytes.size(), end - connection.at));
    if (n > 0 && keep_new(connection.at, bytes.substr(0, n))) connection.n_failures = 0;
    connection.at += n;
    loaded_ += bytes.size();
    if (n < bytes.size())
      connection.fault = "it sent more bytes than the " + bytes_words(connection.piece.size()) + " asked for";
    return connection.fault.empty();
  }

  /// Writes the bytes that are missing (a server without ranges also sends known ones). Returns whether there
  /// were any.
  bool keep_new(uint64_t at, std::string_view bytes) {
    bool any = false;
    const uint64_t end = at + bytes.size();
    while (const std::optional<ByteRange> gap = part_.state().done.first_gap(at, end, bytes.size())) {
      part_.write(gap->begin, bytes.substr(bytes.size() - (end - gap->begin), gap->size()));
      any = true;
    }
    return any;
  }

  /// Checks the head of an answer with bytes. Returns false and records the fault if they are not the
  /// requested bytes.
  bool check(Connection& connection, const TransferHead& head) {
    connection.checked = true;
    if (!head.content_encoding.empty() && head.content_encoding != "identity") {
      connection.fault = "it sent the file compressed (" + file_error::file_label(head.content_encoding) +
                         "), which was not asked for";
      return false;
    }
    if (head.status == 206 && !one_) {
      if (!head.content_range || head.content_range->begin != connection.at ||
          head.content_range->end > connection.piece.end) {
        connection.fault =
            "it was asked for bytes " + range_words({connection.at, connection.piece.end}) + " and sent " +
            (head.content_range ? range_words(*head.content_range) : "some without saying which");
        return false;
      }
      if (head.content_length && *head.content_length != head.content_range->size()) {
        connection.fault = "it announced " + bytes_words(*head.content_length) + " for bytes " +
                           range_words(*head.content_range);
        return false;
      }
      learn(connection.exchange, head, *head.content_total);
      connection.piece.end = head.content_range->end;
      return true;
    }
    if (head.status == 206) {
      connection.fault = "it sent a part of the file where all of it was asked for";
      return false;
    }
    learn(connection.exchange, head, head.content_length.value_or(0));
    connection.whole = true;
    connection.at = 0;
    connection.piece = {0, size() > 0 ? size() : kMostFileBytes};
    to_one_ = !one_;
    return true;
  }

  static std::string range_words(ByteRange range) {
    return file_error::with_commas(range.begin) + " to " + file_error::with_commas(range.end - 1);
  }

  /// Compares an answer's facts about the file with the known ones, and records new ones. total: 0: not
  /// given.
  void learn(const Exchange& exchange, const TransferHead& head, uint64_t total) {
    PartState& state = part_.state();
    if (total > kMostFileBytes)
      throw PullError(what_ + ": the server says that it has " + bytes_words(total));
    if (state.size > 0 && total > 0 && total != state.size) {
      throw FileChanged{"the server says that it has " + bytes_words(total) + ", and it was to have " +
                        bytes_words(state.size)};
    }
    const std::string validator = validator_of(head, exchange.url());
    if (!validator.empty()) {
      const auto [known, is_new] = validators_.emplace(origin_of(exchange.url()), validator);
      if (!is_new && known->second != validator)
        throw FileChanged{"it has changed on the server between two requests"};
      const bool is_first =
          is_new && validators_.size() == 1;  // of this run; the state's is from an earlier run
      if (is_first && !state.validator.empty() && state.sha256.empty() && state.validator != validator)
        throw FileChanged{"it has changed on the server since the last pull"};
    }
    if (state.size == 0 && total > 0) {
      part_.reserve(total);
      state.size = total;
    }
    if (state.validator.empty() && !validator.empty()) state.validator = validator;
  }

  void end(Connection& connection, CURLcode code) {
    connection.busy = false;
    if (failure_) return;
    const TransferHead& head = connection.exchange.head();
    if (!connection.fault.empty()) return retry(connection, connection.fault, 0);
    if (code != CURLE_OK) {
      const std::string why = connection.exchange.failure(code);
      if (!is_passing(code)) throw PullError(what_ + ": " + why);
      return retry(connection, why, 0);
    }
    if (is_redirect(head.status)) return follow(connection);
    if (head.status == 200 || head.status == 206) return end_piece(connection);
    if (head.status == 416) throw FileChanged{"the server does not have bytes that it was to have"};
    if (is_overload(head.status))
      return retry(connection, "the server answered status " + std::to_string(head.status),
                   connection.exchange.retry_after_s());
    // The hub's redirect targets expire; then ask it for a new one.
    if (connection.exchange.url() != options_.url) {
      target_.clear();
      return retry(connection,
                   "the address that the server redirected to has expired (status " +
                       std::to_string(head.status) + ")",
                   0);
    }
    throw PullError(refusal_text(what_, head.status, head.error_code, !options_.request.token.empty()));
  }

  void end_piece(Connection& connection) {
    if (connection.exchange.head().content_length == uint64_t{0})
      throw PullError(what_ + ": the server says that the file is empty");
    if (connection.exchange.url() != options_.url) target_ = connection.exchange.url();
    if (connection.whole && size() == 0) {  // an answer without a length
      part_.state().size = connection.at;
      part_.end_at(connection.at);
      ended_ = true;
      return;
    }
    if (connection.at >= connection.piece.end && connection.checked) return;
    retry(connection, "the connection ended before all bytes had arrived", 0);
  }

  void follow(Connection& connection) {
    const TransferHead& head = connection.exchange.head();
    const std::string& sha256 = part_.state().sha256;
    if (is_sha256(head.linked_etag) && !sha256.empty() && lower_case(head.linked_etag) != sha256)
      throw FileChanged{"the hub has another file of this name now"};
    if (++connection.n_hops > kMostHops) throw PullError(what_ + ": the server redirects without end");
    ask(connection, next_url(connection.exchange.url(), head.location));
  }

  void retry(Connection& connection, const std::string& why, int64_t retry_after_s) {
    if (++connection.n_failures > options_.n_retries) {
      throw PassingPullError(what_ + ": " + why + ", " + std::to_string(connection.n_failures) +
                             " times in a row; what is there is kept, and the next pull goes on with it");
    }
    if (retry_after_s > kMostRetryAfterSeconds) {
      throw PullError(what_ + ": the server asks to come back in " + std::to_string(retry_after_s) +
                      " seconds; what is there is kept, and the next pull goes on with it");
    }
    const milliseconds wait =
        std::max<milliseconds>(wait_after(connection.n_failures), milliseconds(1000 * retry_after_s));
    connection.not_before = Clock::now() + wait;
    if (retry_after_s > 0) not_before_ = connection.not_before;  // applies to all connections
    if (connection.n_failures > 1 || retry_after_s > 0)
      report_.note(why + "; asking again in " + std::to_string((wait.count() + 999) / 1000) + " s");
  }

  /// Switches to one connection for the whole file: the server does not support ranges.
  void go_to_one() {
    to_one_ = false;
    one_ = true;
    for (const std::unique_ptr<Connection>& connection : connections_) {
      if (!connection->busy || connection->whole) continue;
      transfers_.remove(connection->exchange);
      connection->busy = false;
    }
    if (part_.state().done.total() > 0 && options_.n_connections > 1)
      report_.note("the server sends the file in one piece only");
  }

  const DownloadOptions& options_;
  const DownloadReport& report_;
  const std::string& what_;
  PartFile& part_;
  Transfers transfers_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::string target_;  // target of redirects; empty: not yet known
  std::map<std::string, std::string> validators_;
  Clock::time_point not_before_, next_save_ = Clock::now() + kSaveEvery;
  uint64_t loaded_ = 0;
  bool one_ = false, to_one_ = false, ended_ = false;
  std::exception_ptr failure_;  // thrown inside libcurl's callback
};

/// Adjusts the state to the request; discards bytes of another file.
void begin_state(const DownloadOptions& options, PartFile& part) {
  const PartState& had = part.state();
  // A checksum identifies the bytes wherever they are: a new commit or a mirror only has another address.
  const bool sure = !options.sha256.empty() ? had.sha256 == options.sha256
                                            : had.sha256.empty() && !had.validator.empty() &&
                                                  had.source == without_query(options.url);
  const bool same = sure && (options.size == 0 || had.size == options.size);
  if (!same && (had.size > 0 || !had.source.empty())) part.reset();
  PartState& state = part.state();
  state.source = without_query(options.url);
  state.sha256 = options.sha256;
  if (state.size == 0) state.size = options.size;
}

/// Tries once to download the whole file. Returns its hash.
std::string load(const DownloadOptions& options, const DownloadReport& report, const std::string& what,
                 PartFile& part) {
  PrefixHash hash(part.fd());
  try {
    FileDownload(options, report, what, part).run(hash);
  } catch (...) {
    part.save();
    throw;
  }
  part.save();
  part.sync();
  return hex_text(hash.finish(part.state().size, report.look));
}

}  // namespace

void download(const DownloadOptions& options, const DownloadReport& report, const std::string& what,
              PartFile& part) {
  for (int attempt = 1;; ++attempt) {
    begin_state(options, part);
    if (part.state().checked) return report.progress(part.state().size, part.state().size, 0);
    const bool resumed = part.state().done.total() > 0;
    std::string why;
    try {
      const std::string found = load(options, report, what, part);
      if (options.sha256.empty() || found == options.sha256) {
        part.state().sha256 = found;
        part.state().checked = true;
        return part.save();
      }
      why = "its SHA-256 is " + found + ", expected " + options.sha256;
      if (!resumed) attempt = 2;  // all bytes were downloaded just now; a retry would get the same
    } catch (const FileChanged& changed) {
      why = changed.why;
    }
    part.reset();
    if (attempt >= 2) {
      part.remove();
      throw PullError(what + ": " + why + "; the downloaded bytes are deleted");
    }
    report.note(why + "; loading it again from the start");
  }
}

std::string fetch_text(const DownloadOptions& options, const DownloadReport& report, const std::string& what,
                       size_t most,
                       const std::function<std::string(const TransferHead&, bool had_token)>& refused) {
  Transfers transfers;
  Exchange exchange;
  const Clock::time_point begin = Clock::now();
  bool said_waiting = false;
  std::string url = options.url, text;
  int n_failures = 0, n_hops = 0;
  for (;;) {
    text.clear();
    exchange.prepare(url, std::nullopt, options.request,
                     [&text, most](const TransferHead&, std::string_view bytes) {
                       text += bytes;
                       return text.size() <= most;
                     });
    transfers.add(exchange);
    std::optional<CURLcode> code;
    try {
      while (!code) {
        report.look();
        transfers.turn([&code](CURL*, CURLcode ended) { code = ended; });
        if (code || said_waiting || Clock::now() - begin < kSilentWait) continue;
        said_waiting = true;
        report.note(what + ": waiting for an answer of " + origin_of(url));
      }
    } catch (...) {
      transfers.remove(exchange);
      throw;
    }
    const TransferHead& head = exchange.head();
    if (text.size() > most) throw PullError(what + ": the answer has more than " + bytes_words(most));
    if (*code == CURLE_OK && head.status == 200) return text;
    if (*code == CURLE_OK && is_redirect(head.status) && ++n_hops <= kMostHops) {
      url = next_url(exchange.url(), head.location);
      continue;
    }
    const bool passing = *code == CURLE_OK ? is_overload(head.status) : is_passing(*code);
    const std::string why = *code == CURLE_OK
                                ? refused(head, !options.request.token.empty())
                                : what + ": " + exchange.failure(*code) + " (is this machine online?)";
    // An unresolvable name will not resolve in a second either, and offline users want to know at once.
    const bool offline = *code == CURLE_COULDNT_RESOLVE_HOST || *code == CURLE_COULDNT_RESOLVE_PROXY;
    if (offline || (passing && ++n_failures > options.n_retries)) throw PassingPullError(why);
    if (!passing) throw PullError(why);
    const int64_t asked_s = *code == CURLE_OK ? exchange.retry_after_s() : 0;
    if (asked_s > kMostRetryAfterSeconds)
      throw PullError(why + "; it asks to come back in " + std::to_string(asked_s) + " seconds");
    const milliseconds wait = std::max<milliseconds>(wait_after(n_failures), milliseconds(1000 * asked_s));
    if (n_failures > 1 || asked_s > 0)
      report.note(why + "; asking again in " + std::to_string((wait.count() + 999) / 1000) + " s");
    const Clock::time_point until = Clock::now() + wait;
    while (Clock::now() < until) transfers.turn([](CURL*, CURLcode) {}), report.look();
  }
}

}  // namespace hearth
