// Prints what is read from the files that identify a model's hot neurons, for the comparison with PyTorch and
// gguf.
//
// test_activity_oracle.py uses it:
//   activity_dump tensor FILE                the elements, one per line, as hexadecimal floats
//   activity_dump find MODEL N_LAYERS D_FF   the message; then the ids of one layer per line, hottest first
//   activity_dump counts FOLDER N_LAYERS D_FF   an empty line; then the same for PowerInfer's counts
// For a refused file it prints the message to standard error and exits with code 2.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "engine/activity/activity_profile.h"
#include "engine/model/gguf/mapped_file.h"
#include "engine/model/model_file.h"
#include "profiler/import/activation_counts.h"
#include "profiler/import/torch_tensor.h"

namespace {

void print_tensor(const char* path) {
  const hearth::gguf::MappedFile file = hearth::gguf::MappedFile::open(path);
  for (const double element : hearth::read_torch_vector(file.bytes(), path)) std::printf("%a\n", element);
}

void print_order(const hearth::ActivityProfile& profile) {
  for (int layer = 0; layer < static_cast<int>(profile.counts.size()); ++layer) {
    for (const int32_t id : profile.hottest_first(layer)) std::printf("%d ", id);
    std::printf("\n");
  }
}

void print_found(const char* model, int n_layers, int d_ff) {
  const hearth::FoundActivity found = hearth::find_activity(model, n_layers, d_ff);
  std::printf("%s\n", found.sentence.c_str());
  if (found.profile) print_order(*found.profile);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  try {
    if (command == "tensor" && argc == 3) {
      print_tensor(argv[2]);
    } else if (command == "find" && argc == 5) {
      print_found(argv[2], std::atoi(argv[3]), std::atoi(argv[4]));
    } else if (command == "counts" && argc == 5) {
      std::printf("\n");
      print_order(hearth::read_activation_counts(argv[2], std::atoi(argv[3]), std::atoi(argv[4])));
    } else {
      std::fprintf(
          stderr,
          "usage: activity_dump tensor FILE | find MODEL N_LAYERS D_FF | counts FOLDER N_LAYERS D_FF\n");
      return 2;
    }
  } catch (const hearth::ModelFileError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
