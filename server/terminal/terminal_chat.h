// A conversation in the terminal: reads lines, sends them with what was said before, and prints the answer
// while it is generated.
//
// Ctrl-C stops a running answer; the part that was printed stays in the conversation. At the prompt, Ctrl-C
// discards the line, and Ctrl-D ends the chat. Lines that begin with / are commands (/help lists them). Lines
// between two lines of three quotation marks (""") are one message.
//
// main uses it before it starts any thread. While an object exists, SIGINT is the object's.
#pragma once

#include <signal.h>

#include <optional>
#include <string>

#include "server/json/json.h"
#include "server/models/running_server.h"

namespace hearth {

class TerminalChat {
 public:
  /// server: must serve a model that generates. key: see request_options(). system: the system prompt; may be
  /// empty.
  TerminalChat(RunningServer server, std::string key, const std::string& system);
  ~TerminalChat();
  TerminalChat(const TerminalChat&) = delete;
  TerminalChat& operator=(const TerminalChat&) = delete;

  /// Reads messages from standard input, which is a terminal, until it ends.
  void converse();

  /// Sends one message and prints the answer. Returns false and prints a sentence to standard error if there
  /// is no answer; the conversation is then as before. Throws std::runtime_error if the server is gone.
  bool say(const std::string& text);

  /// Whether Ctrl-C was pressed since the last message was sent. Any thread may call it.
  static bool is_interrupted();

 private:
  enum class Read { kLine, kInterrupted, kEnd };
  Read read_line(const char* prompt, std::string& line);
  /// Returns nullopt at the end of the input. An empty text: nothing to send.
  std::optional<std::string> read_message();
  /// Returns false if the command ends the chat.
  bool obey(const std::string& command);
  void set_system(const std::string& text);

  const RunningServer server_;
  const RequestOptions request_;
  const bool is_styled_;  // whether thinking may be dimmed by escape sequences
  Json messages_ = Json::array();
  struct sigaction before_ {};
};

}  // namespace hearth
