// See the header.
#include "server/api/request/pagination.h"

#include <algorithm>
#include <charconv>

#include "server/http/message/query.h"
#include "server/json/api_error.h"

namespace hearth {
namespace {

size_t read_limit(const std::string& text, int max) {
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 1 || n > max) {
    refuse_param("limit", "'limit' must be an integer from 1 to " + std::to_string(max) + ", found " +
                              describe(Json(text)) + ".");
  }
  return static_cast<size_t>(n);
}

/// Returns the index of the item with this id. Throws RequestError if there is no such item.
size_t place_of(const Json& items, const std::string& id, const char* param) {
  const auto found = std::ranges::find_if(items, [&](const Json& item) { return item["id"] == id; });
  if (found != items.end()) return static_cast<size_t>(found - items.begin());
  refuse_param(param, std::string("'").append(param).append("' is ").append(describe(Json(id))) +
                          ", which is not an id of this list.");
}

}  // namespace

Page read_page(std::string_view query, const PageRules& rules) {
  Page page;
  page.after = query_value(query, rules.after);
  if (rules.before != nullptr) page.before = query_value(query, rules.before);
  if (const std::optional<std::string> limit = query_value(query, "limit"))
    page.limit = read_limit(*limit, rules.max_items);
  return page;
}

Json page_json(const Json& items, const Page& page, const PageRules& rules) {
  size_t begin = page.after ? place_of(items, *page.after, rules.after) + 1 : 0;
  size_t end = page.before ? place_of(items, *page.before, rules.before) : items.size();
  end = std::max(begin, end);
  const bool has_more = end - begin > page.limit;
  // With only `before`, the page ends with the item that precedes `before`.
  const bool at_end = page.before && !page.after;
  if (has_more && at_end) begin = end - page.limit;
  if (has_more && !at_end) end = begin + page.limit;
  Json data = Json::array();
  for (size_t i = begin; i < end; ++i) data.push_back(items[i]);
  const Json first = data.empty() ? Json(nullptr) : data.front()["id"];
  const Json last = data.empty() ? Json(nullptr) : data.back()["id"];
  return {{"data", std::move(data)}, {"first_id", first}, {"last_id", last}, {"has_more", has_more}};
}

}  // namespace hearth
