// How much one rendering may cost. A chat template comes with the model file and its input with the request:
// neither may hang the server or exhaust its memory. One Budget belongs to one rendering and one thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "server/jinja/error.h"

namespace hearth::jinja {

struct Limits {
  // One step is one evaluated node, one list element or 32 bytes of text touched: about a second of work in
  // all.
  std::uint64_t max_steps = 20'000'000;
  // All values made during one rendering, freed together at its end. Long contexts are under 1 MiB of text.
  std::size_t max_bytes = std::size_t{256} << 20;
  // Nested evaluation, macros included. A level takes up to 2 KiB of stack (5 under ASan), a thread has 8
  // MiB.
  int max_depth = 600;
};

class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  // Throws Failure once the rendering has used up its steps.
  void steps(std::uint64_t n) {
    steps_ += n;
    if (steps_ > limits_.max_steps) {
      throw Failure("the template runs too long: more than " + std::to_string(limits_.max_steps) + " steps");
    }
  }
  // Text of n bytes is about to be read or copied.
  void text(std::size_t n) { steps(1 + n / 32); }
  // n bytes of memory are about to be held until the end of the rendering. Throws Failure past the limit.
  void memory(std::size_t n) {
    if (n > limits_.max_bytes - bytes_) {
      throw Failure("the template needs too much memory: more than " + std::to_string(limits_.max_bytes) +
                    " bytes");
    }
    bytes_ += n;
  }
  void enter() {
    if (++depth_ > limits_.max_depth) {
      --depth_;
      throw Failure("the template nests too deeply: more than " + std::to_string(limits_.max_depth) +
                    " levels");
    }
  }
  void leave() { --depth_; }

 private:
  Limits limits_;
  std::uint64_t steps_ = 0;
  std::size_t bytes_ = 0;
  int depth_ = 0;
};

// One level of nesting, left again at the end of the block.
class Level {
 public:
  explicit Level(Budget& budget) : budget_(budget) { budget_.enter(); }
  ~Level() { budget_.leave(); }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Budget& budget_;
};

}  // namespace hearth::jinja
