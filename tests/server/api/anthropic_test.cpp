// Anthropic's Messages API: conversations in, blocks and events out.
#include <string>
#include <vector>

#include "server/api/anthropic/anthropic_models.h"
#include "server/api/anthropic/messages_endpoint.h"
#include "server/api/anthropic/messages_request.h"
#include "server/json/api_error.h"
#include "tests/server/api/spoken_bench.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

using nlohmann::json;

constexpr const char* kSay = R"("messages": [{"role": "user", "content": "Say"}], "max_tokens": 500)";
constexpr const char* kWeather =
    R"("tools": [{"name": "weather", "description": "Tells it.", "cache_control": {"type": "ephemeral"},
       "input_schema": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
       "required": ["city", "days"]}}])";

std::string body_of(const std::string& rest) {
  return "{" + std::string(kSay) + (rest.empty() ? "" : ", ") + rest + "}";
}

struct MessageBench : SpokenBench {
  using SpokenBench::SpokenBench;
  Answered ask_raw(const std::string& body) { return call(create_message, body); }
  json ask(const std::string& rest = "") { return json::parse(sent(ask_raw(body_of(rest)))); }
  std::vector<json> stream(const std::string& rest = "") {
    const Answered response = ask_raw(body_of(rest + (rest.empty() ? "" : ", ") + R"("stream": true)"));
    CHECK(response.content_type == "text/event-stream");
    return events_of(sent(response));
  }
  /// The server-sent events, whose name is their type.
  static std::vector<json> events_of(const std::string& sent) {
    std::vector<json> events;
    for (size_t at = 0; at < sent.size();) {
      const size_t line = sent.find('\n', at), end = sent.find("\n\n", at);
      REQUIRE(end != std::string::npos);
      REQUIRE(sent.substr(line + 1, 6) == "data: ");
      events.push_back(json::parse(sent.substr(line + 7, end - line - 7)));
      CHECK(sent.substr(at, line - at) == "event: " + events.back()["type"].get<std::string>());
      at = end + 2;
    }
    return events;
  }
};

/// The message that a client builds from a stream's events.
json built_of(const std::vector<json>& events) {
  json message;
  std::string input;
  for (const json& event : events) {
    const std::string type = event["type"];
    if (type == "message_start") message = event["message"];
    if (type == "content_block_start") {
      CHECK(event["index"] == message["content"].size());
      message["content"].push_back(event["content_block"]);
      input.clear();
    }
    if (type == "content_block_delta") {
      json& block = message["content"].at(event["index"].get<size_t>());
      const json& delta = event["delta"];
      if (delta["type"] == "text_delta")
        block["text"] = block["text"].get<std::string>() + delta["text"].get<std::string>();
      if (delta["type"] == "thinking_delta")
        block["thinking"] = block["thinking"].get<std::string>() + delta["thinking"].get<std::string>();
      if (delta["type"] == "signature_delta") block["signature"] = delta["signature"];
      if (delta["type"] == "input_json_delta")
        block["input"] = json::parse(input += delta["partial_json"], nullptr, false);
    }
    if (type == "message_delta") {
      message.update(event["delta"]);
      message["usage"] = event["usage"];
    }
  }
  return message;
}

TEST_CASE("Anthropic: models are listed page by page") {
  MessageBench bench("");
  bench.model.names = {"a", "b", "org/c"};
  const ApiContext context(bench.model, bench.world());
  const auto page = [&](std::string query) {
    HttpRequest request;
    request.query = std::move(query);
    return json::parse(list_anthropic_models(context, request).body);
  };
  const auto ids = [&](std::string query) {
    std::string all;
    const json list = page(std::move(query));
    for (const json& entry : list["data"]) all += entry["id"].get<std::string>() + " ";
    return all;
  };
  const json whole = page("");
  CHECK(whole["data"][0] == json({{"type", "model"},
                                  {"id", "a"},
                                  {"display_name", "a"},
                                  {"created_at", "2020-09-13T12:26:40Z"},
                                  {"lifecycle", "active"},
                                  {"max_input_tokens", 4000},
                                  {"max_tokens", 4000}}));
  CHECK(ids("") == "a b org/c ");
  CHECK(whole["first_id"] == "a");
  CHECK(whole["last_id"] == "org/c");
  CHECK(whole["has_more"] == false);
  CHECK(ids("limit=2") == "a b ");
  CHECK(page("limit=2")["has_more"] == true);
  CHECK(ids("limit=2&after_id=b") == "org/c ");
  CHECK(page("limit=2&after_id=b")["has_more"] == false);
  CHECK(ids("limit=1&before_id=org%2Fc") == "b ");
  CHECK(page("limit=1&before_id=org%2Fc")["has_more"] == true);
  CHECK(page("after_id=org%2Fc") ==
        json({{"data", json::array()}, {"first_id", nullptr}, {"last_id", nullptr}, {"has_more", false}}));
  for (const char* wrong : {"limit=0", "limit=1001", "limit=x", "after_id=none", "before_id="}) {
    CAPTURE(wrong);
    CHECK(page(wrong)["error"]["type"] == "invalid_request_error");
  }
  CHECK(json::parse(retrieve_anthropic_model(context, "org/c").body)["display_name"] == "org/c");
  const HttpResponse unknown = retrieve_anthropic_model(context, "claude");
  CHECK(unknown.status == 404);
  CHECK(json::parse(unknown.body)["error"]["type"] == "not_found_error");
}

TEST_CASE("Anthropic: a message sent whole has blocks of thinking, text and calls") {
  MessageBench bench(kSpokenCall);
  const json answer = bench.ask(std::string(kWeather) + R"(, "model": "tiny")");
  const std::string call_id = answer["content"][2]["id"];
  CHECK_FALSE(call_id.empty());
  const int n_prompt = static_cast<int>(bench.sequence().prompt.size());
  const json expected = {{"id", "msg_" + std::string(32, '0')},
                         {"type", "message"},
                         {"role", "assistant"},
                         {"model", "tiny"},
                         {"content",
                          {{{"type", "thinking"}, {"thinking", "hm, stop?"}, {"signature", ""}},
                           {{"type", "text"}, {"text", "Let me see."}},
                           {{"type", "tool_use"},
                            {"id", call_id},
                            {"name", "weather"},
                            {"input", {{"city", "Ulm"}, {"days", 2}}}}}},
                         {"stop_reason", "tool_use"},
                         {"stop_sequence", nullptr},
                         {"usage",
                          {{"input_tokens", n_prompt - 2},
                           {"cache_creation_input_tokens", 0},
                           {"cache_read_input_tokens", 2},
                           {"output_tokens", kSpokenCall.size()}}}};
  CHECK(answer == expected);
  CHECK(bench.sequence().constraint != nullptr);
  CHECK(bench.sequence().max_tokens == 500);
}

TEST_CASE("Anthropic: the events of a stream build the same message") {
  MessageBench bench(kSpokenCall);
  const json whole = bench.ask(kWeather);
  const std::vector<json> events = bench.stream(kWeather);
  CHECK(built_of(events) == whole);
  std::vector<std::string> types;
  for (const json& event : events)
    if (types.empty() || types.back() != event["type"]) types.push_back(event["type"]);
  const std::vector<std::string> block = {"content_block_start", "content_block_delta", "content_block_stop"};
  std::vector<std::string> expected = {"message_start"};
  for (int i = 0; i < 3; ++i) expected.insert(expected.end(), block.begin(), block.end());
  expected.insert(expected.end(), {"message_delta", "message_stop"});
  CHECK(types == expected);
  CHECK(events[0]["message"]["usage"]["input_tokens"] == bench.sequence().prompt.size());
  CHECK(events[0]["message"]["stop_reason"].is_null());
}

TEST_CASE("Anthropic: a stream of plain text, byte by byte") {
  MessageBench bench("Hi", FinishReason::kLength, 0);
  const std::string sent = bench.sent(bench.ask_raw(body_of(R"("stream": true, "model": "tiny")")));
  const std::string head =
      "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_";
  CHECK(sent.substr(0, head.size()) == head);
  const std::string rest = sent.substr(sent.find("\n\n") + 2);
  CHECK(
      rest ==
      "event: content_block_start\ndata: "
      R"({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}})"
      "\n\nevent: content_block_delta\ndata: "
      R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"H"}})"
      "\n\nevent: content_block_delta\ndata: "
      R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"i"}})"
      "\n\nevent: content_block_stop\ndata: "
      R"({"type":"content_block_stop","index":0})"
      "\n\nevent: message_delta\ndata: "
      R"({"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"input_tokens":)" +
          std::to_string(bench.sequence().prompt.size()) +
          R"(,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":2}})"
          "\n\nevent: message_stop\ndata: "
          R"({"type":"message_stop"})"
          "\n\n");
}

TEST_CASE("Anthropic: every reason to stop has its name") {
  CHECK(MessageBench("Hi").ask()["stop_reason"] == "end_turn");
  CHECK(MessageBench("Hi", FinishReason::kLength).ask()["stop_reason"] == "max_tokens");
  MessageBench stopped("<think>END</think>one END two");
  const json answer = stopped.ask(R"("stop_sequences": ["", "END", "x"])");
  CHECK(answer["stop_reason"] == "stop_sequence");
  CHECK(answer["stop_sequence"] == "END");
  CHECK(answer["content"][1]["text"] == "one ");
  CHECK(built_of(stopped.stream(R"("stop_sequences": ["", "END", "x"])")) == answer);
  CHECK(MessageBench("").ask()["content"] == json::array());
}

TEST_CASE("Anthropic: a call that was cut short is left out") {
  const std::string cut = kSpokenCall.substr(0, kSpokenCall.size() - 15);
  const json answer = MessageBench(cut, FinishReason::kLength).ask(kWeather);
  CHECK(answer["stop_reason"] == "max_tokens");
  CHECK(answer["content"].size() == 2);
}

TEST_CASE("Anthropic: thinking switches the template, and can be left out of the answer") {
  MessageBench bench("<think>hm</think>Hi");
  bench.ask();
  CHECK_THAT(bench.prompt(), ContainsSubstring("[thinks False]"));
  bench.ask(R"("thinking": {"type": "enabled", "budget_tokens": 2048})");
  CHECK_THAT(bench.prompt(), ContainsSubstring("[thinks True]"));
  bench.ask(R"("thinking": {"type": "adaptive"}, "output_config": {"effort": "low"})");
  CHECK_THAT(bench.prompt(), ContainsSubstring("[thinks True][effort low]"));
  const std::string between = R"("thinking": {"type": "between_tools"}, "max_tokens": 5, "messages": [)";
  const std::string user = R"({"role": "user", "content": )";
  bench.ask_raw("{" + between + user + R"("a"}]})");
  CHECK_THAT(bench.prompt(), ContainsSubstring("[thinks False]"));
  bench.ask_raw("{" + between + user + R"([{"type": "tool_result", "tool_use_id": "t"}]}]})");
  CHECK_THAT(bench.prompt(), ContainsSubstring("[thinks True]"));
  const std::string omitted =
      R"("thinking": {"type": "enabled", "budget_tokens": 2048, "display": "omitted"})";
  const json answer = bench.ask(omitted);
  CHECK(answer["content"][0] == json({{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}));
  CHECK(answer["content"][1]["text"] == "Hi");
  CHECK(built_of(bench.stream(omitted)) == answer);
}

TEST_CASE("Anthropic: a conversation reaches the template with its system text, calls and results") {
  MessageBench bench("Hi");
  bench.ask_raw(
      R"({"max_tokens": 5, "system": [
      {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.0; cch=1a2b3;"},
      {"type": "text", "text": "Be"}, {"type": "text", "text": "brief.",
      "cache_control": {"type": "ephemeral"}}], "metadata": {"user_id": "u"}, "service_tier": "auto",
      "messages": [
        {"role": "user", "content": "One"},
        {"role": "user", "content": [{"type": "text", "text": "two"}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"},
          {"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "Looking."},
          {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Ulm"}}]},
        {"role": "user", "content": [
          {"type": "tool_result", "tool_use_id": "t1", "is_error": true,
           "content": [{"type": "text", "text": "no"}, {"type": "text", "text": "net"}]},
          {"type": "tool_result", "tool_use_id": "t1", "content": "rain"},
          {"type": "tool_result", "tool_use_id": "t1"},
          {"type": "text", "text": "So?"}]}]})");
  CHECK(bench.prompt() ==
        "[thinks False][system]Be\nbrief.[user]One\ntwo[assistant]<think>hm</think>Looking."
        R"(<tool_call>{"name": "weather", "arguments": {"city": "Ulm"}}</tool_call>)"
        "[tool](weather t1)Error: no\nnet[tool](weather t1)rain[tool](weather t1)[user]So?[assistant]");
}

TEST_CASE("Anthropic: the answer continues an assistant's last message") {
  MessageBench bench(" Ulm");
  const auto ask = [&](const std::string& last) {
    const Answered response = bench.ask_raw(
        R"({"max_tokens": 5, "messages": [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": )" +
        last + "}]}");
    return json::parse(bench.sent(response));
  };
  const json answer = ask(R"("It is in")");
  CHECK(bench.prompt().ends_with("[user]Where?[assistant]It is in"));
  CHECK(answer["content"][0]["text"] == " Ulm");
  ask(R"([])");
  CHECK(bench.prompt().ends_with("[user]Where?[assistant]"));
  const json refused = ask(R"([{"type": "tool_use", "id": "a", "name": "f", "input": {}}])");
  CHECK_THAT(refused["error"]["message"].get<std::string>(), ContainsSubstring("tool_result"));
}

TEST_CASE("Anthropic: tools reach the prompt, and tool_choice constrains the answer") {
  MessageBench bench(kSpokenCall);
  const auto constrained = [&](const std::string& choice) {
    bench.ask(std::string(kWeather) + R"(, "tool_choice": )" + choice);
    return bench.sequence().constraint;
  };
  CHECK(constrained(R"({"type": "auto"})") != nullptr);
  CHECK_THAT(bench.prompt(), ContainsSubstring(R"("parameters": {"type": "object", "properties": {"city")"));
  CHECK(constrained(R"({"type": "any", "disable_parallel_tool_use": true})") != nullptr);
  CHECK(constrained(R"({"type": "tool", "name": "weather"})") != nullptr);
  CHECK(constrained(R"({"type": "none"})") == nullptr);
  CHECK(bench.prompt().find("[tools]") == std::string::npos);
}

TEST_CASE("Anthropic: a schema constrains the answer") {
  MessageBench bench("{}");
  for (const char* form :
       {R"("output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}})",
        R"("output_format": {"type": "json_schema", "schema": {"type": "object"}})"}) {
    bench.ask(form);
    CHECK(bench.sequence().constraint != nullptr);
  }
}

TEST_CASE("Anthropic: tokens are counted without generating an answer") {
  MessageBench bench("Hi");
  bench.ask(kWeather);
  const HttpResponse counted = bench.call(count_message_tokens, body_of(kWeather));
  CHECK(json::parse(counted.body) == json({{"input_tokens", bench.sequence().prompt.size()}}));
  CHECK(bench.engine.requests.size() == 1);
  CHECK(bench.call(count_message_tokens, body_of(R"("model": "claude")")).status == 404);
}

TEST_CASE("Anthropic: errors have its envelope, before and after the status") {
  MessageBench bench("Hi");
  const auto refused = [&](const std::string& rest) {
    const Answered response = bench.ask_raw(body_of(rest));
    json error = json::parse(response.body);
    CHECK(error["type"] == "error");
    error["error"]["status"] = response.status;
    return error["error"];
  };
  json error = refused(R"("model": "claude-sonnet")");
  CHECK(error["type"] == "not_found_error");
  CHECK(error["status"] == 404);
  error = refused(R"("temperature": 1.5)");
  CHECK(error["type"] == "invalid_request_error");
  CHECK_THAT(error["message"].get<std::string>(), ContainsSubstring("'temperature'"));
  error = refused(R"("system": ")" + std::string(4100, 'x') + '"');
  CHECK(error["message"].get<std::string>().starts_with("prompt is too long: "));
  bench.engine.refusal = Refusal::kQueueFull;
  CHECK(refused("")["type"] == "rate_limit_error");
  bench.engine.refusal = Refusal::kStopping;
  CHECK(refused("")["type"] == "overloaded_error");
  bench.engine.refusal.reset();
  bench.engine.play = [](TokenStream& stream) {
    play_text(stream, 0, "H");
    play_end(stream, 0, FinishReason::kFailed, 0, "it burns");
  };
  const std::vector<json> events = bench.stream();
  CHECK(events.back()["type"] == "error");
  CHECK(events.back()["error"]["type"] == "api_error");
  bench.engine.play = [](TokenStream&) {};
  bench.model.any_name = true;
  CHECK(bench.ask_raw(body_of(R"("model": "claude-sonnet", "stream": true)")).status == 200);
}

TEST_CASE("Anthropic: bad parameters are refused by name") {
  struct Bad {
    const char* members;  // of the body, instead of or besides the valid ones
    const char* param;
  };
  const std::vector<Bad> cases = {
      {R"("max_tokens": 0)", "max_tokens"},
      {R"("max_tokens": "5")", "max_tokens"},
      {R"("temperature": 1.01)", "temperature"},
      {R"("top_k": 1.5)", "top_k"},
      {R"("n": 2)", "n"},
      {R"("stop_sequences": [1])", "stop_sequences"},
      {R"("stream": "yes")", "stream"},
      {R"("metadata": "me")", "metadata"},
      {R"("mcp_servers": [{"url": "http://x"}])", "mcp_servers"},
      {R"("container": "c")", "container"},
      {R"("thinking": {"type": "on"})", "thinking.type"},
      {R"("thinking": {"type": "enabled", "budget_tokens": "many"})", "thinking.budget_tokens"},
      {R"("thinking": {"type": "enabled", "display": "no"})", "thinking.display"},
      {R"("output_config": {"effort": "some"})", "output_config.effort"},
      {R"("output_config": {"format": {"type": "text"}})", "output_config.format.type"},
      {R"("output_format": {"type": "json_schema"})", "output_format.schema"},
      {R"("output_format": {"type": "json_schema", "schema": {}}, "guided_regex": "a")", "output_format"},
      {R"("tools": {})", "tools"},
      {R"("tools": [1])", "tools[0]"},
      {R"("tools": [{"type": "web_search_20250305", "name": "web_search"}])", "tools[0].type"},
      {R"("tools": [{"input_schema": {}}])", "tools[0].name"},
      {R"("tools": [{"name": "f"}])", "tools[0].input_schema"},
      {R"("tool_choice": "any")", "tool_choice"},
      {R"("tool_choice": {"type": "some"})", "tool_choice.type"},
      {R"("tool_choice": {"type": "any"})", "tool_choice"},
      {R"("tool_choice": {"type": "tool"})", "tool_choice.name"},
      {R"("tool_choice": {"type": "tool", "name": "g"})", "tool_choice"},
      {R"("system": 5)", "system"},
      {R"("system": [{"type": "image"}])", "system[0].type"},
  };
  const std::vector<Bad> messages = {
      {R"([])", "messages"},
      {R"("Say")", "messages"},
      {R"([5])", "messages[0]"},
      {R"([{"role": "robot", "content": "a"}])", "messages[0].role"},
      {R"([{"role": "user"}])", "messages[0].content"},
      {R"([{"role": "user", "content": 5}])", "messages[0].content"},
      {R"([{"role": "user", "content": ["a"]}])", "messages[0].content[0]"},
      {R"([{"role": "user", "content": [{"text": "a"}]}])", "messages[0].content[0].type"},
      {R"([{"role": "user", "content": [{"type": "text"}]}])", "messages[0].content[0].text"},
      {R"([{"role": "user", "content": [{"type": "image", "source": {}}]}])", "messages[0].content[0].type"},
      {R"([{"role": "user", "content": [{"type": "document", "source": {}}]}])",
       "messages[0].content[0].type"},
      {R"([{"role": "user", "content": [{"type": "tool_result"}]}])", "messages[0].content[0].tool_use_id"},
      {R"([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image"}]}]}])",
       "messages[0].content[0].content[0].type"},
      {R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}])",
       "messages[1].content[0].name"},
      {R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "tool_use", "name": "a"}]}])",
       "messages[1].content[0].id"},
      {R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"type": "server_tool_use"}]}])",
       "messages[1].content[0].type"},
      {R"([{"role": "assistant", "content": ""}])", "messages"},
  };
  const auto param_of = [](const std::string& body) {
    INFO(body);
    try {
      parse_messages_request(parse_json_body(body), {.n_vocab = 100});
    } catch (const RequestError& refused) {
      CHECK(refused.error().status == 400);
      return refused.error().param;
    }
    return std::string("nothing: it was accepted");
  };
  const std::string good = R"("messages": [{"role": "user", "content": "a"}])";
  for (const Bad& bad : cases) CHECK(param_of("{" + good + ", " + bad.members + "}") == bad.param);
  for (const Bad& bad : messages)
    CHECK(param_of(std::string(R"({"messages": )") + bad.members + "}") == bad.param);
  CHECK(param_of("{}") == "messages");
}

}  // namespace
}  // namespace hearth
