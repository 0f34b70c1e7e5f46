// Reads any bytes as one of the inputs of a pull: the hub's description of a repository, heads of answers,
// the state beside an unfinished download, an origin, a model's name. The first byte chooses which.
//
// Accepted input must satisfy the headers' promises: paths below the store, ranges within the file, messages
// of one line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "profiler/store/choice.h"
#include "profiler/store/hub.h"
#include "profiler/store/model_store.h"
#include "profiler/store/part_file.h"
#include "profiler/store/reference.h"
#include "server/models/exchange.h"

namespace {

using namespace hearth;

void require(bool holds) {
  if (!holds) std::abort();
}

bool is_sentence(const std::exception& error) {
  for (const char* c = error.what(); *c != 0; ++c)
    if (static_cast<unsigned char>(*c) < 0x20) return false;
  return true;
}

void read_description(std::string_view text) {
  const HubRepository repository = parse_repository(text, "hf:a/b");
  for (const HubFile& file : repository.files) {
    require(is_safe_path(file.path));
    require(file.sha256.empty() || is_sha256(file.sha256));
  }
  const std::vector<ModelFilesOnHub> models = models_in(repository.files);
  const HubReference reference{.owner = "a", .repository = "b", .revision = {}, .file = {}, .quant = {}};
  const ModelFilesOnHub chosen = chosen_model(models, reference);
  require(chosen.complete && !chosen.parts.empty());
}

void read_state(std::string_view text) {
  const std::optional<PartState> state = parse_part_state(text);
  if (!state) return;
  require(state->sha256.empty() || is_sha256(state->sha256));
  const std::optional<PartState> again = parse_part_state(part_state_text(*state));
  require(again && again->size == state->size && again->sha256 == state->sha256);
}

void read_head(std::string_view text) {
  TransferHead head;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    read_head_line(text.substr(0, end), head);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  if (head.content_range)
    require(head.content_range->begin < head.content_range->end &&
            head.content_range->end <= *head.content_total);
}

void read_name(std::string_view text) {
  const ModelReference reference = parse_model_reference(text);
  const ModelStore store("/store");
  std::string place;
  if (const HubReference* hub = std::get_if<HubReference>(&reference)) {
    require(hub->file.empty() || is_safe_path(hub->file));
    place = store.place_of(*hub, "x.gguf").lexically_normal().string();
  }
  if (const UrlReference* url = std::get_if<UrlReference>(&reference))
    place = store.place_of(*url).lexically_normal().string();
  require(place.empty() || place.starts_with("/store/"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0]) {
      case 'd':
        read_description(text);
        break;
      case 's':
        read_state(text);
        break;
      case 'h':
        read_head(text);
        break;
      case 'o':
        parse_origin(text);
        break;
      default:
        read_name(text);
    }
  } catch (const PullError& error) {
    require(is_sentence(error));
  } catch (const ReferenceError& error) {
    require(is_sentence(error));
  }
  return 0;
}
