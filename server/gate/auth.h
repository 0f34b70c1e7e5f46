// Checks API keys and their roles. Thread-safe.
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

/// A handle: copies share their keys.
class Auth {
 public:
  /// Without keys, every request is allowed, with one exception: a request that needs Role::kAdmin must come
  /// from this machine itself, not through a proxy that runs on it.
  explicit Auth(std::vector<ApiKey> keys);

  /// Replaces the keys. Requests that are already being answered are not checked again.
  void replace(std::vector<ApiKey> keys) const;
  bool required() const { return !keys()->empty(); }

  struct Verdict {
    std::string key_name;             // name of the request's key; empty if it has no known key
    std::optional<ApiError> refusal;  // nullopt: allowed
    ApiKey key = {};                  // the key that allowed the request, if one did
  };
  /// Refuses with 401 if the request carries none of the keys, and with 403 if its key lacks the role. The
  /// key is read from Authorization: Bearer, X-Api-Key or api-key, whichever is found first. The hash of the
  /// sent key is compared with all bytes of every key's hash, so timing reveals nothing about a partly
  /// guessed key.
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
