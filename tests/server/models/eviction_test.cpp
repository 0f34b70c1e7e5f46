// Which models leave to make room for another.
#include "server/models/eviction.h"

#include "tests/support/catch.h"

using namespace hearth;

namespace {

using Positions = std::vector<size_t>;

Resident resident(uint64_t bytes, int used_at, bool is_busy = false, bool may_leave = true) {
  return {.bytes = bytes,
          .may_leave = may_leave,
          .is_busy = is_busy,
          .last_used = std::chrono::steady_clock::time_point() + std::chrono::seconds(used_at)};
}

}  // namespace

TEST_CASE("the least recently used model leaves first") {
  const std::vector<Resident> all = {resident(10, 3), resident(10, 1), resident(10, 2)};
  CHECK(choose_leaving(all, 1) == Positions{1});
  CHECK(choose_leaving(all, 10) == Positions{1});
  CHECK(choose_leaving(all, 11) == Positions{1, 2});
  CHECK(choose_leaving(all, 30) == Positions{1, 2, 0});
  CHECK(choose_leaving(all, 31) == std::nullopt);
}

TEST_CASE("busy models leave only if idle ones do not suffice") {
  const std::vector<Resident> all = {resident(10, 1, true), resident(10, 9), resident(10, 2, true)};
  CHECK(choose_leaving(all, 10) == Positions{1});
  CHECK(choose_leaving(all, 20) == Positions{1, 0});
}

TEST_CASE("models that must stay are not chosen") {
  const std::vector<Resident> all = {resident(10, 1, false, false), resident(10, 2)};
  CHECK(choose_leaving(all, 10) == Positions{1});
  CHECK(choose_leaving(all, 11) == std::nullopt);
  CHECK(choose_leaving({}, 1) == std::nullopt);
}

TEST_CASE("a model that a larger one makes unnecessary stays") {
  const std::vector<Resident> all = {resident(2, 1), resident(3, 2), resident(10, 3)};
  CHECK(choose_leaving(all, 8) == Positions{2});
  CHECK(choose_leaving(all, 12) == Positions{0, 2});
  CHECK(choose_leaving(all, 13) == Positions{1, 2});
}
