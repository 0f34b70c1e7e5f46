// Reads and writes how often each neuron was active in a run, as a small text file that any program can read.
// The activity chart is drawn from this file.
//
//   # model: relu-5m            lines before the table: what was measured
//   # text: alice.txt
//   # tokens: 147456
//   layer,neuron,count
//   0,0,24701                   every neuron of every layer, in order
//   0,1,46029
//
// For a mixture, the table counts experts, and its second column is named "expert". Hearth can write tables
// of experts but not read them. The functions work on text in memory; the caller reads and writes the file.
// Any thread.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

struct ActivityTable {
  std::string model;  // the model's name, or empty; line breaks become spaces in the file
  std::string text;   // name of the text that was run through the model, or empty
  uint64_t n_tokens = 0;
  bool experts = false;
  /// [n_layers][d_ff]: for each neuron, the number of tokens (of n_tokens in all) for which it was active.
  std::vector<std::vector<uint64_t>> counts;
};

/// Thrown for a malformed file. The message is one sentence that names the file and the line, what was found
/// there, and what was expected.
class ActivityTableError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string activity_csv(const ActivityTable& table);

/// Parses the contents `csv` of an activity file. `file` is its name for messages. Throws ActivityTableError
/// if `csv` is not an activity table, neurons are out of order or missing, layers have different widths, or a
/// count exceeds the number of tokens.
ActivityTable parse_activity_csv(std::string_view csv, const std::string& file);

}  // namespace hearth
