// See the header. A definition is split into tokens first; then each rule is written out where it is used.
#include "server/chat/tools/lark_regex.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/constraint/constraint_error.h"

namespace hearth {
namespace {

/// The length of a `pattern` that schemas allow.
constexpr size_t kMostRegexBytes = 20'000;
/// Bounds the stack: rules that use rules, and groups within groups.
constexpr int kMostLarkDepth = 100;

struct LarkToken {
  enum class Kind { kName, kText, kRegex, kNumber, kSign, kNewline, kEnd };
  Kind kind = Kind::kEnd;
  std::string text = {};  // kText: its characters; kRegex: the expression; kSign: ":", "->", "%import", ...
  int line = 1;
};
using LarkKind = LarkToken::Kind;

[[noreturn]] void refuse_lark(const std::string& what, int line) {
  throw ConstraintError(what, "line " + std::to_string(line));
}

bool is_name_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class LarkLexer {
 public:
  explicit LarkLexer(std::string_view text) : text_(text) {}

  std::vector<LarkToken> tokens() {
    std::vector<LarkToken> out;
    while (at_ < text_.size()) {
      if (std::optional<LarkToken> token = next()) out.push_back(std::move(*token));
    }
    out.push_back({LarkKind::kEnd, {}, line_});
    return out;
  }

 private:
  /// Returns nullopt for white space and comments.
  std::optional<LarkToken> next() {
    const char c = text_[at_];
    const bool comment = c == '#' || text_.substr(at_).starts_with("//");
    if (comment) at_ = std::min(text_.find('\n', at_), text_.size());
    if (comment) return std::nullopt;
    if (c == '\n') {
      ++at_;
      return LarkToken{LarkKind::kNewline, {}, line_++};
    }
    if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
      return std::nullopt;
    }
    if (c == '"') return quoted('"', LarkKind::kText);
    if (c == '/') return quoted('/', LarkKind::kRegex);
    if (std::isdigit(static_cast<unsigned char>(c)) != 0)
      return LarkToken{LarkKind::kNumber, word([](char d) { return d >= '0' && d <= '9'; }), line_};
    if (is_name_letter(c)) return LarkToken{LarkKind::kName, word(is_name_letter), line_};
    return sign();
  }

  template <typename Belongs>
  std::string word(Belongs belongs) {
    const size_t begin = at_;
    while (at_ < text_.size() && belongs(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  LarkToken quoted(char mark, LarkKind kind) {
    std::string inside;
    for (++at_; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
      const char c = text_[at_];
      if (c == mark) {
        ++at_;
        const std::string flags = word([](char f) { return f >= 'a' && f <= 'z'; });
        if (!flags.empty()) refuse_lark("flags such as '" + flags + "' are not supported", line_);
        return {kind, std::move(inside), line_};
      }
      if (c != '\\' || at_ + 1 == text_.size()) {
        inside += c;
        continue;
      }
      const char escaped = text_[++at_];
      if (kind == LarkKind::kRegex) {
        inside += c;
        inside += escaped;
      } else {
        inside += unescaped(escaped);
      }
    }
    refuse_lark(std::string("a text or an expression that begins with ") + mark + " has no end", line_);
  }

  char unescaped(char c) const {
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'f':
        return '\f';
      default:
        break;
    }
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      refuse_lark(std::string("the escape \\") + c + " is not supported in texts", line_);
    return c;
  }

  LarkToken sign() {
    if (text_[at_] == '%') {
      ++at_;
      return {LarkKind::kSign, "%" + word(is_name_letter), line_};
    }
    for (const std::string_view two : {"->", ".."}) {
      if (!text_.substr(at_).starts_with(two)) continue;
      at_ += two.size();
      return {LarkKind::kSign, std::string(two), line_};
    }
    const char c = text_[at_++];
    if (std::string_view(":|()[]?*+~.,!").find(c) == std::string_view::npos)
      refuse_lark(std::string("the character ") + c + " is not supported", line_);
    return {LarkKind::kSign, std::string(1, c), line_};
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

/// Returns a regular expression for these characters.
std::string escaped_regex(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\n':
        out += "\\n";
        continue;
      case '\r':
        out += "\\r";
        continue;
      case '\t':
        out += "\\t";
        continue;
      case '\f':
        out += "\\f";
        continue;
      default:
        break;
    }
    if (static_cast<unsigned char>(c) < 0x80 && std::ispunct(static_cast<unsigned char>(c)) != 0) out += '\\';
    out += c;
  }
  return out;
}

struct LarkCommon {
  std::string_view name, regex;
};
/// Terminals that `%import common.NAME` brings in.
constexpr std::array kCommon = std::to_array<LarkCommon>({{"LF", "\\n"},
                                                          {"CR", "\\r"},
                                                          {"NEWLINE", "(?:\\r?\\n)+"},
                                                          {"WS", "[ \\t\\f\\r\\n]+"},
                                                          {"WS_INLINE", "[ \\t]+"},
                                                          {"DIGIT", "[0-9]"},
                                                          {"HEXDIGIT", "[0-9a-fA-F]"},
                                                          {"INT", "[0-9]+"},
                                                          {"SIGNED_INT", "[+\\-]?[0-9]+"},
                                                          {"LETTER", "[a-zA-Z]"},
                                                          {"LCASE_LETTER", "[a-z]"},
                                                          {"UCASE_LETTER", "[A-Z]"},
                                                          {"WORD", "[a-zA-Z]+"},
                                                          {"CNAME", "[_a-zA-Z][_a-zA-Z0-9]*"}});

class LarkTranslator {
 public:
  explicit LarkTranslator(std::string_view definition) : tokens_(LarkLexer(definition).tokens()) {
    while (tokens_[at_].kind != LarkKind::kEnd) statement();
  }

  std::string start() {
    if (!bodies_.contains("start")) refuse_lark("the grammar has no rule 'start'", 1);
    return rule("start", 1);
  }

 private:
  const LarkToken& token(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  bool is_sign(std::string_view text, size_t ahead = 0) const {
    return token(ahead).kind == LarkKind::kSign && token(ahead).text == text;
  }
  bool take_sign(std::string_view text) {
    const bool found = is_sign(text);
    at_ += found ? 1 : 0;
    return found;
  }
  std::string take_name() {
    if (token().kind != LarkKind::kName) refuse_lark("a name is missing", token().line);
    return tokens_[at_++].text;
  }

  /// Reads a directive, or the name of a rule; remembers where the rule's body is.
  void statement() {
    if (token().kind == LarkKind::kNewline) {
      ++at_;
      return;
    }
    const int line = token().line;
    if (token().kind == LarkKind::kSign && token().text.starts_with("%")) return directive();
    while (take_sign("?") || take_sign("!")) {
    }
    const std::string name = take_name();
    if (take_sign(".")) ++at_;  // a priority has no effect on the language
    if (!take_sign(":"))
      refuse_lark("after the name '" + name + "', a ':' is missing (templates are not supported)", line);
    if (!bodies_.emplace(name, at_).second) refuse_lark("the rule '" + name + "' is defined twice", line);
    while (token().kind != LarkKind::kEnd && !begins_statement()) ++at_;
  }

  /// Whether a rule or a directive begins at the next line.
  bool begins_statement() const {
    if (token().kind != LarkKind::kNewline) return false;
    size_t ahead = 1;
    if (token(ahead).kind == LarkKind::kSign && token(ahead).text.starts_with("%")) return true;
    while (is_sign("?", ahead) || is_sign("!", ahead)) ++ahead;
    if (token(ahead).kind != LarkKind::kName) return false;
    return is_sign(":", ahead + 1) || (is_sign(".", ahead + 1) && is_sign(":", ahead + 3));
  }

  void directive() {
    const LarkToken word = tokens_[at_++];
    if (word.text != "%import") {
      refuse_lark("'" + word.text + "' is not supported; write the rules so that they need none", word.line);
    }
    const std::string from = take_name();
    if (from != "common" || !take_sign("."))
      refuse_lark("only 'common.NAME' can be imported, found '" + from + "'", word.line);
    const std::string name = take_name();
    const std::string as = take_sign("->") ? take_name() : name;
    const auto* const found = std::ranges::find(kCommon, name, &LarkCommon::name);
    if (found == kCommon.end())
      refuse_lark("'common." + name + "' is not supported; write it as a regular expression", word.line);
    written_[as] = found->regex;
  }

  /// Returns the expression of a rule or terminal.
  std::string rule(const std::string& name, int line) {
    if (const auto known = written_.find(name); known != written_.end()) return known->second;
    const auto body = bodies_.find(name);
    if (body == bodies_.end()) refuse_lark("the rule '" + name + "' is not defined", line);
    if (std::ranges::find(open_, name) != open_.end()) {
      refuse_lark("the rule '" + name + "' contains itself; only grammars without recursion can be enforced",
                  line);
    }
    open_.push_back(name);
    const size_t before = std::exchange(at_, body->second);
    std::string regex = alternatives();
    if (token().kind != LarkKind::kEnd && !begins_statement())
      refuse_lark("'" + token().text + "' is not expected here", token().line);
    at_ = before;
    open_.pop_back();
    written_[name] = "(?:" + regex + ")";
    return written_[name];
  }

  void skip_newlines() {
    while (token().kind == LarkKind::kNewline && !begins_statement()) ++at_;
  }

  std::string alternatives() {
    if (++depth_ > kMostLarkDepth) refuse_lark("the rules are nested too deeply", token().line);
    std::string regex;
    bool is_first = true;
    do {
      if (!std::exchange(is_first, false)) regex += '|';
      skip_newlines();
      regex += expansion();
      if (regex.size() > kMostRegexBytes) refuse_lark("the grammar is too large", token().line);
    } while (take_sign("|"));
    --depth_;
    return regex;
  }

  /// Reads items up to the end of an alternative.
  std::string expansion() {
    std::string regex;
    while (true) {
      skip_newlines();
      if (take_sign("->")) {
        take_name();
        continue;
      }
      const LarkKind kind = token().kind;
      const bool begins = kind == LarkKind::kName || kind == LarkKind::kText || kind == LarkKind::kRegex ||
                          is_sign("(") || is_sign("[");
      if (!begins) return regex;
      regex += repeated(atom());
      if (regex.size() > kMostRegexBytes) refuse_lark("the grammar is too large", token().line);
    }
  }

  std::string atom() {
    const LarkToken first = tokens_[at_++];
    switch (first.kind) {
      case LarkKind::kName:
        return rule(first.text, first.line);
      case LarkKind::kRegex:
        return "(?:" + first.text + ")";
      case LarkKind::kText:
        return take_sign("..") ? range(first) : "(?:" + escaped_regex(first.text) + ")";
      default:
        break;
    }
    const bool optional = first.text == "[";
    std::string inside = alternatives();
    if (!take_sign(optional ? "]" : ")")) refuse_lark("a bracket is not closed", first.line);
    return "(?:" + inside + (optional ? ")?" : ")");
  }

  std::string range(const LarkToken& first) {
    const LarkToken last = tokens_[at_++];
    if (last.kind != LarkKind::kText || first.text.size() != 1 || last.text.size() != 1)
      refuse_lark("a range needs one ASCII character on each side", first.line);
    return "[" + escaped_regex(first.text) + "-" + escaped_regex(last.text) + "]";
  }

  std::string repeated(std::string regex) {
    for (const char* sign : {"?", "*", "+"})
      if (take_sign(sign)) return "(?:" + regex + ")" + sign;
    if (!take_sign("~")) return regex;
    const LarkToken least = tokens_[at_++];
    if (least.kind != LarkKind::kNumber) refuse_lark("'~' needs a number", least.line);
    if (!take_sign("..")) return "(?:" + regex + "){" + least.text + "}";
    const LarkToken most = tokens_[at_++];
    if (most.kind != LarkKind::kNumber) refuse_lark("'..' needs a number", most.line);
    return "(?:" + regex + "){" + least.text + "," + most.text + "}";
  }

  std::vector<LarkToken> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  std::map<std::string, size_t> bodies_;        // where each rule's body begins
  std::map<std::string, std::string> written_;  // expressions of imports, and of rules that are done
  std::vector<std::string> open_;               // the rules that are being written out
};

}  // namespace

std::string lark_to_regex(std::string_view definition) { return LarkTranslator(definition).start(); }

}  // namespace hearth
