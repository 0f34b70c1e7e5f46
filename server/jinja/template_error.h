// The two exceptions of the template interpreter.
//
// Failure is thrown and caught inside the interpreter. It has a reason but no line. TemplateError reaches the
// callers and adds the line in the template.
#pragma once
#include <stdexcept>
#include <string>

namespace hearth::jinja {

// A reason without a line. The parser or the evaluator catches the exception and adds the current line.
struct Failure : std::runtime_error {
  explicit Failure(const std::string& reason) : std::runtime_error(reason) {}
};

// Thrown if the template calls raise_exception('...'). The client gets the message unchanged.
struct RaisedByTemplate : Failure {
  using Failure::Failure;
};

// Thrown if a template cannot be parsed or rendered. what() is a complete sentence that includes the line. If
// the template called raise_exception, what() is exactly the template's message.
class TemplateError : public std::runtime_error {
 public:
  TemplateError(int line, const std::string& reason)
      : std::runtime_error("chat template, line " + std::to_string(line) + ": " + reason), line_(line) {}
  TemplateError(int line, const RaisedByTemplate& raised)
      : std::runtime_error(raised.what()), line_(line), raised_(true) {}

  // Line in the template's source, counted from 1.
  int line() const { return line_; }
  // Whether the template called raise_exception.
  bool raised_by_template() const { return raised_; }

 private:
  int line_;
  bool raised_ = false;
};

}  // namespace hearth::jinja
