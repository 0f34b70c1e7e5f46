// See the header.
#include "server/models/prefix_hash.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <vector>

#include "server/models/hub.h"

namespace hearth {
namespace {

constexpr size_t kBlockBytes = 1 << 20;

}  // namespace

PrefixHash::PrefixHash(int fd) : fd_(fd), thread_([this](const std::stop_token& stop) { run(stop); }) {}

PrefixHash::~PrefixHash() = default;  // stops the thread and waits for it

void PrefixHash::advance(uint64_t n) {
  {
    const std::lock_guard lock(mutex_);
    there_ = std::max(there_, n);
  }
  changed_.notify_all();
}

uint64_t PrefixHash::hashed() const {
  const std::lock_guard lock(mutex_);
  return hashed_;
}

void PrefixHash::run(const std::stop_token& stop) {
  std::vector<std::byte> block(kBlockBytes);
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return hashed_ < there_ && error_ == 0; })) {
    const uint64_t at = hashed_;
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(kBlockBytes, there_ - at));
    lock.unlock();
    const ssize_t n = ::pread(fd_, block.data(), wanted, static_cast<off_t>(at));
    const int error = n < 0 ? errno : n == 0 ? EIO : 0;
    if (n > 0) stream_.add(std::span(block).first(static_cast<size_t>(n)));
    lock.lock();
    if (n > 0) hashed_ = at + static_cast<uint64_t>(n);
    if (error != EINTR) error_ = error;
    changed_.notify_all();
  }
}

bool PrefixHash::is_done(uint64_t n) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(100), [&] { return hashed_ >= n || error_ != 0; });
  return hashed_ >= n || error_ != 0;
}

Sha256 PrefixHash::take() {
  const std::lock_guard lock(mutex_);
  if (error_ != 0)
    throw PullError("the file cannot be read back (" + std::generic_category().message(error_) +
                    "); check the disk");
  return stream_.finish();
}

}  // namespace hearth
