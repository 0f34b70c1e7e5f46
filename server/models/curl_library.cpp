// See the header. Uses dlopen with the name that the library has had since 2006.
#include "server/models/curl_library.h"

#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "server/models/hub.h"

namespace hearth {
namespace {

constexpr const char* kLibraryName = "libcurl.so.4";

CurlLibrary load_library() {
  void* const library = dlopen(kLibraryName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const error = dlerror();
    throw PullError(std::string("pulling needs libcurl, which is not installed (") +
                    (error != nullptr ? error : kLibraryName) +
                    "); on Debian and Ubuntu: apt install libcurl4");
  }
  CurlLibrary table{};
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    void* const found = dlsym(library, name);
    if (found == nullptr && missing.empty()) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  find(table.global_init, "curl_global_init");
  find(table.easy_init, "curl_easy_init");
  find(table.easy_cleanup, "curl_easy_cleanup");
  find(table.easy_reset, "curl_easy_reset");
  find(table.easy_perform, "curl_easy_perform");
  find(table.easy_setopt, "curl_easy_setopt");
  find(table.easy_getinfo, "curl_easy_getinfo");
  find(table.easy_strerror, "curl_easy_strerror");
  find(table.url, "curl_url");
  find(table.url_cleanup, "curl_url_cleanup");
  find(table.url_set, "curl_url_set");
  find(table.url_get, "curl_url_get");
  find(table.free, "curl_free");
  if (!missing.empty()) {
    throw PullError(std::string(kLibraryName) + " has no function " + missing +
                    "; Hearth needs version 7.66 of 2019 or newer");
  }
  if (table.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw PullError("libcurl cannot be initialised");
  return table;
}

}  // namespace

const CurlLibrary& curl_library() {
  static const CurlLibrary library = load_library();
  return library;
}

}  // namespace hearth
