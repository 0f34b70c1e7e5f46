// The events of a streamed chat, cut anywhere, and bodies that are not streams.
#include "server/terminal/chat_events.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"

using namespace hearth;

namespace {

struct Heard {
  std::string thinking, answer;
};

/// Adds the bytes in pieces of n.
ChatEvents heard_in_pieces(const std::string& bytes, size_t n, Heard& heard) {
  ChatEvents events([&heard](ChatEvents::Part part, const std::string& text) {
    (part == ChatEvents::Part::kThinking ? heard.thinking : heard.answer) += text;
  });
  for (size_t i = 0; i < bytes.size(); i += n) CHECK(events.add(bytes.substr(i, n)));
  return events;
}

const std::string kStream =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
    ": a comment\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"Hm.\"}}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Gr\u00fc\\u001b[2Jn\"}}]}\r\n\r\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n"
    "data: [DONE]\n\n";

}  // namespace

TEST_CASE("chat events: the text is the same, however the stream is cut") {
  for (const size_t n : {size_t{1}, size_t{7}, kStream.size()}) {
    Heard heard;
    const ChatEvents events = heard_in_pieces(kStream, n, heard);
    CHECK(heard.thinking == "Hm.");
    CHECK(heard.answer == "Gr\u00fc[2Jn");
    CHECK(events.finish_reason() == "length");
    CHECK(events.error().empty());
  }
}

TEST_CASE("chat events: an error in the stream and one instead of it are the server's sentence") {
  Heard heard;
  CHECK(heard_in_pieces("data: {\"error\":{\"message\":\"the engine failed\"}}\n\n", 9, heard).error() ==
        "the engine failed");
  CHECK(
      heard_in_pieces("{\n  \"error\": {\"message\": \"too long\",\n \"code\": null}\n}", 5, heard).error() ==
      "too long");
  CHECK(heard_in_pieces("{\"error\":\"no such model\"}\n", 4, heard).error() == "no such model");
  CHECK(heard.answer.empty());
}

TEST_CASE("chat events: bytes of other shapes are skipped") {
  for (const std::string bytes :
       {"data: \n", "data: null\n", "data: {\"choices\":{}}\n", "data: {\"choices\":[1]}\n",
        "data: {\"choices\":[{\"delta\":3,\"finish_reason\":7}]}\n",
        "data: {\"choices\":[{\"delta\":{\"content\":[]}}]}\n", "<html>", "\n\n\n",
        "data: {\"error\":1}\n"}) {
    Heard heard;
    const ChatEvents events = heard_in_pieces(bytes, 3, heard);
    INFO(bytes);
    CHECK(heard.answer.empty());
    CHECK(events.finish_reason().empty());
  }
  ChatEvents events([](ChatEvents::Part, const std::string&) {});
  const std::string endless(1 << 20, 'x');
  CHECK(events.add(endless));
  CHECK_FALSE(events.add(endless));
}

TEST_CASE("printable text has no control characters but line ends and tabs") {
  CHECK(printable("a\tb\nc\r\x1b[1m\x7f\u0085d\u00a0e") == "a\tb\nc[1md\u00a0e");
  CHECK(printable("\xc2") == "\xc2");
}
