// Text and JSON lines are written through one spdlog sink.
#include "server/process/logging.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <mutex>

#include "server/process/log_file.h"

namespace hearth {
namespace {

using Json = nlohmann::ordered_json;

struct Log {
  // Two loggers with one sink. `always` ignores the log level.
  std::shared_ptr<spdlog::logger> filtered, always;
  std::shared_ptr<LogFile> file;  // null if the log goes to standard error
  bool is_json = false;
};

/// A spdlog sink that writes lines to a LogFile.
class FileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FileSink(std::shared_ptr<LogFile> file) : file_(std::move(file)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    file_->write({line.data(), line.size()});
  }
  void flush_() override {}

  const std::shared_ptr<LogFile> file_;
};

Log& the_log() {
  static Log log;
  return log;
}

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

void write(const std::shared_ptr<spdlog::logger>& logger, spdlog::level::level_enum level,
           std::string_view name, std::string_view message, const LogFields& fields) {
  if (!logger || !logger->should_log(level)) return;
  const std::string text =
      the_log().is_json ? format_json_line(name, message, fields) : format_line(message, fields);
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

/// Returns the first UTF-8 character of the text and its number of bytes. Returns {-1, 1} if it is invalid.
std::pair<int32_t, size_t> first_character(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t size = byte(0) < 0x80    ? 1
                      : byte(0) >= 0xf0 ? 4
                      : byte(0) >= 0xe0 ? 3
                      : byte(0) >= 0xc2 ? 2
                                        : 0;
  if (size == 1) return {byte(0), 1};
  if (size == 0 || size > text.size() || byte(0) > 0xf4) return {-1, 1};
  int32_t character = byte(0) & (0x7f >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {-1, 1};
    character = character << 6 | (byte(i) & 0x3f);
  }
  constexpr int32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (character < kLeast[size] || character > 0x10ffff || (character >= 0xd800 && character < 0xe000))
    return {-1, 1};
  return {character, size};
}

/// Whether the character can be printed unchanged, because it cannot end a line, control a terminal, or
/// change the display order of other characters.
bool is_harmless(int32_t c) {
  const bool control = c < ' ' || (c >= 0x7f && c < 0xa0);
  const bool separator_or_direction = c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
                                      (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) ||
                                      c == 0xfeff;
  return !control && !separator_or_direction;
}

}  // namespace

std::string format_line(std::string_view message, const LogFields& fields) {
  std::string line;
  while (!message.empty()) {
    const auto [character, size] = first_character(message);
    line += is_harmless(character) ? message.substr(0, size) : "?";
    message.remove_prefix(size);
  }
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

std::string format_json_line(std::string_view level, std::string_view message, const LogFields& fields) {
  Json line = {{"time", utc_time()}, {"level", level}, {"message", message}};
  for (const auto& [key, value] : fields) line[key] = value;
  // All characters beyond ASCII are escaped, because some programs split lines at other characters than the
  // newline.
  return line.dump(-1, ' ', true, Json::error_handler_t::replace);
}

void set_up_logging(Options::LogLevel level, Options::LogFormat format, const std::string& file) {
  Log& log = the_log();
  log.is_json = format == Options::LogFormat::kJson;
  std::shared_ptr<spdlog::sinks::sink> sink;
  if (file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();  // colors only on a terminal
  } else {
    log.file = std::make_shared<LogFile>(file, [is_json = log.is_json](uint64_t n, const std::string& why) {
      const LogFields fields = {{"dropped_lines", n}, {"why", why}};
      const std::string_view message = "log lines are missing here because they could not be written";
      return (is_json ? format_json_line("warn", message, fields)
                      : utc_time() + " warning " + format_line(message, fields)) +
             "\n";
    });
    sink = std::make_shared<FileSink>(log.file);
  }
  sink->set_pattern(log.is_json ? "%v" : "%Y-%m-%d %H:%M:%S.%e %^%5l%$ %v");
  log.filtered = std::make_shared<spdlog::logger>("hearthd", sink);
  log.filtered->set_level(spdlog_level(level));
  log.always = std::make_shared<spdlog::logger>("hearthd", sink);
}

void set_log_level(Options::LogLevel level) {
  if (the_log().filtered) the_log().filtered->set_level(spdlog_level(level));
}

std::optional<std::string> reopen_log() { return the_log().file ? the_log().file->reopen() : std::nullopt; }

bool log_is_in_file() { return the_log().file != nullptr; }

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
