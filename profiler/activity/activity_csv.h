// Reads and writes how often each neuron was active in a run, as a small text file that any program can read.
// The chart of activity is drawn from it.
//
//   # model: relu-5m            lines before the table: what was measured
//   # text: alice.txt
//   # tokens: 147456
//   layer,neuron,count
//   0,0,24701                   every neuron of every layer, in order
//   0,1,46029
//
// For a mixture, experts are counted and the column is "expert". Such a table can be written but not read.
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
  /// [n_layers][d_ff]: the number of the n_tokens tokens for which the neuron was active.
  std::vector<std::vector<uint64_t>> counts;
};

/// The error for a bad file. One sentence names the file and the line, and says what was found and what was
/// expected.
class ActivityTableError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string activity_csv(const ActivityTable& table);

/// Parses such a file. `file` is its name for messages. Throws ActivityTableError if it is not such a table,
/// neurons are out of order or missing, layers have different widths, or a count exceeds the number of
/// tokens.
ActivityTable parse_activity_csv(std::string_view csv, const std::string& file);

}  // namespace hearth
