// Writes hearthd's log lines to standard error or to a file, as readable text or as one JSON object per line.
// Uses spdlog.
//
// main calls set_up_logging() once. Then any thread may call the log functions. Data from clients cannot end
// a line or control a terminal.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/options.h"

namespace hearth {

/// The named values of a line. The text format writes "message key=value ...", and the JSON format writes
/// members of the object.
using LogFields = std::vector<std::pair<std::string, nlohmann::ordered_json>>;

/// file: the log file; empty selects standard error. Colors are used only on a terminal. Throws StartError if
/// the file cannot be opened.
void set_up_logging(Options::LogLevel level, Options::LogFormat format, const std::string& file = {});
/// Omits messages below this level from now on.
void set_log_level(Options::LogLevel level);
/// Opens the log file again if there is one. If this fails, returns a sentence with the reason.
std::optional<std::string> reopen_log();
/// Whether the log goes to a file.
bool log_is_in_file();

void log_debug(std::string_view message, const LogFields& fields = {});
void log_info(std::string_view message, const LogFields& fields = {});
void log_warning(std::string_view message, const LogFields& fields = {});
void log_error(std::string_view message, const LogFields& fields = {});
/// Writes a line at every log level. Used for the few lines that every user needs, such as the server's URL.
void log_always(std::string_view message, const LogFields& fields = {});

/// Returns a line in text format, without time and level. Characters that could end a line or control a
/// terminal are replaced by '?' in the message and escaped in fields. These are control characters, line and
/// paragraph separators, marks that change the direction of text, and invalid UTF-8.
std::string format_line(std::string_view message, const LogFields& fields);
/// Returns a line in JSON format: one object, in ASCII.
std::string format_json_line(std::string_view level, std::string_view message, const LogFields& fields);

}  // namespace hearth
