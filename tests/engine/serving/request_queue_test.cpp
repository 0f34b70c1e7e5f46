// Tests which requests are admitted and which wait, and that two threads cannot both get the last place.
#include "engine/serving/request_queue.h"

#include <atomic>
#include <thread>

#include "tests/support/catch.h"

using namespace hearth;
using namespace std::chrono_literals;

namespace {

std::vector<std::unique_ptr<Sequence>> request(uint64_t id, int n_sequences = 1, uint64_t client = 0) {
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (int i = 0; i < n_sequences; ++i) {
    sequences.push_back(std::make_unique<Sequence>());
    sequences.back()->request_id = id;
    sequences.back()->index = i;
    sequences.back()->client = client;
  }
  return sequences;
}

}  // namespace

TEST_CASE("request queue: with no places it accepts only what free slots take at once") {
  RequestQueue queue(2, 0);
  CHECK_FALSE(queue.push(request(1)));
  CHECK_FALSE(queue.push(request(2)));
  // both slots are reserved, though no request is in one yet
  CHECK(queue.push(request(3)) == Refusal::kQueueFull);
  queue.admitted(1);
  queue.admitted(2);
  CHECK(queue.push(request(3)) == Refusal::kQueueFull);
  CHECK(queue.counts().n_running == 2);
  CHECK(queue.counts().n_waiting == 0);
  queue.slot_freed();
  CHECK(queue.push(request(3, 2)) == Refusal::kQueueFull);
  CHECK_FALSE(queue.push(request(3)));
}

TEST_CASE("request queue: a request takes one place, however many sequences it has") {
  RequestQueue queue(2, 2);
  CHECK_FALSE(queue.push(request(1, 2)));   // fills the slots
  CHECK_FALSE(queue.push(request(2, 50)));  // waits
  CHECK_FALSE(queue.push(request(3)));      // waits
  CHECK(queue.push(request(4)) == Refusal::kQueueFull);
  CHECK(queue.counts().n_waiting == 3);  // none is admitted yet
  queue.admitted(1);
  queue.admitted(1);
  CHECK(queue.counts().n_waiting == 2);
  CHECK(queue.push(request(4)) == Refusal::kQueueFull);
  queue.abandoned(3);
  CHECK_FALSE(queue.push(request(4)));
  CHECK(queue.push(request(5)) == Refusal::kQueueFull);
}

TEST_CASE("request queue: a client that fills the queue does not keep others out") {
  RequestQueue queue(1, 8);
  uint64_t id = 0;
  const auto come = [&](uint64_t client) { return !queue.push(request(++id, 1, client)).has_value(); };
  for (int i = 0; i < 9; ++i) CHECK(come(1));  // one in the slot, eight wait
  CHECK_FALSE(come(1));
  CHECK(come(2));  // beyond the capacity, because it has fewer than its share
  CHECK(come(3));
  CHECK_FALSE(come(4));  // a quarter more wait than there are places
  CHECK_FALSE(come(1));
}

TEST_CASE("request queue: waiting requests are also bounded in bytes, those that free slots take are not") {
  RequestQueue queue(1, 100, 10'000);
  const auto long_one = [](uint64_t id, size_t n_tokens) {
    auto sequences = request(id);
    sequences.front()->tokens.resize(n_tokens);
    return sequences;
  };
  CHECK_FALSE(queue.push(long_one(1, 100'000)));
  queue.admitted(1);
  CHECK(queue.push(long_one(2, 100'000)) == Refusal::kQueueFull);
  CHECK_FALSE(queue.push(long_one(2, 1'500)));
  CHECK(queue.push(long_one(3, 1'500)) == Refusal::kQueueFull);
  CHECK_FALSE(queue.push(request(4)));
  queue.abandoned(2);
  CHECK_FALSE(queue.push(long_one(3, 1'500)));
}

TEST_CASE("request queue: a request with more sequences than slots is accepted if all slots are free") {
  RequestQueue queue(2, 0);
  CHECK_FALSE(queue.push(request(1, 8)));
  CHECK(queue.push(request(2)) == Refusal::kQueueFull);
  queue.admitted(1);
  queue.admitted(1);
  queue.slot_freed();
  CHECK(queue.push(request(2)) == Refusal::kQueueFull);  // the free slot belongs to the third of the eight
}

TEST_CASE("request queue: a sequence that is set back waits before all others and leaves its slot free") {
  RequestQueue queue(2, 1);
  queue.push(request(1, 2));
  queue.admitted(1);
  queue.admitted(1);
  CHECK_FALSE(queue.push(request(2)));
  queue.set_back(1);
  CHECK(queue.counts().n_running == 1);
  CHECK(queue.counts().n_waiting == 2);
  CHECK(queue.push(request(3)) == Refusal::kQueueFull);  // the free slot covers 1, but not 2
  queue.set_back(1);                                     // its other sequence too
  CHECK(queue.counts().n_running == 0);
  CHECK(queue.counts().n_waiting == 2);
  queue.admitted(1);
  queue.admitted(1);
  CHECK(queue.counts().n_waiting == 1);
  queue.abandoned(2);
  queue.slot_freed();
  queue.slot_freed();
  CHECK(queue.wait_until_empty(std::chrono::steady_clock::now()));
}

TEST_CASE("request queue: sequences are handed over in order, once") {
  RequestQueue queue(1, 5);
  queue.push(request(7, 2));
  queue.push(request(8));
  std::vector<std::unique_ptr<Sequence>> taken;
  queue.take_new(taken);
  REQUIRE(taken.size() == 3);
  CHECK(taken[0]->request_id == 7);
  CHECK(taken[1]->index == 1);
  CHECK(taken[2]->request_id == 8);
  taken.clear();
  queue.take_new(taken);
  CHECK(taken.empty());
}

TEST_CASE("request queue: once closed it refuses requests, and reports when the last one has left") {
  RequestQueue queue(2, 5);
  queue.push(request(1, 2));
  queue.close();
  CHECK(queue.push(request(2)) == Refusal::kStopping);
  CHECK_FALSE(queue.wait_until_empty(std::chrono::steady_clock::now()));
  queue.admitted(1);
  std::jthread engine([&] {
    queue.abandoned(1);
    queue.slot_freed();
  });
  CHECK(queue.wait_until_empty(std::chrono::steady_clock::time_point::max()));
}

TEST_CASE("request queue: with many threads it accepts exactly as many requests as there is room for") {
  RequestQueue queue(3, 4);
  std::atomic<int> n_in{0};
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t i = 0; i < 50; ++i) n_in += queue.push(request(1 + t * 1000 + i)) ? 0 : 1;
      });
    }
  }
  CHECK(n_in == 7);
}

TEST_CASE("request queue: a wake-up before the wait is not lost") {
  RequestQueue queue(1, 1);
  queue.wake();
  queue.wait_for_work(std::chrono::milliseconds(10min));
  queue.push(request(1));
  queue.wait_for_work(std::chrono::milliseconds(10min));
  SUCCEED("both waits returned");
}
