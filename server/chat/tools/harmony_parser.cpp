#include "server/chat/tools/harmony_parser.h"

#include <array>
#include <utility>

namespace hearth {
namespace {

constexpr std::string_view kStart = "<|start|>", kChannel = "<|channel|>", kMessage = "<|message|>";
constexpr std::string_view kFunctions = "functions.";
/// Texts that end a message. The last two begin the next message, and end the current message if the model
/// omits its end.
constexpr std::array<std::string_view, 5> kBodyEnds{"<|end|>", "<|call|>", "<|return|>", kStart, kChannel};
/// Longer than any header, which is a single line.
constexpr size_t kMaxHeaderBytes = 256;

/// Returns the word after `label` in a header, or an empty text if there is none.
std::string_view word_after(std::string_view header, std::string_view label) {
  const size_t at = header.find(label);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = header.substr(at + label.size());
  return rest.substr(0, rest.find_first_of(" \t\r\n<"));
}

/// Whether `text` begins with `wanted`. kMore: `text` is too short to decide.
Match begins(std::string_view text, std::string_view wanted) {
  if (text.starts_with(wanted)) return Match::kYes;
  return wanted.starts_with(text) ? Match::kMore : Match::kNo;
}

}  // namespace

HarmonyParser::HarmonyParser(const Json& tools, MakeCallId make_id)
    : tools_(&tools),
      sink_(std::move(make_id), events_),
      text_(ToolEvent::Kind::kText, events_),
      reasoning_(ToolEvent::Kind::kReasoning, events_) {}

std::vector<ToolEvent> HarmonyParser::push(std::string_view text) {
  window_.text += text;
  return read_on();
}

std::vector<ToolEvent> HarmonyParser::finish() {
  window_.ended = true;
  std::vector<ToolEvent> events = read_on();
  if (state_ == State::kCall && !sink_.begun()) {
    sink_.begin(function_, {});
    sink_.arguments("{}");
    end_call(true);
  }
  if (sink_.begun()) end_call(false);
  text_.finish();
  for (ToolEvent& event : std::exchange(events_, {})) events.push_back(std::move(event));
  return events;
}

std::vector<ToolEvent> HarmonyParser::read_on() {
  while (advance()) {
  }
  const bool undecided = state_ == State::kHeader || (state_ == State::kCall && !sink_.begun());
  if (!undecided) window_.kept = window_.at;
  window_.text.erase(0, window_.kept);
  window_.at -= window_.kept;
  window_.kept = 0;
  return std::exchange(events_, {});
}

bool HarmonyParser::advance() {
  switch (state_) {
    case State::kBetween:
      return read_between();
    case State::kHeader:
      return read_header();
    case State::kText:
      return read_body(text_);
    case State::kReasoning:
      return read_body(reasoning_);
    case State::kCall:
      return read_call();
    case State::kCallRest:
      break;
  }
  return read_body(text_);
}

/// Reads the beginning of a message: a header or, if the model omitted the header, text.
bool HarmonyParser::read_between() {
  window_.skip_white();
  const std::string_view rest = window_.rest();
  if (rest.empty()) return false;
  bool may_be_header = false;
  for (const std::string_view begin : {kStart, kChannel, kMessage, std::string_view("to=")}) {
    const Match found = begins(rest, begin);
    if (found == Match::kYes) {
      window_.kept = window_.at;
      state_ = State::kHeader;
      return true;
    }
    may_be_header = may_be_header || (found == Match::kMore && !window_.ended);
  }
  if (may_be_header) return false;
  state_ = State::kText;
  return true;
}

bool HarmonyParser::read_header() {
  const std::string_view rest = window_.rest().substr(0, kMaxHeaderBytes);
  const size_t end = rest.find(kMessage);
  if (end != std::string_view::npos) {
    const std::string header(rest.substr(0, end));
    window_.at += end + kMessage.size();
    enter_message(header);
    return true;
  }
  if (rest.size() < kMaxHeaderBytes && !window_.ended) return false;
  // This is not a header, so it is text. Its first byte becomes text here, because read_body() would take a
  // marker at its beginning for the end of the text.
  text_.push(rest.substr(0, 1));
  ++window_.at;
  state_ = State::kText;
  return true;
}

/// Returns the name of the function that is called by a message to this recipient; empty if none is.
std::string HarmonyParser::function_of(std::string_view recipient) const {
  if (tools_->is_null()) return {};
  if (recipient.starts_with(kFunctions)) return std::string(recipient.substr(kFunctions.size()));
  return has_tool(*tools_, recipient) ? std::string(recipient) : std::string();
}

void HarmonyParser::enter_message(std::string_view header) {
  function_ = function_of(word_after(header, "to="));
  if (!function_.empty()) {
    arguments_ = {};
    state_ =
        State::kCall;  // window_.kept stays before the header, because the message may turn out to be text
    return;
  }
  const bool thinks = word_after(header, kChannel) == "analysis";
  state_ = thinks ? State::kReasoning : State::kText;
  (thinks ? reasoning_ : text_).edge();
  if (!thinks && had_text_) {
    events_.push_back({ToolEvent::Kind::kText, "\n"});  // a newline between two text messages
  }
  had_text_ = had_text_ || !thinks;
}

bool HarmonyParser::read_body(TextReleaser& out) {
  const std::string_view rest = window_.rest();
  size_t end = std::string_view::npos;
  size_t certain = rest.size();
  std::string_view marker;
  for (const std::string_view candidate : kBodyEnds) {
    const size_t at = rest.find(candidate);
    if (at < end) {
      end = at;
      marker = candidate;
    }
    certain = std::min(certain, certain_before(rest, candidate));
  }
  if (end == std::string_view::npos) {
    if (window_.ended) certain = rest.size();
    out.push(rest.substr(0, certain));
    window_.at += certain;
    return false;
  }
  out.push(rest.substr(0, end));
  out.edge();
  const bool ends_only = marker != kStart && marker != kChannel;
  window_.at += end + (ends_only ? marker.size() : 0);
  state_ = State::kBetween;
  return true;
}

bool HarmonyParser::read_call() {
  if (!sink_.begun()) {
    window_.skip_white();
    if (window_.empty()) return false;
    if (window_.rest().front() != '{') return call_is_text();
    text_.edge();
    sink_.begin(function_, {});
  }
  const size_t begin = window_.at;
  while (!window_.empty()) {
    const JsonScanner::Status status = arguments_.push(window_.text[window_.at]);
    const bool bad = status == JsonScanner::Status::kBad;
    if (!bad) ++window_.at;
    if (status == JsonScanner::Status::kMore) continue;
    sink_.arguments(std::string_view(window_.text).substr(begin, window_.at - begin));
    end_call(!bad);
    return true;
  }
  sink_.arguments(std::string_view(window_.text).substr(begin));
  return false;
}

void HarmonyParser::end_call(bool whole) {
  sink_.end(whole);
  state_ = State::kCallRest;
  if (whole) text_.edge();
}

bool HarmonyParser::call_is_text() {
  const std::string_view rest = window_.rest();
  for (const std::string_view end : kBodyEnds) {
    const Match found = begins(rest, end);
    if (found == Match::kMore && !window_.ended) return false;
    if (found != Match::kYes) continue;
    sink_.begin(function_, {});  // a call that ends immediately has no arguments
    sink_.arguments("{}");
    end_call(true);
    return true;
  }
  // The message is text, and so is its header. The header's first byte becomes text here, because read_body()
  // would take a marker at its beginning for the end of the text.
  window_.at = window_.kept;
  text_.push(window_.rest().substr(0, 1));
  ++window_.at;
  state_ = State::kText;
  return true;
}

}  // namespace hearth
