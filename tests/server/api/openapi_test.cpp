// The document at /openapi.json lists exactly the endpoints that are served.
#include "server/api/description/openapi.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

#include "server/endpoints/endpoints.h"
#include "tests/server/api/api_bench.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

using nlohmann::json;

/// A path of the document as written in the table of endpoints: "/v1/models/{model}" is "/models/*".
std::string table_path(std::string path) {
  if (path.starts_with("/v1/")) path.erase(0, 3);
  const size_t open = path.find('{');
  if (open != std::string::npos) path.replace(open, path.find('}') + 1 - open, "*");
  return path;
}

std::set<std::string> documented() {
  std::set<std::string> rows;
  const json paths = json::parse(openapi_document())["paths"];
  for (const auto& [path, methods] : paths.items()) {
    for (const auto& [method, operation] : methods.items()) {
      std::string upper = method;
      std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
      rows.insert(upper + " " + table_path(path));
    }
  }
  return rows;
}

TEST_CASE("the API's description and the table of endpoints have the same rows") {
  std::set<std::string> served;
  for (const Endpoint& endpoint : endpoints())
    served.insert(std::string(endpoint.method) + " " + std::string(endpoint.path));
  CHECK(documented() == served);
}

TEST_CASE("the API's description is served as it is") {
  const HttpResponse response = openapi({});
  CHECK(response.status == 200);
  CHECK(response.content_type == "application/json");
  CHECK(json::parse(response.body)["openapi"] == "3.1.0");
}

}  // namespace
}  // namespace hearth
