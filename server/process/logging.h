// Writes hearthd's log lines to standard error or a file, either as readable text or as one JSON object per
// line. Uses spdlog.
//
// main calls set_up_logging() once. After that, any thread may call the log functions. Data from clients can
// neither end a line nor control a terminal.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/options.h"

namespace hearth {

/// The named values of a line, written as "message key=value ..." in text, and as members of the object in
/// JSON.
using LogFields = std::vector<std::pair<std::string, nlohmann::ordered_json>>;

/// file: the log file to use instead of standard error, or empty. Colors are used only on a terminal. Throws
/// StartError if the file cannot be opened.
void set_up_logging(Options::LogLevel level, Options::LogFormat format, const std::string& file = {});
/// From now on, messages below this level are omitted.
void set_log_level(Options::LogLevel level);
/// Reopens the log file if there is one. If this fails, returns the reason as a sentence.
std::optional<std::string> reopen_log();
/// Whether the log goes to a file.
bool log_is_in_file();

void log_debug(std::string_view message, const LogFields& fields = {});
void log_info(std::string_view message, const LogFields& fields = {});
void log_warning(std::string_view message, const LogFields& fields = {});
void log_error(std::string_view message, const LogFields& fields = {});
/// Writes the line at every log level. Only for the few lines that every user needs, such as the server's
/// URL.
void log_always(std::string_view message, const LogFields& fields = {});

/// Returns the line in text format, without time and level. Characters that could forge a line or control the
/// terminal are replaced by '?' in the message, and escaped in the fields. These are control characters, line
/// and paragraph separators, marks that change the direction of text, and invalid UTF-8.
std::string format_line(std::string_view message, const LogFields& fields);
/// Returns the line in JSON format: one object, in ASCII.
std::string format_json_line(std::string_view level, std::string_view message, const LogFields& fields);

}  // namespace hearth
