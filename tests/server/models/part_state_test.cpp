// The state beside an unfinished download: read back as it was written, and refused if it cannot be true.
#include "server/models/part_state.h"

#include "tests/support/catch.h"

using namespace hearth;

namespace {

const std::string kPartHash(64, 'a');

PartState sample() {
  PartState state;
  state.source = "https://example.org/x.gguf";
  state.validator = "https://example.org:443 \"v1\"";
  state.sha256 = kPartHash;
  state.size = 1000;
  state.done.add({0, 100});
  state.done.add({500, 1000});
  return state;
}

}  // namespace

TEST_CASE("part state: it is read back as it was written") {
  const std::optional<PartState> state = parse_part_state(part_state_text(sample()));
  REQUIRE(state);
  CHECK(state->source == sample().source);
  CHECK(state->validator == sample().validator);
  CHECK(state->sha256 == kPartHash);
  CHECK(state->size == 1000);
  CHECK(state->done.list() == sample().done.list());
  CHECK_FALSE(state->checked);
}

TEST_CASE("part state: an impossible state is refused") {
  const std::string good = part_state_text(sample());
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return parse_part_state(text.replace(at, from.size(), to)).has_value();
  };
  CHECK_FALSE(parse_part_state("").has_value());
  CHECK_FALSE(parse_part_state("[]").has_value());
  CHECK_FALSE(parse_part_state(good.substr(0, good.size() / 2)).has_value());
  CHECK_FALSE(changed("[500,1000]", "[500,1001]"));  // beyond the file
  CHECK_FALSE(changed("[500,1000]", "[1000,500]"));  // backwards
  CHECK_FALSE(changed("[500,1000]", "[500,500]"));   // empty
  CHECK_FALSE(changed("[500,1000]", "[-1,500]"));
  CHECK_FALSE(changed("[500,1000]", "[500.5,600]"));
  CHECK_FALSE(changed("[500,1000]", "[500]"));
  CHECK_FALSE(changed("\"size\":1000", "\"size\":18446744073709551615"));
  CHECK_FALSE(changed("\"size\":1000", "\"size\":\"1000\""));
  CHECK_FALSE(changed("\"checked\":false", "\"checked\":true"));  // not all bytes are there
  CHECK_FALSE(changed(kPartHash, kPartHash.substr(1)));
  CHECK_FALSE(changed("\"hearth_part\":1", "\"hearth_part\":2"));
  CHECK(changed("[500,1000]", "[100,1000]"));
}
