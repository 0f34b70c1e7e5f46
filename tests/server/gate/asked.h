// Calls Routes like the transport: first with the head, then, if the request is allowed, for its answer.
#pragma once

#include <utility>

#include "server/gate/routes.h"
#include "tests/server/http/recording_client.h"

namespace hearth {

/// Answers /admin/model.
inline HttpResponse admin_answer(const HttpRequest&) { return {.status = 202}; }

/// Returns the answer with the headers that the gate adds.
inline HttpResponse asked(const Routes& routes, HttpRequest& request) {
  Admission admission = routes.admit(request);
  RecordingClient client;
  if (admission.at_once) {
    client.send(std::move(*admission.at_once));
  } else {
    admission.answer(request, client);
  }
  HttpResponse answer = std::move(client.head);
  answer.headers.insert(answer.headers.end(), admission.headers.begin(), admission.headers.end());
  return answer;
}

}  // namespace hearth
