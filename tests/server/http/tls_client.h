// For tests of TLS: certificates of the test's own, and a client that sends exactly the bytes that a test
// gives through a TLS session.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "kernels/base/unique_fd.h"
#include "server/http/connection/tls_identity.h"

namespace hearth {

/// A certificate for `name` that its own key has signed, valid from an hour ago until `valid_seconds` from
/// now. Writes NAME.pem and NAME.key into the folder. passphrase: encrypts the key; null: it is not
/// encrypted.
inline TlsFiles make_certificate(const std::filesystem::path& folder, const std::string& name,
                                 long valid_seconds = 3600, const char* passphrase = nullptr) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const std::unique_ptr<X509, OpensslFree> certificate(X509_new());
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), valid_seconds);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), subject);
  X509_EXTENSION* const names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, ("DNS:" + name + ",IP:127.0.0.1").c_str());
  X509_add_ext(certificate.get(), names, -1);
  X509_EXTENSION_free(names);
  X509_sign(certificate.get(), key.get(), EVP_sha256());

  const TlsFiles files{.certificate = folder / (name + ".pem"), .key = folder / (name + ".key")};
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  const File pem(std::fopen(files.certificate.c_str(), "w"), &std::fclose);
  const File secret(std::fopen(files.key.c_str(), "w"), &std::fclose);
  if (!pem || !secret || PEM_write_X509(pem.get(), certificate.get()) != 1)
    throw std::runtime_error("cannot write " + files.certificate);
  const EVP_CIPHER* const cipher = passphrase == nullptr ? nullptr : EVP_aes_256_cbc();
  if (PEM_write_PKCS8PrivateKey(secret.get(), key.get(), cipher, nullptr, 0, nullptr,
                                const_cast<char*>(passphrase)) != 1)
    throw std::runtime_error("cannot write " + files.key);
  return files;
}

class TlsClient {
 public:
  struct Settings {
    int version = 0;             // TLS1_2_VERSION, ...: only this; 0: any
    std::string_view alpn = "";  // protocols that the client offers, each after its length
  };
  explicit TlsClient(int port) : TlsClient(port, Settings()) {}
  TlsClient(int port, const Settings& settings)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), context_(SSL_CTX_new(TLS_client_method())) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
    const timeval patience{60, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    SSL_CTX_set_security_level(context_.get(), 0);  // for the old versions
    if (settings.version != 0) {
      SSL_CTX_set_min_proto_version(context_.get(), settings.version);
      SSL_CTX_set_max_proto_version(context_.get(), settings.version);
    }
    session_.reset(SSL_new(context_.get()));
    if (!settings.alpn.empty()) {
      SSL_set_alpn_protos(session_.get(), reinterpret_cast<const unsigned char*>(settings.alpn.data()),
                          static_cast<unsigned>(settings.alpn.size()));
    }
    SSL_set_fd(session_.get(), fd_.get());
    ERR_clear_error();
    is_open_ = SSL_connect(session_.get()) == 1;
  }

  bool is_open() const { return is_open_; }
  std::string version() const { return SSL_get_version(session_.get()); }
  std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(session_.get(), &name, &size);
    return name == nullptr ? "" : std::string(name, name + size);
  }
  /// The CN of the server's certificate.
  std::string server_name() const {
    const std::unique_ptr<X509, OpensslFree> certificate(SSL_get1_peer_certificate(session_.get()));
    std::array<char, 100> name{};
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name.data(),
                              static_cast<int>(name.size()));
    return name.data();
  }
  void send(std::string_view bytes) const {
    size_t n = 0;
    if (!bytes.empty()) SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &n);
  }
  /// Reads until `end` appears (or, if it is empty, until the server ends the session), waiting a minute at
  /// most for each piece. "<closed>" stands for an end that TLS announced, "<cut>" for any other.
  std::string read_until(std::string_view end = "") {
    std::string got;
    while (end.empty() ||
           got.find(end, got.size() - std::min(got.size(), 5000 + end.size())) == std::string::npos) {
      std::array<char, 4096> chunk;
      ERR_clear_error();
      const int n = SSL_read(session_.get(), chunk.data(), static_cast<int>(chunk.size()));
      if (n <= 0)
        return got + (SSL_get_error(session_.get(), n) == SSL_ERROR_ZERO_RETURN ? "<closed>" : "<cut>");
      got.append(chunk.data(), static_cast<size_t>(n));
    }
    return got;
  }
  /// Returns whether the server has sent something or closed the connection.
  bool has_input() const {
    pollfd entry{fd_.get(), POLLIN, 0};
    return ::poll(&entry, 1, 0) > 0;
  }
  /// Ends the session, and leaves TCP open.
  void end_session() const { SSL_shutdown(session_.get()); }
  /// Closes TCP without ending the session.
  void close() { fd_.reset(); }

 private:
  UniqueFd fd_;
  SslContextHandle context_;
  SslHandle session_;
  bool is_open_ = false;
};

}  // namespace hearth
