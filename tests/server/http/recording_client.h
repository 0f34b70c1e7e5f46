// A client without a socket, which records the answer of a handler.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/response_writer.h"

namespace hearth {

class RecordingClient final : public ResponseWriter {
 public:
  /// Status, headers and type of the answer, and its body if it was sent whole.
  HttpResponse head;
  bool begun = false;     // the answer has no length
  bool finished = false;  // the answer is whole
  bool released = false;  // the request's body was freed before the answer
  std::string received;   // the body, sent whole or in pieces
  std::vector<std::string> writes;
  std::optional<GenerationRecord> reported;
  std::function<bool()> alive = [] { return true; };
  std::function<bool(std::string_view)> on_write = [](std::string_view) { return true; };

  void send(HttpResponse response) override {
    head = std::move(response);
    received = head.body;
    finished = true;
  }
  bool begin(std::string_view content_type, HttpHeaders headers) override {
    head = {.content_type = std::string(content_type), .headers = std::move(headers)};
    received.clear();
    begun = true;
    return true;
  }
  bool write(std::string_view bytes) override {
    received += bytes;
    writes.emplace_back(bytes);
    return on_write(bytes);
  }
  void finish() override { finished = true; }
  void release_body() override { released = true; }
  bool client_alive() override { return alive(); }
  void report(const GenerationRecord& record) override { reported = record; }
};

}  // namespace hearth
