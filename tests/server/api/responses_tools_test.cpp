// Tools and items of coding agents: custom tools, namespaces, tools and items that this server does not know,
// and summaries in place of long conversations.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/api/responses/custom_input.h"
#include "tests/server/api/responses_bench.h"
#include "tests/support/catch.h"

namespace hearth {
namespace {

using nlohmann::json;

/// A tool whose input must be a small patch.
constexpr const char* kPatchTool =
    R"("tools": [{"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": {
       "type": "grammar", "syntax": "lark",
       "definition": "start: \"*** Begin\" LF line+ \"*** End\"\nline: (\"+\" | \"-\") /.*/ LF\n%import common.LF"}}])";

std::string called(const std::string& name, const std::string& arguments) {
  return R"(<tool_call>{"name": ")" + name + R"(", "arguments": )" + arguments + "}</tool_call>";
}

json without(json item, std::initializer_list<const char*> names) {
  for (const char* name : names) item.erase(name);
  return item;
}

TEST_CASE("a custom tool's call has a text as its input, whole and streamed") {
  ResponsesBench bench("I edit." +
                       called("apply_patch", R"({"input": "*** Begin\n+\"ä\" \u00fc\n*** End"})"));
  const std::string input = "*** Begin\n+\"ä\" ü\n*** End";
  const json whole = bench.ask(kPatchTool);
  REQUIRE(whole["output"].size() == 2);
  const json& call = whole["output"][1];
  CHECK(without(call, {"id", "call_id"}) == json({{"type", "custom_tool_call"},
                                                  {"status", "completed"},
                                                  {"name", "apply_patch"},
                                                  {"input", input}}));
  CHECK(call["id"].get<std::string>().starts_with("ctc_"));
  CHECK_THAT(bench.prompt(), ContainsSubstring("Edits files."));
  CHECK_THAT(bench.prompt(), ContainsSubstring("%import common.LF"));
  CHECK_THAT(bench.prompt(), !ContainsSubstring("pattern"));

  std::string streamed;
  std::vector<std::string> names;
  const std::vector<SseEvent> events = bench.stream(kPatchTool);
  for (const SseEvent& event : events) {
    if (event.name.find("custom_tool_call") == std::string::npos) continue;
    names.push_back(event.name);
    CHECK(event.data["output_index"] == 1);
    if (event.data.contains("delta")) streamed += event.data["delta"].get<std::string>();
    if (event.data.contains("input")) CHECK(event.data["input"] == input);
  }
  CHECK(streamed == input);
  REQUIRE(names.size() >= 2);
  CHECK(names.front() == "response.custom_tool_call_input.delta");
  CHECK(names.back() == "response.custom_tool_call_input.done");
  const json& last = events.back().data["response"]["output"][1];
  CHECK(without(last, {"id", "call_id"}) == without(call, {"id", "call_id"}));
  for (const SseEvent& event : events)
    if (event.name == "response.output_item.added" && event.data["output_index"] == 1)
      CHECK(event.data["item"]["input"] == "");
}

TEST_CASE("the grammar of a custom tool is enforced") {
  ResponsesBench bench("Hi.");
  const auto allows = [&](const std::string& tools, const std::string& input) {
    bench.ask(tools + R"(, "tool_choice": "required")");
    ConstraintState state(bench.engine.requests.back().sequences[0].constraint);
    for (const char c : called("apply_patch", json({{"input", input}}).dump(-1, ' ')))
      if (!state.accept(static_cast<unsigned char>(c))) return false;
    return state.may_end();
  };
  const std::string regex =
      R"("tools": [{"type": "custom", "name": "apply_patch",
         "format": {"type": "grammar", "syntax": "regex", "definition": "a|b+"}}])";
  const std::string text =
      R"("tools": [{"type": "custom", "name": "apply_patch", "format": {"type": "text"}}])";
  // The schema's strings are written with a space behind the colon, or without one.
  CHECK(allows(kPatchTool, "*** Begin\n+x\n-\n*** End"));
  CHECK_FALSE(allows(kPatchTool, "*** Begin\n*** End"));
  CHECK(allows(regex, "bb"));
  CHECK_FALSE(allows(regex, "ab"));
  CHECK(allows(text, "anything \"at\" all\n"));
}

TEST_CASE("past calls of custom tools reach the model as calls of their function") {
  ResponsesBench bench("Done.");
  bench.ask(kPatchTool, R"([{"role": "user", "content": "Edit."},
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "apply_patch", "input": "a \"b\""},
    {"type": "custom_tool_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "ok"},
      {"type": "input_image", "image_url": "data:,"}]}])");
  CHECK_THAT(bench.prompt(),
             ContainsSubstring(called("apply_patch", R"({"input": "a \"b\""})") +
                               "[tool]ok\n(A part of type input_image, which this model cannot read.)"));
  // A response that is continued has such items too.
  bench.says(called("apply_patch", R"({"input": "*** Begin\n+x\n*** End"})"));
  const json first = bench.ask(kPatchTool);
  bench.says("Good.");
  bench.ask(R"("previous_response_id": )" + first["id"].dump(),
            R"([{"type": "custom_tool_call_output", "call_id": )" + first["output"][0]["call_id"].dump() +
                R"(, "output": "done"}])");
  CHECK_THAT(bench.prompt(), ContainsSubstring("[tool]done"));
}

TEST_CASE("functions of a namespace are called by both names") {
  ResponsesBench bench(called("mcp__files__read", R"({"path": "a"})"));
  const std::string tools =
      R"("tools": [{"type": "namespace", "name": "mcp__files__", "description": "Files", "tools": [
         {"type": "function", "name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
         {"type": "web_search"}]}])";
  const json call = bench.ask(tools)["output"][0];
  CHECK(without(call, {"id", "call_id", "status"}) == json({{"type", "function_call"},
                                                            {"name", "read"},
                                                            {"namespace", "mcp__files__"},
                                                            {"arguments", R"({"path": "a"})"}}));
  bench.says("Ok.");
  bench.ask(tools + R"(, "tool_choice": {"type": "function", "namespace": "mcp__files__", "name": "read"})",
            R"([{"role": "user", "content": "a"}, {"type": "function_call", "namespace": "mcp__files__",
                 "name": "read", "call_id": "c", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "x"}])");
  CHECK_THAT(bench.prompt(), ContainsSubstring(called("mcp__files__read", "{}")));
  CHECK(bench.engine.requests.back().sequences[0].constraint != nullptr);
}

TEST_CASE("tools that OpenAI's servers run are left out, and those in the input are added") {
  ResponsesBench bench("Hi.");
  const json response = bench.ask(
      R"("tools": [{"type": "web_search"}, {"type": "local_shell"}, {"type": "function", "name": "f"},
                   {"type": "mcp", "server_label": "x"}, {"type": "of_the_future", "x": 1}],
         "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"},
                         {"type": "function", "name": "f"}]})",
      R"([{"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "g"}]},
          {"role": "user", "content": "a"}])");
  CHECK(response["tools"].size() == 5);
  CHECK_THAT(bench.prompt(), ContainsSubstring("\"name\": \"f\""));
  CHECK_THAT(bench.prompt(), ContainsSubstring("\"name\": \"g\""));
  CHECK_THAT(bench.prompt(), !ContainsSubstring("web_search"));
  CHECK_THAT(bench.prompt(), !ContainsSubstring("shell"));
}

TEST_CASE("items that this server does not know are kept as text if a client ran them, and else ignored") {
  ResponsesBench bench("Hi.");
  const json response = bench.ask("", R"([{"role": "user", "content": "a"},
    {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
    {"type": "local_shell_call", "id": "ls_1", "call_id": "c1", "status": "completed",
     "action": {"type": "exec", "command": ["ls"]}},
    {"type": "local_shell_call_output", "call_id": "c1", "output": "a.txt"},
    {"type": "shell_call_output", "call_id": "c9", "output": "lost"},
    {"type": "of_the_future", "text": "b"},
    {"role": "user", "content": "c"}])");
  CHECK(bench.prompt() == "[user]a[assistant]" +
                              called("local_shell", R"({"action": {"type": "exec", "command": ["ls"]}})") +
                              "[tool]a.txt[user]c[assistant]");
  CHECK(bench.input_items(response["id"], "order=asc")["data"].size() == 8);
}

TEST_CASE("a conversation is compacted to the user's messages and a summary") {
  ResponsesBench bench("They want a cat.");
  const std::string input =
      R"([{"role": "user", "content": "Draw a cat."}, {"role": "assistant", "content": "A cat."},
          {"role": "user", "content": "A bigger one."}, {"role": "assistant", "content": "A tiger."}])";
  RecordingClient client = bench.ending_client();
  compact_response(bench.api(), ApiBench::post(R"({"instructions": "Draw.", "input": )" + input + "}"), {},
                   client);
  const json compacted = whole_body(Answered(client));
  CHECK(compacted["object"] == "response.compaction");
  CHECK(compacted["usage"]["output_tokens"] == std::string("They want a cat.").size());
  const json& output = compacted["output"];
  REQUIRE(output.size() == 3);
  CHECK(output[0]["content"][0]["text"] == "Draw a cat.");
  CHECK(output[1]["content"][0]["text"] == "A bigger one.");
  CHECK(output[2]["type"] == "compaction");
  CHECK(output[2]["id"].get<std::string>().starts_with("cmp_"));
  CHECK_THAT(bench.prompt(), ContainsSubstring("[assistant]A tiger.[user]Write a summary"));
  CHECK(bench.api().responses().size() == 0);

  bench.says("A lion.");
  json next = output;
  next.push_back({{"role", "user"}, {"content", "Now a lion."}});
  bench.ask("", next.dump());
  CHECK(bench.prompt() ==
        "[user]Draw a cat.\n\nA bigger one.\n\nSummary of the conversation up to here:\nThey want a cat."
        "\n\nNow a lion.[assistant]");
  bench.ask("", json::array({output[2], {{"role", "assistant"}, {"content", "Ok."}}}).dump());
  CHECK(bench.prompt() ==
        "[user]Summary of the conversation up to here:\nThey want a cat.[assistant]Ok.[assistant]");
}

TEST_CASE("a call whose arguments are cut off is refused where the template cannot show it") {
  ResponsesBench bench("Hi.");
  bench.chat_template = ChatTemplate::parse(
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}[{{ m.role }}]{{ m.content }}"
      "{% for c in m.tool_calls or [] %}<call {{ c.function.name }}>{% for k, v in c.function.arguments | "
      "items "
      "%}<{{ k }}>{{ v }}</{{ k }}>{% endfor %}</call>{% endfor %}{% endfor %}",
      "<s>", "</s>");
  const json error = bench.error(R"({"input": [{"role": "user", "content": "a"},
      {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"city\": \"Pa"},
      {"type": "function_call_output", "call_id": "c", "output": "x"}]})");
  CHECK(error["param"] == "input");
  CHECK_THAT(error["message"].get<std::string>(),
             ContainsSubstring("The call of the string \"f\" in 'input'"));
  const json chat = error_of(bench.chat(R"({"messages": [{"role": "user", "content": "a"},
      {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "[1]"}}]}]})"));
  CHECK(chat["param"] == "messages[1].tool_calls[0].function.arguments");
  ResponsesBench shows("Hi.");
  shows.ask("", R"([{"role": "user", "content": "a"},
      {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"city\": \"Pa"}])");
  CHECK_THAT(shows.prompt(), ContainsSubstring(R"("{\"city\": \"Pa")"));
}

TEST_CASE("a custom tool's input is read from arguments in pieces of any size") {
  const auto read = [](const std::string& arguments, size_t piece) {
    CustomInput input;
    std::string text;
    for (size_t at = 0; at < arguments.size(); at += piece) text += input.push(arguments.substr(at, piece));
    return text + input.finish();
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"input": "plain"})", "plain"},
      {R"( { "input" : "" } )", ""},
      {R"({"input":"a\n\t\"\\\/\b\f\r"})", "a\n\t\"\\/\b\f\r"},
      {R"({"input": "\u00e4\u20ac\ud83d\ude42 \udc00 \ud83dx"})", "ä€🙂 \uFFFD \uFFFDx"},
      {R"({"input": "cut of)", "cut of"},
      {R"({"input": "cut of\)", "cut of"},
      {R"({"other": "x"})", R"({"other": "x"})"},
      {R"({"input": 5})", R"({"input": 5})"},
      {"{", "{"},
      {"", ""},
  };
  for (const auto& [arguments, expected] : cases) {
    for (size_t piece = 1; piece <= std::max<size_t>(1, arguments.size()); ++piece) {
      INFO(arguments << " in pieces of " << piece);
      CHECK(read(arguments, piece) == expected);
    }
  }
}

}  // namespace
}  // namespace hearth
