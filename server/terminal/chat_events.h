// Reads the events of a streamed answer of POST /v1/chat/completions.
//
// Belongs to one thread. The bytes may be anything: lines that are not events of such an answer are skipped.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace hearth {

class ChatEvents {
 public:
  enum class Part { kThinking, kAnswer };
  /// Receives a piece of the text. Without control characters except line ends and tabs, so that a model's
  /// answer cannot control the terminal.
  using OnText = std::function<void(Part part, const std::string& text)>;

  explicit ChatEvents(OnText on_text) : on_text_(std::move(on_text)) {}

  /// Bytes of the body, cut anywhere. Returns false if a line is too long for an event.
  bool add(std::string_view bytes);

  /// The end that the server gave: "stop", "length", or another word; empty until then.
  const std::string& finish_reason() const { return finish_reason_; }
  /// Whether the server stopped the answer because it repeated itself without end.
  bool repeats() const { return repeats_; }
  /// The message of an error in the stream, or in a body that is not a stream; empty if there was none.
  std::string error() const;

 private:
  void read_line(std::string_view line);

  OnText on_text_;
  std::string line_;   // the beginning of the current line
  std::string other_;  // lines that are not events: the body of an error
  std::string finish_reason_, error_;
  bool repeats_ = false;
};

/// Returns the text without control characters (C0 except line end and tab, DEL, C1). text: UTF-8.
std::string printable(std::string_view text);

}  // namespace hearth
