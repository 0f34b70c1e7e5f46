// The trace of experts: it is read back as written, is refused if any byte is damaged or wrong, and a writer
// omits tokens beyond its limit.
#include "engine/activity/expert_trace.h"

#include <numeric>

#include "kernels/base/file_error.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

ModelIdentity traced_mixture(int n_experts = 4) {
  return {.name = "a mixture",
          .activation = "silu",
          .n_layers = 3,
          .d_model = 8,
          .d_ff = 5,
          .n_experts = n_experts,
          .content = sha256(std::string_view("weights"))};
}

/// Two layers, the second and third, and two experts of a token.
ExpertTrace some_trace(int n_experts = 4) {
  ExpertTrace trace{.model = traced_mixture(n_experts),
                    .n_used = 2,
                    .layers = {{1, 100}, {2, 120}},
                    .runs = {},
                    .experts = {}};
  const auto last = static_cast<uint16_t>(n_experts - 1);
  trace.add_run(TraceText::kPrompt, true, std::vector<uint16_t>{0, 1, 2, last, last, 0, 1, 0});
  trace.add_run(TraceText::kGenerated, false, std::vector<uint16_t>{1, 2, 0, last});
  trace.add_run(TraceText::kPrompt, true, std::vector<uint16_t>{2, 1, 1, 2});
  return trace;
}

bool same_trace(const ExpertTrace& a, const ExpertTrace& b) {
  return a.model.same_model(b.model) && a.model.name == b.model.name && a.n_used == b.n_used &&
         a.layers == b.layers && a.runs == b.runs && a.experts == b.experts;
}

std::string trace_refusal(std::span<const std::byte> bytes) {
  try {
    parse_expert_trace(bytes, "some.trace");
  } catch (const ModelFileError& error) {
    return error.what();
  }
  return "(read)";
}

std::string refusal_of(const ExpertTrace& trace) { return trace_refusal(expert_trace_bytes(trace)); }

}  // namespace

TEST_CASE("trace: it round-trips with one byte or two for an expert") {
  const int n_experts = GENERATE(4, 256, 257, 65536);
  const ExpertTrace trace = some_trace(n_experts);
  const std::vector<std::byte> bytes = expert_trace_bytes(trace);
  CHECK(same_trace(parse_expert_trace(bytes, "x"), trace));
  const std::vector<std::byte> small = expert_trace_bytes(some_trace(4));
  // the number of experts takes one to three bytes
  const size_t number = n_experts < 128 ? 0 : n_experts < 1 << 14 ? 1 : 2;
  CHECK(bytes.size() == small.size() + number + (n_experts > 256 ? trace.experts.size() : 0));
  CHECK(trace.n_tokens() == 4);
  CHECK(trace.n_sequences() == 2);
  CHECK(trace.chosen(2, 1)[1] == n_experts - 1);
  const TempFolder folder;
  ExpertTraceWriter writer(trace.model, 2, trace.layers, 10);
  writer.add(TraceText::kPrompt, true, trace.experts);
  writer.write(folder / "a.trace");
  CHECK(read_expert_trace(folder / "a.trace").experts == trace.experts);
}

TEST_CASE("trace: a damaged byte, a missing end and another kind of file are refused") {
  const std::vector<std::byte> bytes = expert_trace_bytes(some_trace());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::vector<std::byte> damaged = bytes;
    damaged[i] ^= std::byte{4};
    CAPTURE(i);
    CHECK(trace_refusal(damaged) != "(read)");
    CHECK(trace_refusal(std::span(bytes).first(i)) != "(read)");
  }
  CHECK_THAT(trace_refusal({}), ContainsSubstring("it is not a trace of experts; record it again"));
  std::vector<std::byte> newer = bytes;
  newer[4] = std::byte{2};
  CHECK_THAT(trace_refusal(newer), ContainsSubstring("it is of version 2, expected 1"));
}

TEST_CASE("trace: a file that was made wrong is refused with the reason") {
  ExpertTrace trace = some_trace();
  SECTION("an expert that no layer has") {
    trace.experts[3] = 4;
    CHECK_THAT(refusal_of(trace), ContainsSubstring("names expert 4, and a layer has 4"));
  }
  SECTION("an expert twice") {
    trace.experts[5] = trace.experts[4];
    CHECK_THAT(refusal_of(trace), ContainsSubstring("names expert 3 twice"));
  }
  SECTION("layers in another order") {
    std::swap(trace.layers[0], trace.layers[1]);
    CHECK_THAT(refusal_of(trace), ContainsSubstring("list of layers is not in ascending order"));
  }
  SECTION("a layer that the model does not have") {
    trace.layers[1].number = 3;
    CHECK_THAT(refusal_of(trace), ContainsSubstring("says 3 as a layer's number, expected at most 2"));
  }
  SECTION("no begin of the first sequence") {
    trace.runs[0].begins_sequence = false;
    CHECK_THAT(refusal_of(trace), ContainsSubstring("begins in the middle"));
  }
  SECTION("more experts of a token than a layer has") {
    const uint64_t n_tokens = trace.n_tokens();
    trace.n_used = 5;
    trace.experts.resize(n_tokens * trace.token_experts());
    CHECK_THAT(refusal_of(trace), ContainsSubstring("says 5 experts of a token, expected at most 4"));
  }
  SECTION("no layers") {
    trace.layers.clear();
    CHECK_THAT(refusal_of(trace), ContainsSubstring("0 layers"));
  }
}

TEST_CASE("trace: it is of one model") {
  const ExpertTrace trace = some_trace();
  CHECK_NOTHROW(require_same_model(trace, traced_mixture(), "some.trace"));
  ModelIdentity other = traced_mixture();
  other.d_model = 16;
  CHECK_THROWS_WITH(require_same_model(trace, other, "some.trace"),
                    ContainsSubstring("it is of another model") && ContainsSubstring("record it again"));
}

TEST_CASE("trace: a writer leaves out tokens beyond its limit and says so") {
  const ExpertTrace trace = some_trace();
  ExpertTraceWriter writer(trace.model, trace.n_used, trace.layers, 3);
  writer.add(TraceText::kPrompt, true, std::span(trace.experts).first(8));
  writer.add(TraceText::kGenerated, false, {});
  CHECK_FALSE(writer.full());
  writer.add(TraceText::kGenerated, false, std::span(trace.experts).subspan(8));
  CHECK(writer.full());
  writer.add(TraceText::kPrompt, true, std::span(trace.experts).first(4));
  CHECK(writer.trace().n_tokens() == 3);
  CHECK(writer.trace().runs ==
        std::vector<TraceRun>{{TraceText::kPrompt, true, 2}, {TraceText::kGenerated, false, 1}});
  CHECK(std::ranges::equal(writer.trace().experts, std::span(trace.experts).first(12)));
}

}  // namespace hearth::test
