// Reads and checks keys. See the header.
#include "engine/model/spec_keys.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kernels/base/file_error.h"

namespace hearth {
namespace {

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

}  // namespace

int SpecKeys::integer(const std::string& key, int64_t low, int64_t high) const {
  return check(key, file_.get_int(prefix_ + key), low, high);
}

int SpecKeys::integer_or(const std::string& key, int64_t fallback, int64_t low, int64_t high) const {
  const std::optional<int64_t> found = file_.find_int(prefix_ + key);
  return found ? check(key, *found, low, high) : static_cast<int>(fallback);
}

double SpecKeys::number(const std::string& key, double low, double high) const {
  return check(key, file_.get_float(prefix_ + key), low, high);
}

double SpecKeys::number_or(const std::string& key, double fallback, double low, double high) const {
  const std::optional<double> found = file_.find_float(prefix_ + key);
  return found ? check(key, *found, low, high) : fallback;
}

std::optional<std::vector<int64_t>> SpecKeys::integers(const std::string& key) const {
  return file_.find_ints(prefix_ + key);
}

std::optional<std::vector<int64_t>> SpecKeys::of_layers(const std::string& key, int n_layers,
                                                        int n_more) const {
  if (!file_.describe_key(prefix_ + key).starts_with("array")) return std::nullopt;
  std::optional<std::vector<int64_t>> found = integers(key);
  if (found && found->size() != static_cast<size_t>(n_layers) &&
      found->size() != static_cast<size_t>(n_layers + n_more)) {
    fail(key, "an array of " + std::to_string(found->size()),
         "one value for each of " + std::to_string(n_layers) + " layers");
  }
  return found;
}

int SpecKeys::shared_integer(const std::string& key, int n_layers, int n_blocks, int64_t low,
                             int64_t high) const {
  const std::optional<std::vector<int64_t>> values = of_layers(key, n_blocks);
  if (!values) return integer(key, low, high);
  for (int i = 1; i < n_layers; ++i) {
    const int64_t first = values->front(), other = (*values)[static_cast<size_t>(i)];
    if (other == first) continue;
    refuse(
        key,
        std::to_string(first) + " in layer 0 and " + std::to_string(other) + " in layer " + std::to_string(i),
        "all layers need equal values");
  }
  return check(key, values->front(), low, high);
}

bool SpecKeys::truth_or(const std::string& key, bool fallback) const {
  return file_.find_bool(prefix_ + key).value_or(fallback);
}

std::string SpecKeys::text_or(const std::string& key, std::string_view fallback) const {
  return std::string(file_.find_string(prefix_ + key).value_or(fallback));
}

std::string SpecKeys::file_label() const { return file_error::file_label(file_.path().string()); }

void SpecKeys::refuse(const std::string& key, const std::string& found, const std::string& why) const {
  file_error::fail(file_label(), "key \"" + prefix_ + key + "\" is " + found +
                                     ", which does not run: " + why + "; other models of architecture " +
                                     prefix_.substr(0, prefix_.size() - 1) + " do");
}

void SpecKeys::fail(const std::string& key, const std::string& found, const std::string& expected) const {
  file_error::fail(file_label(), "key \"" + prefix_ + key + "\" is " + found + ", expected " + expected +
                                     "; the file is damaged or made for another program");
}

double SpecKeys::check(const std::string& key, double value, double low, double high) const {
  if (!std::isfinite(value) || value < low || value > high) {
    fail(key, text_of(value), "a number from " + text_of(low) + " to " + text_of(high));
  }
  return value;
}

int SpecKeys::check(const std::string& key, int64_t value, int64_t low, int64_t high) const {
  if (value < low || value > high) {
    fail(key, std::to_string(value),
         "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return static_cast<int>(value);
}

}  // namespace hearth
