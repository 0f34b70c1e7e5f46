// The two failures of the template interpreter. Failure is internal: a reason without a place, thrown by
// lexer helpers, filters and operators. TemplateError is what leaves the interpreter: reason and template
// line. Thrown and caught on the thread that parses or renders.
#pragma once
#include <stdexcept>
#include <string>

namespace hearth::jinja {

// A reason alone; the parser or the evaluator adds the line it was at.
struct Failure : std::runtime_error {
  explicit Failure(const std::string& reason) : std::runtime_error(reason) {}
};

// What a template author wrote in raise_exception('...'): passed to the client word for word.
struct RaisedByTemplate : Failure {
  using Failure::Failure;
};

// A template that cannot be parsed or rendered. what() is a whole sentence with the line; for an error the
// template raised itself what() is exactly the template's own message.
class TemplateError : public std::runtime_error {
 public:
  TemplateError(int line, const std::string& reason)
      : std::runtime_error("chat template, line " + std::to_string(line) + ": " + reason), line_(line) {}
  TemplateError(int line, const RaisedByTemplate& raised)
      : std::runtime_error(raised.what()), line_(line), raised_(true) {}

  // Line in the template's source, counted from 1.
  int line() const { return line_; }
  // True when the template itself called raise_exception.
  bool raised_by_template() const { return raised_; }

 private:
  int line_;
  bool raised_ = false;
};

}  // namespace hearth::jinja
