// See the header.
#include "server/models/download.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <span>
#include <thread>

#include "kernels/base/file_error.h"
#include "profiler/store/hub.h"

namespace hearth {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kMostHops = 10;
constexpr milliseconds kTick{100};
// If fetch_text() takes longer than this, the user gets a message.
constexpr milliseconds kSilentWait{2000};
constexpr int kMostUnreachable = 3;  // retries of the first request to a server that refuses connections
constexpr milliseconds kFirstWait{250}, kMostWait{30'000};
// If a server requests a longer pause than this, the download fails, and the user can repeat it later.
constexpr int64_t kMostRetryAfterSeconds = 600;

/// Thrown if the file at the URL is no longer the file from which the present bytes were downloaded.
struct FileChanged {
  std::string why;
};

std::string bytes_words(uint64_t n) { return file_error::with_commas(n) + " bytes"; }

std::string range_words(ByteRange range) {
  return file_error::with_commas(range.begin) + " to " + file_error::with_commas(range.end - 1);
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}
bool is_overload(int status) { return status == 408 || status == 425 || status == 429 || status >= 500; }

std::string without_query(const std::string& url) { return url.substr(0, url.find('?')); }

/// Returns the validator (ETag or Last-Modified) of an answer, prefixed with the server's origin, because
/// servers send different validators for equal bytes.
std::string validator_of(const TransferHead& head, const std::string& url) {
  const std::string& own = head.etag.empty() ? head.last_modified : head.etag;
  return own.empty() ? std::string() : origin_of(url) + " " + own;
}

/// Waits before a request is repeated. n_failures: consecutive failures so far. asked_s: the pause in seconds
/// that the server has requested, or 0. Each wait is twice as long as the previous one, up to kMostWait, but
/// at least asked_s. Passes on exceptions from report.look.
void wait_to_repeat(int n_failures, int64_t asked_s, const std::string& why, const DownloadReport& report) {
  milliseconds wait = kFirstWait;
  for (int i = 1; i < n_failures && wait < kMostWait; ++i) wait *= 2;
  wait = std::max<milliseconds>(std::min(wait, kMostWait), milliseconds(1000 * asked_s));
  if (n_failures > 1 || asked_s > 0)
    report.note(why + "; asking again in " + std::to_string((wait.count() + 999) / 1000) + " s");
  for (const Clock::time_point until = Clock::now() + wait; Clock::now() < until;) {
    report.look();
    std::this_thread::sleep_for(kTick);
  }
}

/// Downloads one file and repeats requests until the whole file has arrived.
class FileDownload {
 public:
  FileDownload(const DownloadOptions& options, const DownloadReport& report, const std::string& what,
               PartFile& part)
      : options_(options), report_(report), what_(what), part_(part) {}

  /// Downloads the missing bytes. Returns the SHA-256 of the whole file. Throws FileChanged or PullError.
  std::string run() {
    if (size() > 0) part_.reserve(size());
    hash_file(
        part_.fd(), part_.length(), [this] { tick(); }, hash_);
    while (!is_whole()) request();
    report_.progress(size(), size(), n_loaded_);
    part_.sync();
    return hex_text(hash_.finish());
  }

 private:
  uint64_t size() const { return part_.state().size; }
  bool is_whole() const { return size() > 0 && part_.length() == size(); }

  void tick() {
    report_.look();
    report_.progress(part_.length(), size(), n_loaded_);
  }

  /// Requests the missing bytes, and follows redirects.
  void request() {
    std::string url = options_.url;
    for (int n_hops = 0;; ++n_hops) {
      checked_ = false;
      fault_.clear();
      from_ = part_.length();
      const CURLcode code = exchange_.request(
          url, from_, options_.request,
          [this](const TransferHead& head, std::string_view bytes) { return take(head, bytes); },
          [this] { tick(); });
      if (code != CURLE_OK || !is_redirect(exchange_.head().status)) return end(code);
      if (n_hops == kMostHops) throw PullError(what_ + ": the server redirects without end");
      url = next_address();
    }
  }

  std::string next_address() const {
    const TransferHead& head = exchange_.head();
    const std::string& sha256 = part_.state().sha256;
    if (is_sha256(head.linked_etag) && !sha256.empty() && lower_case(head.linked_etag) != sha256)
      throw FileChanged{"the hub has another file of this name now"};
    return next_url(exchange_.url(), head.location);
  }

  bool take(const TransferHead& head, std::string_view bytes) {
    if (head.status != 200 && head.status != 206) return true;  // the body of an error response is ignored
    if (!checked_ && !check(head)) return false;
    n_loaded_ += bytes.size();
    const size_t n = static_cast<size_t>(std::min<uint64_t>(bytes.size(), answer_.end - at_));
    const size_t known = static_cast<size_t>(std::min<uint64_t>(n, part_.length() - at_));
    if (n > known) {
      const std::string_view fresh = bytes.substr(known, n - known);
      part_.append(fresh);
      hash_.add(std::as_bytes(std::span(fresh)));
      n_failures_ = 0;
    }
    at_ += n;
    if (n < bytes.size())
      fault_ = "it sent more bytes than the " + bytes_words(answer_.size()) + " asked for";
    return fault_.empty();
  }

  /// Checks the head of an answer with bytes of the file. If the answer does not contain the requested bytes,
  /// sets fault_ and returns false.
  bool check(const TransferHead& head) {
    checked_ = true;
    if (!head.content_encoding.empty() && head.content_encoding != "identity")
      fault_ = "it sent the file compressed (" + file_error::file_label(head.content_encoding) +
               "), which was not requested";
    else if (head.status == 206)
      fault_ = range_fault(head);
    if (!fault_.empty()) return false;
    learn(head, head.status == 206 ? *head.content_total : head.content_length.value_or(0));
    // A server that does not support ranges sends the whole file, which begins with bytes that are already
    // present.
    answer_ = head.status == 206 ? *head.content_range : ByteRange{0, size() > 0 ? size() : kMostFileBytes};
    at_ = answer_.begin;
    return true;
  }

  /// Returns the error in the range of a partial answer, or an empty text if the range is correct.
  std::string range_fault(const TransferHead& head) const {
    if (from_ == 0) return "it sent a part of the file instead of all of it";
    if (!head.content_range || head.content_range->begin != from_) {
      const std::string asked =
          size() > 0 ? range_words({from_, size()}) : file_error::with_commas(from_) + " and the rest";
      return "it was asked for bytes " + asked + " and sent " +
             (head.content_range ? range_words(*head.content_range) : "some without saying which");
    }
    if (head.content_length && *head.content_length != head.content_range->size()) {
      return "it announced " + bytes_words(*head.content_length) + " for bytes " +
             range_words(*head.content_range);
    }
    return {};
  }

  /// Compares the file's size and validator in an answer with those recorded before, and records them if they
  /// are new. total: the file's size, or 0 if the answer does not contain it.
  void learn(const TransferHead& head, uint64_t total) {
    PartState& state = part_.state();
    if (total > kMostFileBytes)
      throw PullError(what_ + ": the server says that it has " + bytes_words(total));
    if (state.size > 0 && total > 0 && total != state.size) {
      throw FileChanged{"the server says that it has " + bytes_words(total) + ", but it should have " +
                        bytes_words(state.size)};
    }
    const std::string validator = validator_of(head, exchange_.url());
    if (!validator.empty()) {
      const auto [known, is_new] = validators_.emplace(origin_of(exchange_.url()), validator);
      if (!is_new && known->second != validator)
        throw FileChanged{"it has changed on the server between two requests"};
      // Compare only the first validator of this run with the recorded one, which is from an earlier run.
      const bool is_first = is_new && validators_.size() == 1;
      if (is_first && !state.validator.empty() && state.sha256.empty() && state.validator != validator)
        throw FileChanged{"it has changed on the server since the last pull"};
    }
    bool is_news = false;
    if (state.size == 0 && total > 0) {
      part_.reserve(total);
      state.size = total;
      is_news = true;
    }
    if (state.validator.empty() && !validator.empty()) {
      state.validator = validator;
      is_news = true;
    }
    if (is_news) part_.save();
  }

  /// Handles the end of a request. Returns if the download can continue; otherwise throws.
  void end(CURLcode code) {
    const TransferHead& head = exchange_.head();
    if (!fault_.empty()) return retry(fault_, 0);
    if (code != CURLE_OK) {
      const std::string why = exchange_.failure(code);
      if (!is_passing(code)) throw PullError(what_ + ": " + why);
      return retry(why, 0);
    }
    if (head.status == 200 || head.status == 206) return end_answer();
    if (head.status == 416) throw FileChanged{"the server lacks bytes that it should have"};
    if (is_overload(head.status)) {
      return retry("the server answered status " + std::to_string(head.status), exchange_.retry_after_s());
    }
    // The hub redirects to addresses that expire. The next request goes to the hub, which returns a new
    // address.
    if (exchange_.url() != options_.url) {
      return retry("the address that the server redirected to has expired (status " +
                       std::to_string(head.status) + ")",
                   0);
    }
    throw PullError(refusal_text(what_, head.status, head.error_code, !options_.request.token.empty()));
  }

  void end_answer() {
    const TransferHead& head = exchange_.head();
    if (head.content_length == uint64_t{0})
      throw PullError(what_ + ": the server says that the file is empty");
    if (checked_ && head.status == 200 && size() == 0) {  // the answer did not contain the length
      part_.state().size = part_.length();
      part_.save();
    }
    if (!is_whole()) retry("the connection ended before all bytes had arrived", 0);
  }

  void retry(const std::string& why, int64_t retry_after_s) {
    if (++n_failures_ > options_.n_retries) {
      throw PassingPullError(
          what_ + ": " + why + ", " + std::to_string(n_failures_) +
          " times in a row; the bytes so far are kept, and the next pull continues from them");
    }
    if (retry_after_s > kMostRetryAfterSeconds) {
      throw PullError(what_ + ": the server asks to come back in " + std::to_string(retry_after_s) +
                      " seconds; the bytes so far are kept, and the next pull continues from them");
    }
    wait_to_repeat(n_failures_, retry_after_s, why, report_);
  }

  const DownloadOptions& options_;
  const DownloadReport& report_;
  const std::string& what_;
  PartFile& part_;
  Exchange exchange_;
  Sha256Stream hash_;  // SHA-256 of the bytes that are present
  std::map<std::string, std::string> validators_;
  uint64_t n_loaded_ = 0;  // bytes received from the network
  int n_failures_ = 0;     // consecutive failures
  // State of the current request:
  uint64_t from_ = 0;     // the first requested byte
  bool checked_ = false;  // whether the head of the answer has been checked
  ByteRange answer_;      // the range of bytes in the answer
  uint64_t at_ = 0;       // the next byte of this range
  std::string fault_;     // the error in the answer
};

/// Prepares the part file for this download. Discards its bytes if they belong to a different file.
void begin_state(const DownloadOptions& options, PartFile& part) {
  const PartState& had = part.state();
  // If the checksum is known, it identifies the file, even if the address has changed (another commit or
  // mirror). Otherwise, the address must be the same, and the present bytes must have a validator.
  const bool sure = !options.sha256.empty() ? had.sha256 == options.sha256
                                            : had.sha256.empty() && !had.validator.empty() &&
                                                  had.source == without_query(options.url);
  const bool same =
      sure && (options.size == 0 || had.size == options.size) && (had.size == 0 || part.length() <= had.size);
  if (!same) part.reset();
  PartState& state = part.state();
  state.source = without_query(options.url);
  state.sha256 = options.sha256;
  if (state.size == 0) state.size = options.size;
  part.save();
}

}  // namespace

void download(const DownloadOptions& options, const DownloadReport& report, const std::string& what,
              PartFile& part) {
  for (int attempt = 1;; ++attempt) {
    begin_state(options, part);
    const bool resumed = part.length() > 0;
    std::string why;
    try {
      const std::string found = FileDownload(options, report, what, part).run();
      if (options.sha256.empty() || found == options.sha256) {
        part.state().sha256 = found;
        return;
      }
      why = "its SHA-256 is " + found + ", expected " + options.sha256;
      if (!resumed) attempt = 2;  // all bytes were downloaded just now; a retry would get the same bytes
    } catch (const FileChanged& changed) {
      why = changed.why;
    }
    part.reset();
    if (attempt >= 2) {
      part.remove();
      throw PullError(what + ": " + why + "; the downloaded bytes are deleted");
    }
    report.note(why + "; downloading it again from the start");
  }
}

std::string fetch_text(const DownloadOptions& options, const DownloadReport& report, const std::string& what,
                       size_t most,
                       const std::function<std::string(const TransferHead&, bool had_token)>& refused) {
  Exchange exchange;
  const Clock::time_point begin = Clock::now();
  bool said_waiting = false;
  std::string url = options.url, text;
  const auto take = [&text, most](const TransferHead&, std::string_view bytes) {
    text += bytes;
    return text.size() <= most;
  };
  const auto tick = [&] {
    report.look();
    if (said_waiting || Clock::now() - begin < kSilentWait) return;
    said_waiting = true;
    report.note(what + ": waiting for an answer of " + origin_of(url));
  };
  int n_failures = 0, n_hops = 0;
  for (;;) {
    text.clear();
    const CURLcode code = exchange.request(url, 0, options.request, take, tick);
    const TransferHead& head = exchange.head();
    if (text.size() > most) throw PullError(what + ": the answer has more than " + bytes_words(most));
    if (code == CURLE_OK && head.status == 200) return text;
    if (code == CURLE_OK && is_redirect(head.status) && ++n_hops <= kMostHops) {
      url = next_url(exchange.url(), head.location);
      continue;
    }
    const bool passing = code == CURLE_OK ? is_overload(head.status) : is_passing(code);
    const std::string why = code == CURLE_OK
                                ? refused(head, !options.request.token.empty())
                                : what + ": " + exchange.failure(code) + " (is this machine online?)";
    // A name that cannot be resolved now will not be resolvable in a second either. Users without a network
    // get the error immediately.
    const bool offline = code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY;
    // A hub that cannot be reached from the beginning is seldom there a minute later.
    const int n_retries =
        code == CURLE_COULDNT_CONNECT ? std::min(options.n_retries, kMostUnreachable) : options.n_retries;
    if (offline || (passing && ++n_failures > n_retries)) throw PassingPullError(why);
    if (!passing) throw PullError(why);
    const int64_t asked_s = code == CURLE_OK ? exchange.retry_after_s() : 0;
    if (asked_s > kMostRetryAfterSeconds)
      throw PullError(why + "; it asks to come back in " + std::to_string(asked_s) + " seconds");
    wait_to_repeat(n_failures, asked_s, why, report);
  }
}

}  // namespace hearth
