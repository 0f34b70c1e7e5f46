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

/// The server's API keys. Copies share one set of keys.
class Auth {
 public:
  /// Without keys, every request is allowed, with one exception: a request that needs Role::kAdmin must come
  /// directly from this machine, not through a proxy on this machine.
  explicit Auth(std::vector<ApiKey> keys);

  /// Replaces the keys for later requests. Running requests are not checked again.
  void replace(std::vector<ApiKey> keys) const;
  bool required() const { return !keys()->empty(); }

  struct Verdict {
    std::string key_name;             // name of the request's key; empty if the key is unknown or absent
    std::optional<ApiError> refusal;  // nullopt if the request is allowed
    ApiKey key = {};                  // the key that allowed the request, if any
  };
  /// Refuses a request without a known key (401), or with a key that lacks the role (403). The key is the
  /// first of Authorization: Bearer, X-Api-Key and api-key. The hash of the sent key is compared with all
  /// bytes of every key's hash, so that timing does not reveal a partly correct key.
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
