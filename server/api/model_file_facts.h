// Facts from a model's file, for endpoints that describe the model.
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
  std::string quantization;  // the type of most weights: "Q4_1"
  std::string digest;        // 64 hexadecimal digits that identify the weights (content_hash())
  int64_t n_parameters = 0;
  int64_t file_bytes = 0;    // total of all parts
  int64_t modified = 0;      // Unix seconds of the file's last change; 0 if unknown
  int64_t device_bytes = 0;  // GPU memory planned for the model
  /// The file's metadata keys and values. Arrays, which may be as long as the vocabulary, are null; the chat
  /// template is omitted.
  Json keys = Json::object();
};

/// Reads everything except device_bytes.
ModelFileFacts read_model_file_facts(const ModelFile& file, const ModelSpec& spec);

}  // namespace hearth
