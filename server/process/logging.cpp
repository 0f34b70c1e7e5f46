// The two formats over one spdlog sink.
#include "server/process/logging.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>

namespace hearth {
namespace {

using Json = nlohmann::ordered_json;

struct Log {
  // Two loggers of one sink; `always` writes every level.
  std::shared_ptr<spdlog::logger> filtered, always;
  bool is_json = false;
};

Log& the_log() {
  static Log log;
  return log;
}

std::string dumped(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string utc_time() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  tm parts{};
  ::gmtime_r(&time.tv_sec, &parts);
  char text[40];
  const size_t n = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + n, sizeof(text) - n, ".%03dZ", static_cast<int>(time.tv_nsec / 1'000'000));
  return text;
}

std::string json_line(std::string_view level, std::string_view message, const LogFields& fields) {
  Json line = {{"time", utc_time()}, {"level", level}, {"message", message}};
  for (const auto& [key, value] : fields) line[key] = value;
  return dumped(line);
}

void write(const std::shared_ptr<spdlog::logger>& logger, spdlog::level::level_enum level,
           std::string_view name, std::string_view message, const LogFields& fields) {
  if (!logger || !logger->should_log(level)) return;
  const std::string text =
      the_log().is_json ? json_line(name, message, fields) : format_line(message, fields);
  logger->log(level, spdlog::string_view_t(text.data(), text.size()));
}

bool is_plain(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c > ' ' && c < 127 && c != '"' && c != '=' && c != '\\';
  });
}

spdlog::level::level_enum spdlog_level(Options::LogLevel level) {
  switch (level) {
    case Options::LogLevel::kDebug:
      return spdlog::level::debug;
    case Options::LogLevel::kInfo:
      return spdlog::level::info;
    case Options::LogLevel::kWarn:
      return spdlog::level::warn;
    case Options::LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

}  // namespace

std::string format_line(std::string_view message, const LogFields& fields) {
  std::string line;
  for (const char c : message) line += static_cast<unsigned char>(c) < ' ' || c == 127 ? '?' : c;
  for (const auto& [key, value] : fields) {
    line += ' ';
    line += key;
    line += '=';
    line += value.is_string() && is_plain(value.get<std::string>())
                ? value.get<std::string>()
                : value.dump(-1, ' ', true, Json::error_handler_t::replace);
  }
  return line;
}

void set_up_logging(Options::LogLevel level, Options::LogFormat format) {
  Log& log = the_log();
  const auto sink =
      std::make_shared<spdlog::sinks::stderr_color_sink_mt>();  // colours only if it is a terminal
  log.is_json = format == Options::LogFormat::kJson;
  sink->set_pattern(log.is_json ? "%v" : "%Y-%m-%d %H:%M:%S.%e %^%5l%$ %v");
  log.filtered = std::make_shared<spdlog::logger>("hearthd", sink);
  log.filtered->set_level(spdlog_level(level));
  log.always = std::make_shared<spdlog::logger>("hearthd", sink);
}

void log_debug(std::string_view message, const LogFields& fields) {
  write(the_log().filtered, spdlog::level::debug, "debug", message, fields);
}
void log_info(std::string_view message, const LogFields& fields) {
  write(the_log().filtered, spdlog::level::info, "info", message, fields);
}
void log_warning(std::string_view message, const LogFields& fields) {
  write(the_log().filtered, spdlog::level::warn, "warn", message, fields);
}
void log_error(std::string_view message, const LogFields& fields) {
  write(the_log().filtered, spdlog::level::err, "error", message, fields);
}
void log_always(std::string_view message, const LogFields& fields) {
  write(the_log().always, spdlog::level::info, "info", message, fields);
}

}  // namespace hearth
