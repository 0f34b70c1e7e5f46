// An ApiBench whose model answers with the test's text, and whose chat template supports thinking, tools and
// a switch for thinking. The tests of the families of clients use it.
#pragma once

#include <string>
#include <string_view>

#include "tests/server/api/api_bench.h"

namespace hearth {

inline constexpr const char* kSpokenTemplate =
    "{% if tools %}[tools]{{ tools | tojson }}{% endif %}"
    "{% if enable_thinking is defined %}[thinks {{ enable_thinking }}]{% endif %}"
    "{% if reasoning_effort %}[effort {{ reasoning_effort }}]{% endif %}"
    "{% for m in messages %}[{{ m.role }}]{% if m.role == 'tool' %}({{ m.name }} {{ m.tool_call_id }}){% "
    "endif %}"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{\"name\": {{ c.function.name | tojson }}, \"arguments\": "
    "{{ c.function.arguments | tojson }}}</tool_call>{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

/// An answer with thinking, text and a call of the tool `weather`.
inline const std::string kSpokenCall =
    R"(<think>hm, stop?</think>Let me see.<tool_call>{"name": "weather", "arguments": {"city": "Ulm", "days": 2}}</tool_call>)";

struct SpokenBench : ApiBench {
  explicit SpokenBench(std::string_view said, FinishReason reason = FinishReason::kStop, int n_cached = 2) {
    chat_template = ChatTemplate::parse(kSpokenTemplate, "<s>", "</s>");
    model.context_tokens = 4000;
    engine.play = [said = std::string(said), reason, n_cached](TokenStream& stream) {
      play_text(stream, 0, said);
      play_end(stream, 0, reason, n_cached);
    };
  }

  /// Returns the body of a complete answer.
  static std::string sent(const Answered& answer) {
    if (!answer.finished) throw std::runtime_error("the answer was broken off");
    return answer.body;
  }
  /// Returns the prompt of the last request.
  std::string prompt() const {
    return vocabulary.decode(engine.requests.at(engine.requests.size() - 1).sequences.at(0).prompt, true);
  }
  const SequenceRequest& sequence() const { return engine.requests.back().sequences.at(0); }
};

}  // namespace hearth
