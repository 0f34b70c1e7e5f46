// Owning handles of OpenSSL's objects, and the text of its errors. Used by the TLS of the HTTP server and of
// the health check.
#pragma once

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace hearth {

struct OpensslFree {
  void operator()(SSL* session) const { SSL_free(session); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(BIO* bytes) const { BIO_free(bytes); }
};

using SslHandle = std::unique_ptr<SSL, OpensslFree>;             // one connection
using SslContextHandle = std::unique_ptr<SSL_CTX, OpensslFree>;  // settings, certificate and key of many

/// Returns the reason of the calling thread's first error, such as "no start line", and clears the thread's
/// other errors. Returns "no reason given" if there is none.
std::string take_openssl_error();

}  // namespace hearth
