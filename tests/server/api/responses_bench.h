// An ApiBench whose context persists between requests, as the Responses API needs, and whose ids vary. The
// responses_*_test files use it.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api/api_context.h"
#include "server/api/responses/response_store.h"
#include "server/api/responses/responses.h"
#include "tests/server/api/api_bench.h"

namespace hearth {

/// A model that thinks and calls tools in the style of Hermes.
inline constexpr const char* kResponsesTemplate =
    "{% if tools %}[tools]{{ tools | tojson }}{% endif %}{% if reasoning_effort %}[effort {{ "
    "reasoning_effort }}]{% endif %}"
    "{% for m in messages %}[{{ m.role }}]"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{\"name\": {{ c.function.name | tojson }}, \"arguments\": "
    "{{ c.function.arguments | tojson }}}</tool_call>{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

inline constexpr const char* kResponseTools =
    R"("tools": [{"type": "function", "name": "weather", "strict": true, "parameters": {"type": "object",
       "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
       "required": ["city", "days"], "additionalProperties": false}}])";

/// An event of a stream: its name and its data.
struct SseEvent {
  std::string name;
  nlohmann::json data;
};

inline std::vector<SseEvent> sse_events(std::string_view body) {
  std::vector<SseEvent> events;
  while (!body.empty()) {
    const size_t end = body.find("\n\n"), middle = body.find("\ndata: ");
    if (body.substr(0, 7) != "event: " || end == std::string_view::npos || middle > end)
      throw std::runtime_error("no event with a name and data");
    events.push_back({std::string(body.substr(7, middle - 7)),
                      nlohmann::json::parse(body.substr(middle + 7, end - middle - 7))});
    body.remove_prefix(end + 2);
  }
  return events;
}

struct ResponsesBench : ApiBench {
  std::atomic<uint64_t> n_random{0};
  std::optional<ApiContext> kept;

  explicit ResponsesBench(std::string_view said = "Hi.", FinishReason reason = FinishReason::kStop) {
    chat_template = ChatTemplate::parse(kResponsesTemplate, "<s>", "</s>");
    model.context_tokens = 2000;
    says(said, reason);
  }

  void says(std::string_view said, FinishReason reason = FinishReason::kStop) {
    engine.play = [said = std::string(said), reason](TokenStream& stream) {
      play_text(stream, 0, said);
      play_end(stream, 0, reason, 2, "the device is gone");
    };
  }

  /// Returns the context. It is created at first use, so that a test can change the model before.
  const ApiContext& api() {
    if (!kept) {
      ApiWorld mine = world();
      mine.random_bits = [this] { return ++n_random; };
      kept.emplace(model, std::move(mine));
    }
    return *kept;
  }

  Answered create(std::string body) {
    RecordingClient client = ending_client();
    return create(std::move(body), client);
  }
  Answered create(std::string body, RecordingClient& client) {
    create_response(api(), post(std::move(body)), {}, client);
    return Answered(client);
  }
  /// Returns the response object of a request that is answered whole.
  nlohmann::json ask(const std::string& rest, const std::string& input = R"("Hello")") {
    return whole_body(create(R"({"input": )" + input + (rest.empty() ? "" : ", ") + rest + "}"));
  }
  std::vector<SseEvent> stream(const std::string& rest, const std::string& input = R"("Hello")") {
    const Answered answer =
        create(R"({"stream": true, "input": )" + input + (rest.empty() ? "" : ", ") + rest + "}");
    if (!answer.begun || !answer.finished) throw std::runtime_error("no stream: " + answer.body);
    return sse_events(answer.body);
  }
  nlohmann::json error(std::string body) {
    const Answered response = create(std::move(body));
    if (response.status != 400) throw std::runtime_error("status " + std::to_string(response.status));
    return nlohmann::json::parse(response.body)["error"];
  }
  nlohmann::json get(const std::string& id) {
    return nlohmann::json::parse(retrieve_response(api(), HttpRequest(), id).body);
  }
  nlohmann::json input_items(const std::string& id, std::string query = {}) {
    HttpRequest request;
    request.query = std::move(query);
    return nlohmann::json::parse(list_input_items(api(), request, id).body);
  }

  /// Returns the last prompt that the engine received.
  std::string prompt() const {
    std::string text;
    for (const int32_t token : engine.requests.back().sequences[0].prompt)
      vocabulary.append_bytes(token, true, text);
    return text;
  }
};

}  // namespace hearth
