// Reads the PEM files with OpenSSL and chooses the parameters of TLS.
#include "server/http/connection/tls_identity.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <new>
#include <string_view>
#include <utility>

namespace hearth {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMostFileBytes = 1 << 20;  // a chain has a few KiB
constexpr size_t kMostNames = 8;               // names in a log line
// For TLS 1.2: forward secrecy and authenticated encryption only. All ciphers of TLS 1.3 have both.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";

void check_file(const char* option, const std::string& path) {
  const std::string where = std::string(option) + " " + path;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    throw TlsError(where + " cannot be read: " +
                   (error ? error.message() : std::string(std::strerror(ENOENT))) + "; check the path");
  }
  if (!fs::is_regular_file(status) || fs::file_size(path, error) > kMostFileBytes || error)
    throw TlsError(where + " is not a file of at most 1 MiB; expected a PEM file");
  errno = 0;
  if (!std::ifstream(path))
    throw TlsError(where + " cannot be read: " + std::strerror(errno) + "; check its permissions");
}

/// OpenSSL calls this if the key is encrypted. told: a bool that becomes true.
int refuse_passphrase(char*, int, int, void* told) {
  *static_cast<bool*>(told) = true;
  return -1;
}

/// Selects HTTP/1.1. Clients that offer only other protocols are refused, as RFC 7301 demands.
int select_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_bytes,
                    const unsigned char* offered, unsigned int offered_bytes, void*) {
  constexpr std::string_view kSpoken = "\x08http/1.1\x08http/1.0";
  unsigned char* out = nullptr;
  const int result =
      SSL_select_next_proto(&out, chosen_bytes, reinterpret_cast<const unsigned char*>(kSpoken.data()),
                            static_cast<unsigned>(kSpoken.size()), offered, offered_bytes);
  *chosen = out;
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

void take_pair(SSL_CTX* context, const TlsFiles& files) {
  check_file("--tls-cert", files.certificate);
  check_file("--tls-key", files.key);
  bool is_encrypted = false;
  SSL_CTX_set_default_passwd_cb(context, refuse_passphrase);
  SSL_CTX_set_default_passwd_cb_userdata(context, &is_encrypted);
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1) {
    throw TlsError("--tls-cert " + files.certificate + " has no usable certificate (" + take_openssl_error() +
                   "); expected PEM, which begins with -----BEGIN CERTIFICATE-----");
  }
  const bool has_key = SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) == 1;
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);
  if (has_key && SSL_CTX_check_private_key(context) == 1) return;
  const bool is_other = ERR_GET_LIB(ERR_peek_error()) == ERR_LIB_X509;
  const std::string reason = take_openssl_error();
  if (is_encrypted) {
    throw TlsError("--tls-key " + files.key +
                   " is encrypted, and hearthd asks for no passphrase; 'openssl pkey -in ENCRYPTED -out "
                   "PLAIN' writes a key without one, for which chmod 600 suffices");
  }
  if (has_key || is_other) {
    throw TlsError("--tls-key " + files.key + " does not belong to the first certificate of --tls-cert " +
                   files.certificate + " (" + reason + "); name the files of one pair");
  }
  throw TlsError("--tls-key " + files.key + " has no usable private key (" + reason +
                 "); expected PEM, which begins with -----BEGIN PRIVATE KEY-----");
}

SslContextHandle make_context(const TlsFiles& files) {
  ERR_clear_error();
  SslContextHandle context(SSL_CTX_new(TLS_server_method()));
  if (!context) throw TlsError("TLS cannot be used on this system: " + take_openssl_error());
  SSL_CTX* const settings = context.get();
  SSL_CTX_set_min_proto_version(settings, TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(settings, kCiphers);
  SSL_CTX_set_options(settings, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // write() passes on what fits and repeats the rest from another address. Idle connections keep no buffers.
  SSL_CTX_set_mode(settings, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                 SSL_MODE_RELEASE_BUFFERS);
  // Clients resume sessions with tickets, so the server stores none.
  SSL_CTX_set_session_cache_mode(settings, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_alpn_select_cb(settings, select_protocol, nullptr);
  take_pair(settings, files);
  return context;
}

std::string address_text(const ASN1_OCTET_STRING& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = ASN1_STRING_length(&address) == 4 ? AF_INET : AF_INET6;
  if (family == AF_INET6 && ASN1_STRING_length(&address) != 16) return "?";
  ::inet_ntop(family, ASN1_STRING_get0_data(&address), text.data(), text.size());
  return text.data();
}

std::vector<std::string> names_of(X509* certificate) {
  std::vector<std::string> names;
  GENERAL_NAMES* const all =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(all); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(all, i);
    if (name->type == GEN_IPADD) names.push_back(address_text(*name->d.iPAddress));
    if (name->type != GEN_DNS) continue;
    const unsigned char* const bytes = ASN1_STRING_get0_data(name->d.dNSName);
    names.emplace_back(bytes, bytes + ASN1_STRING_length(name->d.dNSName));
  }
  GENERAL_NAMES_free(all);
  return names;
}

}  // namespace

std::string describe(const TlsFacts& facts) {
  std::string text;
  for (size_t i = 0; i < facts.names.size() && i < kMostNames; ++i) text += facts.names[i] + ", ";
  if (facts.names.size() > kMostNames)
    text += std::to_string(facts.names.size() - kMostNames) + " more names, ";
  if (facts.names.empty()) text = "no host names, ";
  return text + "valid until " + facts.valid_until;
}

std::string date_warning(const TlsFacts& facts, const std::string& path) {
  if (facts.is_expired)
    return "the certificate " + path + " expired on " + facts.valid_until +
           ", so clients refuse it; renew it, then send SIGHUP";
  if (facts.is_future)
    return "the certificate " + path + " is not valid yet, so clients refuse it; check this machine's clock";
  return "";
}

TlsIdentity::TlsIdentity(TlsFiles files) : files_(std::move(files)), context_(make_context(files_)) {}

void TlsIdentity::read_again() {
  SslContextHandle fresh = make_context(files_);
  const MutexLock lock(mutex_);
  context_.swap(fresh);
}

TlsFacts TlsIdentity::facts() const {
  const MutexLock lock(mutex_);
  X509* const certificate = SSL_CTX_get0_certificate(context_.get());
  TlsFacts facts;
  facts.names = names_of(certificate);
  std::tm until{};
  std::array<char, 32> text{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &until) == 1)
    std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &until);
  facts.valid_until = text.data();
  facts.is_expired = X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0;
  facts.is_future = X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0;
  return facts;
}

std::unique_ptr<TlsIdentity> open_tls(const TlsFiles& files) {
  if (files.certificate.empty() != files.key.empty()) {
    throw TlsError(
        "tls-cert and tls-key belong together: give the certificate's file and its key's file, or neither");
  }
  return files.certificate.empty() ? nullptr : std::make_unique<TlsIdentity>(files);
}

SslHandle TlsIdentity::new_session(int fd) const {
  SslHandle session;
  {
    const MutexLock lock(mutex_);
    session.reset(SSL_new(context_.get()));
  }
  if (!session || SSL_set_fd(session.get(), fd) != 1) {
    ERR_clear_error();
    throw std::bad_alloc();
  }
  SSL_set_accept_state(session.get());
  return session;
}

}  // namespace hearth
