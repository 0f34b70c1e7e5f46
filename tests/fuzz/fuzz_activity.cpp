// libFuzzer target: reads any bytes, with a checksum appended, as an activity file. The file must be read, or
// refused by ModelFileError and nothing else; what was read must survive being written and read again.
//
// Built with the asan preset; ctest replays the committed corpus and continues for a fixed number of runs.
// One thread.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "engine/activity/activity_file.h"
#include "engine/model/model_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> body = std::as_bytes(std::span(data, size));
  std::vector<std::byte> bytes(body.begin(), body.end());
  for (const uint8_t byte : hearth::sha256(body)) bytes.push_back(static_cast<std::byte>(byte));
  try {
    const hearth::Activity activity = hearth::parse_activity(bytes, "fuzz");
    const std::vector<std::byte> written = hearth::activity_bytes(activity);
    const hearth::Activity again = hearth::parse_activity(written, "fuzz");
    if (again.counts != activity.counts || again.texts != activity.texts) std::abort();
    activity.contributions();
    if (activity.n_tokens() > 0) activity.profile();
  } catch (const hearth::ModelFileError&) {
  } catch (const std::overflow_error&) {  // the sum of all sources overflows
  }
  return 0;
}
