// Writes hearthd's log lines to standard error or a file: readable text, or one JSON object per line. Uses
// spdlog.
//
// main calls set_up_logging() once; after that any thread may call the log functions. Client data can neither
// end a line nor control a terminal.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/options.h"

namespace hearth {

/// Named values of a line: "message key=value ..." as text, members of the object as JSON.
using LogFields = std::vector<std::pair<std::string, nlohmann::ordered_json>>;

/// file: log file that replaces standard error; empty: standard error. Colors are used only on a terminal.
/// Throws StartError if the file cannot be opened.
void set_up_logging(Options::LogLevel level, Options::LogFormat format, const std::string& file = {});
/// From now on omits messages below this level.
void set_log_level(Options::LogLevel level);
/// Reopens the log file, if there is one. Returns the reason as a sentence if it fails.
std::optional<std::string> reopen_log();
/// Whether the log goes to a file.
bool log_is_in_file();

void log_debug(std::string_view message, const LogFields& fields = {});
void log_info(std::string_view message, const LogFields& fields = {});
void log_warning(std::string_view message, const LogFields& fields = {});
void log_error(std::string_view message, const LogFields& fields = {});
/// Writes the line at any log level. For the few lines without which nobody can use the server, such as its
/// URL.
void log_always(std::string_view message, const LogFields& fields = {});

/// The line in text format, without time and level. Characters that could forge a line or control the
/// terminal are escaped, or become '?' in the message: control characters, line and paragraph separators,
/// marks that change the direction of text, invalid UTF-8.
std::string format_line(std::string_view message, const LogFields& fields);
/// The line in JSON format: one object, in ASCII.
std::string format_json_line(std::string_view level, std::string_view message, const LogFields& fields);

}  // namespace hearth
