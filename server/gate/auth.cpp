// See the header.
#include "server/gate/auth.h"

#include <utility>

#include "server/http/connection/listen_socket.h"
#include "server/http/message/header_text.h"

namespace hearth {
namespace {

std::string_view key_of(const HttpRequest& request) {
  const std::string_view authorization = trimmed(request.header("Authorization"));
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() > kScheme.size()) {
    if (lowered(authorization.substr(0, kScheme.size())) == kScheme)
      return trimmed(authorization.substr(kScheme.size()));
  }
  // Anthropic's clients and many proxies send X-Api-Key, and Azure's clients send api-key.
  const std::string_view key = trimmed(request.header("X-Api-Key"));
  return key.empty() ? trimmed(request.header("api-key")) : key;
}

/// Compares all bytes, so that timing does not reveal the position of a difference.
bool equal_in_constant_time(const Sha256& a, const Sha256& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

/// Returns the key that equals `given`, or null. Compares all keys, so that timing does not reveal which key
/// matched.
const ApiKey* find_key(const std::vector<ApiKey>& keys, std::string_view given) {
  const Sha256 hash = sha256(given);
  const ApiKey* found = nullptr;
  for (const ApiKey& key : keys) {
    if (equal_in_constant_time(hash, key.hash)) found = &key;
  }
  return found;
}

bool came_from_this_machine(const HttpRequest& request) {
  const bool by_proxy = !request.header("Forwarded").empty() || !request.header("X-Forwarded-For").empty() ||
                        !request.header("X-Real-IP").empty();
  return is_loopback(request.remote_address) && !by_proxy;
}

std::optional<ApiError> refusal_without_keys(const HttpRequest& request, Role role) {
  if (role != Role::kAdmin || came_from_this_machine(request)) return std::nullopt;
  return ApiError{403,
                  "without API keys this path is open only to clients on the same machine; for others give a "
                  "key the role admin (--api-key-file)",
                  "", "role_missing"};
}

}  // namespace

Auth::Auth(std::vector<ApiKey> keys) : shared_(std::make_shared<Keys>()) { replace(std::move(keys)); }

void Auth::replace(std::vector<ApiKey> keys) const {
  auto now = std::make_shared<const std::vector<ApiKey>>(std::move(keys));
  const MutexLock lock(shared_->mutex);
  shared_->now = std::move(now);
}

std::shared_ptr<const std::vector<ApiKey>> Auth::keys() const {
  const MutexLock lock(shared_->mutex);
  return shared_->now;
}

Auth::Verdict Auth::check(const HttpRequest& request, Role role) const {
  const std::shared_ptr<const std::vector<ApiKey>> keys = this->keys();
  if (keys->empty()) return {{}, refusal_without_keys(request, role)};
  const std::string_view given = key_of(request);
  if (given.empty()) {
    return {
        {},
        ApiError{401, "no API key was sent; send it as 'Authorization: Bearer KEY'", "", "missing_api_key"}};
  }
  const ApiKey* key = find_key(*keys, given);
  if (key == nullptr)
    return {{}, ApiError{401, "the API key is not one of this server's", "", "invalid_api_key"}};
  if (key->has(role) || (role == Role::kMetrics && key->has(Role::kAdmin)))
    return {key->name, std::nullopt, *key};
  return {key->name, ApiError{403,
                              "this API key lacks the role '" + std::string(role_name(role)) +
                                  "', which this path needs; role= in the --api-key-file adds it",
                              "", "role_missing"}};
}

}  // namespace hearth
