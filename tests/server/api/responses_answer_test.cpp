// The form of a response, whole and as a stream of events.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/server/api/responses_bench.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

using nlohmann::json;

const std::string kSpoken =
    R"(<think>hm.</think>Let me see.<tool_call>{"name": "weather", "arguments": {"city": "Ulm", "days": 2}}</tool_call>)";

std::vector<std::string> names_of(const std::vector<SseEvent>& events) {
  std::vector<std::string> names;
  for (const SseEvent& event : events) {
    if (names.empty() || names.back() != event.name) names.push_back(event.name);  // deltas count once
  }
  return names;
}

/// The items without their ids, which vary.
json without_ids(json items) {
  for (json& item : items) item.erase("id");
  return items;
}

TEST_CASE("a response has every member that OpenAI's has, and repeats its request") {
  ResponsesBench bench("Hi.");
  const json response = bench.ask(
      R"("instructions": "Be kind.", "metadata": {"a": "b"}, "temperature": 0.5, "top_p": 0.25, "max_output_tokens": 9,
         "user": "me", "text": {"verbosity": "low"}, "reasoning": {"effort": "low", "summary": "auto"}, "model": "tiny",
         "max_tool_calls": 3, "service_tier": "flex", "truncation": "disabled", "prompt_cache_key": "k",
         "safety_identifier": "s", "include": ["reasoning.encrypted_content"])");
  CHECK(response["id"].get<std::string>().starts_with("resp_"));
  const json expected = {{"object", "response"},
                         {"created_at", 1700000000},
                         {"status", "completed"},
                         {"background", false},
                         {"completed_at", 1700000000},
                         {"error", nullptr},
                         {"incomplete_details", nullptr},
                         {"model", "tiny"},
                         {"instructions", "Be kind."},
                         {"max_output_tokens", 9},
                         {"user", "me"},
                         {"safety_identifier", "s"},
                         {"prompt_cache_key", "k"},
                         {"service_tier", "default"},
                         {"max_tool_calls", 3},
                         {"metadata", {{"a", "b"}}},
                         {"parallel_tool_calls", true},
                         {"tool_choice", "auto"},
                         {"tools", json::array()},
                         {"previous_response_id", nullptr},
                         {"reasoning", {{"effort", "low"}, {"summary", "auto"}}},
                         {"store", true},
                         {"temperature", 0.5},
                         {"text", {{"format", {{"type", "text"}}}, {"verbosity", "low"}}},
                         {"top_logprobs", 0},
                         {"top_p", 0.25},
                         {"truncation", "disabled"}};
  for (const auto& [name, value] : expected.items()) {
    INFO(name);
    REQUIRE(response.contains(name));
    CHECK(response[name] == value);
  }
  const auto n_prompt = bench.engine.requests.back().sequences[0].prompt.size();
  CHECK(response["usage"] ==
        json({{"input_tokens", n_prompt},
              {"input_tokens_details", {{"cached_tokens", 2}, {"cache_write_tokens", 0}}},
              {"output_tokens", 3},
              {"output_tokens_details", {{"reasoning_tokens", 0}}},
              {"total_tokens", n_prompt + 3}}));
  REQUIRE(response["output"].size() == 1);
  const json& message = response["output"][0];
  CHECK(message["id"].get<std::string>().starts_with("msg_"));
  CHECK(without_ids(response["output"]) == json::array({{{"type", "message"},
                                                         {"status", "completed"},
                                                         {"role", "assistant"},
                                                         {"content",
                                                          {{{"type", "output_text"},
                                                            {"text", "Hi."},
                                                            {"annotations", json::array()},
                                                            {"logprobs", json::array()}}}}}}));
  CHECK(bench.prompt() == "[effort low][system]Be kind.[user]Hello[assistant]");
  CHECK(bench.engine.requests.back().sequences[0].max_tokens == 9);
}

TEST_CASE("thinking, text and calls are items of their own, whole and streamed alike") {
  ResponsesBench bench(kSpoken);
  const json whole = bench.ask(kResponseTools);
  const json& output = whole["output"];
  REQUIRE(output.size() == 3);
  CHECK(output[0]["id"].get<std::string>().starts_with("rs_"));
  CHECK(output[0]["type"] == "reasoning");
  CHECK(output[0]["summary"] == json::array());
  CHECK(output[0]["content"] == json::array({{{"type", "reasoning_text"}, {"text", "hm."}}}));
  CHECK(output[1]["content"][0]["text"] == "Let me see.");
  const json& call = output[2];
  CHECK(call["id"].get<std::string>().starts_with("fc_"));
  CHECK(call["call_id"] != call["id"]);
  CHECK_FALSE(call["call_id"].get<std::string>().empty());
  CHECK(call["name"] == "weather");
  CHECK(json::parse(call["arguments"].get<std::string>()) == json({{"city", "Ulm"}, {"days", 2}}));
  for (const json& item : output) CHECK(item["status"] == "completed");
  CHECK(whole["status"] == "completed");
  CHECK(whole["tools"][0]["name"] == "weather");
  // The vocabulary writes bytes: the 7 of <think>, and the three after it, which depend on what follows.
  CHECK(whole["usage"]["output_tokens"] == kSpoken.size());
  CHECK(whole["usage"]["output_tokens_details"]["reasoning_tokens"] == std::string("<think>hm.").size());

  const std::vector<SseEvent> events = bench.stream(kResponseTools);
  CHECK(names_of(events) ==
        std::vector<std::string>{
            "response.created", "response.in_progress", "response.output_item.added",
            "response.content_part.added", "response.reasoning_text.delta", "response.reasoning_text.done",
            "response.content_part.done", "response.output_item.done", "response.output_item.added",
            "response.content_part.added", "response.output_text.delta", "response.output_text.done",
            "response.content_part.done", "response.output_item.done", "response.output_item.added",
            "response.function_call_arguments.delta", "response.function_call_arguments.done",
            "response.output_item.done", "response.completed"});
  json final = events.back().data["response"];
  json streamed_output = without_ids(final["output"]), whole_output = without_ids(output);
  streamed_output[2].erase("call_id");
  whole_output[2].erase("call_id");
  CHECK(streamed_output == whole_output);
  CHECK(final["usage"] == whole["usage"]);
}

TEST_CASE("events are numbered, name their items, and together give the items' content") {
  ResponsesBench bench(kSpoken);
  const std::vector<SseEvent> events = bench.stream(kResponseTools);
  std::vector<std::string> texts(3), ids(3);
  size_t n_done = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    const json& data = events[i].data;
    CHECK(data["type"] == events[i].name);
    CHECK(data["sequence_number"] == i);
    if (!data.contains("output_index")) continue;
    const auto index = data["output_index"].get<size_t>();
    REQUIRE(index < 3);
    CHECK(index == n_done);  // one after the other
    if (events[i].name == "response.output_item.added") ids[index] = data["item"]["id"];
    const std::string id = data.contains("item") ? data["item"]["id"] : data["item_id"];
    CHECK(id == ids[index]);
    if (data.contains("delta")) texts[index] += data["delta"].get<std::string>();
    if (data.contains("text")) CHECK(data["text"] == texts[index]);
    if (data.contains("arguments")) CHECK(data["arguments"] == texts[index]);
    if (events[i].name == "response.output_item.done") ++n_done;
  }
  CHECK(texts == std::vector<std::string>{"hm.", "Let me see.", R"({"city": "Ulm", "days": 2})"});
  CHECK(n_done == 3);
  CHECK(events.front().data["response"]["status"] == "in_progress");
  CHECK(events.front().data["response"]["output"] == json::array());
  CHECK(events.front().data["response"]["usage"].is_null());
}

TEST_CASE("an answer cut by its limit is incomplete, and so is its last item") {
  ResponsesBench bench("Hi the", FinishReason::kLength);
  const json whole = bench.ask("");
  CHECK(whole["status"] == "incomplete");
  CHECK(whole["incomplete_details"] == json({{"reason", "max_output_tokens"}}));
  CHECK(whole["completed_at"].is_null());
  CHECK(whole["output"][0]["status"] == "incomplete");
  const std::vector<SseEvent> events = bench.stream("");
  CHECK(events.back().name == "response.incomplete");
  CHECK(events.back().data["response"]["output"][0]["status"] == "incomplete");
  bench.says(kSpoken.substr(0, kSpoken.size() - 15), FinishReason::kLength);
  for (const json& response :
       {bench.ask(kResponseTools), bench.stream(kResponseTools).back().data["response"]}) {
    REQUIRE(response["output"].size() == 3);
    CHECK(response["output"][1]["status"] == "completed");
    CHECK(response["output"][2]["status"] == "incomplete");
  }
}

TEST_CASE("an answer without a token has an empty message") {
  ResponsesBench bench("");
  CHECK(bench.ask("")["output"][0]["content"][0]["text"] == "");
  const std::vector<SseEvent> events = bench.stream("");
  CHECK(events.back().data["response"]["output"][0]["content"][0]["text"] == "");
}

TEST_CASE("log-probabilities are those of the message's tokens") {
  ResponsesBench bench("<think>hm.</think>Yes");
  CHECK(bench.ask(R"("include": [])")["output"][1]["content"][0]["logprobs"] == json::array());
  for (const char* asked : {R"("top_logprobs": 1)", R"("include": ["message.output_text.logprobs"])"}) {
    const json whole = bench.ask(asked);
    const json& logprobs = whole["output"][1]["content"][0]["logprobs"];
    REQUIRE(logprobs.size() >= 3);
    CHECK(logprobs.back()["token"] == "s");
    CHECK(logprobs.back()["bytes"] == json::array({'s'}));
    const std::vector<SseEvent> events = bench.stream(asked);
    CHECK(events.back().data["response"]["output"][1]["content"][0]["logprobs"] == logprobs);
    json of_deltas = json::array();
    for (const SseEvent& event : events) {
      if (event.name != "response.output_text.delta") continue;
      for (const json& entry : event.data["logprobs"]) of_deltas.push_back(entry);
    }
    CHECK(of_deltas == logprobs);
    CHECK(bench.engine.requests.back().sequences[0].n_top_logprobs == (asked[1] == 't' ? 1 : 0));
  }
}

TEST_CASE("an engine failure in a stream gives an error event and a failed response") {
  ResponsesBench bench;
  bench.engine.play = [](TokenStream& stream) { play_text(stream, 0, "He"); };
  RecordingClient client;
  client.alive = [&bench] {  // asked once the played events are used up
    play_end(*bench.engine.stream, 0, FinishReason::kFailed, 0, "the device is gone");
    return true;
  };
  const Answered answer = bench.create(R"({"input": "x", "stream": true})", client);
  CHECK(answer.content_type == "text/event-stream");
  CHECK(answer.finished);
  const std::vector<SseEvent> events = sse_events(client.received);
  REQUIRE(events.size() > 2);
  const SseEvent& error = events[events.size() - 2];
  CHECK(error.name == "error");
  CHECK(error.data["code"] == "engine_failed");
  CHECK_THAT(error.data["message"].get<std::string>(), ContainsSubstring("the device is gone"));
  CHECK(error.data["param"].is_null());
  CHECK(events.back().name == "response.failed");
  const json& failed = events.back().data["response"];
  CHECK(failed["status"] == "failed");
  CHECK(failed["error"]["code"] == "server_error");
  CHECK(failed["output"][0]["content"][0]["text"] == "He");
  CHECK(bench.get(failed["id"]) == failed);
  CHECK_THAT(client.received, !ContainsSubstring("[DONE]"));
}

TEST_CASE("an engine failure before the status gives OpenAI's error, and nothing is kept") {
  ResponsesBench bench("", FinishReason::kFailed);
  const Answered response = bench.create(R"({"input": "x", "stream": true})");
  CHECK(response.status == 500);
  CHECK(json::parse(response.body)["error"]["code"] == "engine_failed");
  CHECK(bench.api().responses().size() == 0);
  bench.engine.refusal = Refusal::kQueueFull;
  CHECK(bench.create(R"({"input": "x"})").status == 429);
  CHECK(bench.api().responses().size() == 0);
}

}  // namespace
}  // namespace hearth
