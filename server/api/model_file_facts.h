// What a model's file says about the model, for endpoints that describe it.
//
// Read once, when the model is loaded; plain data after that.
#pragma once

#include <cstdint>
#include <string>

#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "server/json/json.h"

namespace hearth {

struct ModelFileFacts {
  std::string architecture;  // general.architecture
  std::string quantization;  // the type of most of its weights: "Q4_1"
  std::string digest;        // 64 hexadecimal digits that stand for the weights (content_hash())
  int64_t n_parameters = 0;
  int64_t file_bytes = 0;    // of all parts
  int64_t modified = 0;      // Unix seconds: when the file was last changed; 0 if the system does not tell
  int64_t device_bytes = 0;  // of the GPU's memory, planned for it
  /// The file's keys and values. Arrays, which may be as long as the vocabulary, are null; the chat template is left out.
  Json keys = Json::object();
};

/// Everything but device_bytes.
ModelFileFacts read_model_file_facts(const ModelFile& file, const ModelSpec& spec);

}  // namespace hearth
