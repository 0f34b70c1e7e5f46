// Recording experts: sequences that share steps are kept apart and in order, prompts are distinguished from
// generated tokens, rejected drafts are removed, and steps that do not fit are omitted.
#include "engine/activity/expert_recorder.h"

#include <initializer_list>

#include "tests/support/catch.h"

namespace hearth::test {
namespace {

const std::vector<TracedLayer> kTracedLayers = {{1, 100}, {3, 100}};

ExpertRecorder recorder_of(int max_tokens = 100) {
  return ExpertRecorder({.layers = kTracedLayers, .n_used = 2, .max_tokens = max_tokens});
}

struct RecordedToken {
  uint64_t sequence;
  int position;
  bool in_prompt;
  int name;  // of the token: it chooses experts 10 name + layer and the one after that
};

void record(ExpertRecorder& recorder, std::initializer_list<RecordedToken> tokens) {
  Batch batch;
  for (const RecordedToken& token : tokens) {
    if (token.in_prompt) batch.prompt_rows.push_back(batch.n_tokens());
    batch.tokens.push_back(0);
    batch.slots.push_back(0);
    batch.sequences.push_back(token.sequence);
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
  record(recorder, {{3, 0, true, 1}, {3, 1, true, 2}});
  record(recorder, {{3, 2, true, 3}, {4, 0, true, 4}});
  record(recorder, {{3, 3, false, 5}, {4, 1, true, 6}});
  record(recorder, {{4, 2, false, 7}, {3, 4, false, 8}});
  record(recorder, {{5, 5, true, 9}});  // the first of its tokens were in the prefix cache
  ExpertTraceWriter writer = writer_of();
  CHECK(recorder.take(writer));
  CHECK(told(writer.trace()) == "|p 1 2 3g 5 8|p 4 6g 7|p 9");
  record(recorder, {{5, 6, false, 10}});
  ExpertTraceWriter later = writer_of();
  CHECK(recorder.take(later));
  CHECK(told(later.trace()) == "|g 10");
}

TEST_CASE("recorder: without numbers of sequences, each slot has one sequence") {
  ExpertRecorder recorder = recorder_of();
  Batch batch;
  batch.tokens = batch.positions = {0, 0};
  batch.slots = {2, 1};
  {
    const ExpertRecorder::StepScope step(&recorder, batch);
    for (const TracedLayer& layer : kTracedLayers) {
      const std::vector<int32_t> experts = {10 + layer.number, 11 + layer.number, 20 + layer.number,
                                            21 + layer.number};
      recorder.add(layer.number, {2, 2, experts.data(), nullptr});
    }
  }
  ExpertTraceWriter writer = writer_of();
  CHECK(recorder.take(writer));
  CHECK(told(writer.trace()) == "|g 2|g 1");
}

TEST_CASE("recorder: rejected drafts are removed, also from the middle of a step") {
  ExpertRecorder recorder = recorder_of();
  record(recorder, {{1, 0, true, 1}, {2, 0, true, 2}});
  record(recorder,
         {{1, 1, false, 3}, {1, 2, false, 4}, {1, 3, false, 5}, {2, 1, false, 6}, {2, 2, false, 7}});
  recorder.reject(1, 2);
  recorder.reject(2, 1);
  recorder.reject(9, 1);  // no such sequence in the step
  record(recorder, {{2, 2, false, 8}, {1, 2, false, 9}});
  ExpertTraceWriter writer = writer_of();
  CHECK(recorder.take(writer));
  CHECK(told(writer.trace()) == "|p 1g 3 9|p 2g 6 8");
}

TEST_CASE("recorder: a token that a sequence computes again is recorded once") {
  ExpertRecorder recorder = recorder_of();
  record(recorder, {{1, 0, true, 1}, {1, 1, true, 2}});
  record(recorder, {{1, 2, false, 3}});
  record(recorder, {{1, 1, true, 2}, {1, 2, false, 3}, {1, 3, false, 4}});  // it was set back
  ExpertTraceWriter writer = writer_of();
  CHECK(recorder.take(writer));
  CHECK(told(writer.trace()) == "|p 1 2g 3 4");
}

TEST_CASE("recorder: a copy lacks the last step, whose drafts may still be rejected") {
  ExpertRecorder recorder = recorder_of();
  const auto copied = [&recorder] {
    ExpertTraceWriter writer = writer_of();
    recorder.copy(writer);
    return told(writer.trace());
  };
  CHECK(copied().empty());
  record(recorder, {{1, 0, true, 1}});
  CHECK(copied().empty());
  record(recorder, {{1, 1, false, 2}, {1, 2, false, 3}});
  CHECK(copied() == "|p 1");
  recorder.reject(1, 1);
  record(recorder, {{1, 2, false, 4}});
  CHECK(copied() == "|p 1g 2");
  ExpertTraceWriter writer = writer_of();
  CHECK(recorder.take(writer));
  CHECK(told(writer.trace()) == "|p 1g 2 4");
  CHECK(copied().empty());
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
  recorder.reject(0, 1);  // of a step that is not there
  record(recorder, {{0, 3, false, 4}});
  ExpertTraceWriter writer = writer_of();
  CHECK_FALSE(recorder.take(writer));
  CHECK(told(writer.trace()) == "|p 1g 4");
}

TEST_CASE("recorder: after a step without room nothing is recorded until what is there was taken") {
  ExpertRecorder recorder = recorder_of(3);
  record(recorder, {{0, 0, true, 1}, {0, 1, true, 2}});
  CHECK_FALSE(recorder.full());
  record(recorder, {{0, 2, true, 3}, {0, 3, true, 4}});
  CHECK(recorder.full());
  record(recorder, {{0, 4, false, 5}});  // it would have room, but would leave a gap
  recorder.reject(0, 1);
  ExpertTraceWriter writer = writer_of();
  recorder.copy(writer);
  CHECK(told(writer.trace()) == "|p 1 2");
  ExpertTraceWriter taken = writer_of();
  CHECK_FALSE(recorder.take(taken));
  CHECK(told(taken.trace()) == "|p 1 2");
  CHECK_FALSE(recorder.full());
  record(recorder, {{0, 5, false, 6}});
  CHECK(recorder.take(taken));
  CHECK(told(taken.trace()) == "|p 1 2|g 6");
}

}  // namespace hearth::test
