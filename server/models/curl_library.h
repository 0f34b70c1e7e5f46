// Loads libcurl when a pull begins: hearthd does not link it.
//
// Linking it would map 25 more shared libraries into servers that never pull, and double the time until main:
// server/DECISIONS.md has the measurement. The function types come from curl's header, so the table's entries
// have the right types.
#pragma once

#include <curl/curl.h>

namespace hearth {

/// The functions used by pulls, named as in libcurl without the prefix.
struct CurlLibrary {
  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_reset) easy_reset;
  decltype(&curl_easy_perform) easy_perform;
  CURLcode (*easy_setopt)(CURL*, CURLoption, ...);
  CURLcode (*easy_getinfo)(CURL*, CURLINFO, ...);
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_url) url;
  decltype(&curl_url_cleanup) url_cleanup;
  decltype(&curl_url_set) url_set;
  decltype(&curl_url_get) url_get;
  decltype(&curl_free) free;
};

/// Loads and initializes the library once. Throws PullError that names the missing library and its package.
/// Call it before other threads exist.
const CurlLibrary& curl_library();

}  // namespace hearth
