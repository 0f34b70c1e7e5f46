// Facts from a model's file, for endpoints that describe models.
//
// Read once, when the model is loaded. Plain data.
#pragma once

#include <cstdint>
#include <string>

#include "engine/model/model_file.h"
#include "engine/model/model_spec.h"
#include "server/json/json.h"

namespace hearth {

struct ModelFileFacts {
  std::string architecture;  // general.architecture
  std::string quantization;  // the type of most weights, for example "Q4_1"
  std::string digest;        // content_hash(): 64 hexadecimal digits that identify the weights
  int64_t n_parameters = 0;
  int64_t file_bytes = 0;    // total of all parts
  int64_t modified = 0;      // Unix seconds of the file's last change; 0 if unknown
  int64_t device_bytes = 0;  // GPU memory planned for the model
  bool generates = true;     // false for an encoder, and for a model that ranks texts
  /// The file's metadata. Arrays are replaced by null, because they may be as long as the vocabulary. The
  /// chat template is omitted.
  Json keys = Json::object();
};

/// Reads all facts except device_bytes.
ModelFileFacts read_model_file_facts(const ModelFile& file, const ModelSpec& spec);

}  // namespace hearth
