// Ollama's API: options and conversations in, objects and lines of JSON out, and the facts about the model.
#include <string>
#include <vector>

#include "server/api/ollama/chat.h"
#include "server/api/ollama/generate.h"
#include "server/api/ollama/ollama_embed.h"
#include "server/api/ollama/ollama_models.h"
#include "server/endpoints/endpoints.h"
#include "server/json/api_error.h"
#include "tests/server/api/spoken_bench.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

using nlohmann::json;

constexpr const char* kOllamaSay = R"("messages": [{"role": "user", "content": "Say"}])";
constexpr const char* kOllamaWeather =
    R"("tools": [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object",
       "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city", "days"]}}}])";

struct OllamaBench : SpokenBench {
  explicit OllamaBench(std::string_view said, FinishReason reason = FinishReason::kStop)
      : SpokenBench(said, reason) {
    model.facts.architecture = "llama";
    model.facts.quantization = "Q4_1";
    model.facts.digest = std::string(64, 'a');
    model.facts.n_parameters = 134'515'008;
    model.facts.file_bytes = 1000;
    model.facts.modified = 1600000000;
    model.facts.keys = {{"general.architecture", "llama"}, {"llama.context_length", 2048}};
  }
  Answered chat_raw(const std::string& rest) {
    return call(ollama_chat, "{" + std::string(kOllamaSay) + (rest.empty() ? "" : ", ") + rest + "}");
  }
  json chat_whole(const std::string& rest = "") {
    return json::parse(sent(chat_raw(R"("stream": false)" + std::string(rest.empty() ? "" : ", ") + rest)));
  }
  std::vector<json> chat_lines(const std::string& rest = "") {
    const Answered response = chat_raw(rest);
    CHECK(response.content_type == "application/x-ndjson");
    return lines_of(sent(response));
  }
  json generate(const std::string& members) {
    return json::parse(sent(call(ollama_generate, R"({"stream": false, )" + members + "}")));
  }
  static std::vector<json> lines_of(const std::string& sent) {
    std::vector<json> lines;
    for (size_t at = 0; at < sent.size(); at = sent.find('\n', at) + 1)
      lines.push_back(json::parse(sent.substr(at, sent.find('\n', at) - at)));
    return lines;
  }
};

TEST_CASE("Ollama: a chat answer sent whole, with its counts and times") {
  OllamaBench bench(kSpokenCall);
  const json answer =
      bench.chat_whole(std::string(kOllamaWeather) + R"(, "model": "tiny:latest", "think": true)");
  const std::string id = answer["message"]["tool_calls"][0]["id"];
  const json expected = {
      {"model", "tiny:latest"},
      {"created_at", "2023-11-14T22:13:20Z"},
      {"message",
       {{"role", "assistant"},
        {"content", "Let me see."},
        {"thinking", "hm, stop?"},
        {"tool_calls",
         {{{"id", id},
           {"function",
            {{"index", 0}, {"name", "weather"}, {"arguments", {{"city", "Ulm"}, {"days", 2}}}}}}}}}},
      {"done", true},
      {"done_reason", "stop"},
      {"total_duration", 6'000'000'000},
      {"load_duration", 1'000'000'000},
      {"prompt_eval_count", bench.sequence().prompt.size()},
      {"prompt_eval_duration", 2'000'000'000},
      {"eval_count", kSpokenCall.size()},
      {"eval_duration", 3'000'000'000}};
  CHECK(answer == expected);
  CHECK_THAT(bench.prompt(), ContainsSubstring("[thinks True]"));
}

TEST_CASE("Ollama: a chat streams lines of JSON unless told not to, and calls are sent whole") {
  OllamaBench bench(kSpokenCall);
  const json whole = bench.chat_whole(kOllamaWeather);
  const std::vector<json> lines = bench.chat_lines(kOllamaWeather);
  std::string content, thinking;
  json calls = json::array();
  for (size_t i = 0; i < lines.size(); ++i) {
    CHECK(lines[i]["done"] == (i + 1 == lines.size()));
    const json& message = lines[i]["message"];
    content += message["content"];
    thinking += message.value("thinking", "");
    for (const json& call : message.value("tool_calls", json::array())) calls.push_back(call);
  }
  CHECK(content == whole["message"]["content"]);
  CHECK(thinking == whole["message"]["thinking"]);
  CHECK(calls == whole["message"]["tool_calls"]);
  json last = whole;
  last["message"] = {{"role", "assistant"}, {"content", ""}};
  CHECK(lines.back() == last);
  // A call that is cut off does not count as one.
  OllamaBench cut(kSpokenCall.substr(0, kSpokenCall.size() - 15), FinishReason::kLength);
  CHECK(cut.chat_whole(kOllamaWeather)["message"].contains("tool_calls") == false);
  CHECK(cut.chat_lines(kOllamaWeather).back()["done_reason"] == "length");
}

TEST_CASE("Ollama: a stream of plain text, byte by byte") {
  OllamaBench bench("Hi");
  const std::string head = R"({"model":"tiny","created_at":"2023-11-14T22:13:20Z",)";
  const std::string sent = bench.sent(bench.chat_raw(R"("model": "tiny")"));
  const std::string first =
      head + R"("message":{"role":"assistant","content":"H"},"done":false})" + "\n" + head +
      R"("message":{"role":"assistant","content":"i"},"done":false})" + "\n" + head +
      R"("message":{"role":"assistant","content":""},"done":true,"done_reason":"stop",)";
  CHECK(sent.substr(0, first.size()) == first);
}

TEST_CASE("Ollama: options have Ollama's defaults") {
  OllamaBench bench("Hi");
  bench.chat_whole();
  SamplingParams sampling = bench.sequence().sampling;
  CHECK(sampling.temperature == 0.8F);
  CHECK(sampling.top_k == 40);
  CHECK(sampling.top_p == 0.9F);
  CHECK(sampling.repetition_penalty == 1.1F);
  CHECK(sampling.repetition_last_n == 64);
  CHECK(bench.sequence().max_tokens == 4000 - static_cast<int>(bench.sequence().prompt.size()));
  bench.chat_whole(
      R"("keep_alive": "5m", "options": {"temperature": 0, "top_k": null, "top_p": 0.5, "min_p": 0.1,
      "typical_p": 0.7, "repeat_penalty": 1.3, "repeat_last_n": -1, "presence_penalty": 1, "frequency_penalty": -1,
      "mirostat": 2, "mirostat_tau": 3, "mirostat_eta": 0.2, "tfs_z": 1, "seed": 7, "stop": ["x", ""], "num_predict": 5,
      "num_ctx": 100000, "num_gpu": 1, "num_thread": 8, "num_keep": 4})");
  sampling = bench.sequence().sampling;
  CHECK(sampling.temperature == 0.0F);
  CHECK(sampling.top_k == 40);
  CHECK(sampling.top_p == 0.5F);
  CHECK(sampling.min_p == 0.1F);
  CHECK(sampling.typical_p == 0.7F);
  CHECK(sampling.repetition_penalty == 1.3F);
  CHECK(sampling.repetition_last_n == -1);
  CHECK(sampling.presence_penalty == 1.0F);
  CHECK(sampling.frequency_penalty == -1.0F);
  CHECK(sampling.mirostat);
  CHECK(sampling.mirostat_tau == 3.0F);
  CHECK(sampling.mirostat_eta == 0.2F);
  CHECK(sampling.seed == 7);
  CHECK(bench.sequence().max_tokens == 5);
  bench.chat_whole(R"("options": {"num_predict": -1, "seed": -1})");
  CHECK(bench.sequence().max_tokens > 3000);
  CHECK(bench.sequence().sampling.seed == 0);  // drawn: the bench's random number is 0
  OllamaBench stopped("one END two");
  CHECK(stopped.chat_whole(R"("options": {"stop": "END"})")["message"]["content"] == "one ");
}

TEST_CASE("Ollama: formats, effort and log-probabilities are supported") {
  OllamaBench bench("{}");
  for (const char* format : {R"("json")", R"({"type": "object"})"}) {
    bench.chat_whole(R"("format": )" + std::string(format));
    CHECK(bench.sequence().constraint != nullptr);
  }
  bench.chat_whole(R"("think": "low", "format": "")");
  CHECK_THAT(bench.prompt(), ContainsSubstring("[thinks True][effort low]"));
  CHECK(bench.sequence().constraint == nullptr);
  const json answer = bench.chat_whole(R"("logprobs": true, "top_logprobs": 1)");
  REQUIRE(answer["logprobs"].size() == 2);
  CHECK(answer["logprobs"][0]["token"] == "{");
  CHECK(answer["logprobs"][0]["logprob"] == -0.25);
  CHECK(answer["logprobs"][0]["bytes"] == json::array({'{'}));
  json streamed = json::array();
  for (const json& line : bench.chat_lines(R"("logprobs": true, "top_logprobs": 1)"))
    for (const json& token : line.value("logprobs", json::array())) streamed.push_back(token);
  CHECK(streamed == answer["logprobs"]);
}

TEST_CASE("Ollama: a conversation's calls and results are matched without ids") {
  OllamaBench bench("Hi");
  bench.call(ollama_chat, R"({"messages": [
      {"role": "system", "content": "Brief."},
      {"role": "user", "content": "So?", "images": []},
      {"role": "assistant", "thinking": "hm", "tool_calls": [
        {"function": {"index": 0, "name": "weather", "arguments": {"city": "Ulm"}}},
        {"function": {"name": "clock", "arguments": {}}}]},
      {"role": "tool", "tool_name": "clock", "content": "noon"},
      {"role": "tool", "content": "rain"}]})");
  CHECK(bench.prompt() ==
        "[system]Brief.[user]So?[assistant]<think>hm</think>"
        R"(<tool_call>{"name": "weather", "arguments": {"city": "Ulm"}}</tool_call>)"
        R"(<tool_call>{"name": "clock", "arguments": {}}</tool_call>)"
        "[tool](clock call_1)noon[tool](weather call_0)rain[assistant]");
  bench.call(ollama_chat, R"({"messages": [{"role": "user", "content": "Where?"},
      {"role": "assistant", "content": "In"}]})");
  CHECK(bench.prompt().ends_with("[user]Where?[assistant]In"));
}

TEST_CASE("Ollama: no call is answered twice if only some results have names or ids") {
  OllamaBench bench("Hi");
  const auto results = [&](const std::string& messages) {
    bench.call(ollama_chat, R"({"messages": [{"role": "user", "content": "So?"},
        {"role": "assistant", "tool_calls": [
          {"function": {"name": "weather", "arguments": {}}},
          {"id": "second", "function": {"name": "weather", "arguments": {}}},
          {"function": {"name": "clock", "arguments": {}}}]},)" +
                                messages + "]}");
    const std::string prompt = bench.prompt();
    const size_t begin = prompt.find("[tool]");
    return prompt.substr(begin, prompt.rfind("[assistant]") - begin);
  };
  // By name, then by order.
  CHECK(results(R"({"role": "tool", "tool_name": "weather", "content": "a"},
                   {"role": "tool", "content": "b"}, {"role": "tool", "content": "c"})") ==
        "[tool](weather call_0)a[tool](weather second)b[tool](clock call_1)c");
  // By order, then by name.
  CHECK(results(R"({"role": "tool", "content": "a"}, {"role": "tool", "tool_name": "weather", "content": "b"},
                   {"role": "tool", "tool_name": "weather", "content": "c"})") ==
        "[tool](weather call_0)a[tool](weather second)b[tool](weather )c");
  // By id, then by name and by order.
  CHECK(results(R"({"role": "tool", "tool_call_id": "second", "content": "a"},
                   {"role": "tool", "tool_name": "weather", "content": "b"},
                   {"role": "tool", "content": "c"})") ==
        "[tool](weather second)a[tool](weather call_0)b[tool](clock call_1)c");
}

TEST_CASE("Ollama: a request without messages answers that the model is loaded") {
  OllamaBench bench("Hi");
  for (const char* body : {"{}", R"({"messages": []})", R"({"model": "tiny", "keep_alive": 0})"}) {
    const json answer = json::parse(bench.sent(bench.call(ollama_chat, body)));
    CHECK(answer == json({{"model", answer["model"]},
                          {"created_at", "2023-11-14T22:13:20Z"},
                          {"message", {{"role", "assistant"}, {"content", ""}}},
                          {"done", true},
                          {"done_reason", "load"}}));
  }
  const json answer = json::parse(bench.sent(bench.call(ollama_generate, R"({"model": "tiny"})")));
  CHECK(answer["done_reason"] == "load");
  CHECK(answer["response"] == "");
  CHECK(bench.engine.requests.empty());
}

TEST_CASE("Ollama: generate answers through the template, or a raw prompt as it is") {
  OllamaBench bench("<think>hm</think>Hi");
  const json answer = bench.generate(R"("prompt": "Say", "system": "Be", "think": false, "context": [])");
  CHECK(bench.prompt() == "[thinks False][system]Be[user]Say[assistant]");
  CHECK(answer["response"] == "Hi");
  CHECK(answer["thinking"] == "hm");
  CHECK(answer["done"] == true);
  CHECK(answer["eval_count"] == 19);
  const json raw = bench.generate(R"("prompt": "Say", "raw": true, "format": "json")");
  CHECK(bench.prompt() == "Say");
  CHECK(raw["response"] == "<think>hm</think>Hi");
  CHECK(bench.sequence().constraint != nullptr);
  std::string streamed;
  for (const json& line : bench.lines_of(bench.sent(bench.call(ollama_generate, R"({"prompt": "Say"})"))))
    streamed += line["response"];
  CHECK(streamed == "Hi");
}

TEST_CASE("Ollama: a suffix asks to fill in the middle, if the model can do it") {
  ApiBench bench({"<PRE>", "<SUF>", "<MID>"});
  const auto ask = [&] { return bench.call(ollama_generate, R"({"prompt": "ab", "suffix": "cd"})"); };
  const auto capabilities = [&] {
    return json::parse(
        ollama_show(ApiContext(bench.model, bench.world()), ApiBench::post("{}")).body)["capabilities"];
  };
  CHECK(ask().status == 400);
  CHECK(capabilities() == json({"completion", "tools"}));
  constexpr int32_t kFirst = ApiVocabulary::kFirstWord;
  bench.vocabulary.set_fim({.prefix = kFirst, .suffix = kFirst + 1, .middle = kFirst + 2});
  CHECK(ask().status == 200);
  CHECK(bench.engine.requests.back().sequences[0].prompt ==
        std::vector<int32_t>{kFirst, 'a', 'b', kFirst + 1, 'c', 'd', kFirst + 2});
  CHECK(capabilities() == json({"completion", "tools", "insert"}));
}

TEST_CASE("Ollama: both endpoints embed, several texts or one prompt") {
  OllamaBench bench("");
  bench.model.n_dimensions = 4;
  bench.model.pooling = Pooling::kMean;
  bench.model.context_tokens = 3;
  bench.engine.play = [](TokenStream& stream) {
    for (int i = 0; i < 2; ++i) {
      stream.push({.sequence = i, .what = EmbeddingEvent{{0.6F, 0.8F, 0, static_cast<float>(i)}}});
      play_end(stream, i, FinishReason::kStop);
    }
  };
  const ApiContext context(bench.model, bench.world());
  const auto ask = [&](auto handler, const std::string& body) {
    return json::parse(bench.call(handler, body).body);
  };
  const json answer =
      ask(ollama_embed, R"({"model": "tiny:latest", "input": ["ab", "cdefg"], "keep_alive": "5m"})");
  CHECK(answer["model"] == "tiny:latest");
  REQUIRE(answer["embeddings"].size() == 2);
  CHECK(answer["embeddings"][1][3] == 1);
  CHECK(answer["prompt_eval_count"] == 5);  // the second is cut to its first three tokens
  CHECK(answer["total_duration"] == 3'000'000'000);
  CHECK(bench.engine.requests[0].sequences[1].prompt == std::vector<int32_t>{'c', 'd', 'e'});
  CHECK(ask(ollama_embed, R"({"input": "a", "truncate": false, "dimensions": 2})")["embeddings"][0].size() ==
        2);
  CHECK(ask(ollama_embed, R"({"input": []})")["embeddings"] == json::array());
  CHECK(ask(ollama_embed, R"({"input": "abcd", "truncate": false})")["error"].is_string());
  CHECK(ask(ollama_embed, R"({"model": "huge", "input": "a"})")["error"].is_string());
  CHECK(ask(ollama_embeddings, R"({"prompt": ["a"]})")["error"].is_string());
  CHECK(ask(ollama_embeddings, R"({})")["embedding"] == json::array());
  bench.engine.play = [](TokenStream& stream) {
    stream.push({.sequence = 0, .what = EmbeddingEvent{{1, 0, 0, 0}}});
    play_end(stream, 0, FinishReason::kStop);
  };
  CHECK(ask(ollama_embeddings, R"({"prompt": "ab"})") == json({{"embedding", {1, 0, 0, 0}}}));
}

TEST_CASE("Ollama: the model is found under its names, with or without a tag") {
  OllamaBench bench("Hi");
  const json tags = json::parse(bench.call(ollama_tags, "").body);
  const json details = {{"parent_model", ""},          {"format", "gguf"},
                        {"family", "llama"},           {"families", {"llama"}},
                        {"parameter_size", "134.52M"}, {"quantization_level", "Q4_1"}};
  REQUIRE(tags["models"].size() == 2);
  CHECK(tags["models"][0] == json({{"name", "tiny:latest"},
                                   {"model", "tiny:latest"},
                                   {"modified_at", "2020-09-13T12:26:40Z"},
                                   {"size", 1000},
                                   {"digest", std::string(64, 'a')},
                                   {"details", details}}));
  CHECK(tags["models"][1]["name"] == "org/tiny:latest");
  for (const char* name : {"tiny", "tiny:latest", "org/tiny:latest"}) {
    const json show =
        json::parse(bench.call(ollama_show, R"({"model": ")" + std::string(name) + R"("})").body);
    CHECK(show["details"] == details);
    CHECK(show["template"] == kSpokenTemplate);
    CHECK(show["capabilities"] == json({"completion", "tools", "thinking"}));
    CHECK(show["model_info"]["llama.context_length"] == 4000);
  }
  CHECK(bench.call(ollama_show, R"({"name": "huge"})").status == 404);
  const json running = json::parse(bench.call(ollama_ps, "").body)["models"];
  REQUIRE(running.size() == 1);
  CHECK(running[0]["context_length"] == 4000);
  CHECK(running[0]["size_vram"] == 0);
  CHECK(running[0]["expires_at"] == "2120-08-20T12:26:40Z");
  CHECK(json::parse(ollama_version({}).body)["version"].is_string());
  CHECK(greeting({}).body == "hearthd is running\n");
  bench.model.chat_template = nullptr;
  CHECK(json::parse(bench.call(ollama_show, "{}").body)["capabilities"] == json({"completion"}));
}

TEST_CASE("Ollama: the embedding model is listed and described, and does nothing but embed") {
  OllamaBench bench("Hi");
  PlayedEngine embedder;
  embedder.play = [](TokenStream& stream) {
    stream.push({.sequence = 0, .what = EmbeddingEvent{{1, 0}}});
    play_end(stream, 0, FinishReason::kStop);
  };
  bench.model.embedder = {.names = {"small", "org/small"},
                          .created = 1650000000,
                          .context_tokens = 9,
                          .n_dimensions = 2,
                          .device = "CPU",
                          .tokenizer = &bench.vocabulary,
                          .engine = &embedder};
  bench.model.embedder->facts.architecture = "qwen3";
  bench.model.embedder->facts.file_bytes = 77;
  bench.model.embedder->facts.keys = {{"qwen3.context_length", 32768}};
  const json tags = json::parse(bench.call(ollama_tags, "").body)["models"];
  REQUIRE(tags.size() == 4);
  CHECK(tags[2]["name"] == "small:latest");
  CHECK(tags[3]["model"] == "org/small:latest");
  CHECK(tags[3]["size"] == 77);
  CHECK(tags[3]["details"]["family"] == "qwen3");
  const json running = json::parse(bench.call(ollama_ps, "").body)["models"];
  REQUIRE(running.size() == 2);
  CHECK(running[1]["name"] == "small:latest");
  CHECK(running[1]["context_length"] == 9);
  CHECK(running[1]["size_vram"] == 0);
  for (const std::string name : {"small", "small:latest", "org/small:latest"}) {
    CAPTURE(name);
    const std::string member = R"({"model": ")" + name + "\"";
    const json show = json::parse(bench.call(ollama_show, member + "}").body);
    CHECK(show["capabilities"] == json({"embedding"}));
    CHECK(show["template"] == "");
    CHECK(show["details"]["family"] == "qwen3");
    CHECK(show["model_info"]["qwen3.context_length"] == 9);
    CHECK_THAT(show["modelfile"].get<std::string>(), ContainsSubstring("FROM " + name + "\nPARAMETER"));
    const Answered refused = bench.call(ollama_chat, member + ", " + kOllamaSay + "}");
    CHECK(refused.status == 400);
    CHECK_THAT(refused.body, ContainsSubstring("embeds texts"));
    CHECK(json::parse(bench.call(ollama_embed, member + R"(, "input": "a"})").body)["model"] == name);
  }
  CHECK(embedder.requests.size() == 3);
  CHECK(json::parse(bench.call(ollama_show, R"({"model": "tiny"})").body)["details"]["family"] == "llama");
}

TEST_CASE("Ollama: requests that would change the set of models are refused") {
  size_t n = 0;
  for (const Endpoint& endpoint : endpoints()) {
    const auto* handle = std::get_if<Endpoint::OfRequest>(&endpoint.handle);
    if (handle == nullptr || *handle != refuse_management) continue;
    ++n;
    HttpRequest request = ApiBench::post("{}");
    request.path = endpoint.path;
    const HttpResponse response = (*handle)(request);
    CHECK(response.status == 501);
    CHECK_THAT(json::parse(response.body)["error"].get<std::string>(),
               ContainsSubstring(std::string(endpoint.path)));
  }
  CHECK(n == 6);
}

TEST_CASE("Ollama: errors have its envelope, before and after the status") {
  OllamaBench bench("Hi");
  const auto refused = [&](const std::string& rest) {
    const Answered response = bench.chat_raw(rest);
    return std::to_string(response.status) + " " + json::parse(response.body)["error"].get<std::string>();
  };
  CHECK_THAT(refused(R"("model": "huge")"), ContainsSubstring("404 The model 'huge'"));
  CHECK_THAT(refused(R"("options": {"temperature": 3})"), ContainsSubstring("400 'options.temperature'"));
  bench.engine.play = [](TokenStream& stream) {
    play_text(stream, 0, "H");
    play_end(stream, 0, FinishReason::kFailed, 0, "it burns");
  };
  CHECK_THAT(bench.chat_lines().back()["error"].get<std::string>(), ContainsSubstring("it burns"));
  // A request to think to a model that cannot think is refused.
  ApiBench plain;
  const Answered response = plain.call(ollama_chat, "{" + std::string(kOllamaSay) + R"(, "think": true})");
  CHECK(response.status == 400);
  CHECK_THAT(response.body, ContainsSubstring("does not support thinking"));
}

TEST_CASE("Ollama: bad parameters are refused by name") {
  struct Bad {
    const char* members;
    const char* param;
  };
  const std::vector<Bad> both = {
      {R"("options": 5)", "options"},
      {R"("options": {"temperature": "hot"})", "options.temperature"},
      {R"("options": {"top_k": -2})", "options.top_k"},
      {R"("options": {"seed": "x"})", "options.seed"},
      {R"("options": {"num_predict": 1.5})", "options.num_predict"},
      {R"("options": {"tfs_z": 0.5})", "options.tfs_z"},
      {R"("options": {"repeat_last_n": -2})", "options.repeat_last_n"},
      {R"("options": {"n": 2})", "options.n"},
      {R"("options": {"stop": 5})", "options.stop"},
      {R"("stream": 1)", "stream"},
      {R"("format": "xml")", "format"},
      {R"("format": 5)", "format"},
      {R"("format": "json", "options": {"format": "json"})", "format"},
      {R"("think": "much")", "think"},
      {R"("top_logprobs": 2)", "top_logprobs"},
      {R"("logprobs": 2)", "logprobs"},
  };
  const std::vector<Bad> chat = {
      {R"("tools": [{"function": {}}])", "tools[0].type"},
      {R"("tools": {})", "tools"},
      {R"("messages": 5)", "messages"},
      {R"("messages": [5])", "messages[0]"},
      {R"("messages": [{"role": "robot", "content": ""}])", "messages[0].role"},
      {R"("messages": [{"role": "user", "content": 5}])", "messages[0].content"},
      {R"("messages": [{"role": "user", "content": "a", "images": ["aa"]}])", "messages[0].images"},
      {R"("messages": [{"role": "user", "content": "a", "images": 5}])", "messages[0].images"},
      {R"("messages": [{"role": "assistant", "tool_calls": [5]}])", "messages[0].tool_calls[0]"},
      {R"("messages": [{"role": "assistant", "tool_calls": [{"function": 5}]}])",
       "messages[0].tool_calls[0].function"},
      {R"("messages": [{"role": "assistant", "tool_calls": [{"function": {"name": 5}}]}])",
       "messages[0].tool_calls[0].function.name"},
      {R"("messages": [{"role": "tool", "tool_name": 5, "content": "a"}])", "messages[0].name"},
  };
  const std::vector<Bad> generate = {
      {R"("prompt": 5)", "prompt"},
      {R"("prompt": "a", "raw": 5)", "raw"},
      {R"("prompt": "a", "raw": true, "system": "b")", "system"},
      {R"("prompt": "a", "suffix": 5)", "suffix"},
      {R"("prompt": "a", "suffix": "b", "system": "c")", "system"},
      {R"("prompt": "a", "template": "b")", "template"},
      {R"("prompt": "a", "context": [1])", "context"},
      {R"("prompt": "a", "images": ["aa"])", "images"},
  };
  const auto param_of = [](const std::string& body, bool is_chat) {
    INFO(body);
    try {
      const Json parsed = parse_json_body(body);
      if (is_chat) {
        parse_ollama_chat(parsed, {.n_vocab = 100});
      } else {
        parse_ollama_generate(parsed, {.n_vocab = 100});
      }
    } catch (const RequestError& refused) {
      CHECK(refused.error().status == 400);
      return refused.error().param;
    }
    return std::string("nothing: it was accepted");
  };
  for (const Bad& bad : both) {
    CHECK(param_of("{" + std::string(kOllamaSay) + ", " + bad.members + "}", true) == bad.param);
    CHECK(param_of(std::string(R"({"prompt": "a", )") + bad.members + "}", false) == bad.param);
  }
  for (const Bad& bad : chat) {
    const bool has_messages = std::string(bad.members).find("messages") != std::string::npos;
    const std::string good = has_messages ? "" : std::string(kOllamaSay) + ", ";
    CHECK(param_of("{" + good + bad.members + "}", true) == bad.param);
  }
  for (const Bad& bad : generate) CHECK(param_of("{" + std::string(bad.members) + "}", false) == bad.param);
}

}  // namespace
}  // namespace hearth
