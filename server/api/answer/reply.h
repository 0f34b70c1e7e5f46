// The result of a handler that generates text: a complete response, or an answer that is still being
// generated.
#pragma once

#include <memory>
#include <utility>
#include <variant>

#include "server/http/http_types.h"
#include "server/http/response_writer.h"

namespace hearth {

/// The answer to a request that the engine has accepted. The destructor cancels the rest of its work. Used by
/// one thread at a time.
class PendingAnswer {
 public:
  PendingAnswer() = default;
  virtual ~PendingAnswer() = default;
  PendingAnswer(const PendingAnswer&) = delete;
  PendingAnswer& operator=(const PendingAnswer&) = delete;

  /// Waits for the answer, writes it and reports its cost. Call once.
  virtual void run(ResponseWriter& writer) = 0;
};

using Reply = std::variant<HttpResponse, std::unique_ptr<PendingAnswer>>;

}  // namespace hearth
