// See the header.
#include "server/terminal/terminal_chat.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "kernels/base/file_error.h"
#include "server/models/exchange.h"
#include "server/terminal/chat_events.h"

namespace hearth {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";
constexpr const char* kHelp =
    "/clear        forget the conversation\n"
    "/system TEXT  forget the conversation, and begin with this system prompt\n"
    "/bye          end the chat (also Ctrl-D)\n"
    "\"\"\"           begin and end a message of several lines\n"
    "Ctrl-C        stop the answer\n";

volatile sig_atomic_t interrupted = 0;

void note_interrupt(int) { interrupted = 1; }

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw std::runtime_error("the answer could not be written to the standard output");
}

void complain(const std::string& sentence) { std::fprintf(stderr, "hearthd: %s\n", sentence.c_str()); }

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

/// Prints an answer as it arrives. Thinking is dimmed on a terminal, and a blank line separates it.
class Printer {
 public:
  explicit Printer(bool is_styled) : is_styled_(is_styled) {}

  void add(ChatEvents::Part part, const std::string& text) {
    if (part == ChatEvents::Part::kThinking) {
      print(is_styled_ && !is_thinking_ ? "\033[2m" + text : text);
      is_thinking_ = true;
      return;
    }
    end_thinking();
    answer_ += text;
    print(text);
  }
  /// Ends the line.
  void finish() {
    end_thinking();
    if (!answer_.ends_with('\n')) print("\n");
  }
  const std::string& answer() const { return answer_; }

 private:
  void end_thinking() {
    if (std::exchange(is_thinking_, false)) print(is_styled_ ? "\033[0m\n\n" : "\n\n");
  }

  const bool is_styled_;
  bool is_thinking_ = false;
  std::string answer_;
};

}  // namespace

TerminalChat::TerminalChat(RunningServer server, std::string key, const std::string& system)
    : server_(std::move(server)),
      request_(request_options(server_, key)),
      is_styled_(::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr) {
  set_system(system);
  std::setvbuf(stdin, nullptr, _IONBF, 0);  // so that ppoll() sees what getline() has not read
  struct sigaction action {};
  action.sa_handler = note_interrupt;  // without SA_RESTART, so that reading a line ends
  ::sigaction(SIGINT, &action, &before_);
}

TerminalChat::~TerminalChat() { ::sigaction(SIGINT, &before_, nullptr); }

bool TerminalChat::is_interrupted() { return interrupted != 0; }

void TerminalChat::set_system(const std::string& text) {
  messages_ = Json::array();
  if (!text.empty()) messages_.push_back({{"role", "system"}, {"content", text}});
}

bool TerminalChat::say(const std::string& text) {
  interrupted = 0;
  messages_.push_back({{"role", "user"}, {"content", text}});
  const Json request = {{"model", server_.name}, {"messages", messages_}, {"stream", true}};
  const std::string body = request.dump(-1, ' ', false, Json::error_handler_t::replace);
  RequestOptions options = request_;
  options.json = &body;
  Printer printer(is_styled_);
  ChatEvents events(
      [&printer](ChatEvents::Part part, const std::string& piece) { printer.add(part, piece); });
  struct Stopped {};
  const auto stop_if_asked = [] {
    if (is_interrupted()) throw Stopped();
  };
  Exchange exchange;
  CURLcode code = CURLE_OK;
  bool was_stopped = false;
  try {
    code = exchange.request(
        server_.url + "/v1/chat/completions", 0, options,
        [&](const TransferHead&, std::string_view bytes) {
          stop_if_asked();
          return events.add(bytes);
        },
        stop_if_asked);
  } catch (const Stopped&) {
    was_stopped = true;
  }
  const std::string error = events.error();
  const bool has_answer = !printer.answer().empty() || !events.finish_reason().empty() || was_stopped;
  if (has_answer) {
    printer.finish();
    messages_.push_back({{"role", "assistant"}, {"content", printer.answer()}});
    if (events.repeats()) {
      complain("the answer repeated itself without end, so it was stopped");
    } else if (events.finish_reason() == "length") {
      complain("the answer ended because the context is full");
    }
  } else {
    messages_.erase(messages_.size() - 1);
  }
  if (!error.empty()) complain(printable(error));
  if (!error.empty() || was_stopped) return has_answer;
  if (code != CURLE_OK)
    throw std::runtime_error("the server does not answer (" + exchange.failure(code) + ")");
  if (!has_answer) complain("the server answered with status " + std::to_string(exchange.head().status));
  return has_answer;
}

TerminalChat::Read TerminalChat::read_line(const char* prompt, std::string& line) {
  // SIGINT is blocked except while ppoll() waits, so that a Ctrl-C right after the prompt is not lost.
  sigset_t interrupt, before;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  ::sigprocmask(SIG_BLOCK, &interrupt, &before);
  interrupted = 0;
  print(prompt);
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  const bool was_interrupted = ::ppoll(&input, 1, nullptr, &before) < 0 && is_interrupted();
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (was_interrupted) {
    print("\n");
    return Read::kInterrupted;
  }
  char* buffer = nullptr;
  size_t capacity = 0;
  const ssize_t n = ::getline(&buffer, &capacity, stdin);
  line.assign(buffer == nullptr || n < 0 ? "" : buffer);
  std::free(buffer);
  if (n >= 0) return Read::kLine;
  std::clearerr(stdin);
  print("\n");
  return Read::kEnd;
}

std::optional<std::string> TerminalChat::read_message() {
  std::string line;
  switch (read_line(">>> ", line)) {
    case Read::kEnd:
      return std::nullopt;
    case Read::kInterrupted:
      print("Ctrl-D or /bye ends the chat.\n");
      return "";
    case Read::kLine:
      break;
  }
  std::string text = trimmed(line);
  if (!text.starts_with(kQuotes)) return text;
  text = text.substr(kQuotes.size()) + "\n";
  while (!trimmed(text).ends_with(kQuotes)) {
    if (read_line("... ", line) != Read::kLine) return "";
    text += line;
  }
  text = trimmed(text);
  return trimmed(text.substr(0, text.size() - kQuotes.size()));
}

bool TerminalChat::obey(const std::string& command) {
  const std::string word = command.substr(0, command.find(' '));
  if (word == "/bye" || word == "/exit" || word == "/quit") return false;
  if (word == "/clear") {
    const bool has_system = !messages_.empty() && messages_.front().at("role") == "system";
    set_system(has_system ? messages_.front().at("content").get<std::string>() : "");
    print("The conversation is forgotten.\n");
  } else if (word == "/system") {
    set_system(trimmed(command.substr(word.size())));
    print("The conversation begins anew.\n");
  } else {
    if (word != "/help" && word != "/?") print(printable(word) + " is not a command:\n");
    print(kHelp);
  }
  return true;
}

void TerminalChat::converse() {
  print("Chat with " + printable(server_.name) + ". /help shows commands.\n");
  while (const std::optional<std::string> text = read_message()) {
    if (text->empty()) continue;
    if (text->starts_with('/')) {
      if (!obey(*text)) return;
    } else {
      say(*text);
    }
  }
}

}  // namespace hearth
