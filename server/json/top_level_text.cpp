// See the header.
#include "server/json/top_level_text.h"

#include <nlohmann/json.hpp>

namespace hearth {
namespace {

using Json = nlohmann::ordered_json;

/// Receives the parser's events, and ends the parse when the string is found.
class Finder final : public nlohmann::json_sax<Json> {
 public:
  explicit Finder(std::string_view key) : key_(key) {}
  std::string take() { return std::move(found_); }

  bool null() override { return pass(); }
  bool boolean(bool) override { return pass(); }
  bool number_integer(number_integer_t) override { return pass(); }
  bool number_unsigned(number_unsigned_t) override { return pass(); }
  bool number_float(number_float_t, const string_t&) override { return pass(); }
  bool binary(binary_t&) override { return false; }
  bool string(string_t& value) override {
    if (!is_next_) return true;
    found_ = std::move(value);
    return false;
  }
  bool start_object(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    is_next_ = depth_ == 1 && name == key_;
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception&) override { return false; }

 private:
  bool pass() {
    is_next_ = false;
    return true;
  }
  bool open() {
    ++depth_;
    return pass();
  }
  bool close() {
    --depth_;
    return true;
  }

  const std::string_view key_;
  std::string found_;
  size_t depth_ = 0;
  bool is_next_ = false;  // the next value has the key
};

}  // namespace

std::string top_level_text(std::string_view json, std::string_view key) {
  if (json.find_first_of('{') == std::string_view::npos) return {};
  Finder finder(key);
  Json::sax_parse(json.begin(), json.end(), &finder);
  return finder.take();
}

}  // namespace hearth
