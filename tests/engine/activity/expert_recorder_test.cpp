// Recording experts: sequences that share steps are kept apart and in order, prompts are distinguished from
// generated tokens, and steps that do not fit are omitted.
#include "engine/activity/expert_recorder.h"

#include <initializer_list>

#include "tests/support/catch.h"

namespace hearth::test {
namespace {

const std::vector<TracedLayer> kTracedLayers = {{1, 100}, {3, 100}};

ExpertRecorder recorder_of(int max_tokens = 100) {
  return ExpertRecorder({.layers = kTracedLayers, .n_used = 2, .n_slots = 3, .max_tokens = max_tokens});
}

struct RecordedToken {
  int slot, position;
  bool in_prompt;
  int name;  // of the token: it chooses experts 10 name + layer and the one after that
};

void record(ExpertRecorder& recorder, std::initializer_list<RecordedToken> tokens) {
  Batch batch;
  for (const RecordedToken& token : tokens) {
    if (token.in_prompt) batch.prompt_rows.push_back(batch.n_tokens());
    batch.tokens.push_back(0);
    batch.slots.push_back(token.slot);
    batch.positions.push_back(token.position);
  }
  const ExpertRecorder::StepScope step(&recorder, batch);
  if (!recorder.records_step()) return;
  for (const TracedLayer& layer : kTracedLayers) {
    std::vector<int32_t> experts;
    for (const RecordedToken& token : tokens) {
      experts.push_back(10 * token.name + layer.number);
      experts.push_back(10 * token.name + layer.number + 1);
    }
    recorder.add(layer.number, {batch.n_tokens(), 2, experts.data(), nullptr});
  }
}

ExpertTraceWriter writer_of() {
  return {{.name = "a mixture",
           .activation = "silu",
           .n_layers = 4,
           .d_model = 8,
           .d_ff = 5,
           .n_experts = 200,
           .content = {}},
          2,
          kTracedLayers,
          1000};
}

/// The names of a trace's tokens, with "p" or "g" before a run, and "|" before one that begins a sequence.
std::string told(const ExpertTrace& trace) {
  std::string text;
  uint64_t token = 0;
  for (const TraceRun& run : trace.runs) {
    if (run.begins_sequence) text += "|";
    text += run.text == TraceText::kPrompt ? "p" : "g";
    for (uint32_t i = 0; i < run.n_tokens; ++i, ++token) {
      const int name = trace.chosen(token, 0)[0] / 10;
      CHECK(trace.chosen(token, 0)[0] == 10 * name + 1);
      CHECK(trace.chosen(token, 1)[1] == 10 * name + 4);
      text += " " + std::to_string(name);
    }
  }
  return text;
}

}  // namespace

TEST_CASE("recorder: sequences that share steps are kept apart, each in order") {
  ExpertRecorder recorder = recorder_of();
  record(recorder, {{0, 0, true, 1}, {0, 1, true, 2}});
  record(recorder, {{0, 2, true, 3}, {2, 0, true, 4}});
  record(recorder, {{0, 3, false, 5}, {2, 1, true, 6}});
  record(recorder, {{2, 2, false, 7}, {0, 4, false, 8}});
  ExpertTraceWriter writer = writer_of();
  CHECK(recorder.take(writer));
  CHECK(told(writer.trace()) == "|p 1 2 3g 5 8|p 4 6g 7");
}

TEST_CASE("recorder: a prompt that does not follow begins a sequence, a draft's place may be taken again") {
  ExpertRecorder recorder = recorder_of();
  record(recorder, {{1, 0, true, 1}, {1, 1, false, 2}, {1, 2, false, 3}});  // 3 is a draft
  record(recorder, {{1, 2, false, 4}});
  record(recorder, {{1, 7, true, 5}});  // another request, whose first tokens were in the cache
  record(recorder, {{1, 0, true, 6}});
  ExpertTraceWriter writer = writer_of();
  CHECK(recorder.take(writer));
  CHECK(told(writer.trace()) == "|p 1g 2 3 4|p 5|p 6");
  record(recorder, {{1, 1, false, 7}});
  ExpertTraceWriter later = writer_of();
  CHECK(recorder.take(later));
  CHECK(told(later.trace()) == "|g 7");
}

TEST_CASE("recorder: a step whose layers were not all added is left out") {
  ExpertRecorder recorder = recorder_of();
  record(recorder, {{0, 0, true, 1}});
  {
    Batch batch;
    batch.tokens = {0, 0};
    batch.slots = {0, 0};
    batch.positions = {1, 2};
    const ExpertRecorder::StepScope step(&recorder, batch);
    const std::vector<int32_t> experts = {21, 22, 31, 32};
    recorder.add(kTracedLayers.front().number, {2, 2, experts.data(), nullptr});
  }
  record(recorder, {{0, 3, false, 4}});
  ExpertTraceWriter writer = writer_of();
  CHECK_FALSE(recorder.take(writer));
  CHECK(told(writer.trace()) == "|p 1g 4");
}

TEST_CASE("recorder: a step without room is left out, and reported once") {
  ExpertRecorder recorder = recorder_of(3);
  record(recorder, {{0, 0, true, 1}, {0, 1, true, 2}});
  record(recorder, {{0, 2, true, 3}, {0, 3, true, 4}});
  record(recorder, {{0, 4, false, 5}});
  ExpertTraceWriter writer = writer_of();
  CHECK_FALSE(recorder.take(writer));
  CHECK(told(writer.trace()) == "|p 1 2g 5");
  record(recorder, {{0, 5, false, 6}});
  CHECK(recorder.take(writer));
}

}  // namespace hearth::test
