// Which part of a list a client asks for, in the query of the path.
//
// Called by handlers on HTTP threads; no state.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/json/json.h"

namespace hearth {

/// What a family of clients calls the ids between which a page lies, and how long a page may be.
struct PageRules {
  const char* after = nullptr;
  const char* before = nullptr;  // null: there is none
  int max_items = 0;
};

struct Page {
  size_t limit = 20;                  // the default of OpenAI and of Anthropic
  std::optional<std::string> after;   // the id of the item that the page follows
  std::optional<std::string> before;  // of the item that follows the page
};

/// Throws RequestError. query: HttpRequest::query.
Page read_page(std::string_view query, const PageRules& rules);

/// {"data", "first_id", "last_id", "has_more"}. items: an array in the order of the list, each with an id. Throws
/// RequestError if there is none with the id that the page lies at.
Json page_json(const Json& items, const Page& page, const PageRules& rules);

}  // namespace hearth
