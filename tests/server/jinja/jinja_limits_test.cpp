// Broken and hostile templates: errors that name the line, and limits on time, memory and nesting.
#include "server/jinja/template.h"
#include "tests/support/catch.h"

namespace hearth::jinja {
namespace {

using Json = nlohmann::ordered_json;

std::string render(const std::string& source, const Json& context = Json::object(),
                   const Limits& limits = {}) {
  Variables variables;
  for (auto at = context.begin(); at != context.end(); ++at) variables.emplace_back(at.key(), &at.value());
  return Template(source).render(variables, limits);
}

// The error's text; fails the test if there is no error.
std::string error_of(const std::string& source, const Json& context = Json::object(),
                     const Limits& limits = {}) {
  try {
    const std::string output = render(source, context, limits);
    FAIL("no error, but " << output.substr(0, 200));
  } catch (const TemplateError& error) {
    return error.what();
  }
  return "";
}

std::string repeated(const std::string& piece, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += piece;
  return out;
}

TEST_CASE("errors name the line of the template") {
  CHECK(error_of("a\nb\n{{ 1 + }}") == "chat template, line 3: expected an expression, found '}}'");
  CHECK(error_of("a\r\nb {# \n #}\n{{ x.y }}") == "chat template, line 4: 'x' is undefined");
  CHECK(error_of("\n{% if true %}\n{{ 1 ~ ('a' + 2) }}{% endif %}") ==
        "chat template, line 3: can only concatenate str (not \"int\") to str");
  CHECK(error_of("\n{% nope %}") == "chat template, line 2: unknown tag 'nope'");
  CHECK(error_of("{% macro m() %}\n{{ none.x.y }}\n{% endmacro %}\n\n{{ m() }}") ==
        "chat template, line 2: 'None' has no attribute 'x'");
  CHECK(error_of("{{ 'a\nb' }}\n{{ 1 | nope }}") == "chat template, line 3: no filter named 'nope'");
  CHECK(error_of("{% for x in y %}") == "chat template, line 1: the template ends before 'endfor'");
  CHECK(error_of("\xff{{ 1 }}") == "chat template, line 1: the template is not valid UTF-8");
}

TEST_CASE("the text of raise_exception is passed on unchanged") {
  try {
    render("\n{{ raise_exception('Roles must \"alternate\": é') }}");
    FAIL("no error");
  } catch (const TemplateError& error) {
    CHECK(std::string(error.what()) == "Roles must \"alternate\": é");
    CHECK(error.line() == 2);
    CHECK(error.raised_by_template());
  }
}

TEST_CASE("time is limited") {
  const std::string loops =
      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
  CHECK_THAT(error_of(loops), ContainsSubstring("too much memory"));  // each iteration takes a little
  Limits few;
  few.max_steps = 1000;
  CHECK_THAT(error_of("{% for a in range(1000) %}{{ a }}{% endfor %}", {}, few),
             ContainsSubstring("runs too long"));
  CHECK(render("{% for a in range(3) %}{{ a }}{% endfor %}", {}, few) == "012");
  // Work on long text counts as well as the number of operations.
  const Json context = {{"s", std::string(1 << 20, 'x')}};
  CHECK_THAT(error_of("{% for a in range(100000) %}{{ s | length }}{% endfor %}", context),
             ContainsSubstring("runs too long"));
  CHECK_THAT(error_of("{% for a in range(100000) %}{% if s | wordcount %}{% endif %}{% endfor %}", context),
             ContainsSubstring("runs too long"));
}

TEST_CASE("searching text takes linear time") {
  // In quadratic time these would take minutes.
  const Json context = {{"s", std::string(1'000'000, 'a')}};
  CHECK(render("{% set p = 'a' * 500000 ~ 'b' %}{{ p in s }}{{ s.find(p) }}{{ s.count(p) }}{{ s.split(p) | "
               "length }}"
               "{{ s | replace(p, '') | length }}",
               context) == "False-101" + std::string("1000000"));
  CHECK(render("{% set p = 'b' ~ 'a' * 500000 %}{{ s.rfind(p) }}{{ s.rsplit(p) | length }}{{ "
               "s.rpartition(p)[0] }}",
               context) == "-11");
}

TEST_CASE("memory is limited") {
  Limits little;
  little.max_bytes = 1 << 20;
  for (const std::string source : {
           "{{ 'x' * 100000000 }}",
           "{{ [1] * 100000000 }}",
           "{% set ns = namespace(s='xxxxxxxx') %}{% for a in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% "
           "endfor %}",
           "{% set ns = namespace(l=[1]) %}{% for a in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor "
           "%}{{ ns.l }}",
           "{% set l = [] %}{% for a in range(99999) %}{% do l.append(a) %}{% endfor %}",
           "{{ ('x' * 9999) | replace('', 'y' * 9999) }}",
           "{{ ('x' * 9999).replace('', 'y' * 9999) }}",
           "{% for a in range(99999) %}0123456789abcdef{% endfor %}",
           "{{ ('x' * 999).join(['y'] * 9999) }}",
       }) {
    INFO(source);
    CHECK_THAT(error_of(source, {}, little), ContainsSubstring("too much memory"));
  }
  CHECK_THAT(error_of("{{ 'ab' * 9223372036854775807 }}"), ContainsSubstring("too large"));
  CHECK_THAT(error_of("{{ range(100001) }}"), ContainsSubstring("Range too big"));
  CHECK_THAT(error_of("{{ '%999999999d' % 1 }}"), ContainsSubstring("wider than"));
}

TEST_CASE("nesting is limited") {
  const std::string n_deep = "nests too deeply";
  CHECK_THAT(error_of("{{ " + repeated("(", 100000) + "1" + repeated(")", 100000) + " }}"),
             ContainsSubstring(n_deep));
  CHECK_THAT(error_of("{{ " + repeated("[", 100000) + repeated("]", 100000) + " }}"),
             ContainsSubstring(n_deep));
  CHECK_THAT(error_of("{{ " + repeated("not ", 100000) + "1 }}"), ContainsSubstring(n_deep));
  CHECK_THAT(error_of("{{ " + repeated("-", 100000) + "1 }}"), ContainsSubstring(n_deep));
  CHECK_THAT(error_of("{{ 1" + repeated("+1", 100000) + " }}"), ContainsSubstring(n_deep));
  CHECK_THAT(error_of("{{ x" + repeated(".x", 100000) + " }}"), ContainsSubstring(n_deep));
  CHECK_THAT(error_of("{{ x" + repeated("|x", 100000) + " }}"), ContainsSubstring(n_deep));
  CHECK_THAT(error_of("{{ " + repeated("1 if 1 else ", 50000) + "1 }}"), ContainsSubstring(n_deep));
  CHECK_THAT(error_of(repeated("{% if 1 %}", 10000)), ContainsSubstring("nest too deeply"));
  CHECK_THAT(error_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), ContainsSubstring(n_deep));
  CHECK_THAT(error_of("{% set l = [] %}{% do l.append(l) %}{{ l }}"), ContainsSubstring(n_deep));
  CHECK_THAT(error_of("{% set l = [] %}{% do l.append(l) %}{{ l | tojson }}"), ContainsSubstring(n_deep));
  CHECK_THAT(error_of("{% set a = [] %}{% do a.append(a) %}{% set b = [] %}{% do b.append(b) %}{{ a == b }}"),
             ContainsSubstring(n_deep));
  Json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = Json::array({std::move(deep)});  // copying it recurses too
  CHECK_THAT(error_of("{{ deep }}", {{"deep", deep}}), ContainsSubstring(n_deep));
}

TEST_CASE("integers stay within 64 bits") {
  CHECK(render("{{ 9223372036854775807 - 1 }}") == "9223372036854775806");
  for (const std::string source :
       {"{{ 9223372036854775807 + 1 }}", "{{ 9223372036854775808 }}", "{{ 2 ** 64 }}",
        "{{ -9223372036854775807 - 2 }}", "{{ (-9223372036854775807 - 1) // -1 }}",
        "{{ -(-9223372036854775807 - 1) }}", "{{ (-9223372036854775807 - 1) | abs }}",
        "{{ 4611686018427387904 * 2 }}"}) {
    INFO(source);
    CHECK_THAT(error_of(source), ContainsSubstring("64 bits"));
  }
  CHECK(render("{{ (-9223372036854775807 - 1) % -1 }}") == "0");
  CHECK(render("{{ 'abc'[-9223372036854775807:9223372036854775807] }}") == "abc");
  CHECK(render("{{ [1, 2][::9223372036854775807] }}{{ [1, 2][::-9223372036854775807] }}") == "[1][2]");
  CHECK(render("{{ range(9223372036854775806, 9223372036854775807) | list }}") == "[9223372036854775806]");
}

TEST_CASE("a list that contains itself is freed") {
  CHECK(render("{% set l = [] %}{% do l.append(l) %}{{ l | length }}") == "1");
}

}  // namespace
}  // namespace hearth::jinja
