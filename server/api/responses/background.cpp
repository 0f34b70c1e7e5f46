// See the header.
#include "server/api/responses/background.h"

#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "server/process/logging.h"

namespace hearth {
namespace {

/// Acts as the client of a background answer: stays connected until the server stops, and discards the
/// output.
class Nobody final : public ResponseWriter {
 public:
  explicit Nobody(const std::atomic<bool>& ending) : ending_(ending) {}
  void send(HttpResponse) override {}
  bool begin(std::string_view, HttpHeaders) override { return true; }
  bool write(std::string_view) override { return true; }
  void finish() override {}
  void release_body() override {}
  bool client_alive() override { return !ending_; }
  void report(const GenerationRecord&) override {}

 private:
  const std::atomic<bool>& ending_;
};

bool has_ended(const std::future<void>& run) {
  return run.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

bool BackgroundAnswers::start(std::unique_ptr<PendingAnswer> answer) {
  const MutexLock lock(mutex_);
  std::erase_if(running_, has_ended);
  if (running_.size() >= kMaxRunning) return false;
  running_.push_back(std::async(std::launch::async, [this, answer = std::move(answer)]() mutable {
    // This function object lives as long as the future. The answer must be destroyed earlier, at the end of
    // this function, even if run() throws.
    const std::unique_ptr<PendingAnswer> mine = std::move(answer);
    Nobody nobody(ending_);
    try {
      mine->run(nobody);
    } catch (const std::exception& error) {
      log_error("background response failed: " + std::string(error.what()));
    }
  }));
  return true;
}

}  // namespace hearth
