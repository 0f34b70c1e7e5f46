// Stored responses: conversations that continue, retrieving, deleting, listing, and canceling one while it
// is generated.
#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "server/api/responses/background.h"
#include "server/http/message/query.h"
#include "tests/server/api/responses_bench.h"
#include "tests/support/catch.h"
#include "tests/support/scripted_model.h"

namespace hearth {
namespace {

using nlohmann::json;

TEST_CASE("previous_response_id continues the conversation; instructions do not carry over") {
  ResponsesBench bench("<think>hm</think>One.");
  const json first = bench.ask(R"("instructions": "S")", R"("a")");
  const json second = bench.ask(R"("previous_response_id": )" + first["id"].dump(), R"("b")");
  CHECK(bench.prompt() == "[user]a[assistant]<think>hm</think>One.[user]b[assistant]");
  CHECK(second["previous_response_id"] == first["id"]);
  // A second branch from the first response, and a third turn.
  bench.ask(R"("previous_response_id": )" + first["id"].dump(), R"("c")");
  CHECK(bench.prompt() == "[user]a[assistant]<think>hm</think>One.[user]c[assistant]");
  bench.ask(R"("instructions": "T", "previous_response_id": )" + second["id"].dump(), R"("d")");
  CHECK(bench.prompt() ==
        "[system]T[user]a[assistant]<think>hm</think>One.[user]b[assistant]<think>hm</"
        "think>One.[user]d[assistant]");
}

TEST_CASE("the result of a call may be sent alone, after the response that made the call") {
  ResponsesBench bench(
      R"(<tool_call>{"name": "weather", "arguments": {"city": "Ulm", "days": 2}}</tool_call>)");
  const json first = bench.ask(kResponseTools, R"("a")");
  bench.says("Sun.");
  const std::string result = R"([{"type": "function_call_output", "call_id": )" +
                             first["output"][0]["call_id"].dump() + R"(, "output": "sun"}])";
  bench.ask(R"("previous_response_id": )" + first["id"].dump(), result);
  CHECK_THAT(bench.prompt(), ContainsSubstring(R"([assistant]<tool_call>{"name": "weather")"));
  CHECK(bench.prompt().ends_with("[tool]sun[assistant]"));
  CHECK(bench.error(R"({"input": )" + result + "}")["param"] == "input[0].call_id");
}

TEST_CASE("a kept response can be retrieved and deleted; others are not found") {
  ResponsesBench bench;
  const json kept = bench.ask("");
  CHECK(bench.get(kept["id"]) == kept);
  const json streamed = bench.stream("").back().data["response"];
  CHECK(bench.get(streamed["id"]) == streamed);
  const json unkept = bench.ask(R"("store": false)");
  CHECK(unkept["store"] == false);
  CHECK(bench.get(unkept["id"])["error"]["code"] == "response_not_found");
  const json refused = bench.error(R"({"input": "b", "previous_response_id": )" + unkept["id"].dump() + "}");
  CHECK(refused["code"] == "previous_response_not_found");
  CHECK(refused["param"] == "previous_response_id");

  const json next = bench.ask(R"("previous_response_id": )" + kept["id"].dump());
  const HttpResponse deleted = delete_response(bench.api(), HttpRequest(), kept["id"].get<std::string>());
  CHECK(json::parse(deleted.body) == json({{"id", kept["id"]}, {"object", "response"}, {"deleted", true}}));
  CHECK(delete_response(bench.api(), HttpRequest(), kept["id"].get<std::string>()).status == 404);
  CHECK(retrieve_response(bench.api(), HttpRequest(), kept["id"].get<std::string>()).status == 404);
  // The response that continued the deleted response has lost its beginning.
  CHECK(bench.error(R"({"input": "b", "previous_response_id": )" + next["id"].dump() + "}")["code"] ==
        "previous_response_not_found");
  HttpRequest stream;
  stream.query = "stream=true";
  CHECK(retrieve_response(bench.api(), stream, next["id"].get<std::string>()).status == 400);
}

TEST_CASE("input items are listed newest first, page by page") {
  ResponsesBench bench;
  const json response = bench.ask("", R"([{"id": "msg_a", "role": "user", "content": "a"},
      {"type": "reasoning", "id": "rs_b", "summary": []}, {"role": "assistant", "content": "b"},
      {"id": "msg_c", "role": "user", "content": "c"}])");
  const std::string id = response["id"];
  const auto ids = [](const json& list) {
    std::vector<std::string> out;
    for (const json& item : list["data"]) out.push_back(item["id"]);
    return out;
  };
  const json all = bench.input_items(id);
  CHECK(all["object"] == "list");
  CHECK(all["has_more"] == false);
  REQUIRE(all["data"].size() == 4);
  CHECK(all["first_id"] == "msg_c");
  CHECK(all["last_id"] == "msg_a");
  CHECK(all["data"][0] == json({{"type", "message"},
                                {"role", "user"},
                                {"status", "completed"},
                                {"content", {{{"type", "input_text"}, {"text", "c"}}}},
                                {"id", "msg_c"}}));
  CHECK(all["data"][1]["id"].get<std::string>().starts_with("msg_"));
  CHECK(all["data"][1]["content"][0]["type"] == "output_text");
  std::vector<std::string> oldest_first = ids(bench.input_items(id, "order=asc"));
  std::ranges::reverse(oldest_first);
  CHECK(oldest_first == ids(all));
  const json page = bench.input_items(id, "limit=2&order=asc");
  CHECK(ids(page) == std::vector<std::string>{"msg_a", "rs_b"});
  CHECK(page["has_more"] == true);
  const json rest = bench.input_items(id, "order=asc&after=rs%5Fb&include=x");
  CHECK(rest["data"].size() == 2);
  CHECK(rest["last_id"] == "msg_c");
  CHECK(bench.input_items(id, "after=msg_a")["data"] == json::array());
  CHECK(bench.input_items(id, "after=msg_a")["first_id"].is_null());
  for (const auto& [query, param] : std::map<std::string, std::string>{{"limit=0", "limit"},
                                                                       {"limit=101", "limit"},
                                                                       {"limit=2x", "limit"},
                                                                       {"order=up", "order"},
                                                                       {"after=nothing", "after"}}) {
    INFO(query);
    CHECK(bench.input_items(id, query)["error"]["param"] == param);
  }
  CHECK(bench.input_items("resp_unknown")["error"]["code"] == "response_not_found");
}

TEST_CASE("parameters of a query are decoded; the first of several with one name counts") {
  CHECK(query_value("a=1&b=x%20y+z&a=2", "a") == "1");
  CHECK(query_value("a=1&b=x%20y+z", "b") == "x y z");
  CHECK(query_value("a", "a") == "");
  CHECK(query_value("a=", "a") == "");
  CHECK(query_value("a=%4", "a") == "%4");
  CHECK(query_value("&&=&b", "b") == "");
  CHECK_FALSE(query_value("", "a"));
  CHECK_FALSE(query_value("ab=1", "a"));
}

TEST_CASE("an item that is kept can be sent by its id") {
  ResponsesBench bench("One.");
  const json first = bench.ask("", R"([{"id": "msg_a", "role": "user", "content": "a"}])");
  bench.ask("", R"([{"type": "item_reference", "id": "msg_a"}, {"id": )" + first["output"][0]["id"].dump() +
                    R"(}, {"role": "user", "content": "b"}])");
  CHECK(bench.prompt() == "[user]a[assistant]One.[user]b[assistant]");
}

/// The id of a bench's first response. The item of its input takes the first two random numbers, and the
/// response takes the next two.
const std::string kFirstId = "resp_30000000000000004000000000000000";

/// Ends a cancelled request as the engine does.
void end_cancelled(TokenStream& stream) { play_end(stream, 0, FinishReason::kCancelled); }

TEST_CASE("canceling ends the engine's request; the client gets the text so far, and the status cancelled") {
  ResponsesBench bench;
  bench.engine.play = [](TokenStream& stream) { play_text(stream, 0, "He"); };
  for (const bool streamed : {false, true}) {  // the first one's id is known in advance
    std::string id;
    RecordingClient client;
    client.alive = [&] {  // called while the engine is silent
      if (bench.engine.stream->cancelled(0)) return true;
      id = streamed ? sse_events(client.received)[0].data["response"]["id"].get<std::string>() : kFirstId;
      const HttpResponse cancelled = cancel_response(bench.api(), HttpRequest(), id);
      CHECK(cancelled.status == 200);
      CHECK(json::parse(cancelled.body)["status"] == "cancelled");
      CHECK(bench.engine.stream->cancelled(0));
      end_cancelled(*bench.engine.stream);
      return true;
    };
    REQUIRE(
        bench.create(streamed ? R"({"input": "x", "stream": true})" : R"({"input": "x"})", client).finished);
    const json got =
        streamed ? sse_events(client.received).back().data["response"] : json::parse(client.received);
    CHECK(got["status"] == "cancelled");
    CHECK(got["incomplete_details"].is_null());
    CHECK(got["output"][0]["status"] == "incomplete");
    CHECK(got["output"][0]["content"][0]["text"] == "He");
    CHECK(got["usage"]["output_tokens"] == 2);
    CHECK(bench.get(got["id"]) == got);
    CHECK(client.reported->ended == std::string("complete"));
    if (streamed) CHECK(sse_events(client.received).back().name == "response.incomplete");
    // Canceling again returns what there is. The conversation can continue from it.
    CHECK(json::parse(cancel_response(bench.api(), HttpRequest(), got["id"].get<std::string>()).body) == got);
  }
}

TEST_CASE("only a response being generated can be cancelled, and it cannot be continued meanwhile") {
  ResponsesBench bench;
  const json complete = bench.ask("");
  const HttpResponse refused = cancel_response(bench.api(), HttpRequest(), complete["id"].get<std::string>());
  CHECK(refused.status == 400);
  CHECK_THAT(refused.body, ContainsSubstring("completed"));
  CHECK(cancel_response(bench.api(), HttpRequest(), "resp_unknown").status == 404);
  bench.engine.play = [](TokenStream&) {};
  RecordingClient client;
  client.on_write = [&](std::string_view) {
    const std::string id = sse_events(client.received)[0].data["response"]["id"];
    CHECK(bench.get(id)["status"] == "in_progress");
    CHECK(bench.error(R"({"input": "b", "previous_response_id": ")" + id + R"("})")["param"] ==
          "previous_response_id");
    return false;
  };
  CHECK_FALSE(bench.create(R"({"input": "x", "stream": true})", client).finished);
}

TEST_CASE("a client that leaves a stream leaves a cancelled response, one that waits leaves nothing") {
  ResponsesBench bench;
  bench.engine.play = [](TokenStream& stream) { play_text(stream, 0, "He"); };
  RecordingClient gone;
  gone.alive = [&bench] {
    CHECK(bench.api().responses().size() == 1);
    return false;
  };
  CHECK(bench.create(R"({"input": "x"})", gone).status == 499);
  CHECK(bench.api().responses().size() == 0);
  const Answered streamed = bench.create(R"({"input": "x", "stream": true})", gone);
  CHECK(streamed.begun);
  const json kept = bench.get(sse_events(gone.received)[0].data["response"]["id"]);
  CHECK(kept["status"] == "cancelled");
  CHECK(kept["output"][0]["content"][0]["text"] == "He");
  CHECK(kept["output"][0]["status"] == "incomplete");
}

/// Requests a response until it has this status.
json wait_for(ResponsesBench& bench, const std::string& id, const std::string& status) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (;;) {
    json response = bench.get(id);
    if (response["status"] == status || std::chrono::steady_clock::now() > deadline) return response;
    std::this_thread::yield();
  }
}

TEST_CASE("a background response exists at once, and is complete when retrieved later") {
  ResponsesBench bench;
  bench.engine.play = [](TokenStream& stream) { play_text(stream, 0, "Hi."); };
  const json begun = bench.ask(R"("background": true)");
  CHECK(begun["status"] == "in_progress");
  CHECK(begun["background"] == true);
  CHECK(begun["output"] == json::array());
  CHECK(bench.get(begun["id"])["status"] == "in_progress");
  play_end(*bench.engine.stream, 0, FinishReason::kStop, 2);
  const json ended = wait_for(bench, begun["id"], "completed");
  CHECK(ended["status"] == "completed");
  CHECK(ended["background"] == true);
  CHECK(ended["output"][0]["content"][0]["text"] == "Hi.");
  CHECK(ended["usage"]["output_tokens"] == 3);
  bench.says("Two.");
  CHECK(bench.ask(R"("previous_response_id": )" + begun["id"].dump())["status"] == "completed");
  CHECK_THAT(bench.prompt(), ContainsSubstring("[assistant]Hi.[user]"));
}

TEST_CASE("a background response can be cancelled and deleted, and its failure can be seen") {
  ResponsesBench bench;
  bench.engine.play = [](TokenStream& stream) { play_text(stream, 0, "Hi."); };
  const json first = bench.ask(R"("background": true)");
  CHECK(json::parse(
            cancel_response(bench.api(), HttpRequest(), first["id"].get<std::string>()).body)["status"] ==
        "cancelled");
  CHECK(bench.engine.stream->cancelled(0));
  end_cancelled(*bench.engine.stream);
  const json cancelled = wait_for(bench, first["id"], "cancelled");
  CHECK(cancelled["status"] == "cancelled");
  CHECK(cancelled["output"][0]["content"][0]["text"] == "Hi.");

  const json second = bench.ask(R"("background": true)");
  CHECK(delete_response(bench.api(), HttpRequest(), second["id"].get<std::string>()).status == 200);
  CHECK(bench.engine.stream->cancelled(0));
  end_cancelled(*bench.engine.stream);
  CHECK(bench.get(second["id"])["error"]["code"] == "response_not_found");

  const json third = bench.ask(R"("background": true)");
  play_end(*bench.engine.stream, 0, FinishReason::kFailed, 0, "it burns");
  const json failed = wait_for(bench, third["id"], "failed");
  CHECK_THAT(failed["error"]["message"].get<std::string>(), ContainsSubstring("it burns"));
}

TEST_CASE("background responses end with the server") {
  ResponsesBench bench;
  bench.engine.play = [](TokenStream& stream) { play_text(stream, 0, "Hi."); };
  bench.ask(R"("background": true)");
  bench.kept.reset();
  CHECK(bench.engine.stream->cancelled(0));
}

/// An answer that throws, and tells when it is destroyed.
class ThrowingAnswer final : public PendingAnswer {
 public:
  explicit ThrowingAnswer(std::atomic<bool>& destroyed) : destroyed_(destroyed) {}
  ~ThrowingAnswer() override { destroyed_ = true; }
  void run(ResponseWriter&) override { throw std::runtime_error("no memory"); }

 private:
  std::atomic<bool>& destroyed_;
};

TEST_CASE("a background answer that throws is destroyed, which cancels it") {
  std::atomic<bool> destroyed{false};
  BackgroundAnswers background;
  REQUIRE(background.start(std::make_unique<ThrowingAnswer>(destroyed)));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!destroyed && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  CHECK(destroyed);
}

TEST_CASE("the number of background responses is limited") {
  ResponsesBench bench;
  bench.engine.play = [](TokenStream&) {};
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (size_t i = 0; i < BackgroundAnswers::kMaxRunning; ++i) {
    REQUIRE(bench.create(R"({"input": "x", "background": true})").status == 200);
    streams.push_back(bench.engine.stream);
  }
  const Answered refused = bench.create(R"({"input": "x", "background": true})");
  CHECK(refused.status == 429);
  CHECK_FALSE(header_of(refused, "Retry-After").empty());
  CHECK(bench.engine.stream->cancelled(0));
  CHECK(bench.api().responses().size() == BackgroundAnswers::kMaxRunning);
  for (const auto& stream : streams) end_cancelled(*stream);
}

TEST_CASE("the engine stops within a step of the cancellation") {
  constexpr int kCancelStep = 6;
  int n_steps = 0;
  std::atomic<bool> answering = false;  // the response can be cancelled from here on
  ResponsesBench bench;
  ScriptedModel scripted({.limits = {.max_tokens = 64,
                                     .max_logit_rows = 8,
                                     .n_vocab = ApiVocabulary::kFirstWord,
                                     .block_tokens = 4,
                                     .n_blocks = 128},
                          .before_step = [&](const Batch&) {
                            if (++n_steps != kCancelStep) return;
                            answering.wait(false);
                            cancel_response(bench.api(), HttpRequest(), kFirstId);
                          }});
  Engine engine(scripted, {.n_slots = 1, .context_tokens = 256, .queue_capacity = 4, .prefill_chunk = 64});
  bench.model.engine = &engine;
  bench.model.context_tokens = 256;
  RecordingClient client;
  client.on_write = [&](std::string_view) {
    answering = true;
    answering.notify_all();
    return true;
  };
  CHECK(
      bench.create(R"({"input": "x", "stream": true, "ignore_eos": true, "max_output_tokens": 200})", client)
          .finished);
  const std::vector<SseEvent> events = sse_events(client.received);
  CHECK(events.front().data["response"]["id"] == kFirstId);
  CHECK(events.back().data["response"]["status"] == "cancelled");
  CHECK(engine.drain(std::chrono::steady_clock::now() + std::chrono::seconds(60)));
  CHECK(n_steps <= kCancelStep + 1);
}

}  // namespace
}  // namespace hearth
