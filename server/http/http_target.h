// What a client wrote as request target and id, made fit for routing and for the log. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace hearth {

/// Decoded path -> the path that routes are compared with: no scheme and host of the absolute form, no
/// doubled or trailing slashes ("/v1//models/" -> "/v1/models"), "/" if nothing is left. Dots are left alone:
/// no files are served.
std::string normalised_path(std::string_view path);

/// The client's x-request-id if it is 1 to 128 plain characters (letters, digits and -_.:/+=@), else a fresh
/// one.
std::string request_id_from(std::string_view client_id);

}  // namespace hearth
