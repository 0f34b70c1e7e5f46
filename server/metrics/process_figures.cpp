// See the header.
#include "server/metrics/process_figures.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace hearth {
namespace {

/// Returns when the system started, in Unix seconds, or 0 if unknown.
double boot_seconds(const std::filesystem::path& proc) {
  std::ifstream in(proc / "stat");
  for (std::string word; in >> word;) {
    double seconds = 0;
    if (word == "btime" && in >> seconds) return seconds;
  }
  return 0;
}

}  // namespace

ProcessFigures read_process_figures(const std::filesystem::path& proc) {
  ProcessFigures figures;
  std::ifstream in(proc / "self" / "stat");
  std::string line;
  std::getline(in, line);
  // The line has the form "pid (name) state ...". The name may contain parentheses and spaces.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return figures;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  const auto skip = [&](int n) {
    for (int i = 0; i < n; ++i) fields >> skipped;
  };
  double user_ticks = 0, system_ticks = 0, start_ticks = 0, resident_pages = 0;
  skip(11);  // fields from state to cmajflt
  fields >> user_ticks >> system_ticks;
  skip(4);  // fields cutime, cstime, priority, nice
  fields >> figures.n_threads;
  skip(1);  // field itrealvalue
  fields >> start_ticks >> figures.virtual_bytes >> resident_pages;
  const auto ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  figures.cpu_seconds = (user_ticks + system_ticks) / ticks_per_second;
  figures.resident_bytes =
      static_cast<uint64_t>(resident_pages) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const double boot = boot_seconds(proc);
  if (boot > 0) figures.start_unix_seconds = boot + start_ticks / ticks_per_second;

  std::error_code error;
  for (std::filesystem::directory_iterator file(proc / "self" / "fd", error), end; !error && file != end;
       file.increment(error)) {
    ++figures.n_open_files;
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) figures.max_open_files = limit.rlim_cur;
  return figures;
}

}  // namespace hearth
