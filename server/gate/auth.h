// API keys: who may use what. Thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/mutex.h"
#include "server/gate/key_file.h"
#include "server/http/http_types.h"
#include "server/json/api_error.h"

namespace hearth {

/// The role that an endpoint needs. endpoint: a path as read_api_path() gives it.
Role needed_role(std::string_view endpoint);

/// A handle: copies share their keys.
class Auth {
 public:
  /// Without keys, every request is allowed, but for those of Role::kAdmin: they must come from this machine, and not
  /// through a proxy on it.
  explicit Auth(std::vector<ApiKey> keys);

  /// Takes these keys instead. Requests that are being answered are not asked again.
  void replace(std::vector<ApiKey> keys) const;
  bool required() const { return !keys()->empty(); }

  struct Verdict {
    std::string key_name;             // of the key that the request carries; empty: none, or an unknown one
    std::optional<ApiError> refusal;  // nullopt: allowed
    ApiKey key = {};                  // if it is allowed by one: that
  };
  /// 401 if the request carries none of the keys, as Authorization: Bearer, X-Api-Key or api-key (the first of these that
  /// is there counts); 403 if its key has not the role. The hash of what was sent is compared with the hash of every key,
  /// all bytes of each, so time tells nothing of how much of a key was guessed.
  Verdict check(const HttpRequest& request, Role role) const;

 private:
  struct Keys {
    Mutex mutex;
    std::shared_ptr<const std::vector<ApiKey>> now HEARTH_GUARDED_BY(mutex);
  };
  std::shared_ptr<const std::vector<ApiKey>> keys() const;

  std::shared_ptr<Keys> shared_;
};

}  // namespace hearth
