// See the header.
#include "server/terminal/chat_events.h"

#include <utility>

#include "server/json/json.h"

namespace hearth {
namespace {

constexpr size_t kMostLineBytes = 1 << 20, kMostOtherBytes = 1 << 16;
constexpr std::string_view kData = "data: ";

/// Returns the message of an error object in a body of any shape, or an empty text.
std::string message_of(const Json& body) {
  const auto error = body.find("error");
  if (error == body.end()) return "";
  if (error->is_string()) return error->get<std::string>();
  const auto message = error->is_object() ? error->find("message") : error->end();
  return message != error->end() && message->is_string() ? message->get<std::string>() : "the server failed";
}

std::string text_member(const Json& object, const char* name) {
  const auto member = object.find(name);
  return member != object.end() && member->is_string() ? member->get<std::string>() : "";
}

}  // namespace

bool ChatEvents::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (line_.size() > kMostLineBytes) return false;
    if (end == std::string_view::npos) return true;
    read_line(std::exchange(line_, {}));
    bytes.remove_prefix(end + 1);
  }
  return true;
}

void ChatEvents::read_line(std::string_view line) {
  if (!line.starts_with(kData)) {
    if (other_.size() + line.size() < kMostOtherBytes) other_.append(line).append("\n");
    return;
  }
  const Json event = Json::parse(line.substr(kData.size()), nullptr, false);
  if (!event.is_object()) return;  // [DONE]
  if (std::string message = message_of(event); !message.empty()) error_ = std::move(message);
  const auto choices = event.find("choices");
  if (choices == event.end() || !choices->is_array() || choices->empty() || !choices->front().is_object())
    return;
  const Json& choice = choices->front();
  if (std::string reason = text_member(choice, "finish_reason"); !reason.empty())
    finish_reason_ = std::move(reason);
  if (text_member(choice, "stop_reason") == "repetition") repeats_ = true;
  const auto delta = choice.find("delta");
  if (delta == choice.end() || !delta->is_object()) return;
  const std::string thinking = printable(text_member(*delta, "reasoning_content"));
  if (!thinking.empty()) on_text_(Part::kThinking, thinking);
  const std::string answer = printable(text_member(*delta, "content"));
  if (!answer.empty()) on_text_(Part::kAnswer, answer);
}

std::string ChatEvents::error() const {
  if (!error_.empty()) return error_;
  const Json body = Json::parse(other_ + line_, nullptr, false);
  return body.is_object() ? message_of(body) : "";
}

std::string printable(std::string_view text) {
  std::string kept;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char byte = static_cast<unsigned char>(text[i]);
    const bool is_c0 = byte < 0x20 && byte != '\n' && byte != '\t';
    if (is_c0 || byte == 0x7f) continue;
    // U+0080 to U+009F are C2 80 to C2 9F.
    if (byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0) {
      ++i;
      continue;
    }
    kept += text[i];
  }
  return kept;
}

}  // namespace hearth
