// Threads take the next piece until none is left; the caller's thread is one of them and reports.
#include "engine/model/gguf/prefault.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stop_token>
#include <thread>

namespace hearth::gguf {
namespace {

// Large enough that a disk reads in long runs, small enough that progress moves: 60 steps for each GB.
constexpr size_t kPieceBytes = size_t{16} << 20;
constexpr size_t kPage = 4096;
// Four readers keep an NVMe drive busy; from the page cache, two already reach the speed of page faults.
constexpr unsigned kHelpers = 3;

void touch(std::span<const std::byte> piece) {
  // A hint only: where it fails, the reads below do the work.
  const size_t into_page = reinterpret_cast<uintptr_t>(piece.data()) % kPage;
  ::madvise(const_cast<std::byte*>(piece.data()) - into_page, piece.size() + into_page, MADV_WILLNEED);
  for (size_t at = 0; at < piece.size(); at += kPage) {
    static_cast<void>(*static_cast<const volatile std::byte*>(piece.data() + at));
  }
}

std::vector<std::span<const std::byte>> cut(const std::vector<std::span<const std::byte>>& regions) {
  std::vector<std::span<const std::byte>> pieces;
  for (const std::span<const std::byte> region : regions) {
    for (size_t at = 0; at < region.size(); at += kPieceBytes) {
      pieces.push_back(region.subspan(at, std::min(kPieceBytes, region.size() - at)));
    }
  }
  return pieces;
}

}  // namespace

void prefault(const std::vector<std::span<const std::byte>>& regions,
              const std::function<void(double)>& progress) {
  const std::vector<std::span<const std::byte>> pieces = cut(regions);
  std::atomic<size_t> next{0};
  std::atomic<size_t> done{0};
  const auto work = [&](const std::stop_token& stop, const auto& after_each) {
    while (!stop.stop_requested()) {
      const size_t i = next.fetch_add(1);
      if (i >= pieces.size()) return;
      touch(pieces[i]);
      done.fetch_add(1);
      after_each();
    }
  };
  {
    std::vector<std::jthread> helpers;  // joined at the end of the scope, by an exception too
    const unsigned n_helpers =
        std::min<unsigned>(kHelpers, std::max(1u, std::thread::hardware_concurrency()) - 1);
    for (unsigned i = 0; i < n_helpers && i + 1 < pieces.size(); ++i) {
      helpers.emplace_back([&work](const std::stop_token& stop) { work(stop, [] {}); });
    }
    work(std::stop_token{}, [&] {
      // 1 is kept for the end, when the helpers have finished too.
      if (progress && done < pieces.size())
        progress(static_cast<double>(done) / static_cast<double>(pieces.size()));
    });
  }
  if (progress) progress(1.0);
}

void release(std::span<const std::byte> region) {
  const auto begin = reinterpret_cast<uintptr_t>(region.data());
  const uintptr_t first = (begin + kPage - 1) / kPage * kPage;
  const uintptr_t end = (begin + region.size()) / kPage * kPage;
  // Of a file's clean pages nothing is lost; a refusal costs memory only.
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

}  // namespace hearth::gguf
