// Downloads one file into a PartFile. A retry continues after the bytes that have arrived.
//
// The checksum is computed while bytes arrive. Detects wrong bytes, a wrong length, and a file that changes
// between two requests. If the server does not support ranges, the download skips the bytes that are already
// present.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "profiler/store/part_file.h"
#include "server/models/exchange.h"

namespace hearth {

struct DownloadOptions {
  std::string url;
  RequestOptions request;
  uint64_t size = 0;   // 0: the server's answer determines the size
  std::string sha256;  // in lower case; empty if unknown
  int n_retries = 8;   // number of consecutive retries
};

struct DownloadReport {
  /// there: bytes present. size: the file's size, or 0 if unknown. loaded: bytes received from the network so
  /// far.
  std::function<void(uint64_t there, uint64_t size, uint64_t loaded)> progress;
  /// Receives a sentence for the user that explains why the download waits or starts again.
  std::function<void(const std::string& sentence)> note;
  /// Called whenever bytes arrive, and at least about once a second. May throw PullInterrupted to stop the
  /// download.
  std::function<void()> look;
};

/// Downloads the whole file, checks its length and checksum, and stores the checksum in part.state(). Throws
/// PullError, or any exception of report.look. After an exception, correct bytes are kept. what: begins error
/// messages.
void download(const DownloadOptions& options, const DownloadReport& report, const std::string& what,
              PartFile& part);

/// Fetches the body of a URL and follows redirects. most: the largest body in bytes. refused: returns the
/// error message if the hub refuses the request; its arguments are the head of the answer and whether a token
/// was sent. Throws PullError.
std::string fetch_text(const DownloadOptions& options, const DownloadReport& report, const std::string& what,
                       size_t most,
                       const std::function<std::string(const TransferHead&, bool had_token)>& refused);

}  // namespace hearth
