// Log lines of hearthd on standard error or in a file: readable text, or one JSON object for each line. Uses spdlog.
//
// set_up_logging() is called once by main; after that the log functions may be called from any thread. Nothing that a client
// sends can end a line or control a terminal.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/options.h"

namespace hearth {

/// Named values of a line. As text they become "message key=value ...", as JSON members of the object.
using LogFields = std::vector<std::pair<std::string, nlohmann::ordered_json>>;

/// file: where the log goes instead of standard error; empty: nowhere else. Uses colours only on a terminal. Throws
/// StartError if the file cannot be opened.
void set_up_logging(Options::LogLevel level, Options::LogFormat format, const std::string& file = {});
/// From now on messages of less importance are left out.
void set_log_level(Options::LogLevel level);
/// Opens the log file anew, if there is one. Returns the sentence that says why it could not.
std::optional<std::string> reopen_log();
/// Does the log go to a file?
bool log_is_in_file();

void log_debug(std::string_view message, const LogFields& fields = {});
void log_info(std::string_view message, const LogFields& fields = {});
void log_warning(std::string_view message, const LogFields& fields = {});
void log_error(std::string_view message, const LogFields& fields = {});
/// Writes the line whatever the level is. For the few lines without which nobody can use the server, such as
/// its URL.
void log_always(std::string_view message, const LogFields& fields = {});

/// The line in text format, without time and level. Characters that could forge another line or control the
/// terminal are escaped, or '?' in the message: control characters, separators of lines and paragraphs, marks that change
/// the direction of text, bytes that are no UTF-8.
std::string format_line(std::string_view message, const LogFields& fields);
/// The line in the format for machines: one JSON object, in ASCII.
std::string format_json_line(std::string_view level, std::string_view message, const LogFields& fields);

}  // namespace hearth
