// Parses answers in OpenAI's harmony format (gpt-oss). An answer consists of messages, each with a channel
// and an optional recipient.
//
//   <|channel|>analysis<|message|>THINKING<|end|><|start|>assistant<|channel|>final<|message|>TEXT
//   <|channel|>commentary to=functions.NAME <|constrain|>json<|message|>ARGUMENTS
//
// The recipient may also precede the channel, and lack "functions." if it is a tool of the request. The
// channel of a call may also be analysis. Source: "OpenAI harmony response format". push() and finish() have
// the contract of ToolCallParser's functions.
#pragma once

#include "server/chat/text_releaser.h"
#include "server/chat/tools/call_reader.h"
#include "server/chat/tools/json_scanner.h"

namespace hearth {

class HarmonyParser : public AnswerParser {
 public:
  /// tools: the request's; null if it has none. They must outlive this object.
  HarmonyParser(const Json& tools, MakeCallId make_id);
  std::vector<ToolEvent> push(std::string_view text) override;
  std::vector<ToolEvent> finish() override;

 private:
  enum class State { kBetween, kHeader, kText, kReasoning, kCall, kCallRest };

  std::vector<ToolEvent> read_on();
  bool advance();  // returns false if more text is needed
  bool read_between();
  bool read_header();
  void enter_message(std::string_view header);
  bool read_body(TextReleaser& out);
  bool read_call();
  void end_call(bool whole);
  /// Called if the text after a call's header does not begin with arguments. If the message ends here, emits
  /// a call without arguments. Otherwise, turns the header and everything after it into text. Returns false
  /// if more text is needed.
  bool call_is_text();

  std::string function_of(std::string_view recipient) const;

  const Json* tools_;
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
