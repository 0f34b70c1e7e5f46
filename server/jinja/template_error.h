// The two exceptions of the template interpreter.
//
// Failure stays inside the interpreter: helpers of the lexer, filters and operators throw it with a reason
// but no line. Callers get TemplateError, which has the reason and the line in the template. Both are thrown
// and caught on the thread that parses or renders.
#pragma once
#include <stdexcept>
#include <string>

namespace hearth::jinja {

// A reason without a line. The parser or the evaluator catches it and adds its current line.
struct Failure : std::runtime_error {
  explicit Failure(const std::string& reason) : std::runtime_error(reason) {}
};

// The template called raise_exception('...'). The client gets the message of that call word for word.
struct RaisedByTemplate : Failure {
  using Failure::Failure;
};

// A template cannot be parsed or rendered. what() is a complete sentence that includes the line. If the
// template itself raised the error, what() is exactly the template's message.
class TemplateError : public std::runtime_error {
 public:
  TemplateError(int line, const std::string& reason)
      : std::runtime_error("chat template, line " + std::to_string(line) + ": " + reason), line_(line) {}
  TemplateError(int line, const RaisedByTemplate& raised)
      : std::runtime_error(raised.what()), line_(line), raised_(true) {}

  // The line in the template's source, counted from 1.
  int line() const { return line_; }
  // Whether the template itself called raise_exception.
  bool raised_by_template() const { return raised_; }

 private:
  int line_;
  bool raised_ = false;
};

}  // namespace hearth::jinja
