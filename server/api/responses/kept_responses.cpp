// What can be done with responses that are kept: show, delete, end, list the items of their input.
#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "server/api/answer/respond.h"
#include "server/api/request/query.h"
#include "server/api/responses/response_object.h"
#include "server/api/responses/response_store.h"
#include "server/api/responses/responses.h"

namespace hearth {
namespace {

constexpr int kDefaultItems = 20, kMaxItems = 100;  // OpenAI's

[[noreturn]] void refuse_unknown(std::string_view id) {
  throw RequestError({.status = 404,
                      .message = "Response with id " + describe(Json(id)) +
                                 " not found: it was not stored, has been deleted, or is too long ago.",
                      .param = "id",
                      .code = "response_not_found"});
}

KeptResponse find_kept(const ApiContext& api, std::string_view id) {
  std::optional<KeptResponse> kept = api.responses().find(std::string(id));
  if (!kept) refuse_unknown(id);
  return std::move(*kept);
}

HttpResponse json_response(const Json& json) {
  HttpResponse response;
  response.body = json_text(json);
  return response;
}

/// Which part of a list is asked for.
struct Page {
  bool descending = true;
  size_t limit = kDefaultItems;
  std::optional<std::string> after;  // the id of the item that the page follows
};

Page read_page(std::string_view query) {
  Page page{.after = query_value(query, "after")};
  const std::string order = query_value(query, "order").value_or("desc");
  if (order != "asc" && order != "desc")
    refuse_param("order", "'order' must be asc or desc, found " + describe(Json(order)) + ".");
  page.descending = order == "desc";
  const std::optional<std::string> limit = query_value(query, "limit");
  if (!limit) return page;
  int n = 0;
  const auto [end, error] = std::from_chars(limit->data(), limit->data() + limit->size(), n);
  if (error != std::errc() || end != limit->data() + limit->size() || n < 1 || n > kMaxItems) {
    refuse_param("limit", "'limit' must be an integer from 1 to " + std::to_string(kMaxItems) + ", found " +
                              describe(Json(*limit)) + ".");
  }
  page.limit = static_cast<size_t>(n);
  return page;
}

Json list_json(const Json& items, const Page& page) {
  std::vector<const Json*> ordered;
  for (const Json& item : items) ordered.push_back(&item);
  if (page.descending) std::ranges::reverse(ordered);
  auto first = ordered.begin();
  if (page.after) {
    first = std::ranges::find_if(ordered, [&](const Json* item) { return (*item)["id"] == *page.after; });
    if (first == ordered.end())
      refuse_param("after", "'after' is " + describe(Json(*page.after)) +
                                ", which is no item of this response's input.");
    ++first;
  }
  const auto last =
      first + std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(page.limit), ordered.end() - first);
  Json data = Json::array();
  for (auto item = first; item != last; ++item) data.push_back(**item);
  const auto id_of = [&](bool at_end) {
    return data.empty() ? Json(nullptr) : (at_end ? data.back() : data.front())["id"];
  };
  return {{"object", "list"},
          {"first_id", id_of(false)},
          {"last_id", id_of(true)},
          {"has_more", last != ordered.end()},
          {"data", std::move(data)}};
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
    if (!api.responses().erase(std::string(id))) refuse_unknown(id);
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
    const Page page = read_page(request.query);
    return json_response(list_json(*find_kept(api, id).input, page));
  });
}

}  // namespace hearth
