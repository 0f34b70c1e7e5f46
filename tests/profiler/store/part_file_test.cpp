// An unfinished download: its state is read back as it was written, and its length is the number of bytes
// received.
#include "profiler/store/part_file.h"

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

using namespace hearth;
using hearth::test::TempFolder;

namespace {

const std::string kPartHash(64, 'a');

PartState sample_state() {
  return {.source = "https://example.org/x.gguf",
          .validator = "https://example.org:443 \"v1\"",
          .sha256 = kPartHash,
          .size = 1000};
}

}  // namespace

TEST_CASE("part state: is read back as it was written") {
  const std::optional<PartState> state = parse_part_state(part_state_text(sample_state()));
  REQUIRE(state);
  CHECK(state->source == sample_state().source);
  CHECK(state->validator == sample_state().validator);
  CHECK(state->sha256 == kPartHash);
  CHECK(state->size == 1000);
}

TEST_CASE("part state: refuses what cannot be true") {
  const std::string good = part_state_text(sample_state());
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return parse_part_state(text.replace(at, from.size(), to)).has_value();
  };
  CHECK_FALSE(parse_part_state("").has_value());
  CHECK_FALSE(parse_part_state("[]").has_value());
  CHECK_FALSE(parse_part_state(good.substr(0, good.size() / 2)).has_value());
  CHECK_FALSE(changed("\"size\":1000", "\"size\":18446744073709551615"));
  CHECK_FALSE(changed("\"size\":1000", "\"size\":-1"));
  CHECK_FALSE(changed("\"size\":1000", "\"size\":\"1000\""));
  CHECK_FALSE(changed(kPartHash, kPartHash.substr(1)));
  CHECK_FALSE(changed("\"hearth_part\":2", "\"hearth_part\":1"));  // its file has its whole length already
  CHECK(changed("\"size\":1000", "\"size\":0"));
}

TEST_CASE("part file: reserving leaves the length, and an open file goes on where the last one ended") {
  const TempFolder folder;
  {
    PartFile part(folder / "x.gguf", [] {});
    CHECK(part.length() == 0);
    part.reserve(1 << 20);
    part.append("abc");
    part.append("defg");
    CHECK(part.length() == 7);
    part.state() = sample_state();
    part.save();
  }
  PartFile part(folder / "x.gguf", [] {});
  CHECK(part.length() == 7);
  CHECK(part.state().size == 1000);
  Sha256Stream hash;
  hash_file(
      part.fd(), part.length(), [] {}, hash);
  CHECK(hash.finish() == sha256("abcdefg"));
  part.reset();
  CHECK(part.length() == 0);
  CHECK(part.state().size == 0);
  CHECK_FALSE(std::filesystem::exists(part_state_path(part.path())));
}
