// Takes the input of a custom tool out of the arguments of the function that stands for it, while the
// arguments are generated.
//
// The arguments are {"input": "TEXT"}; the client gets TEXT. Each call has its own object, on the HTTP thread
// that answers the request.
#pragma once

#include <string>
#include <string_view>

namespace hearth {

class CustomInput {
 public:
  /// Adds a part of the arguments, and returns the part of the input that follows from it: whole characters.
  std::string push(std::string_view arguments);
  /// Call once, at the end of the arguments, which may be incomplete. Returns the rest of the input: all of
  /// the arguments if they do not have the form above.
  std::string finish();

 private:
  enum class State { kBefore, kInside, kAfter };

  bool enter();
  void read_escape(std::string& out);
  void add_unit(unsigned unit, std::string& out);
  void add_lost_half(std::string& out);

  State state_ = State::kBefore;
  std::string waiting_;  // kBefore: all arguments; kInside: an escape that is not whole
  unsigned high_ = 0;    // the first half of a surrogate pair
};

}  // namespace hearth
