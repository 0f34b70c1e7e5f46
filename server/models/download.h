// Loads one file into a PartFile: in pieces over several connections, again where a connection fails, on from where an
// earlier run ended.
//
// One thread drives all connections. What a server may get wrong is found here: other bytes than asked for, another length,
// a file that changes between two requests, an answer without ranges (the file is then loaded in one piece).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "server/models/exchange.h"
#include "server/models/part_file.h"

namespace hearth {

struct DownloadOptions {
  std::string url;
  RequestOptions request;
  uint64_t size = 0;   // 0: the server's answer tells
  std::string sha256;  // lower case; empty: none is known
  int n_connections = 8;
  int n_retries = 8;  // of a connection in a row
};

struct DownloadReport {
  /// Bytes that are there, of how many (0: not known yet), and bytes that came over the network so far.
  std::function<void(uint64_t there, uint64_t size, uint64_t loaded)> progress;
  /// A sentence for the user: why something is waited for or done again.
  std::function<void(const std::string& sentence)> note;
  /// Called several times a second. Throws PullInterrupted to end the work.
  std::function<void()> look;
};

/// Loads the file whole, and checks its length and checksum; then part.state().checked is true. Throws PullError, or what
/// report.look throws; what is there is kept then, unless it is wrong. `what` begins the sentences of errors.
void download(const DownloadOptions& options, const DownloadReport& report, const std::string& what,
              PartFile& part);

/// The body of a URL, of at most `most` bytes; redirects are followed. Throws PullError. For an answer of the hub that is no
/// success, `refused` makes the sentence, from the head and whether a token was sent.
std::string fetch_text(const DownloadOptions& options, const DownloadReport& report, const std::string& what,
                       size_t most,
                       const std::function<std::string(const TransferHead&, bool had_token)>& refused);

}  // namespace hearth
