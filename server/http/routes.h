// From a request to its endpoint: origin, key, path, method, and whether the model is there. The server's one
// handler.
//
// Called by all HTTP threads at once. Order: health and the page, which hold nothing of anyone; what concerns browsers;
// the key; then the path, so that nobody without a key learns anything but whether the server is well.
#pragma once

#include "server/http/access/auth.h"
#include "server/http/access/cors.h"
#include "server/http/http_types.h"
#include "server/server_state.h"

namespace hearth {

class Routes {
 public:
  /// state must outlive the routes. has_page: GET / is the page, to everyone; else a line of text.
  Routes(const ServerState& state, Auth auth, CorsPolicy cors, bool has_page = true);

  HttpResponse operator()(const HttpRequest& request) const;

 private:
  HttpResponse dispatch(const HttpRequest& request) const;

  const ServerState& state_;
  const Auth auth_;
  const CorsPolicy cors_;
  const bool has_page_;
};

}  // namespace hearth
