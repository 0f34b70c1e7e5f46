// Downloads one file into a PartFile: one stream, with retries, which resume where the file ends.
//
// The checksum is computed while bytes arrive. Server errors are detected here: wrong bytes, wrong length, a
// file that changes between two requests, an answer without ranges (the download skips the bytes already
// present).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "server/models/exchange.h"
#include "server/store/part_file.h"

namespace hearth {

struct DownloadOptions {
  std::string url;
  RequestOptions request;
  uint64_t size = 0;   // 0: taken from the server's answer
  std::string sha256;  // lower case; empty: unknown
  int n_retries = 8;   // consecutive retries
};

struct DownloadReport {
  /// Bytes present, the file's size (0: unknown), and bytes received from the network so far.
  std::function<void(uint64_t there, uint64_t size, uint64_t loaded)> progress;
  /// A sentence for the user: why the download waits or repeats work.
  std::function<void(const std::string& sentence)> note;
  /// Called at least about once a second. Throws PullInterrupted to end the work.
  std::function<void()> look;
};

/// Downloads the whole file and checks its length and checksum, which part.state() then has. Throws
/// PullError, or what report.look throws; correct bytes are kept. `what` begins the error messages.
void download(const DownloadOptions& options, const DownloadReport& report, const std::string& what,
              PartFile& part);

/// Fetches the body of a URL, at most `most` bytes, following redirects. Throws PullError. For an
/// unsuccessful answer of the hub, `refused` makes the message from the head and from whether a token was
/// sent.
std::string fetch_text(const DownloadOptions& options, const DownloadReport& report, const std::string& what,
                       size_t most,
                       const std::function<std::string(const TransferHead&, bool had_token)>& refused);

}  // namespace hearth
