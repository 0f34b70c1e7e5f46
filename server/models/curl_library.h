// libcurl, found when a pull begins: hearthd does not link it.
//
// A server that never pulls would have 25 more shared libraries mapped, and take twice the time until main: server/DECISIONS.md
// has the measurement. The functions' types come from curl's header, so an entry of the table cannot differ from what it
// stands for.
#pragma once

#include <curl/curl.h>

namespace hearth {

/// The functions that pulling calls, named as in the library, without their prefix.
struct CurlLibrary {
  decltype(&curl_global_init) global_init;
  decltype(&curl_version) version;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_reset) easy_reset;
  CURLcode (*easy_setopt)(CURL*, CURLoption, ...);
  CURLcode (*easy_getinfo)(CURL*, CURLINFO, ...);
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
  decltype(&curl_multi_init) multi_init;
  decltype(&curl_multi_cleanup) multi_cleanup;
  decltype(&curl_multi_add_handle) multi_add_handle;
  decltype(&curl_multi_remove_handle) multi_remove_handle;
  decltype(&curl_multi_perform) multi_perform;
  decltype(&curl_multi_poll) multi_poll;
  decltype(&curl_multi_info_read) multi_info_read;
  decltype(&curl_url) url;
  decltype(&curl_url_cleanup) url_cleanup;
  decltype(&curl_url_set) url_set;
  decltype(&curl_url_get) url_get;
  decltype(&curl_free) free;
};

/// Loads the library once and initialises it. Throws PullError (what is missing, which package has it). One thread: call it
/// before there are others.
const CurlLibrary& curl_library();

}  // namespace hearth
