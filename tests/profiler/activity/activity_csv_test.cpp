// The table of measured activity: written, read back, and refused where it contradicts itself.
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "profiler/activity/activity_csv.h"
#include "profiler/import/activation_counts.h"
#include "tests/support/catch.h"

namespace hearth::test {
namespace {

const std::string kHead = "# tokens: 9\nlayer,neuron,count\n";

std::string refusal_of(const std::string& csv) {
  try {
    parse_activity_csv(csv, "a.csv");
  } catch (const ActivityTableError& error) {
    return error.what();
  }
  return "(read)";
}

TEST_CASE("an activity table is read back as it was written") {
  ActivityTable table;
  table.model = "relu-5m";
  table.text = "a text, with: commas";
  table.n_tokens = uint64_t{1} << 40;
  table.counts = {{1, 0, table.n_tokens}, {4, 5, 6}};
  const std::string csv = activity_csv(table);
  CHECK(csv ==
        "# model: relu-5m\n# text: a text, with: commas\n# tokens: 1099511627776\nlayer,neuron,count\n"
        "0,0,1\n0,1,0\n0,2,1099511627776\n1,0,4\n1,1,5\n1,2,6\n");
  const ActivityTable back = parse_activity_csv(csv, "a.csv");
  CHECK(back.model == table.model);
  CHECK(back.text == table.text);
  CHECK(back.n_tokens == table.n_tokens);
  CHECK(back.counts == table.counts);
  table.model = "two\nlines\r";
  CHECK(parse_activity_csv(activity_csv(table), "a.csv").model == "two lines ");
}

TEST_CASE(
    "an empty table, one neuron a layer, line ends of other systems, no last line end, unknown remarks") {
  CHECK(parse_activity_csv(activity_csv({}), "a.csv").counts.empty());
  CHECK(parse_activity_csv(kHead + "0,0,1\n1,0,2\n2,0,3\n", "a.csv").counts ==
        std::vector<std::vector<uint64_t>>{{1}, {2}, {3}});
  CHECK(parse_activity_csv("# tokens: 9\r\n# seed: 7\r\nlayer,neuron,count\r\n0,0,1\r\n0,1,9", "a.csv")
            .counts == std::vector<std::vector<uint64_t>>{{1, 9}});
}

TEST_CASE("tables that contradict themselves are refused with the line") {
  CHECK(refusal_of("") == "a.csv: line 0: expected the columns \"layer,neuron,count\"");
  CHECK(refusal_of("0,0,1\n") == "a.csv: line 1: expected the columns \"layer,neuron,count\"");
  CHECK(refusal_of("# tokens: -9\n") == "a.csv: line 1: expected a number of tokens");
  CHECK(refusal_of(kHead + "0,0,10\n") == "a.csv: line 3: count 10 is above the 9 tokens");
  for (const char* row :
       {"", "0", "0,0", "0,0,", "0,0,-1", "0,0,1,2", "0,0,1.5", "a,0,1", "0,0,99999999999999999999"}) {
    CAPTURE(row);
    CHECK(refusal_of(kHead + row + "\n") == "a.csv: line 3: expected three numbers: layer,neuron,count");
  }
  for (const char* row : {"0,1,1", "1,0,1"}) {
    CAPTURE(row);
    CHECK_THAT(refusal_of(kHead + row + "\n"), ContainsSubstring("line 3: layer " + std::string(row, 1)));
  }
  const std::string two = kHead + "0,0,1\n0,1,1\n1,0,1\n";
  CHECK_THAT(refusal_of(two), ContainsSubstring("the last of 2 layers ends after 1 neurons, expected 2"));
  CHECK_THAT(refusal_of(two + "2,0,1\n"), ContainsSubstring("layer 2, neuron 0 is out of order"));
  CHECK_THAT(refusal_of(two + "1,1,1\n1,2,1\n"),
             ContainsSubstring("the last of 2 layers ends after 3 neurons"));
  CHECK(refusal_of(two + "1,1,1\n") == "(read)");
}

TEST_CASE("the committed table of the small ReLU model matches PyTorch's files beside it") {
  const std::string folder = testing::source_dir() + "/tests/data/relu/";
  std::ifstream in(folder + "activity.csv", std::ios::binary);
  const std::string csv{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const ActivityTable table = parse_activity_csv(csv, "activity.csv");
  CHECK(activity_csv(table) == csv);
  CHECK(table.n_tokens == 147456);
  const ActivityProfile counts = read_activation_counts(folder + "activation", 4, 1024);
  REQUIRE(table.counts.size() == 4);
  for (size_t layer = 0; layer < 4; ++layer) {
    CHECK(std::vector<double>(table.counts[layer].begin(), table.counts[layer].end()) ==
          counts.counts[layer]);
  }
}

}  // namespace
}  // namespace hearth::test
