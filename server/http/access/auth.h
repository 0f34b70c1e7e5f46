// API keys: who may use the model. Filled at start, const and thread-safe after that.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/api/error.h"
#include "server/http/http_types.h"
#include "server/process/start_error.h"

namespace hearth {

/// One sentence: which key file, what is wrong with it.
class KeyFileError : public StartError {
 public:
  using StartError::StartError;
};

/// Keys of a file, one per line; spaces around them, empty lines and lines starting with # are skipped.
/// Throws KeyFileError, also if there is no key in it: a server meant to be closed must not come up open.
std::vector<std::string> read_key_file(const std::string& path);

class Auth {
 public:
  /// Without keys, every request is allowed.
  explicit Auth(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  bool required() const { return !keys_.empty(); }
  /// The 401 if the request carries none of the keys, as Authorization: Bearer, X-Api-Key or api-key (the
  /// first of these that is there counts). Keys are compared in time that does not depend on how much of one was
  /// guessed.
  std::optional<ApiError> refusal(const HttpRequest& request) const;

 private:
  std::vector<std::string> keys_;
};

}  // namespace hearth
