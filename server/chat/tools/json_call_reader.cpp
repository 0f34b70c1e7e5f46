// Reads a call that is a JSON object. Its members may come in any order, and unknown members are skipped.
// Arguments are passed on while they arrive, but not before the name (and the id, if the syntax has ids) is
// known.
#include <optional>
#include <utility>

#include "server/chat/tools/call_reader.h"
#include "server/chat/tools/json_scanner.h"
#include "server/chat/tools/probe_text.h"

namespace hearth {
namespace {

class JsonCallReader : public CallReader {
 public:
  JsonCallReader(const ToolSyntax& syntax, const Json& tools) : syntax_(&syntax), tools_(&tools) {}

  Status read(TextWindow& window, CallSink& sink) override {
    while (!window.empty()) {
      const char c = window.text[window.at++];
      const bool was_begun = sink.begun();
      const Status status = take(c);
      if (status == Status::kBad || !release(sink, status == Status::kDone)) {
        --window.at;
        flush(sink);
        return Status::kBad;
      }
      const bool says_all = !was_begun || in_arguments() || status == Status::kDone;
      if (sink.begun() && says_all) window.kept = window.at;
      if (status == Status::kDone) return status;
    }
    flush(sink);
    return Status::kMore;
  }

 private:
  enum class State { kOpen, kFirstKey, kKey, kInKey, kColon, kValueStart, kInValue, kAfterValue };
  enum class Role { kName, kId, kArguments, kWrapper, kOther };

  bool in_arguments() const {
    return role_ == Role::kArguments && (state_ == State::kInValue || state_ == State::kAfterValue);
  }

  Status take(char c) {
    const bool white = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    switch (state_) {
      case State::kInKey:
        return take_key_byte(c);
      case State::kInValue:
        return take_value_byte(c);
      default:
        return white ? Status::kMore : take_sign(c);
    }
  }

  /// Reads a byte outside keys and values.
  Status take_sign(char c) {
    switch (state_) {
      case State::kOpen:
        state_ = State::kFirstKey;
        return c == '{' ? Status::kMore : Status::kBad;
      case State::kFirstKey:
      case State::kKey:
        if (c == '}' && state_ == State::kFirstKey) return close();
        if (c != '"') return Status::kBad;
        state_ = State::kInKey;
        scanner_ = {};
        raw_.clear();
        return take_key_byte(c);
      case State::kColon:
        state_ = State::kValueStart;
        return c == ':' ? Status::kMore : Status::kBad;
      case State::kValueStart:
        return begin_value(c);
      default:
        if (c == '}') return close();
        state_ = State::kKey;
        return c == ',' ? Status::kMore : Status::kBad;
    }
  }

  Status take_key_byte(char c) {
    raw_ += c;
    const JsonScanner::Status status = scanner_.push(c);
    if (status != JsonScanner::Status::kDone) {
      return status == JsonScanner::Status::kMore ? Status::kMore : Status::kBad;
    }
    const Json key = Json::parse(raw_, nullptr, false);
    if (!key.is_string()) return Status::kBad;
    role_ = role_of(key.get_ref<const std::string&>());
    state_ = State::kColon;
    return Status::kMore;
  }

  Role role_of(const std::string& key) const {
    if (key == syntax_->name_key) return Role::kName;
    if (key == syntax_->arguments_key) return Role::kArguments;
    if (!syntax_->id_key.empty() && key == syntax_->id_key) return Role::kId;
    return !syntax_->wrapper_key.empty() && key == syntax_->wrapper_key ? Role::kWrapper : Role::kOther;
  }

  Status begin_value(char c) {
    if (role_ == Role::kWrapper && c == '{') {
      ++depth_;
      state_ = State::kFirstKey;
      return depth_ > 1 ? Status::kBad : Status::kMore;
    }
    if (role_ == Role::kArguments && (has_arguments_ || (c != '{' && c != '"' && c != 'n')))
      return Status::kBad;
    if (role_ == Role::kArguments) has_arguments_ = true;
    streams_ = role_ == Role::kArguments && c == '{';
    state_ = State::kInValue;
    scanner_ = {};
    raw_.clear();
    return take_value_byte(c);
  }

  Status take_value_byte(char c) {
    const JsonScanner::Status status = scanner_.push(c);
    if (status == JsonScanner::Status::kBad) return Status::kBad;
    if (status == JsonScanner::Status::kDoneBefore) {
      state_ = State::kAfterValue;
      return end_value() ? take(c) : Status::kBad;
    }
    (streams_ ? waiting_ : raw_) += c;
    if (status == JsonScanner::Status::kMore) return Status::kMore;
    state_ = State::kAfterValue;
    return end_value() ? Status::kMore : Status::kBad;
  }

  /// Returns false if the value has the wrong type for its key.
  bool end_value() {
    if (streams_ || role_ == Role::kOther || role_ == Role::kWrapper) return true;
    const Json value = Json::parse(raw_, nullptr, false);
    if (role_ == Role::kArguments) return take_quoted_arguments(value);
    if (!value.is_string() || (role_ == Role::kName && name_)) return false;
    (role_ == Role::kName ? name_ : id_) = value.get<std::string>();
    return role_ != Role::kName || !name_->empty();
  }

  /// Accepts arguments that are a JSON string with the text of a JSON object. Accepts null, which means that
  /// there are no arguments.
  bool take_quoted_arguments(const Json& value) {
    if (value.is_null()) {
      waiting_ = "{}";
      return true;
    }
    if (!value.is_string()) return false;
    waiting_ = probe::trim(value.get_ref<const std::string&>());
    return waiting_.starts_with('{') && probe::json_end(waiting_, 0) == waiting_.size();
  }

  Status close() {
    if (depth_ > 0) {
      --depth_;
      state_ = State::kAfterValue;
      role_ = Role::kOther;
      return Status::kMore;
    }
    return name_ ? Status::kDone : Status::kBad;
  }

  /// Begins the call in the sink once the name, the id (if the syntax has ids) and the first part of the
  /// arguments are known. `done`: the text of the call is complete; begins the call even without an id, and
  /// passes on the waiting arguments. Returns false if the text is not a call: the syntax has no opening
  /// text, and the request has no tool of this name.
  bool release(CallSink& sink, bool done) {
    if (done && !has_arguments_) waiting_ = "{}";
    const bool named = name_ && (syntax_->id_key.empty() || id_);
    if (!sink.begun() && !waiting_.empty() && (named || done)) {
      if (syntax_->bare() && !has_tool(*tools_, *name_)) return false;
      sink.begin(*name_, id_.value_or(""));
    }
    if (done) flush(sink);
    return true;
  }

  void flush(CallSink& sink) {
    if (sink.begun()) sink.arguments(std::exchange(waiting_, {}));
  }

  const ToolSyntax* syntax_;
  const Json* tools_;
  State state_ = State::kOpen;
  Role role_ = Role::kOther;
  int depth_ = 0;  // 1 inside the object at wrapper_key, otherwise 0
  JsonScanner scanner_;
  std::string raw_;      // bytes of the current key or value
  std::string waiting_;  // arguments not yet passed to the sink
  bool has_arguments_ = false, streams_ = false;
  std::optional<std::string> name_, id_;
};

}  // namespace

std::unique_ptr<CallReader> make_json_call_reader(const ToolSyntax& syntax, const Json& tools) {
  return std::make_unique<JsonCallReader>(syntax, tools);
}

}  // namespace hearth
