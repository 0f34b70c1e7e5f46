// Tests what derive_tool_syntax() and derive_thinking_syntax() read from templates.
#include "server/chat/tools/tool_syntax.h"

#include <filesystem>

#include "server/chat/thinking_syntax.h"
#include "server/chat/tools/tool_description.h"
#include "tests/server/chat/tool_answers.h"

namespace hearth::tests {
namespace {

using Form = ToolSyntax::Form;
using Source = ToolSyntax::Source;

struct Expected {
  std::string name;
  Form form;
  std::string section_begin, call_begin, call_end, separator, section_end;
};

TEST_CASE("the texts around calls are read off the template") {
  const std::vector<Expected> table{
      {"qwen25_tools", Form::kJsonObject, "", "<tool_call>\n", "\n</tool_call>", "\n", ""},
      {"qwen3", Form::kJsonObject, "", "<tool_call>\n", "\n</tool_call>", "\n", ""},
      {"qwq", Form::kJsonObject, "", "<tool_call>\n", "\n</tool_call>", "\n", ""},
      {"exaone4", Form::kJsonObject, "", "<tool_call>", "</tool_call>", "\n", ""},
      {"llama31", Form::kJsonObject, "", "", "", "", ""},
      {"llama33_ipython", Form::kJsonObject, "", "", "", "; ", ""},
      {"mistral_v3", Form::kJsonObject, "[TOOL_CALLS] [", "", "", ", ", "]"},
      {"mistral_nemo", Form::kJsonObject, "[TOOL_CALLS][", "", "", ", ", "]"},
      {"mistral_v13", Form::kTagged, "", "[TOOL_CALLS]", "", "", ""},
      {"command_r_tools", Form::kJsonObject, "Action: ```json\n[", "\n    ", "", ",", "\n]```"},
      {"command_r7b", Form::kJsonObject, "<|START_ACTION|>[", "\n    ", "", ",", "\n]<|END_ACTION|>"},
      {"minimax_m1", Form::kJsonObject, "<tool_calls>\n", "", "\n", "", "</tool_calls>"},
      {"nemotron_nano_v2", Form::kJsonObject, "<TOOLCALL>[", "", "", ", ", "]</TOOLCALL>"},
      {"functionary_v31", Form::kTagged, "", "<function=", "</function>", "", ""},
      {"functionary_v32", Form::kTagged, "", ">>>", "", "", ""},
      {"deepseek_v3", Form::kTagged, "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
       "\n```<｜tool▁call▁end｜>", "\n", "<｜tool▁calls▁end｜>"},
      {"deepseek_v31", Form::kTagged, "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>",
       "<｜tool▁call▁end｜>", "", "<｜tool▁calls▁end｜>"},
      {"kimi_k2", Form::kTagged, "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_end|>",
       "", "<|tool_calls_section_end|>"},
      {"hunyuan", Form::kTagged, "<tool_calls>", "<tool_call>", "\n```</tool_call>", "\n", "</tool_calls>"},
      {"apertus", Form::kTagged, "<|tools_prefix|>[", "{\"", "}", ", ", "]<|tools_suffix|>"},
      {"qwen3_coder", Form::kParameters, "", "<tool_call>\n<function=", "\n</function>\n</tool_call>", "\n",
       ""},
      {"glm45", Form::kParameters, "", "<tool_call>", "\n</tool_call>", "\n", ""},
      {"minimax_m2", Form::kParameters, "<minimax:tool_call>\n", "<invoke name=\"", "\n</invoke>\n", "",
       "</minimax:tool_call>"},
      {"llama4", Form::kPython, "[", "", "", ", ", "]"},
      {"gemma4", Form::kMarked, "", "<|tool_call>call:", "<tool_call|>", "", ""},
      {"lfm2_with_calls", Form::kPython, "<|tool_call_start|>[", "", "", ", ", "]<|tool_call_end|>"},
  };
  for (const Expected& expected : table) {
    INFO(expected.name);
    const ToolSyntax syntax = derive_tool_syntax(chat_template(expected.name));
    CHECK(syntax.source == Source::kTemplate);
    CHECK(syntax.form == expected.form);
    CHECK(syntax.section_begin == expected.section_begin);
    CHECK(syntax.call_begin == expected.call_begin);
    CHECK(syntax.call_end == expected.call_end);
    CHECK(syntax.separator == expected.separator);
    CHECK(syntax.section_end == expected.section_end);
  }
}

TEST_CASE("keys, ids and names are read off the template") {
  const ToolSyntax mistral = derive_tool_syntax(chat_template("mistral_v3"));
  CHECK(mistral.id_key == "id");
  CHECK(mistral.pieces.size() == 7);
  const ToolSyntax command_r = derive_tool_syntax(chat_template("command_r_tools"));
  CHECK(command_r.name_key == "tool_name");
  CHECK(command_r.arguments_key == "parameters");
  const ToolSyntax nested = derive_tool_syntax(chat_template("nested_openai"));
  CHECK(nested.wrapper_key == "function");
  CHECK(nested.id_key == "id");
  const ToolSyntax kimi = derive_tool_syntax(chat_template("kimi_k2"));
  CHECK(kimi.name_prefix == "functions.");
  CHECK(kimi.name_index);
  const ToolSyntax functionary = derive_tool_syntax(chat_template("functionary_v2"));
  CHECK(functionary.prompt_opens_call);
  CHECK(functionary.text_recipient == "all");
  CHECK_FALSE(derive_tool_syntax(chat_template("llama31")).several_calls);
  CHECK(derive_tool_syntax(chat_template("gpt_oss")).form == Form::kHarmony);
  const ToolSyntax coder = derive_tool_syntax(chat_template("qwen3_coder"));
  CHECK(coder.key_begin == "\n<parameter=");
  CHECK(coder.key_end == ">\n");
  CHECK(coder.value_end == "\n</parameter>");
  CHECK(coder.name_end == ">");
  CHECK(derive_tool_syntax(chat_template("gemma4")).string_mark == "<|\"|>");
}

TEST_CASE("texts of end tokens are not part of the syntax") {
  const ChatTemplate chat = ChatTemplate::parse(
      "{{ tools or '' }}{% for m in messages %}{{ m.role ~ ':' ~ (m.content or '') }}"
      "{% for c in m.tool_calls or [] %}{{ '<call>' ~ c.function.name ~ ' ' ~ c.function.arguments ~ "
      "'</call>' }}{% endfor %}"
      "{{ '<|calls_done|>' if m.tool_calls else '<|done|>' }}{% endfor %}{{ 'assistant:' if "
      "add_generation_prompt }}",
      "", "");
  CHECK(derive_tool_syntax(chat, std::vector<std::string>{"<|calls_done|>"}).section_end.empty());
  CHECK(derive_tool_syntax(chat).call_end == "</call>");
}

TEST_CASE("templates that show tools but no calls are recognized by their words") {
  const ToolSyntax phi = derive_tool_syntax(chat_template("phi4_mini"));
  CHECK(phi.source == Source::kFamily);
  CHECK(phi.section_begin == "<|tool_call|>[");
  CHECK(phi.section_end == "]<|/tool_call|>");
  CHECK(derive_tool_syntax(chat_template("granite_33")).section_end == "]");
  for (const char* name : {"lfm2", "lfm25"}) {
    INFO(name);
    const ToolSyntax lfm = derive_tool_syntax(chat_template(name));
    CHECK(lfm.form == Form::kPython);
    CHECK(lfm.section_begin == "<|tool_call_start|>[");
    CHECK(lfm.section_end == "]<|tool_call_end|>");
  }
  CHECK(derive_tool_syntax(chat_template("functiongemma")).string_mark == "<escape>");
}

TEST_CASE("templates without tools get the plain syntax") {
  for (const char* name : {"chatml", "chatml_trim", "gemma2", "gemma3", "llama2_chat", "vicuna", "alpaca",
                           "yi", "phi4_im", "solar", "baichuan2", "deepseek_coder"}) {
    INFO(name);
    const ToolSyntax syntax = derive_tool_syntax(chat_template(name));
    CHECK(syntax.source == Source::kServer);
    CHECK(syntax.opener() == "<tool_call>");
    CHECK(syntax.call_end == plain_tool_syntax().call_end);
  }
}

TEST_CASE("a template that shows calls but no tools gets the syntax that its prompts ask for") {
  const ChatTemplate chat = ChatTemplate::parse(
      "{% for m in messages %}{{ m.role ~ ':' ~ (m.content or '') }}{% for c in m.tool_calls or [] %}"
      "{{ '<|call|>' ~ c.function.name ~ '<|sep|>' ~ c.function.arguments ~ '<|done|>' }}{% endfor %}{% "
      "endfor %}"
      "{{ 'assistant:' if add_generation_prompt }}",
      "", "");
  const ToolSyntax syntax = derive_tool_syntax(chat);
  CHECK(syntax.source == Source::kServer);
  CHECK(syntax.opener() == "<tool_call>");
  CHECK_THAT(describe_tools(tools(), syntax), ContainsSubstring(syntax.call_begin));
}

TEST_CASE("harmony's syntax is kept if its template shows no tools, and the prompt asks for its channel") {
  const ChatTemplate chat = ChatTemplate::parse(
      "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}<|channel|>final{% endif %}"
      "<|message|>{{ m.content }}<|end|>{% endfor %}{{ '<|start|>assistant' if add_generation_prompt }}",
      "", "");
  const ToolSyntax syntax = derive_tool_syntax(chat);
  CHECK(syntax.source == Source::kServer);
  CHECK(syntax.form == Form::kHarmony);
  CHECK_THAT(describe_tools(tools(), syntax), ContainsSubstring("<|channel|>commentary to=functions."));
}

TEST_CASE("every template has a syntax with an end and a beginning") {
  const std::filesystem::path folder = hearth::testing::source_dir() + "/tests/data/chat_templates";
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    INFO(name);
    const ToolSyntax syntax = derive_tool_syntax(chat_template(name));
    CHECK((syntax.form == Form::kParameters || syntax.form == Form::kPython || syntax.form == Form::kMarked ||
           syntax.form == Form::kHarmony || syntax.pieces.size() >= 3));
    CHECK(syntax.section_begin.find("hearth") == std::string::npos);
    CHECK(syntax.call_end.find("hearth") == std::string::npos);
    ++n;
  }
  CHECK(n >= 60);
}

TEST_CASE("the tags of thinking are read off the template or found in its text") {
  const auto tags = [](const char* name) {
    const ThinkingSyntax syntax = derive_thinking_syntax(chat_template(name));
    return syntax.open + " " + syntax.close;
  };
  CHECK(tags("qwen3") == "<think> </think>");
  CHECK(tags("qwq") == "<think> </think>");
  CHECK(tags("glm45") == "<think> </think>");
  CHECK(tags("magistral") == "[THINK] [/THINK]");
  CHECK(tags("command_r7b") == "<|START_THINKING|> <|END_THINKING|>");
  CHECK(tags("seed_oss") == "<seed:think> </seed:think>");
  CHECK(tags("granite_33") == "<think> </think>");
  CHECK(tags("gemma4") == "<|channel>thought <channel|>");
  CHECK(tags("reasoning_tags") == "<reasoning> </reasoning>");
  for (const char* name : {"chatml", "gpt_oss", "qwen25_tools", "llama31", "mistral_v3"})
    CHECK(tags(name) == " ");
}

TEST_CASE("a prompt may end within thinking") {
  const Json question = Json::array({{{"role", "user"}, {"content", "?"}}});
  for (const auto& [name, opens] : {std::pair{"qwq", true},
                                    {"minimax_m2", true},
                                    {"qwen3", false},
                                    {"gemma4", false},
                                    {"chatml", false}}) {
    const ChatTemplate chat = chat_template(name);
    CHECK(prompt_opens_thinking(derive_thinking_syntax(chat), chat.render(question, nullptr, true)) == opens);
  }
  const ChatTemplate v31 = chat_template("deepseek_v31");
  const ThinkingSyntax thinking = derive_thinking_syntax(v31);
  CHECK_FALSE(prompt_opens_thinking(thinking, v31.render(question, nullptr, true)));
  CHECK(prompt_opens_thinking(thinking, v31.render(question, nullptr, true, Json{{"thinking", true}})));
}

}  // namespace
}  // namespace hearth::tests
