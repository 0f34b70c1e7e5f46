// How often each neuron was active in a run, as a small text file that any program can read. The chart of
// activity is drawn from it.
//
//   # model: relu-5m            lines before the table: what was measured
//   # text: alice.txt
//   # tokens: 147456
//   layer,neuron,count
//   0,0,24701                   every neuron of every layer, in order
//   0,1,46029
//
// Of a mixture it is experts that are counted: the column is "expert" then. Such a table is written only.
// Pure text; the caller reads and writes the file. Any thread.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

struct ActivityTable {
  std::string model;  // its name, or empty. Line breaks become spaces in the file
  std::string text;   // the text that the model ran, or empty
  uint64_t n_tokens = 0;
  bool experts = false;
  /// [n_layers][d_ff]: for how many of the n_tokens tokens the neuron was active.
  std::vector<std::vector<uint64_t>> counts;
};

/// The error of a bad file, in one sentence: which file, which line, what was found, what was expected.
class ActivityTableError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string activity_csv(const ActivityTable& table);

/// Parses such a file. `file` is its name for messages. Throws ActivityTableError: not such a table, neurons
/// out of order or missing, layers of different widths, a count above the number of tokens.
ActivityTable parse_activity_csv(std::string_view csv, const std::string& file);

}  // namespace hearth
