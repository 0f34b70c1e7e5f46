// The channel of one request: order, time-outs, cancellation.
#include "engine/serving/token_stream.h"

#include <thread>

#include "tests/support/catch.h"

using namespace hearth;
using namespace std::chrono_literals;

TEST_CASE("token stream: events come out in the order they went in") {
  TokenStream stream(2);
  CHECK_FALSE(stream.pop_for(0ms));
  constexpr int kEvents = 2000;
  std::jthread engine([&] {
    for (int i = 0; i < kEvents; ++i)
      stream.push({.sequence = i % 2, .what = TokenEvent{.token = i, .top = {}}});
  });
  for (int i = 0; i < kEvents; ++i) {
    const std::optional<StreamEvent> event = stream.pop_for(60s);
    REQUIRE(event);
    REQUIRE(event->sequence == i % 2);
    REQUIRE(std::get<TokenEvent>(event->what).token == i);
  }
  CHECK_FALSE(stream.pop_for(1ms));
}

TEST_CASE("token stream: one sequence or all can be cancelled, more than once") {
  TokenStream stream(3);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(stream.cancelled(i));
  stream.cancel_sequence(1);
  stream.cancel_sequence(1);
  CHECK_FALSE(stream.cancelled(0));
  CHECK(stream.cancelled(1));
  CHECK_FALSE(stream.cancelled(2));
  stream.cancel();
  stream.cancel();
  for (int i = 0; i < 3; ++i) CHECK(stream.cancelled(i));
}
