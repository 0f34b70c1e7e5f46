// Downloads one file into a PartFile in one stream. Retries continue at the end of the bytes that have
// arrived.
//
// The checksum is computed while bytes arrive. This module detects errors of the server: wrong bytes, a wrong
// length, and a file that changes between two requests. If the server does not support ranges, the download
// skips the bytes that are already present.
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
  uint64_t size = 0;   // 0: use the size in the server's answer
  std::string sha256;  // in lower case; empty if unknown
  int n_retries = 8;   // number of consecutive retries
};

struct DownloadReport {
  /// there: bytes present. size: the file's size, or 0 if unknown. loaded: bytes received from the network so
  /// far.
  std::function<void(uint64_t there, uint64_t size, uint64_t loaded)> progress;
  /// Receives a sentence for the user that explains why the download waits or repeats work.
  std::function<void(const std::string& sentence)> note;
  /// Called at least about once a second. May throw PullInterrupted to stop the download.
  std::function<void()> look;
};

/// Downloads the whole file and checks its length and checksum, which part.state() then contains. Throws
/// PullError, or whatever report.look throws; correct bytes are kept. Error messages begin with `what`.
void download(const DownloadOptions& options, const DownloadReport& report, const std::string& what,
              PartFile& part);

/// Fetches the body of a URL and follows redirects. `most`: the largest body in bytes. Throws PullError. If
/// the hub refuses the request, `refused` makes the error message from the head of the answer and from
/// whether a token was sent.
std::string fetch_text(const DownloadOptions& options, const DownloadReport& report, const std::string& what,
                       size_t most,
                       const std::function<std::string(const TransferHead&, bool had_token)>& refused);

}  // namespace hearth
