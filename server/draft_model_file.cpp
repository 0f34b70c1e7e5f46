// See the header.
#include "server/draft_model_file.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/model/assistant_weights.h"
#include "engine/resolved_load.h"
#include "engine/tokenizer/same_vocabulary.h"
#include "profiler/engine_options.h"
#include "server/process/logging.h"
#include "server/process/start_error.h"

namespace hearth {
namespace {

void check_vocabularies(const std::string& label, const ModelFile& model, const ModelFile& file) {
  if (const auto difference = vocabulary_difference(read_vocabulary(model), read_vocabulary(file))) {
    throw StartError(label + "its vocabulary differs from the model's, so it cannot draft: " + *difference +
                     "; take a small model of the same family");
  }
}

}  // namespace

std::shared_ptr<const ModelFile> open_draft_model(const Options& options, const ModelFile& model) try {
  if (options.draft_model.empty()) return nullptr;
  const std::string label = "--draft-model " + options.draft_model + ": ";
  if (options.speculate == Options::Speculate::kOff)
    throw StartError(label + "--speculate off drafts nothing; leave out one of the two");
  auto file = std::make_shared<const ModelFile>(ModelFile::open(options.draft_model));
  if (is_assistant(*file)) {
    const ModelSpec spec = read_model_spec(model, options.ffn_activation);
    bind_assistant(*file, spec, bind_weights(model, spec));  // throws if it belongs to another model
    check_vocabularies(label, model, *file);
    return file;
  }
  const ModelSpec drafts = read_model_spec(*file, {});
  if (!drafts.arch.has_output || !read_model_spec(model, options.ffn_activation).arch.has_output) {
    throw StartError(label +
                     "it or the model is an encoder or a reranker, which generates no text; leave it out, or "
                     "take two models that generate");
  }
  if (drafts.recurrent) {
    throw StartError(label +
                     "it has recurrent layers, whose states cannot return to an earlier token after a "
                     "rejected draft; take a small model without such layers, or leave it out: the model may "
                     "have them");
  }
  check_vocabularies(label, model, *file);
  return file;
} catch (const ModelFileError& error) {
  throw StartError(error.what());
} catch (const std::invalid_argument& error) {
  throw StartError(std::string("--draft-model: ") + error.what());
}

std::unique_ptr<ModelRuntime> load_draft_model(std::shared_ptr<const ModelFile> file, const ModelFile& model,
                                               const Options& options,
                                               std::function<void(double)> progress) try {
  LoadOptions load = host_options(options);
  load.path = options.draft_model;
  load.n_slots = options.slots;
  const int possible = std::min(read_model_spec(model, options.ffn_activation).context_train,
                                read_model_spec(*file, {}).context_train);
  load.context_tokens = std::min(possible, options.context > 0 ? options.context : kDefaultContext);
  load.warn = [](const std::string& sentence) { log_warning("draft model: " + sentence); };
  load.file = std::move(file);
  load.progress = std::move(progress);
  return ModelRuntime::load(load);
} catch (const ModelFileError& error) {
  throw StartError(error.what());
} catch (const std::invalid_argument& error) {
  throw StartError(std::string("--draft-model: ") + error.what());
}

}  // namespace hearth
