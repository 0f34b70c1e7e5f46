// Several models: which one a name selects, and how requests wait for it.
#include "server/api/model_catalog.h"

#include <thread>

#include "server/json/api_error.h"
#include "tests/support/catch.h"

using namespace hearth;

namespace {

using Phase = ServerState::Phase;

/// Three models that are not loaded.
struct Bench {
  ServerState one, two, three;
  ModelCatalog catalog;

  explicit Bench(bool has_default = false, bool any_name = false) {
    for (ServerState* state : {&one, &two, &three}) state->set_absent(Phase::kUnloaded, "");
    catalog.set({model({"one", "alias"}, one, has_default, any_name), model({"two:latest"}, two),
                 model({"a/three"}, three)});
  }
  static std::shared_ptr<const CatalogModel> model(std::vector<std::string> names, ServerState& state,
                                                   bool is_default = false, bool any_name = false) {
    return std::make_shared<const CatalogModel>(CatalogModel{
        .names = std::move(names), .is_default = is_default, .any_name = any_name, .state = &state});
  }
  const ServerState* find(std::string_view name, bool without_tag = false) const {
    return catalog.find(name, without_tag)->state;
  }
  /// Returns the message of the refusal.
  std::string refusal(std::string_view name, bool without_tag = false) const {
    try {
      catalog.find(name, without_tag);
    } catch (const RequestError& error) {
      CHECK(error.error().status == 404);
      return error.error().message;
    }
    return {};
  }
};

bool is_there() { return true; }

}  // namespace

TEST_CASE("a name selects its model, in Ollama's API with or without :latest") {
  const Bench bench;
  CHECK(bench.find("one") == &bench.one);
  CHECK(bench.find("alias") == &bench.one);
  CHECK(bench.find("a/three") == &bench.three);
  CHECK(bench.find("one:latest", true) == &bench.one);
  CHECK(bench.find("two", true) == &bench.two);
  CHECK(bench.refusal("two") != "");
  CHECK(bench.refusal("One") != "");
  CHECK(bench.refusal("four") ==
        "The model 'four' does not exist here; this server has 'one', 'alias', 'two:latest', 'a/three'.");
}

TEST_CASE("without a name, the default model answers, or the only loaded one") {
  CHECK(Bench(true).find("") != nullptr);
  Bench bench;
  CHECK(bench.refusal("").starts_with("The request names no model; this server has 'one'"));
  bench.two.set_ready({.name = "two:latest"});
  CHECK(bench.find("") == &bench.two);
  bench.three.set_ready({.name = "a/three"});
  CHECK(bench.refusal("") != "");
}

TEST_CASE("with --alias '*', the first model answers requests for unknown ones") {
  const Bench bench(true, true);
  CHECK(bench.find("four") == &bench.one);
  CHECK(bench.find("a/three") == &bench.three);
}

TEST_CASE("a bounded number of requests waits for a model") {
  Bench bench;
  CHECK(bench.one.await_turn(0, is_there).full);
  CHECK_FALSE(bench.one.is_wanted());
  ServerState::Awaited awaited;
  std::thread waiting([&] { awaited = bench.one.await_turn(1, is_there); });
  while (!bench.one.is_wanted()) std::this_thread::yield();
  CHECK(bench.one.await_turn(1, is_there).full);
  bench.one.set_ready({.name = "one"});
  waiting.join();
  CHECK(awaited.model != nullptr);
  CHECK_FALSE(bench.one.has_waiting());
}

TEST_CASE("a refusal ends all waits, and is forgotten when the model is loaded") {
  Bench bench;
  ServerState::Awaited awaited;
  std::thread waiting([&] { awaited = bench.one.await_turn(1, is_there); });
  while (!bench.one.is_wanted()) std::this_thread::yield();
  bench.one.refuse_waiting("it is broken");
  CHECK_FALSE(bench.one.is_wanted());
  waiting.join();
  CHECK(awaited.refusal == "it is broken");
  CHECK(awaited.model == nullptr);
  CHECK(model_status(bench.one) == "failed");
  bench.one.set_loads(true);
  CHECK(model_status(bench.one) == "loading");
  bench.one.set_ready({.name = "one"});
  CHECK(model_status(bench.one) == "loaded");
  bench.one.set_absent(Phase::kUnloaded, "one");
  bench.one.set_loads(false);
  CHECK(model_status(bench.one) == "unloaded");
}

TEST_CASE("a client that leaves waits no longer") {
  Bench bench;
  const ServerState::Awaited awaited = bench.one.await_turn(1, [] { return false; });
  CHECK(awaited.model == nullptr);
  CHECK_FALSE(awaited.full);
  CHECK_FALSE(bench.one.is_wanted());
}
