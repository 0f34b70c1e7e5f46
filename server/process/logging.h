// Log lines of hearthd on standard error: readable text, or one JSON object for each line. Uses spdlog.
//
// set_up_logging() is called once by main; after that the log functions may be called from any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/options.h"

namespace hearth {

/// Named values of a line. As text they become "message key=value ...", as JSON members of the object.
using LogFields = std::vector<std::pair<std::string, nlohmann::ordered_json>>;

/// Uses colours only on a terminal.
void set_up_logging(Options::LogLevel level, Options::LogFormat format);

void log_debug(std::string_view message, const LogFields& fields = {});
void log_info(std::string_view message, const LogFields& fields = {});
void log_warning(std::string_view message, const LogFields& fields = {});
void log_error(std::string_view message, const LogFields& fields = {});
/// Writes the line whatever the level is. For the few lines without which nobody can use the server, such as
/// its URL.
void log_always(std::string_view message, const LogFields& fields = {});

/// The line in text format, without time and level. Bytes that could forge another line or control the
/// terminal are escaped.
std::string format_line(std::string_view message, const LogFields& fields);

}  // namespace hearth
