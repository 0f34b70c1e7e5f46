// Reads pagination parameters from the query of a URL, and selects that page of a list.
//
// Called by handlers on HTTP threads; no state.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/json/json.h"

namespace hearth {

/// The names of the pagination parameters of one family of clients, and the maximum number of items on a
/// page.
struct PageRules {
  const char* after = nullptr;
  const char* before = nullptr;  // null: not supported
  int max_items = 0;
};

struct Page {
  size_t limit = 20;                  // OpenAI's and Anthropic's default
  std::optional<std::string> after;   // id of the item before the page
  std::optional<std::string> before;  // id of the item after the page
};

/// Throws RequestError. query: HttpRequest::query.
Page read_page(std::string_view query, const PageRules& rules);

/// Returns {"data", "first_id", "last_id", "has_more"}. items: an array in list order; each item has an id.
/// Throws RequestError if no item has the page's `after` or `before` id.
Json page_json(const Json& items, const Page& page, const PageRules& rules);

}  // namespace hearth
