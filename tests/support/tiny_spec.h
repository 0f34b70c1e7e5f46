// Reads the facts of a TinyModel, for tests of the readers of keys.
#pragma once

#include <string>

#include "engine/model/model_spec.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {

inline ModelSpec spec_of(const TinyModel& model) {
  const TempFolder folder;
  model.write(folder / "model.gguf");
  return read_model_spec(ModelFile::open(folder / "model.gguf"));
}

/// The error of reading the model's facts, after checking that it is one line that names the file; empty if
/// there is none.
inline std::string complaint(const TinyModel& model) {
  try {
    spec_of(model);
  } catch (const ModelFileError& error) {
    const std::string text = error.what();
    CHECK_THAT(text, ContainsSubstring("model.gguf: "));
    CHECK(text.find('\n') == std::string::npos);
    return text;
  }
  return {};
}

}  // namespace hearth::test
