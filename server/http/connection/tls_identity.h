// The certificate and private key with which the server proves its identity to TLS clients.
//
// Daemon owns it: main's thread reads the files at start and on SIGHUP, and the poller's thread starts a
// session for each new connection. A session keeps the certificate with which it began.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/base/mutex.h"
#include "server/process/openssl_handles.h"
#include "server/process/start_error.h"

namespace hearth {

/// Paths of PEM files.
struct TlsFiles {
  std::string certificate;  // the server's certificate, then those of the authorities between it and the root
  std::string key;          // its private key, not encrypted
};

/// The message is one sentence: the file, the error and the remedy. It never contains the key.
class TlsError : public StartError {
 public:
  using StartError::StartError;
};

/// Facts of the server's certificate, for logs.
struct TlsFacts {
  std::vector<std::string> names;  // host names and addresses for which it is valid
  std::string valid_until;         // "2027-03-01 12:00:00 UTC"
  bool is_expired = false;
  bool is_future = false;  // not valid yet
};

/// Facts as one line, such as "hearth.example.org, 10.0.0.7, valid until 2027-03-01 12:00:00 UTC".
std::string describe(const TlsFacts& facts);
/// A sentence if clients will refuse the certificate because of the date; otherwise empty. path: its file.
std::string date_warning(const TlsFacts& facts, const std::string& path);

class TlsIdentity {
 public:
  /// Reads the files. Throws TlsError if one cannot be read, or if they do not belong together.
  explicit TlsIdentity(TlsFiles files);

  /// Reads the files again, for sessions that start later. If it throws TlsError, the previous pair stays.
  void read_again();
  const TlsFiles& files() const { return files_; }
  /// Facts of the pair in use. Any thread may call it.
  TlsFacts facts() const;
  /// Returns the server's side of a new session over the socket, which the session does not own. Its
  /// handshake happens during the first reads. Throws std::bad_alloc. Any thread may call it.
  SslHandle new_session(int fd) const;

 private:
  const TlsFiles files_;
  mutable Mutex mutex_;
  SslContextHandle context_ HEARTH_GUARDED_BY(mutex_);  // sessions keep it alive
};

/// Reads the pair. Returns null if neither path is given. Throws TlsError, also if only one is given.
std::unique_ptr<TlsIdentity> open_tls(const TlsFiles& files);

}  // namespace hearth
