// Reads pagination parameters from a URL's query, and selects a page of a list.
//
// Called on HTTP threads; stateless.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/json/json.h"

namespace hearth {

/// The names of an API's pagination parameters, and the maximum number of items on a page.
struct PageRules {
  const char* after = nullptr;
  const char* before = nullptr;  // null if not supported
  int max_items = 0;
};

struct Page {
  size_t limit = 20;                  // default of OpenAI's and Anthropic's APIs
  std::optional<std::string> after;   // id of the item before the first item of the page
  std::optional<std::string> before;  // id of the item after the last item of the page
};

/// query: HttpRequest::query. Throws RequestError.
Page read_page(std::string_view query, const PageRules& rules);

/// Returns {"data", "first_id", "last_id", "has_more"}. items: the whole list, an array of items with ids.
/// Throws RequestError if no item has the id `after` or `before`.
Json page_json(const Json& items, const Page& page, const PageRules& rules);

}  // namespace hearth
