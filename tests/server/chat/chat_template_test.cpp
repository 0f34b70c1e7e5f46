// ChatTemplate: turns what clients send into what templates expect.
#include "server/chat/chat_template.h"

#include <fstream>
#include <sstream>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/frozen_clock.h"

namespace hearth {
namespace {

using Json = nlohmann::ordered_json;

ChatTemplate load(const std::string& name) {
  std::ifstream file(hearth::testing::source_dir() + "/tests/data/templates/" + name + ".jinja");
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return ChatTemplate::parse(text.str(), "<s>", "</s>", tests::frozen_clock);
}

Json user(const Json& content) { return Json::array({{{"role", "user"}, {"content", content}}}); }

Json text_parts(const std::string& first, const std::string& second) {
  return Json::array({{{"type", "text"}, {"text", first}}, {{"type", "text"}, {"text", second}}});
}

Json conversation_with_call(const Json& arguments) {
  Json messages = user("hi");
  messages.push_back({{"role", "assistant"}, {"content", ""}});
  messages[1]["tool_calls"] = Json::array({{{"id", "call00000"}, {"type", "function"}}});
  messages[1]["tool_calls"][0]["function"] = {{"name", "f"}, {"arguments", arguments}};
  return messages;
}

TEST_CASE("content parts are joined for a template that takes strings") {
  const ChatTemplate chat = load("chatml");
  CHECK_FALSE(chat.wants_content_parts());
  CHECK(chat.render(user(text_parts("one", "two")), nullptr, true) ==
        "<|im_start|>user\none\ntwo<|im_end|>\n<|im_start|>assistant\n");
  CHECK(chat.render(user(Json::array()), nullptr, false) == "<|im_start|>user\n<|im_end|>\n");
}

TEST_CASE("a template that takes both forms gets the string") {
  const ChatTemplate chat = load("gemma3_parts");
  CHECK_FALSE(chat.wants_content_parts());
  CHECK(chat.render(user(text_parts("one", "two")), nullptr, false) ==
        "<s><start_of_turn>user\none\ntwo<end_of_turn>\n");
}

TEST_CASE("a string becomes a part for a template that takes parts") {
  const ChatTemplate chat = load("parts_only");
  CHECK(chat.wants_content_parts());
  CHECK(chat.render(user("one"), nullptr, true) == "<user>one</user>\n<assistant>");
  CHECK(chat.render(user(text_parts("one", "two")), nullptr, true) == "<user>one\ntwo</user>\n<assistant>");
}

TEST_CASE("parts that are not text are refused by name") {
  const Json image = Json::array({{{"type", "image_url"}, {"image_url", {{"url", "x"}}}}});
  CHECK_THROWS_WITH(load("chatml").render(user(image), nullptr, true), ContainsSubstring("\"image_url\""));
  CHECK_THROWS_AS(load("chatml").render(user(Json::array({1})), nullptr, true), TemplateError);
  CHECK_THROWS_AS(load("chatml").render(Json::array({1}), nullptr, true), TemplateError);
}

TEST_CASE("calls that a result follows get the content that the template can render there") {
  const std::string calls =
      "{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}</call>{% endfor %}{% endfor %}";
  Json history = conversation_with_call(Json::object());
  history.push_back({{"role", "tool"}, {"tool_call_id", "x"}, {"content", "gray"}});
  history[1]["content"] = nullptr;
  // The first template splits the text of answers that are not the last message, the second prints null.
  for (const std::string content :
       {"{% if loop.last %}{{ m.content or '' }}{% else %}{{ m.content.split('</think>')[-1] }}{% endif %}",
        "{{ m.content if m.role == 'user' else m.content | tojson }}"}) {
    INFO(content);
    const ChatTemplate chat =
        ChatTemplate::parse("{% for m in messages %}[{{ m.role }}]" + content + calls, "", "");
    const std::string prompt = chat.render(history, nullptr, false);
    CHECK_THAT(prompt, ContainsSubstring("<call>"));
    CHECK_THAT(prompt, !ContainsSubstring("null"));
  }
}

TEST_CASE("results move to the calls for a template that expects them there") {
  const ChatTemplate chat = ChatTemplate::parse(
      "{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% for c in m.tool_calls or [] %}<call>{% "
      "endfor %}"
      "{% for r in m.tool_responses or [] %}<{{ r.name }}: {{ r.response }}>{% endfor %}{% endfor %}",
      "", "");
  Json history = conversation_with_call(Json::object());
  history[1]["content"] = nullptr;
  for (const char* result : {"gray", "cold"})
    history.push_back({{"role", "tool"}, {"tool_call_id", "x"}, {"name", "f"}, {"content", result}});
  history.push_back({{"role", "user"}, {"content", "Thanks."}});
  CHECK_THAT(chat.render(history, nullptr, false),
             ContainsSubstring("[assistant]<call><f: gray><f: cold>[user]Thanks."));
}

TEST_CASE("call arguments reach the template unquoted") {
  const Json as_text = conversation_with_call("{\"a\": 1}");
  const Json as_object = conversation_with_call({{"a", 1}});
  for (const std::string name : {"qwen25_tools", "llama3_tools", "hermes_tools", "mistral"}) {
    INFO(name);
    const ChatTemplate chat = load(name);
    CHECK(chat.wants_argument_objects());
    const std::string prompt = chat.render(as_text, nullptr, false);
    CHECK(prompt == chat.render(as_object, nullptr, false));
    CHECK_THAT(prompt, ContainsSubstring("{\"a\": 1}"));
  }
  const ChatTemplate both = load("qwen3_thinking");
  CHECK_FALSE(both.wants_argument_objects());
  CHECK_THAT(both.render(as_text, nullptr, false), ContainsSubstring("\"arguments\": {\"a\": 1}}"));
  // A text that is not an object is the client's responsibility: it passes unchanged.
  CHECK_THAT(load("qwen25_tools").render(conversation_with_call("not json"), nullptr, false),
             ContainsSubstring("\"not json\""));
}

TEST_CASE("it is known which templates show arguments that are no object") {
  const auto takes = [](const std::string& arguments) {
    return ChatTemplate::parse("{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}[" +
                                   arguments + "]{% endfor %}{% endfor %}",
                               "", "")
        .takes_any_arguments();
  };
  CHECK(takes("{{ c.function.arguments }}"));
  CHECK(takes("{{ c.function.arguments | tojson }}"));
  CHECK_FALSE(takes("{% for k, v in c.function.arguments | items %}{{ k }}={{ v }}{% endfor %}"));
  CHECK_FALSE(
      takes("{% if c.function.arguments is mapping %}{% for k in c.function.arguments %}{{ k }}: "
            "{{ c.function.arguments[k] }}{% endfor %}{% endif %}"));
  CHECK(
      takes("{% if c.function.arguments is mapping %}{% for k in c.function.arguments %}{{ k }}: "
            "{{ c.function.arguments[k] }}{% endfor %}{% else %}{{ c.function.arguments }}{% endif %}"));
}

TEST_CASE("extra variables reach the template but do not replace the messages") {
  const ChatTemplate chat = load("qwen3_thinking");
  const Json extra = {{"enable_thinking", false}, {"messages", Json::array()}};
  CHECK(chat.render(user("x"), nullptr, true, extra) ==
        "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

TEST_CASE("the template's own refusals are passed on word for word") {
  Json messages = user("hi");
  messages.push_back(messages[0]);
  CHECK_THROWS_WITH(load("gemma").render(messages, nullptr, true),
                    ContainsSubstring("Conversation roles must alternate"));
}

TEST_CASE("system messages that a template refuses or leaves out become parts of their neighbors") {
  const auto message = [](const char* role, const char* content) {
    return Json{{"role", role}, {"content", content}};
  };
  const Json conversation = Json::array(
      {message("system", "S1"), message("system", "S2"), message("user", "U1"), message("assistant", "A1"),
       message("system", "S3"), message("user", "U2"), message("system", "S4")});
  const std::string shown = "{{ '[' ~ m.role ~ ' ' ~ m.content ~ ']' }}";
  const auto render = [&](const std::string& body) {
    return ChatTemplate::parse("{% for m in messages %}" + body + "{% endfor %}", "", "")
        .render(conversation, nullptr, false);
  };
  CHECK(render(shown) == "[system S1][system S2][user U1][assistant A1][system S3][user U2][system S4]");
  CHECK(render("{% if m.role == 'system' and not loop.first %}{{ raise_exception('late') }}{% endif %}" +
               shown) == "[system S1\n\nS2][user U1][assistant A1][user S3\n\nU2\n\nS4]");
  const std::string joined = "[user S1\n\nS2\n\nU1][assistant A1][user S3\n\nU2\n\nS4]";
  CHECK(render("{% if m.role == 'system' %}{{ raise_exception('none') }}{% endif %}" + shown) == joined);
  CHECK(render("{% if m.role != 'system' %}" + shown + "{% endif %}") == joined);
  const Json alone = Json::array({message("system", "be kind")});
  CHECK_THAT(load("gemma").render(alone, nullptr, true), ContainsSubstring("<start_of_turn>user\nbe kind"));
}

TEST_CASE("a template that does not parse says where") {
  CHECK_THROWS_WITH(ChatTemplate::parse("\n{% if %}", "", ""), ContainsSubstring("chat template, line 2:"));
}

TEST_CASE("the template sees the given clock") {
  CHECK_THAT(load("llama3_tools").render(user("x"), nullptr, true),
             ContainsSubstring("Date now: 26 Jul 2024\n"));
}

TEST_CASE("models without a template get ChatML") {
  Json messages = Json::array({{{"role", "system"}, {"content", "s"}}});
  messages.push_back({{"role", "user"}, {"content", text_parts("a", "b")}});
  messages.push_back({{"role", "assistant"}, {"content", nullptr}});
  CHECK(
      ChatTemplate::chatml("<s>", "</s>").render(messages, nullptr, true) ==
      "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n"
      "<|im_start|>assistant\n");
}

TEST_CASE("many threads render with one template") {
  const ChatTemplate chat = load("qwen3_thinking");
  std::vector<std::string> prompts(4);
  {
    std::vector<std::jthread> threads;
    for (std::string& prompt : prompts) {
      threads.emplace_back([&chat, &prompt] {
        for (int i = 0; i < 50; ++i) prompt = chat.render(user("x"), nullptr, true);
      });
    }
  }
  for (const std::string& prompt : prompts) {
    CHECK(prompt == "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n");
  }
}

}  // namespace
}  // namespace hearth
