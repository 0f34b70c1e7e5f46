// Parses answers in OpenAI's harmony format (gpt-oss). An answer consists of messages, each with a channel
// and an optional recipient.
//
//   <|channel|>analysis<|message|>THINKING<|end|><|start|>assistant<|channel|>final<|message|>TEXT
//   <|channel|>commentary to=functions.NAME <|constrain|>json<|message|>ARGUMENTS
//
// The recipient may also precede the channel. Source: OpenAI's description of the format ("OpenAI harmony
// response format"). The contract is that of ToolCallParser.
#pragma once

#include "server/chat/text_releaser.h"
#include "server/chat/tools/call_reader.h"
#include "server/chat/tools/json_scanner.h"

namespace hearth {

class HarmonyParser : public AnswerParser {
 public:
  /// find_calls: false for requests without tools.
  HarmonyParser(bool find_calls, MakeCallId make_id);
  std::vector<ToolEvent> push(std::string_view text) override;
  std::vector<ToolEvent> finish() override;

 private:
  enum class State { kBetween, kHeader, kText, kReasoning, kCall, kCallRest };

  std::vector<ToolEvent> read_on();
  bool advance();  // returns false if it needs more text
  bool read_between();
  bool read_header();
  void enter_message(std::string_view header);
  bool read_body(TextReleaser& out);
  bool read_call();
  void end_call(bool whole);
  /// Checks text that followed a call's header but does not begin arguments. If the message ends here, it is
  /// a call without arguments. Otherwise, everything from the header on becomes text. Returns false if more
  /// text is needed.
  bool call_is_text();

  bool find_calls_;
  std::vector<ToolEvent> events_;
  CallSink sink_;
  TextReleaser text_, reasoning_;
  TextWindow window_;
  State state_ = State::kBetween;
  JsonScanner arguments_;
  std::string function_;
  bool had_text_ = false;
};

}  // namespace hearth
