// The mean of service times, and the wait derived from it.
#include "engine/serving/service_time.h"

#include "tests/support/catch.h"

using namespace hearth;

TEST_CASE("service time: the first counts whole, later ones move the mean by an eighth") {
  ServiceTime time;
  CHECK(time.mean_seconds() == 0);
  time.add(16);
  CHECK(time.mean_seconds() == 16);
  time.add(8);
  CHECK(time.mean_seconds() == 15);
  time.add(15);
  CHECK(time.mean_seconds() == 15);
  for (int i = 0; i < 100; ++i) time.add(0);
  CHECK(time.mean_seconds() < 0.001);
  time.add(8);  // a mean near zero is not "none yet"
  CHECK(time.mean_seconds() < 1.001);
}

TEST_CASE("retry after: mean times waiting over slots, rounded up, from 1 to 60") {
  CHECK(retry_after_seconds(2, 10, 4) == 5);
  CHECK(retry_after_seconds(2, 11, 4) == 6);   // 5.5
  CHECK(retry_after_seconds(0, 512, 4) == 1);  // nothing is known yet
  CHECK(retry_after_seconds(5, 0, 4) == 1);    // --queue 0: no request waits
  CHECK(retry_after_seconds(0.001, 1, 256) == 1);
  CHECK(retry_after_seconds(30, 512, 4) == 60);
  CHECK(retry_after_seconds(1e300, 4096, 1) == 60);
  CHECK(retry_after_seconds(1, 1, 0) == 1);
}
