// libFuzzer target: reads any bytes, with a checksum appended, as a trace of experts. The file must be read,
// or refused with ModelFileError and nothing else; what was read must survive being written and read again.
//
// Built with the asan preset; ctest replays the committed corpus and continues for a fixed number of runs.
// One thread.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "engine/activity/expert_trace.h"
#include "engine/model/model_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> body = std::as_bytes(std::span(data, size));
  std::vector<std::byte> bytes(body.begin(), body.end());
  for (const uint8_t byte : hearth::sha256(body)) bytes.push_back(static_cast<std::byte>(byte));
  try {
    const hearth::ExpertTrace trace = hearth::parse_expert_trace(bytes, "fuzz");
    const hearth::ExpertTrace again = hearth::parse_expert_trace(hearth::expert_trace_bytes(trace), "fuzz");
    if (again.runs != trace.runs || again.experts != trace.experts || again.layers != trace.layers) {
      std::abort();
    }
    if (trace.n_tokens() > 0) trace.chosen(trace.n_tokens() - 1, trace.layers.size() - 1);
  } catch (const hearth::ModelFileError&) {
  }
  return 0;
}
