// Reads text, thinking, and the texts that open, separate and close calls. A CallReader reads the text inside
// a call.
#include "server/chat/tools/tool_call_parser.h"

#include <algorithm>
#include <utility>

#include "server/chat/text_releaser.h"
#include "server/chat/tools/call_reader.h"
#include "server/chat/tools/harmony_parser.h"

namespace hearth {
namespace {

class TextAnswerParser : public AnswerParser {
 public:
  TextAnswerParser(const ChatForm& form, MakeCallId make_id);
  std::vector<ToolEvent> push(std::string_view text) override;
  std::vector<ToolEvent> finish() override;

 private:
  enum class State { kReasoning, kText, kCallBegin, kCallBody, kCallEnd, kAfterCall };

  std::vector<ToolEvent> read_on();
  bool advance();  // returns false if more text is needed
  bool read_reasoning();
  bool read_text();
  bool read_answer_start(bool& waits);
  bool read_call_begin();
  bool read_call_body();
  bool read_call_end();
  bool read_after_call();
  void begin_call(size_t opener_bytes);
  void enter_body();
  void end_call(bool whole);
  void give_up_call();
  void drop_cut_call();
  void compact();

  const ChatForm* form_;
  const ToolSyntax* syntax_;        // belongs to form_
  const ThinkingSyntax* thinking_;  // belongs to form_
  std::string opener_, begin_, next_call_, after_last_;
  bool more_may_follow_;  // after a call, only another call or an end text may follow, not plain text
  std::vector<ToolEvent> events_;
  CallSink sink_;
  TextReleaser text_, reasoning_;
  TextWindow window_;
  State state_ = State::kText;
  // True while only white space has come since the start of the answer, the end of thinking, or the last
  // call.
  bool answer_begins_ = true;
  std::unique_ptr<CallReader> reader_;
  size_t virtual_bytes_ = 0;  // bytes at the front of the window that belong to the prompt
  // Number of bytes of the opener with which the current call begins. If the text turns out not to be a call,
  // the opener becomes plain text, and the text after it is read again.
  size_t opener_bytes_ = 0;
};

TextAnswerParser::TextAnswerParser(const ChatForm& form, MakeCallId make_id)
    : form_(&form),
      syntax_(&form.syntax.calls),
      thinking_(&form.syntax.thinking),
      opener_(syntax_->opener()),
      begin_(syntax_->section_begin + syntax_->call_begin),
      next_call_(syntax_->next_call()),
      after_last_(syntax_->after_last()),
      more_may_follow_(!probe::trim(syntax_->section_begin + syntax_->separator).empty()),
      sink_(std::move(make_id), events_),
      text_(ToolEvent::Kind::kText, events_),
      reasoning_(ToolEvent::Kind::kReasoning, events_) {
  if (form.thinking == ThinkingMode::kBegun) {
    state_ = State::kReasoning;
    reasoning_.edge();
  } else if (syntax_->prompt_opens_call && form.may_call()) {
    window_.text = begin_;
    virtual_bytes_ = begin_.size();
    state_ = State::kCallBegin;
    begin_call(0);
  }
}

std::vector<ToolEvent> TextAnswerParser::push(std::string_view text) {
  window_.text += text;
  return read_on();
}

std::vector<ToolEvent> TextAnswerParser::finish() {
  window_.ended = true;
  std::vector<ToolEvent> events = read_on();
  text_.finish();
  for (ToolEvent& event : std::exchange(events_, {})) events.push_back(std::move(event));
  return events;
}

std::vector<ToolEvent> TextAnswerParser::read_on() {
  while (advance()) {
  }
  compact();
  return std::exchange(events_, {});
}

/// Removes the bytes that have become events from the window.
void TextAnswerParser::compact() {
  const bool in_call = state_ == State::kCallBegin || state_ == State::kCallBody;
  if (!in_call) window_.kept = window_.at;
  const size_t n = window_.kept;
  window_.text.erase(0, n);
  window_.at -= n;
  window_.kept = 0;
  virtual_bytes_ -= std::min(virtual_bytes_, n);
}

bool TextAnswerParser::advance() {
  switch (state_) {
    case State::kReasoning:
      return read_reasoning();
    case State::kText:
      return read_text();
    case State::kCallBegin:
      return read_call_begin();
    case State::kCallBody:
      return read_call_body();
    case State::kCallEnd:
      return read_call_end();
    case State::kAfterCall:
      break;
  }
  return read_after_call();
}

bool TextAnswerParser::read_reasoning() {
  const std::string_view rest = window_.rest();
  const std::string& close = thinking_->close;
  const size_t end = rest.find(close);
  if (end == std::string_view::npos) {
    const size_t certain = window_.ended ? rest.size() : certain_before(rest, close);
    reasoning_.push(rest.substr(0, certain));
    window_.at += certain;
    return false;
  }
  reasoning_.push(rest.substr(0, end));
  reasoning_.edge();
  window_.at += end + close.size();
  text_.edge();
  answer_begins_ = true;
  state_ = State::kText;
  return true;
}

/// Looks for thinking and, if calls have no opener, for a call. Thinking and such calls occur only at the
/// start of an answer. Returns true if it found thinking or a call. Sets `waits` if the text so far may be
/// the beginning of the tag that opens thinking.
bool TextAnswerParser::read_answer_start(bool& waits) {
  const std::string_view rest = window_.rest();
  const std::string_view solid = probe::trim_start(rest);
  if (solid.empty()) return false;
  const std::string& open = thinking_->open;
  const bool may_think = form_->thinking != ThinkingMode::kNone;
  if (may_think && solid.starts_with(open)) {
    window_.at += rest.size() - solid.size() + open.size();
    text_.edge();
    reasoning_.edge();
    state_ = State::kReasoning;
    return true;
  }
  waits = may_think && open.starts_with(solid) && !window_.ended;
  if (waits || !form_->may_call() || !opener_.empty()) return false;
  if (syntax_->form == ToolSyntax::Form::kJsonObject && solid.front() != '{') return false;
  text_.push(rest.substr(0, rest.size() - solid.size()));
  window_.at += rest.size() - solid.size();
  begin_call(0);
  return true;
}

bool TextAnswerParser::read_text() {
  if (answer_begins_) {
    bool waits = false;
    if (read_answer_start(waits)) return true;
    if (waits) return false;
  }
  const std::string_view rest = window_.rest();
  const bool looks = form_->may_call() && !opener_.empty();
  // A list of Python calls is recognized only at the start, because a [ may occur anywhere in text.
  const bool only_at_start = opener_ == "[" || form_->has_format();
  const size_t found =
      looks && (!only_at_start || answer_begins_) ? rest.find(opener_) : std::string_view::npos;
  const bool white_before = probe::trim(rest.substr(0, std::min(found, rest.size()))).empty();
  if (found != std::string_view::npos && (!only_at_start || white_before)) {
    text_.push(rest.substr(0, found));
    window_.at += found;
    begin_call(opener_.size());
    return true;
  }
  size_t certain = looks ? certain_before(rest, opener_) : rest.size();
  // At the end of an answer, one character is rather a part of the text than of a tag that was cut off,
  // unless the answer may consist of calls only.
  const size_t of_text = form_->choice.mode == ToolMode::kRequired ? 0 : 1;
  const bool is_cut = window_.ended && !only_at_start && rest.size() - certain > of_text;
  if (window_.ended && !is_cut) certain = rest.size();
  answer_begins_ = answer_begins_ && probe::trim(rest.substr(0, certain)).empty();
  text_.push(rest.substr(0, certain));
  if (is_cut) text_.edge();
  window_.at += is_cut ? rest.size() : certain;
  return false;
}

void TextAnswerParser::begin_call(size_t opener_bytes) {
  window_.kept = window_.at;
  opener_bytes_ = opener_bytes;
  answer_begins_ = false;
  state_ = State::kCallBegin;
}

bool TextAnswerParser::read_call_begin() {
  const Match found = match(window_, begin_);
  if (found == Match::kMore && !window_.ended) return false;
  if (found == Match::kYes) {
    enter_body();
  } else if (found == Match::kMore) {
    drop_cut_call();
  } else {
    give_up_call();
  }
  return true;
}

void TextAnswerParser::enter_body() {
  reader_ = make_call_reader(*syntax_, form_->choice.tools);
  state_ = State::kCallBody;
}

bool TextAnswerParser::read_call_body() {
  const CallReader::Status status = reader_->read(window_, sink_);
  if (status == CallReader::Status::kMore && !window_.ended) return false;
  if (status == CallReader::Status::kDone) {
    state_ = State::kCallEnd;
  } else if (status == CallReader::Status::kText) {
    text_.edge();
    state_ = State::kText;
  } else if (status == CallReader::Status::kMore) {
    drop_cut_call();
  } else {
    give_up_call();
  }
  return true;
}

/// Called if the answer ends within a call. Nothing after the last event becomes text, unless the answer has
/// no opener of this call, so that the text may be something else.
void TextAnswerParser::drop_cut_call() {
  if (!sink_.begun() && (syntax_->bare() || virtual_bytes_ > 0)) return give_up_call();
  text_.edge();
  if (sink_.begun()) end_call(false);
  window_.kept = window_.at = window_.text.size();
  opener_bytes_ = 0;
  state_ = State::kText;
}

/// Called if the text since begin_call() is not a call after all, or breaks off. Ends the call if its
/// beginning has been emitted; otherwise, the opener becomes text. Everything after that is read again as
/// text.
void TextAnswerParser::give_up_call() {
  if (sink_.begun()) end_call(false);
  const size_t real = std::max(window_.kept, virtual_bytes_);
  const size_t resume = std::min(std::max(window_.kept + opener_bytes_, real), window_.text.size());
  text_.push(std::string_view(window_.text).substr(real, resume - real));
  window_.at = resume;
  opener_bytes_ = 0;
  state_ = State::kText;
}

void TextAnswerParser::end_call(bool whole) {
  text_.edge();
  sink_.end(whole);
  opener_bytes_ = 0;
}

bool TextAnswerParser::read_call_end() {
  const Match found = match(window_, syntax_->call_end);
  if (found == Match::kMore && !window_.ended) return false;
  end_call(true);
  if (found == Match::kMore) window_.at = window_.text.size();  // cut off
  answer_begins_ = found == Match::kYes;
  state_ = found == Match::kYes ? State::kAfterCall : State::kText;
  return true;
}

/// Reads the text after a call: the text before another call, or after_last_. Drops a part of them with which
/// the answer ends. If neither follows, or if more_may_follow_ is false, the text is plain text.
bool TextAnswerParser::read_after_call() {
  window_.skip_white();
  if (more_may_follow_) {
    const Match last = after_last_.empty() ? Match::kNo : match(window_, after_last_);
    if (last == Match::kYes) {
      state_ = State::kText;
      return true;
    }
    const Match next = next_call_.empty() && window_.empty() ? Match::kMore : match(window_, next_call_);
    const bool goes_on = next == Match::kYes && (last == Match::kNo || !next_call_.empty());
    const bool waits = !goes_on && (next == Match::kMore || last == Match::kMore);
    if (waits && !window_.ended) return false;
    if (waits) window_.at = window_.text.size();  // cut off
    if (goes_on) {
      begin_call(0);
      enter_body();
      return true;
    }
  }
  state_ = State::kText;
  return true;
}

}  // namespace

ToolCallParser::ToolCallParser(const ChatForm& form, MakeCallId make_id) {
  if (form.syntax.calls.form == ToolSyntax::Form::kHarmony) {
    parser_ = std::make_unique<HarmonyParser>(form.choice.tools, std::move(make_id));
  } else {
    parser_ = std::make_unique<TextAnswerParser>(form, std::move(make_id));
  }
}

std::string make_call_id(uint64_t seed, int index, bool short_id) {
  constexpr std::string_view kAlphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string id = short_id ? "" : "call_";
  // Each id uses up to 24 values of the random sequence. 32 values are reserved per id, so that ids do not
  // overlap.
  uint64_t state = seed + 0x9E3779B97F4A7C15U * 32 * (static_cast<uint64_t>(index) + 1);
  for (int i = 0; i < (short_id ? 9 : 24); ++i) {
    // splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014)
    uint64_t bits = state += 0x9E3779B97F4A7C15U;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9U;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBU;
    id += kAlphabet[(bits ^ (bits >> 31)) % kAlphabet.size()];
  }
  return id;
}

}  // namespace hearth
