// Log lines of hearthd on standard error: readable text, or one JSON object a line, over spdlog.
//
// set_up_logging() is called once by main; after that the log functions may be called from any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {

/// Named values of a line: "message key=value ..." as text, members of the object as JSON.
using LogFields = std::vector<std::pair<std::string, nlohmann::ordered_json>>;

/// level and format as --log-level and --log-format take them. Colours only on a terminal.
void set_up_logging(const std::string& level, const std::string& format);

void log_debug(std::string_view message, const LogFields& fields = {});
void log_info(std::string_view message, const LogFields& fields = {});
void log_warning(std::string_view message, const LogFields& fields = {});
void log_error(std::string_view message, const LogFields& fields = {});
/// Whatever the level: the few lines without which one cannot use the server, such as its URL.
void log_always(std::string_view message, const LogFields& fields = {});

/// The line's text without time and level, for both formats. Bytes that could forge a line or drive a
/// terminal are escaped.
std::string format_line(std::string_view message, const LogFields& fields);

}  // namespace hearth
