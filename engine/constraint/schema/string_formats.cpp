#include "engine/constraint/schema/string_formats.h"

#include <map>

namespace hearth {
namespace {

using Patterns = std::map<std::string_view, std::string>;

/// RFC 3339, full-date. Each month has only the days that exist in it.
std::string date() {
  const std::string year = "[1-9][0-9]{3}";
  const std::string leap_year =
      "(?:[1-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[13579][26])00)";
  return "(?:" + year +
         "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|" +
         "02-(?:0[1-9]|1[0-9]|2[0-8]))|" + leap_year + "-02-29)";
}

/// RFC 3339: full-time.
std::string time() {
  const std::string hour = "(?:[01][0-9]|2[0-3])";
  return hour + ":[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-]" + hour + ":[0-5][0-9])";
}

/// RFC 3339, appendix A.
std::string duration() {
  const std::string n = "[0-9]{1,9}";
  const std::string second = n + "S", minute = "(?:" + n + "M(?:" + second + ")?)",
                    hour = "(?:" + n + "H(?:" + minute + ")?)";
  const std::string day = n + "D", month = "(?:" + n + "M(?:" + day + ")?)",
                    year = "(?:" + n + "Y(?:" + month + ")?)";
  const std::string time = "T(?:" + hour + "|" + minute + "|" + second + ")";
  return "P(?:(?:" + day + "|" + month + "|" + year + ")(?:" + time + ")?|" + time + "|" + n + "W)";
}

/// Host names of at most 188 characters, with labels of at most 62.
std::string hostname() {
  const std::string label = "[A-Za-z0-9]{1,20}(?:-[A-Za-z0-9]{1,20}){0,2}";
  return "(?:" + label + "\\.){0,2}[A-Za-z]{1,20}(?:-[A-Za-z0-9]{1,20}){0,2}";
}

std::string email() {
  return "[A-Za-z0-9_+-]{1,30}(?:\\.[A-Za-z0-9_+-]{1,15}){0,2}@(?:[A-Za-z0-9]{1,20}(?:-[A-Za-z0-9]{1,20}){0,"
         "2}\\.){1,3}"
         "[A-Za-z]{2,20}";
}

std::string ipv4() {
  const std::string octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return "(?:" + octet + "\\.){3}" + octet;
}

std::string ipv6() {
  const std::string h = "[0-9A-Fa-f]{1,4}";
  std::string all = "(?:(?:" + h + ":){7}" + h + "|(?:" + h + ":){1,7}:|:(?::" + h + "){1,7}|::";
  for (int before = 1; before <= 6; ++before)
    all +=
        "|(?:" + h + ":){" + std::to_string(before) + "}(?::" + h + "){1," + std::to_string(7 - before) + "}";
  return all + ")";
}

std::string uuid() { return "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"; }

/// RFC 3986: a scheme, followed either by an authority and a path or by a path alone.
std::string uri() {
  const std::string character = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
  const std::string host = "[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?";
  const std::string path = "(?:/" + character + "*)*";
  return "[A-Za-z][A-Za-z0-9+.-]{1,15}:(?://" + host + "(?::[0-9]{1,4})?" + path + "|" + character + "+" +
         path + ")(?:\\?(?:" + character + "|[/?])*)?(?:#(?:" + character + "|[/?])*)?";
}

std::string json_pointer_pattern() { return "(?:/(?:[^~/]|~[01])*)*"; }

const Patterns& patterns() {
  static const Patterns all{
      {"date", date()},
      {"date-time", date() + "T" + time()},
      {"duration", duration()},
      {"email", email()},
      {"hostname", hostname()},
      {"idn-email", email()},
      {"idn-hostname", hostname()},
      {"ipv4", ipv4()},
      {"ipv6", ipv6()},
      {"iri", uri()},
      {"iri-reference", uri()},
      {"json-pointer", json_pointer_pattern()},
      {"relative-json-pointer", "(?:0|[1-9][0-9]{0,8})(?:#|" + json_pointer_pattern() + ")"},
      {"time", time()},
      {"uri", uri()},
      {"uri-reference", uri()},
      {"uuid", uuid()}};
  return all;
}

}  // namespace

std::optional<std::string_view> format_pattern(std::string_view format) {
  const auto found = patterns().find(format);
  return found == patterns().end() ? std::nullopt : std::optional<std::string_view>(found->second);
}

std::string supported_formats() {
  std::string names;
  for (const auto& [name, pattern] : patterns()) names.append(names.empty() ? "" : ", ").append(name);
  return names;
}

}  // namespace hearth
