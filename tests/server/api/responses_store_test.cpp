// The store of responses: its limits, which response is evicted first, and concurrent threads.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/api/responses/response_store.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

KeptResponse kept(const std::string& id, std::string previous_id = {}, size_t n_bytes = 1) {
  return {.previous_id = std::move(previous_id),
          .input = std::make_shared<const Json>(
              Json::array({{{"id", "in_" + id}, {"text", std::string(n_bytes, 'x')}}})),
          .response = std::make_shared<const Json>(
              Json({{"id", id}, {"output", Json::array({{{"id", "out_" + id}, {"of", id}}})}}))};
}

struct Store {
  std::chrono::steady_clock::time_point time{};
  ResponseStore store;
  explicit Store(ResponseStoreLimits limits = {}) : store([this] { return time; }, limits) {}
  bool has(const std::string& id) { return store.find(id).has_value(); }
};

TEST_CASE("the least recently used response goes first") {
  Store s({.max_responses = 3});
  for (const char* id : {"a", "b", "c"}) s.store.put(id, kept(id));
  CHECK(s.has("a"));  // counts as a use
  s.store.put("d", kept("d"));
  CHECK(s.store.size() == 3);
  CHECK_FALSE(s.has("b"));
  CHECK((s.has("a") && s.has("c") && s.has("d")));
}

TEST_CASE("bytes are bounded, even if a response grows until its end") {
  const size_t one = json_bytes(*kept("a", {}, 10000).input) + json_bytes(*kept("a").response);
  Store s({.max_bytes = 3 * one + 100});
  for (const char* id : {"a", "b", "c"}) s.store.put(id, kept(id, {}, 10000));
  CHECK(s.store.size() == 3);
  CHECK(s.store.bytes() >= 30000);
  CHECK(s.store.bytes() <= 3 * one + 100);
  s.store.end("c", std::make_shared<const Json>(
                       Json({{"output", Json::array()}, {"text", std::string(10000, 'y')}})));
  CHECK_FALSE(s.has("a"));
  CHECK((s.has("b") && s.has("c")));
  CHECK(s.store.bytes() <= 3 * one + 100);
  s.store.put("huge", kept("huge", {}, 100000));  // larger than the store: nothing else is evicted for it
  CHECK_FALSE(s.has("huge"));
  CHECK((s.has("b") && s.has("c")));
  CHECK(s.store.erase("b"));
  CHECK(s.store.erase("c"));
  CHECK(s.store.bytes() == 0);
}

TEST_CASE("responses that have not been used for a time are removed") {
  Store s({.max_age = std::chrono::seconds(100)});
  s.store.put("a", kept("a"));
  s.store.put("b", kept("b"));
  s.time += std::chrono::seconds(90);
  CHECK(s.has("a"));
  s.time += std::chrono::seconds(90);
  CHECK(s.has("a"));
  CHECK_FALSE(s.has("b"));
  CHECK_FALSE(s.store.erase("b"));
  s.time += std::chrono::seconds(101);
  CHECK(s.store.items({"in_a"}).empty());
  CHECK(s.store.size() == 0);
}

TEST_CASE("a conversation loses its last responses first") {
  Store s({.max_responses = 3});
  s.store.put("a", kept("a"));
  s.store.put("b", kept("b", "a"));
  s.store.put("c", kept("c", "b"));
  std::string missing;
  const std::vector<KeptResponse> all = s.store.conversation("c", missing);
  REQUIRE(all.size() == 3);
  CHECK((*all[0].response)["id"] == "a");
  CHECK((*all[2].response)["id"] == "c");
  CHECK(missing.empty());
  s.store.put("d", kept("d"));
  CHECK_FALSE(s.has("c"));
  CHECK(s.store.conversation("b", missing).size() == 2);
  s.store.erase("a");
  CHECK(s.store.conversation("b", missing).empty());
  CHECK(missing == "a");
}

TEST_CASE("ending a removed response does nothing; an ended one has no control") {
  Store s;
  s.store.end("a", std::make_shared<const Json>(Json::object()));
  CHECK(s.store.size() == 0);
  KeptResponse running = kept("a");
  running.control = std::make_shared<AnswerControl>();
  s.store.put("a", std::move(running));
  CHECK(s.store.find("a")->control != nullptr);
  s.store.end("a", std::make_shared<const Json>(Json({{"output", Json::array()}})));
  CHECK(s.store.find("a")->control == nullptr);
}

TEST_CASE("items are found by their ids, in inputs and outputs") {
  Store s;
  s.store.put("a", kept("a"));
  s.store.put("b", kept("b"));
  const auto found = s.store.items({"in_a", "out_b", "nothing"});
  REQUIRE(found.size() == 2);
  CHECK(found.at("out_b")["of"] == "b");
}

TEST_CASE("threads can keep, find, end, cancel and delete at once") {
  ResponseStore store([] { return std::chrono::steady_clock::now(); }, {.max_responses = 8});
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&store, thread] {
        for (int i = 0; i < 200; ++i) {
          const std::string id = std::to_string((i + thread * 50) % 16);
          KeptResponse response = kept(id, i % 3 == 0 ? std::to_string(i % 16) : "");
          if (response.previous_id == id) response.previous_id.clear();
          response.control = std::make_shared<AnswerControl>();
          const auto events = std::make_shared<TokenStream>(1);
          if (i % 2 == 0) store.put(id, response);
          response.control->attach(events);
          if (const auto other = store.find(std::to_string(i % 16)); other && other->control)
            other->control->cancel();
          store.items({"in_3"});
          store.end(id, std::make_shared<const Json>(Json({{"output", Json::array()}})));
          if (i % 5 == 0) store.erase(id);
        }
      });
    }
  }
  CHECK(store.size() <= 8);
}

TEST_CASE("an answer that is cancelled before it is known to the engine is cancelled at once") {
  AnswerControl control;
  control.cancel();
  const auto events = std::make_shared<TokenStream>(1);
  control.attach(events);
  CHECK(control.cancelled());
  CHECK(events->cancelled(0));
}

}  // namespace
}  // namespace hearth
