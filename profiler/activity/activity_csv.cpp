// Reads and writes the table line by line. The rows must be in order, so a row other than the expected one
// means that rows are missing.
#include "profiler/activity/activity_csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace hearth {
namespace {

constexpr std::string_view kColumns = "layer,neuron,count", kExpertColumns = "layer,expert,count";

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

std::optional<uint64_t> number_of(std::string_view text) {
  uint64_t number = 0;
  const std::from_chars_result result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc{} || result.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

class Parser {
 public:
  Parser(std::string_view csv, const std::string& file) : rest_(csv), file_(file) {}

  ActivityTable table() {
    ActivityTable table;
    std::string_view line;
    bool more = next_line(line);
    for (; more && line.starts_with("# "); more = next_line(line)) read_remark(line.substr(2), table);
    if (more && line == kExpertColumns) {
      fail("the table counts experts of a mixture, expected neurons: \"" + std::string(kColumns) + '"');
    }
    if (!more || line != kColumns) fail("expected the columns \"" + std::string(kColumns) + '"');
    while (next_line(line)) read_row(line, table);
    for (const std::vector<uint64_t>& layer : table.counts) {
      if (layer.size() != table.counts.front().size()) {
        fail("the last of " + std::to_string(table.counts.size()) + " layers ends after " +
             std::to_string(layer.size()) + " neurons, expected " +
             std::to_string(table.counts.front().size()) + " as in the first");
      }
    }
    return table;
  }

 private:
  // Sets `line` to the next line. Returns false at the end of the text.
  bool next_line(std::string_view& line) {
    if (rest_.empty()) return false;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++line_number_;
    return true;
  }

  void read_remark(std::string_view remark, ActivityTable& table) const {
    const auto value_of = [remark](std::string_view name) -> std::optional<std::string_view> {
      if (!remark.starts_with(name)) return std::nullopt;
      return remark.substr(name.size());
    };
    if (const auto model = value_of("model: ")) table.model = *model;
    if (const auto text = value_of("text: ")) table.text = *text;
    if (const auto tokens = value_of("tokens: ")) {
      const std::optional<uint64_t> n = number_of(*tokens);
      if (!n) fail("expected a number of tokens");
      table.n_tokens = *n;
    }
  }

  void read_row(std::string_view line, ActivityTable& table) const {
    std::array<uint64_t, 3> row{};
    for (size_t i = 0; i < row.size(); ++i) {
      const size_t comma = line.find(',');
      const bool last = i + 1 == row.size();
      const std::optional<uint64_t> number = number_of(line.substr(0, comma));
      if (!number || (comma == std::string_view::npos) != last)
        fail("expected three numbers: layer,neuron,count");
      row[i] = *number;
      line.remove_prefix(last ? line.size() : comma + 1);
    }
    const auto [layer, neuron, count] = row;
    std::vector<std::vector<uint64_t>>& counts = table.counts;
    if (layer == counts.size() && neuron == 0 &&
        (counts.size() < 2 || counts.back().size() == counts[0].size())) {
      counts.emplace_back();
    }
    if (counts.empty() || layer != counts.size() - 1 || neuron != counts.back().size()) {
      fail("layer " + std::to_string(layer) + ", neuron " + std::to_string(neuron) +
           " is out of order, expected every neuron of every layer in turn, as many in each layer");
    }
    if (count > table.n_tokens) {
      fail("count " + std::to_string(count) + " is above the " + std::to_string(table.n_tokens) + " tokens");
    }
    counts.back().push_back(count);
  }

  [[noreturn]] void fail(const std::string& sentence) const {
    throw ActivityTableError(file_ + ": line " + std::to_string(line_number_) + ": " + sentence);
  }

  std::string_view rest_;
  const std::string& file_;
  size_t line_number_ = 0;
};

}  // namespace

std::string activity_csv(const ActivityTable& table) {
  std::string csv = "# model: " + one_line(table.model) + "\n# text: " + one_line(table.text) +
                    "\n# tokens: " + std::to_string(table.n_tokens) + '\n' +
                    std::string(table.experts ? kExpertColumns : kColumns) + '\n';
  for (size_t layer = 0; layer < table.counts.size(); ++layer) {
    const std::string begin = std::to_string(layer) + ',';
    for (size_t neuron = 0; neuron < table.counts[layer].size(); ++neuron) {
      csv += begin + std::to_string(neuron) + ',' + std::to_string(table.counts[layer][neuron]) + '\n';
    }
  }
  return csv;
}

ActivityTable parse_activity_csv(std::string_view csv, const std::string& file) {
  return Parser(csv, file).table();
}

}  // namespace hearth
