// The form of the log's lines, where they go, and which client they name.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "server/http/message/trace_context.h"
#include "server/process/log_file.h"
#include "server/process/logging.h"
#include "server/process/start_error.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

using namespace hearth;
using hearth::test::TempFolder;

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string dropped(uint64_t n, const std::string& why) {
  return std::to_string(n) + " dropped: " + why + "\n";
}

/// Keeps the files of this process from growing beyond this size, like a full disk.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("log lines cannot be forged by what clients send") {
  CHECK(format_line("GET /a\nb", {{"status", 200}, {"id", "req-1"}, {"path", "x y\n\x1b[31m"}}) ==
        R"(GET /a?b status=200 id=req-1 path="x y\n\u001b[31m")");
  CHECK(format_line("m", {{"bad", "\xff"}}) == R"(m bad="\ufffd")");
  // Carriage return, escape, delete, the one-character CSI, line and paragraph separators, changes of
  // direction, and bytes that are not UTF-8: overlong, cut off, a surrogate.
  CHECK(format_line("a\rb\x1b[2Jc\x7f"
                    "d\xc2\x9b"
                    "e\xe2\x80\xa8"
                    "f\xe2\x80\xa9g\xe2\x80\xaeh\xe2\x81\xa6i",
                    {}) == "a?b?[2Jc?d?e?f?g?h?i");
  CHECK(format_line("\xc0\x8a|\xe2\x80|\xed\xa0\x80|\xf5\x80\x80\x80", {}) == "??|??|???|????");
  CHECK(format_line("/modèles/日本", {}) == "/modèles/日本");
  CHECK(format_line("m", {{"agent",
                           "a\xe2\x80\xa8"
                           "b\r\n"}}) == R"(m agent="a\u2028b\r\n")");

  const std::string line =
      format_json_line("info", "GET /\xe2\x80\xa8\n\x1b\xff", {{"model", "\xe2\x80\xa9\r\x7f"}});
  for (const char c : line) CHECK((c >= ' ' && c < 127));
  const nlohmann::json parsed = nlohmann::json::parse(line);
  CHECK(parsed["message"] == "GET /\u2028\n\x1b\ufffd");
  CHECK(parsed["level"] == "info");
}

TEST_CASE("the log file is appended to, and reopened under its path") {
  const TempFolder folder;
  const std::filesystem::path path = folder / "log";
  std::ofstream(path) << "before\n";
  LogFile log(path.string(), dropped);
  log.write("one\n");
  std::filesystem::rename(path, folder / "log.1");
  log.write("two\n");
  CHECK_FALSE(log.reopen());
  log.write("three\n");
  CHECK(read(folder / "log.1") == "before\none\ntwo\n");
  CHECK(read(path) == "three\n");
  CHECK((std::filesystem::status(path).permissions() & std::filesystem::perms::others_all) ==
        std::filesystem::perms::none);

  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  const std::optional<std::string> why = log.reopen();
  REQUIRE(why);
  CHECK_THAT(*why, ContainsSubstring(path.string()) && ContainsSubstring("continues in the previous file"));
  log.write("four\n");  // written to the file that is gone; nothing breaks
  CHECK_THROWS_AS(LogFile((folder / "none" / "log").string(), dropped), StartError);
}

TEST_CASE("a full disk loses lines, whose number is reported once there is room again") {
  const TempFolder folder;
  const std::filesystem::path path = folder / "log";
  LogFile log(path.string(), dropped);
  {
    const FileLimit full(10);
    log.write("12345\n");
    log.write("a line that does not fit\n");  // only its first four bytes fit
    log.write("nor does this one\n");
  }
  CHECK(read(path) == "12345\na li");
  log.write("and on\n");
  log.write("as ever\n");
  CHECK(read(path) == "12345\na li\n2 dropped: File too large\nand on\nas ever\n");
}

TEST_CASE("a pipe without a reader is refused as a log file") {
  const TempFolder folder;
  const std::string path = (folder / "pipe").string();
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_THROWS_AS(LogFile(path, dropped), StartError);
}

TEST_CASE("a trace id is taken only from a valid traceparent") {
  const std::string id = "0af7651916cd43dd8448eb211c80319c", parent = "b7ad6b7169203331";
  CHECK(trace_id_of("00-" + id + "-" + parent + "-01") == id);
  CHECK(trace_id_of("00-" + id + "-" + parent + "-00") == id);
  CHECK(trace_id_of("cc-" + id + "-" + parent + "-01") == id);
  CHECK(trace_id_of("cc-" + id + "-" + parent + "-01-what-comes-later") == id);
  for (const std::string& bad :
       {std::string(), std::string("00"), "ff-" + id + "-" + parent + "-01",
        "00-" + id + "-" + parent + "-01-more", "00-" + id + "-" + parent + "-01 ",
        "cc-" + id + "-" + parent + "-01.", "00-" + id + "-" + parent + "-0",
        "00-" + std::string(32, '0') + "-" + parent + "-01", "00-" + id + "-" + std::string(16, '0') + "-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" + parent + "-01", "00_" + id + "-" + parent + "-01",
        "00-" + id + "-" + parent + "-g1", "0x-" + id + "-" + parent + "-01"}) {
    CAPTURE(bad);
    CHECK_FALSE(trace_id_of(bad));
  }
}
