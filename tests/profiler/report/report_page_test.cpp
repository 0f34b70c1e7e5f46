// The report's page: it is complete whether all or none of the data is known, safe with any names, and shows
// the numbers that it was given.
#include "profiler/report/report_page.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>

#include "profiler/report/svg.h"
#include "tests/support/catch.h"

namespace hearth::testing {
namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

ReportData everything() {
  ReportData data;
  data.model = "relu <b>&amp";
  data.facts = "llama, 3 layers of 4 neurons";
  data.machine = "RTX \"4090\"";
  data.made = "hearth-profiler 1";
  data.text = "prompts";
  data.n_tokens = 100;
  data.activity = {{0.9, 0, 0.3, 0.005}, {0, 0, 0, 0}, {1, 1, 1, 1}};
  data.bytes = {{"attention", 2e9, 0}, {"cold neurons", 0, 6e9}};
  data.layers = {{true, true, 0.25, 0.25}, {true, false, 1, 0}, {false, false, 0.5, 0.5}};
  data.predictors = {{0.98, 0.2, -1, -1}, {0.97, 0.3, 0.8, 0.5}, {0.96, 0.4, 0.9, 0.6}};
  data.planned_run = "a context of 4,096 tokens";
  data.measured_run = "64 tokens";
  data.busy = "other programs use <this> machine";
  data.speeds = {{"decode", 9, 10, 8, "RAM"}, {"prefill", 100, 200, 100, "PCIe"}};
  data.held_out = "50 tokens";
  data.hits = ReportHits{.share = 0.25,
                         .planned = true,
                         .rates = {{"as planned", 0.7}, {"at random", 0.25}},
                         .by_activity = {0, 0.75, 1},
                         .even = {0, 0.6, 1}};
  data.plan = {{"GPU", "2.0 of 8.0 GB <all>"}, {"", "and <more>"}};
  data.notes = {"The model <b> has no zeros."};
  return data;
}

TEST_CASE("report: the page of a mixture shows experts") {
  ReportData data = everything();
  data.hits.reset();
  data.predictors.clear();
  data.layers.clear();
  data.experts = ReportExperts{.n_experts = 4,
                               .kept = {0.5, 0.25, 1},
                               .mean_kept = 0.583,
                               .caches = {{1, 0.4}, {2, 0.71}},
                               .reads = {{1, 2, 2}, {4, 2.5, 3.25}, {16, 0, 3.9}}};
  const std::string page = report_page(data);
  CHECK(count_of(page, "<svg ") == 2);
  CHECK(count_of(page, "Which experts are chosen") == 1);
  CHECK(count_of(page, "Which neurons are active") == 0);
  CHECK(count_of(page, "PowerInfer") == 0);
  for (const char* shown : {"58.3 %", "the hottest 2 of 4", "71.0 %", ">2.5<", "90.0 %"}) {
    INFO(shown);
    CHECK(count_of(page, shown) > 0);
  }
}

TEST_CASE("report: a full page has every part, and needs no network") {
  const std::string page = report_page(everything());
  CHECK(count_of(page, "<svg ") == 5);
  CHECK(count_of(page, "</svg>") == 5);
  CHECK(count_of(page, "<table>") == count_of(page, "</table>"));
  for (const char* title : {"Speed", "Memory", "How often the hot neurons are the ones needed",
                            "Which neurons are active", "How unevenly", "Predictors", "The plan", "Notes"}) {
    INFO(title);
    CHECK(count_of(page, "<h2>" + std::string(title) + "</h2>") == 1);
  }
  for (const char* outside : {"http:", "https:", "<script", "<link", "<img", "@import", "url("}) {
    INFO(outside);
    CHECK(count_of(page, outside) == 0);
  }
  CHECK(count_of(page, "80.0 %") >= 1);  // of the expected speed, 8 of 10
  CHECK(count_of(page, "50.0 %") >= 1);
  CHECK(count_of(page, "While the run was measured, other programs use &lt;this&gt; machine.") == 1);
  CHECK(count_of(page, "not measured") == 0);
  CHECK(count_of(page, "<p></p>") == 0);
  CHECK(count_of(page, "6.00 GB") == 2);  // cold neurons, and in RAM's total
  CHECK(count_of(page, "nan") == 0);
  CHECK(count_of(page, "inf") == 0);
  CHECK(count_of(page, "<title>the plan: 70.0 %</title>") == 1);
}

TEST_CASE("report: a machine without a GPU has no column of it") {
  ReportData data = everything();
  data.bytes = {{"layers", 0, 6e9}};
  const std::string page = report_page(data);
  CHECK(count_of(page, "<th>GPU</th>") == 0);
  CHECK(count_of(page, "<th>RAM</th>") == 1);
  CHECK(count_of(page, "class=\"bar\"") == 0);
  CHECK(count_of(report_page(everything()), "class=\"bar\"") == 1);
}

TEST_CASE("report: unknown parts are left out") {
  ReportData data;
  data.model = "m";
  const std::string page = report_page(data);
  CHECK(count_of(page, "<svg ") == 0);
  CHECK(count_of(page, "<h2>") == 0);
  CHECK(count_of(page, "<h1>m</h1>") == 1);
}

TEST_CASE("report: names are shown as text, whatever they contain") {
  ReportData data = everything();
  data.model = "</title><script>alert('x')</script>";
  data.bytes[0].what = data.speeds[0].bound = data.notes[0] = data.plan[0].second = data.text = data.model;
  const std::string page = report_page(data);
  CHECK(count_of(page, "<script") == 0);
  CHECK(count_of(page, "</title>") == 1 + count_of(page, "<title>layer") +
                                          count_of(page, "<title>PowerInfer") +
                                          count_of(page, "<title>the plan"));
  CHECK(html_escaped("a<b>&\"'\x01\n") == "a&lt;b&gt;&amp;&quot;&#39; \n");
  CHECK(html_escaped("caf\xC3\xA9 \xFF\xC3") == "caf\u00E9 \uFFFD\uFFFD");  // file names are arbitrary bytes

  ReportData planned = everything();
  for (ReportSpeed& speed : planned.speeds) speed.expected = speed.measured = std::nullopt;
  CHECK(count_of(report_page(planned), "not measured") == 1);
}

TEST_CASE("report: charts draw the given shares") {
  const ReportData data = everything();
  // In layer 0, one neuron is active for more than 50 % of tokens, one for 30 %, one for 0.5 %, and one
  // never. Layer 1 is never active, and layer 2 always.
  const std::string map = activity_map(data);
  CHECK(count_of(map, "<rect class=\"heat0\"") == 2);
  CHECK(count_of(map, "<rect class=\"heat1\"") == 1);
  CHECK(count_of(map, "<rect class=\"heat6\"") == 1);
  CHECK(count_of(map, "<rect class=\"heat7\"") == 2);
  CHECK(count_of(map, "layer 1: 100.0 % of its neurons are active for no token") == 1);

  // The three most active of twelve neurons have 3 of 5.205 activations.
  CHECK(share_of_activations(data, 0.25) == Approx(3 / 5.205));
  CHECK(share_of_activations(data, 0) == 0);
  CHECK(share_of_activations(data, 1) == Approx(1));

  const std::string layers = placement_map(data);
  CHECK(count_of(layers, "<rect class=\"gates\"") == 1);
  CHECK(count_of(layers, "<rect class=\"cpu\"") == 1);
  CHECK(count_of(layers, "layer 2: on the CPU whole") ==
        3);  // its neurons are not on the GPU, whatever the data says
}

TEST_CASE("report: neurons that were never active give curves, not divisions by zero") {
  ReportData data;
  data.activity = {{0, 0}, {0, 0}};
  CHECK(share_of_activations(data, 0.5) == 0);
  CHECK(count_of(report_page(data), "nan") == 0);
}

}  // namespace
}  // namespace hearth::testing
