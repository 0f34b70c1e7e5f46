// Operations on stored responses: retrieve, delete, cancel, list input items.
#include <algorithm>
#include <string>

#include "server/api/answer/respond.h"
#include "server/api/request/pagination.h"
#include "server/api/responses/response_object.h"
#include "server/api/responses/response_store.h"
#include "server/api/responses/responses.h"
#include "server/http/message/query.h"

namespace hearth {
namespace {

constexpr PageRules kItems = {.after = "after", .max_items = 100};  // the limit of OpenAI's API

[[noreturn]] void refuse_unknown(std::string_view id) {
  throw RequestError({.status = 404,
                      .message = "Response with id " + describe(Json(id)) +
                                 " not found: it was not stored, was deleted, or is too old.",
                      .param = "id",
                      .code = "response_not_found"});
}

KeptResponse find_kept(const ApiContext& api, std::string_view id) {
  std::optional<KeptResponse> kept = api.responses().find(std::string(id));
  if (!kept) refuse_unknown(id);
  return std::move(*kept);
}

/// Returns the items in the order that the query requests.
Json ordered(const Json& items, std::string_view query) {
  const std::string order = query_value(query, "order").value_or("desc");
  if (order != "asc" && order != "desc")
    refuse_param("order", "'order' must be asc or desc, found " + describe(Json(order)) + ".");
  Json list = items;
  if (order == "desc") std::reverse(list.begin(), list.end());
  return list;
}

}  // namespace

HttpResponse retrieve_response(const ApiContext& api, const HttpRequest& request, std::string_view id) {
  return guarded(ErrorStyle::kOpenAi, [&] {
    if (query_value(request.query, "stream").value_or("false") != "false") {
      refuse_param("stream",
                   "'stream' is not supported here: the events of a response are sent once, to the client "
                   "that asked for it.");
    }
    return json_response(*find_kept(api, id).response);
  });
}

HttpResponse delete_response(const ApiContext& api, const HttpRequest&, std::string_view id) {
  return guarded(ErrorStyle::kOpenAi, [&] {
    const KeptResponse kept = find_kept(api, id);
    const bool has_client = (*kept.response)["background"] == false;
    if (kept.control != nullptr && !has_client) kept.control->cancel();
    api.responses().erase(std::string(id));
    return json_response({{"id", id}, {"object", "response"}, {"deleted", true}});
  });
}

HttpResponse cancel_response(const ApiContext& api, const HttpRequest&, std::string_view id) {
  return guarded(ErrorStyle::kOpenAi, [&] {
    const KeptResponse kept = find_kept(api, id);
    Json response = *kept.response;
    const char* cancelled = status_name(ResponseStatus::kCancelled);
    if (kept.control != nullptr) {
      kept.control->cancel();
      response["status"] = cancelled;
    } else if (response["status"] != cancelled) {
      refuse_param("id", "Response " + describe(Json(id)) + " cannot be cancelled: its status is " +
                             describe(response["status"]) +
                             ", and only a response that is being generated can.");
    }
    return json_response(response);
  });
}

HttpResponse list_input_items(const ApiContext& api, const HttpRequest& request, std::string_view id) {
  return guarded(ErrorStyle::kOpenAi, [&] {
    const Page page = read_page(request.query, kItems);
    Json list = {{"object", "list"}};
    list.update(page_json(ordered(*find_kept(api, id).input, request.query), page, kItems));
    return json_response(list);
  });
}

}  // namespace hearth
