// Tests the messages to the service manager; a socket of the test replaces it.
#include "server/process/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/unique_fd.h"
#include "tests/support/catch.h"
#include "tests/support/manual_clock.h"
#include "tests/support/temp_folder.h"

using namespace hearth;

namespace {

class Manager {
 public:
  explicit Manager(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    REQUIRE(path.size() < sizeof(address.sun_path));
    std::memcpy(address.sun_path, path.data(), path.size());
    if (path[0] == '@') address.sun_path[0] = '\0';
    REQUIRE(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address),
                   static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size())) == 0);
  }

  /// All messages in the socket.
  std::vector<std::string> read() {
    std::vector<std::string> messages;
    std::array<char, 256> buffer{};
    for (ssize_t n; (n = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT)) >= 0;)
      messages.emplace_back(buffer.data(), static_cast<size_t>(n));
    return messages;
  }

 private:
  UniqueFd fd_;
};

}  // namespace

TEST_CASE("service manager: it gets its datagrams, by path and by abstract name") {
  const hearth::test::TempFolder folder;
  const std::string path = (folder / "notify").string();
  for (const std::string& name : {path, "@" + path}) {
    Manager manager(name);
    ServiceManager service(name, "2000000");
    service.notify("READY=1\nSTATUS=here");
    CHECK(manager.read() == std::vector<std::string>{"READY=1\nSTATUS=here"});
    CHECK(service.watchdog_interval() == std::chrono::microseconds(1'000'000));
  }
  CHECK_FALSE(ServiceManager("/nonexistent/socket", "junk").watchdog_interval());
}

TEST_CASE("service manager: messages it has no room for are kept, in order, until it has") {
  const hearth::test::TempFolder folder;
  const std::string path = (folder / "notify").string();
  Manager manager(path);
  ServiceManager service(path, "2");  // a beat is always due
  std::vector<std::string> beats;
  // Nothing reads: the system keeps a few messages (net.unix.max_dgram_qlen) and refuses more.
  for (int i = 0; i < 10'000; ++i) {
    service.beat(true);
    std::this_thread::yield();
  }
  service.notify("READY=1");
  service.notify("STATUS=Serving");
  service.notify("READY=1");
  service.beat(true);
  for (const std::string& message : manager.read()) REQUIRE(message == "WATCHDOG=1");
  service.beat(false);
  CHECK(manager.read() == std::vector<std::string>{"READY=1", "STATUS=Serving"});
  service.beat(false);
  CHECK(manager.read().empty());
  service.notify("STOPPING=1");
  CHECK(manager.read() == std::vector<std::string>{"STOPPING=1"});
}

TEST_CASE("service manager: the first beat is sent at once, the others twice per interval") {
  const hearth::test::TempFolder folder;
  const std::string path = (folder / "notify").string();
  Manager manager(path);
  hearth::test::ManualClock clock;
  ServiceManager service(path, "8000000", clock.reader());
  const auto heard = [&](std::chrono::milliseconds after) {
    clock.advance(after);
    service.beat(true);
    return manager.read();
  };
  using std::chrono::milliseconds;
  const std::vector<std::string> beat{"WATCHDOG=1"}, nothing;
  CHECK(heard(milliseconds(0)) == beat);
  CHECK(heard(milliseconds(0)) == nothing);
  CHECK(heard(milliseconds(1999)) == nothing);
  CHECK(heard(milliseconds(1)) == beat);
  CHECK(heard(milliseconds(1000)) == nothing);
  CHECK(heard(milliseconds(60'000)) == beat);
}

TEST_CASE("service manager: a manager that is gone causes no wait") {
  const hearth::test::TempFolder folder;
  ServiceManager service((folder / "nobody").string(), "");
  service.notify("READY=1");
  Manager manager((folder / "nobody").string());
  service.beat(true);
  CHECK(manager.read().empty());
  service.notify("STATUS=Serving");
  CHECK(manager.read() == std::vector<std::string>{"STATUS=Serving"});
}

TEST_CASE("service manager: without a manager nothing is sent") {
  ServiceManager service("", "400000");
  service.notify("READY=1");
  service.beat(true);
  CHECK_FALSE(service.watchdog_interval());
}
