// Readers for calls that are not single JSON objects: a name with JSON arguments, parameters in tags, Python
// calls, and values between marks.
#include <algorithm>
#include <utility>

#include "server/chat/tools/call_reader.h"
#include "server/chat/tools/json_scanner.h"
#include "server/chat/tools/marked_values.h"
#include "server/chat/tools/probe_text.h"
#include "server/chat/tools/python_literals.h"
#include "server/chat/tools/schema_types.h"
#include "server/chat/tools/tool_description.h"

namespace hearth {
namespace {

using Status = CallReader::Status;
using Piece = ToolSyntax::Piece;

/// The name of the called function, and the call's id if the syntax writes the id together with the name.
struct CallName {
  std::string name, id;
};

/// Reads a function's name. If the syntax has name_prefix and name_index (Kimi K2), the text is
/// functions.NAME:0, and all of it is the call's id.
class NameReader {
 public:
  explicit NameReader(const ToolSyntax& syntax) : syntax_(&syntax) {}

  Match read(TextWindow& window, std::string_view next_text, CallName& out) {
    if (!prefix_read_) {
      const Match prefix = match(window, syntax_->name_prefix);
      if (prefix != Match::kYes) return prefix;
      prefix_read_ = true;
    }
    const Match word = read_word(window, next_text, out.name);
    if (word != Match::kYes || !syntax_->name_index) return word;
    out.id = syntax_->name_prefix + out.name;
    out.name.resize(std::min(out.name.rfind(':'), out.name.size()));
    return out.name.empty() ? Match::kNo : Match::kYes;
  }

 private:
  const ToolSyntax* syntax_;
  bool prefix_read_ = false;
};

/// Reads the pieces of the syntax in their order.
class TaggedCallReader : public CallReader {
 public:
  TaggedCallReader(const ToolSyntax& syntax, const Json& tools)
      : syntax_(&syntax), tools_(&tools), name_reader_(syntax) {
    for (const Piece& piece : syntax.pieces) has_id_ = has_id_ || piece.kind == Piece::Kind::kId;
  }

  Status read(TextWindow& window, CallSink& sink) override {
    for (; piece_ < syntax_->pieces.size(); ++piece_) {
      const Match found = read_piece(window, sink);
      if (found != Match::kYes) return found == Match::kNo ? Status::kBad : Status::kMore;
      if (is_text_ && syntax_->pieces[piece_].kind == Piece::Kind::kText) return Status::kText;
    }
    if (is_text_ || name_.name.empty()) return is_text_ ? Status::kText : Status::kBad;
    release(sink, true);
    window.kept = window.at;
    return Status::kDone;
  }

 private:
  std::string_view next_text() const {
    const bool last = piece_ + 1 == syntax_->pieces.size();
    return last ? std::string_view() : std::string_view(syntax_->pieces[piece_ + 1].text);
  }

  Match read_piece(TextWindow& window, CallSink& sink) {
    switch (syntax_->pieces[piece_].kind) {
      case Piece::Kind::kText:
        return match(window, syntax_->pieces[piece_].text);
      case Piece::Kind::kName:
        return read_name(window);
      case Piece::Kind::kId:
        return read_word(window, next_text(), name_.id);
      case Piece::Kind::kIndex:
        return read_word(window, next_text(), index_);
      case Piece::Kind::kArguments:
        break;
    }
    return read_arguments(window, sink);
  }

  /// Reads the name. If an opener has shown that the text is a call, accepts every name. Otherwise, accepts
  /// only names of the request's tools, and text_recipient, which marks plain text.
  Match read_name(TextWindow& window) {
    const Match found = name_reader_.read(window, next_text(), name_);
    if (found != Match::kYes) return found;
    is_text_ = !syntax_->text_recipient.empty() && name_.name == syntax_->text_recipient;
    const bool doubtful = syntax_->prompt_opens_call || syntax_->bare();
    return is_text_ || !doubtful || has_tool(*tools_, name_.name) ? Match::kYes : Match::kNo;
  }

  Match read_arguments(TextWindow& window, CallSink& sink) {
    if (waiting_.empty() && !sink.begun()) {
      window.skip_white();
      if (window.empty()) return Match::kMore;
      if (window.rest().front() != '{') return Match::kNo;
    }
    while (!window.empty()) {
      const char c = window.text[window.at];
      const JsonScanner::Status status = scanner_.push(c);
      if (status == JsonScanner::Status::kBad) {
        pass_on(window, sink);
        return Match::kNo;
      }
      waiting_ += c;
      ++window.at;
      if (status == JsonScanner::Status::kDone) {
        pass_on(window, sink);
        return Match::kYes;
      }
    }
    pass_on(window, sink);
    return Match::kMore;
  }

  void pass_on(TextWindow& window, CallSink& sink) {
    release(sink, !has_id_ || !name_.id.empty());
    if (sink.begun()) window.kept = window.at;
  }

  void release(CallSink& sink, bool can_begin) {
    if (waiting_.empty() || name_.name.empty()) return;
    if (!sink.begun() && can_begin) sink.begin(name_.name, name_.id);
    if (sink.begun()) sink.arguments(std::exchange(waiting_, {}));
  }

  const ToolSyntax* syntax_;
  const Json* tools_;
  NameReader name_reader_;
  bool has_id_ = false, is_text_ = false;
  size_t piece_ = 0;
  CallName name_;
  std::string index_, waiting_;
  JsonScanner scanner_;
};

/// Returns the schema of a parameter; null if the tool does not have this parameter.
const Json* find_parameter(const Json* parameters, const std::string& key) {
  if (parameters == nullptr || !parameters->is_object()) return nullptr;
  const auto properties = parameters->find("properties");
  if (properties == parameters->end() || !properties->is_object()) return nullptr;
  const auto schema = properties->find(key);
  return schema == properties->end() || !schema->is_object() ? nullptr : &*schema;
}

/// Converts a value that the model wrote without quotes to JSON. If the parameter's schema admits strings,
/// the value is text, unless it is a JSON value of another type that the schema admits too.
Json read_value(const Json* parameters, const std::string& key, const std::string& value) {
  const Json* schema = find_parameter(parameters, key);
  const unsigned types = schema == nullptr ? admitted::kAll : admitted_types(*parameters, *schema);
  // Quotes around a text belong to the text, unless nothing is known about the parameter's type.
  const unsigned unquoted = types == admitted::kAll || (types & admitted::kString) == 0
                                ? admitted::kAll
                                : types & ~admitted::kString;
  const std::string_view trimmed = probe::trim(value);
  const bool number = !trimmed.empty() && probe::json_end(std::string(trimmed) + " ", 0) == trimmed.size();
  if (number || (!trimmed.empty() && probe::json_end(trimmed, 0) == trimmed.size())) {
    Json parsed = Json::parse(trimmed, nullptr, false);  // json_end() has limited the nesting
    if (!parsed.is_discarded() && (type_of_value(parsed) & unquoted) != 0) return parsed;
  }
  if ((value == "True" || value == "False") && (unquoted & admitted::kBoolean) != 0) return value == "True";
  return value == "None" && (unquoted & admitted::kNull) != 0 ? Json(nullptr) : Json(value);
}

/// Reads NAME, then each parameter with the texts around it. Leaves the text that closes the call to the
/// parser.
class ParameterCallReader : public CallReader {
 public:
  ParameterCallReader(const ToolSyntax& syntax, const Json& tools)
      : syntax_(&syntax), tools_(&tools), name_reader_(syntax) {}

  Status read(TextWindow& window, CallSink& sink) override {
    while (true) {
      const Match found = read_next(window, sink);
      if (done_) return Status::kDone;
      if (found != Match::kYes) return found == Match::kNo ? Status::kBad : Status::kMore;
    }
  }

 private:
  enum class State { kName, kNameEnd, kKeyBegin, kKey, kKeyEnd, kValue };

  Match read_next(TextWindow& window, CallSink& sink) {
    switch (state_) {
      case State::kName:
        return then(State::kNameEnd, name_reader_.read(window, syntax_->name_end, name_));
      case State::kNameEnd:
        return read_name_end(window, sink);
      case State::kKeyBegin:
        return read_key_begin(window, sink);
      case State::kKey:
        return then(State::kKeyEnd, read_word(window, syntax_->key_end, key_));
      case State::kKeyEnd:
        return then(State::kValue, match(window, syntax_->key_end));
      case State::kValue:
        break;
    }
    return read_parameter_value(window, sink);
  }

  Match then(State next, Match found) {
    if (found == Match::kYes) state_ = next;
    return found;
  }

  Match read_name_end(TextWindow& window, CallSink& sink) {
    const Match found = then(State::kKeyBegin, match(window, syntax_->name_end));
    // If the syntax has no text after the name, the name alone does not prove that the text is a call. It
    // is a call only if key_begin or call_end follows.
    if (found == Match::kYes && !probe::trim(syntax_->name_end).empty()) begin(window, sink);
    return found;
  }

  void begin(TextWindow& window, CallSink& sink) {
    if (sink.begun()) return;
    sink.begin(name_.name, name_.id);
    window.kept = window.at;
  }

  Match read_key_begin(TextWindow& window, CallSink& sink) {
    const size_t before = window.at;
    const Match key = match(window, syntax_->key_begin);
    if (key == Match::kYes) {
      begin(window, sink);
      key_.clear();
      searched_ = 0;
      first_close_ = std::string_view::npos;
      return then(State::kKey, key);
    }
    if (key == Match::kMore && !window.ended && probe::trim(syntax_->call_end).empty()) return key;
    const Match end = match(window, syntax_->call_end);
    window.at = before;  // the parser reads the text that closes the call
    if (end != Match::kYes) return end == Match::kMore ? end : key;
    begin(window, sink);
    sink.arguments(n_values_ == 0 ? "{}" : "}");
    window.kept = before;
    done_ = true;
    return end;
  }

  /// Finds the tag that ends a value: kMore until more text shows where it is. A value that should be closed
  /// by a tag in a line of its own may also be closed within a line, if another parameter or the end of the
  /// call follows; otherwise, such a tag is a part of the value. If the answer ends without another tag, the
  /// first one closes the value.
  Match find_value_end(TextWindow& window, std::string_view close, size_t& end) {
    const std::string_view rest = window.rest();
    const bool on_own_line = syntax_->closes_on_own_line();
    for (end = rest.find(close, searched_); end != std::string_view::npos; end = rest.find(close, end + 1)) {
      if (!on_own_line || (end > 0 && rest[end - 1] == '\n')) return Match::kYes;
      const Match follows = ends_value(window, window.at + end + close.size());
      if (follows == Match::kYes || (follows == Match::kMore && window.ended)) return Match::kYes;
      if (follows == Match::kNo) {
        first_close_ = std::min(first_close_, end);
        continue;
      }
      searched_ = end;
      return Match::kMore;
    }
    end = first_close_;
    if (window.ended && end != std::string_view::npos) return Match::kYes;
    searched_ = rest.size() < close.size() ? 0 : rest.size() - close.size() + 1;
    return Match::kMore;
  }

  /// Whether the text at this position shows that the tag before it ends a value.
  Match ends_value(TextWindow& window, size_t at) const {
    const size_t before = std::exchange(window.at, at);
    const Match key = match(window, syntax_->key_begin);
    window.at = at;
    const Match end = match(window, syntax_->end_tag());
    window.at = before;
    if (key == Match::kYes || end == Match::kYes) return Match::kYes;
    return key == Match::kMore || end == Match::kMore ? Match::kMore : Match::kNo;
  }

  Match read_parameter_value(TextWindow& window, CallSink& sink) {
    const std::string_view rest = window.rest();
    const std::string_view close = probe::trim(syntax_->value_end);
    size_t end = 0;
    if (find_value_end(window, close, end) == Match::kMore) return Match::kMore;
    std::string_view value = rest.substr(0, end);
    if (syntax_->key_end.ends_with('\n') && value.starts_with('\n')) value.remove_prefix(1);
    if (syntax_->value_end.starts_with('\n') && value.ends_with('\n')) value.remove_suffix(1);
    const Json json = read_value(find_parameters(*tools_, name_.name), key_, std::string(value));
    sink.arguments((n_values_++ == 0 ? "{" : ", ") + one_line(key_) + ": " + one_line(json));
    window.at += end + close.size();
    window.kept = window.at;
    return then(State::kKeyBegin, Match::kYes);
  }

  const ToolSyntax* syntax_;
  const Json* tools_;
  NameReader name_reader_;
  State state_ = State::kName;
  CallName name_;
  std::string key_;
  size_t searched_ = 0;                          // the end of the current value is not before this position
  size_t first_close_ = std::string_view::npos;  // the first closing tag that belongs to the value
  int n_values_ = 0;
  bool done_ = false;
};

/// Reads a function's name and the bracket that opens its arguments. In a bare syntax, only names of the
/// request's tools are accepted.
class OpeningReader {
 public:
  OpeningReader(const ToolSyntax& syntax, const Json& tools, std::string_view bracket)
      : syntax_(&syntax), tools_(&tools), bracket_(bracket), name_reader_(syntax) {}

  /// kYes from the call on in which the bracket was read.
  Match read(TextWindow& window) {
    if (open_) return Match::kYes;
    if (!named_) {
      const Match found = name_reader_.read(window, bracket_, name_);
      if (found != Match::kYes) return found;
      named_ = true;
    }
    const Match found = match(window, bracket_);
    open_ = found == Match::kYes;
    return open_ && syntax_->bare() && !has_tool(*tools_, name_.name) ? Match::kNo : found;
  }
  const std::string& name() const { return name_.name; }

 private:
  const ToolSyntax* syntax_;
  const Json* tools_;
  std::string_view bracket_;
  NameReader name_reader_;
  CallName name_;
  bool named_ = false, open_ = false;
};

/// Reads NAME(...). Converts the arguments to JSON when the call is complete.
class PythonCallReader : public CallReader {
 public:
  PythonCallReader(const ToolSyntax& syntax, const Json& tools) : opening_(syntax, tools, "(") {}

  Status read(TextWindow& window, CallSink& sink) override {
    const Match open = opening_.read(window);
    if (open != Match::kYes) return open == Match::kNo ? Status::kBad : Status::kMore;
    while (!window.empty()) {
      const char c = window.text[window.at++];
      if (end_.push(c)) return give(window, sink);
      inside_ += c;
    }
    return Status::kMore;
  }

 private:
  Status give(TextWindow& window, CallSink& sink) {
    const std::optional<std::string> json = python_arguments_to_json(inside_);
    if (!json) return Status::kBad;
    sink.begin(opening_.name(), {});
    sink.arguments(*json);
    window.kept = window.at;
    return Status::kDone;
  }

  OpeningReader opening_;
  PythonCallEnd end_;
  std::string inside_;
};

/// Reads NAME{...}. Converts the arguments to JSON when the call is complete.
class MarkedCallReader : public CallReader {
 public:
  MarkedCallReader(const ToolSyntax& syntax, const Json& tools)
      : syntax_(&syntax), opening_(syntax, tools, "{"), end_(syntax.string_mark) {}

  Status read(TextWindow& window, CallSink& sink) override {
    const Match open = opening_.read(window);
    if (open != Match::kYes) return open == Match::kNo ? Status::kBad : Status::kMore;
    const size_t end = end_.find(window.rest());
    if (end == std::string_view::npos) return Status::kMore;
    const std::optional<std::string> json =
        marked_members_to_json(window.rest().substr(0, end - 1), syntax_->string_mark);
    if (!json) return Status::kBad;
    sink.begin(opening_.name(), {});
    sink.arguments(*json);
    window.at += end;
    window.kept = window.at;
    return Status::kDone;
  }

 private:
  const ToolSyntax* syntax_;
  OpeningReader opening_;
  MarkedObjectEnd end_;
};

const Json* find_function(const Json& tools, std::string_view name) {
  if (!tools.is_array()) return nullptr;
  for (const Json& tool : tools) {
    const auto function = tool.is_object() ? tool.find("function") : tool.end();
    if (!tool.is_object() || function == tool.end() || !function->is_object()) continue;
    const auto found = function->find("name");
    if (found != function->end() && found->is_string() && found->get_ref<const std::string&>() == name) {
      return &*function;
    }
  }
  return nullptr;
}

}  // namespace

bool has_tool(const Json& tools, std::string_view name) { return find_function(tools, name) != nullptr; }

const Json* find_parameters(const Json& tools, std::string_view name) {
  const Json* function = find_function(tools, name);
  if (function == nullptr) return nullptr;
  const auto parameters = function->find("parameters");
  return parameters == function->end() ? nullptr : &*parameters;
}

std::unique_ptr<CallReader> make_call_reader(const ToolSyntax& syntax, const Json& tools) {
  switch (syntax.form) {
    case ToolSyntax::Form::kTagged:
      return std::make_unique<TaggedCallReader>(syntax, tools);
    case ToolSyntax::Form::kParameters:
      return std::make_unique<ParameterCallReader>(syntax, tools);
    case ToolSyntax::Form::kPython:
      return std::make_unique<PythonCallReader>(syntax, tools);
    case ToolSyntax::Form::kMarked:
      return std::make_unique<MarkedCallReader>(syntax, tools);
    default:
      return make_json_call_reader(syntax, tools);
  }
}

}  // namespace hearth
