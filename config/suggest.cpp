// Computes the edit distance while storing only one row of its table.
#include "config/suggest.h"

#include <algorithm>
#include <numeric>

namespace hearth {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  // row[j]: distance between the first i letters of a and the first j letters of b
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> closest_name(std::string_view word, const std::vector<std::string>& candidates) {
  // No option has a name of this length, so this is not a mistyped name. Computing its distances might take
  // long.
  if (word.size() > 64) return std::nullopt;
  const size_t limit =
      std::max<size_t>(word.size() < 4 ? 1 : 2, word.size() / 3);  // swapping two letters costs 2
  std::optional<std::string> best;
  size_t best_distance = limit + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string letters_and_digits(std::string_view text) {
  std::string kept;
  for (const char c : text) {
    if (c >= 'A' && c <= 'Z') kept += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) kept += c;
  }
  return kept;
}

}  // namespace hearth
