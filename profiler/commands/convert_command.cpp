// Defines the convert subcommand: its options and its output.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/file_error.h"
#include "profiler/commands/commands.h"
#include "profiler/convert/convert.h"
#include "profiler/convert/family.h"
#include "profiler/options/command_line.h"
#include "profiler/options/terminal.h"

namespace hearth {
namespace {

/// Returns the end of the help text: the list of architectures that can be converted.
std::string known_models() {
  constexpr size_t kWidth = 100;
  std::string text = "Models of these architectures convert:";
  size_t n_line = kWidth;
  for (const convert::Family& family : convert::families()) {
    const bool breaks = n_line + family.architecture.size() >= kWidth;
    text += (breaks ? "\n  " : " ") + std::string(family.architecture);
    n_line = (breaks ? 2 : n_line + 1) + family.architecture.size();
  }
  return text + "\ndocs/models.md says which classes of Hugging Face's library these are.";
}

const std::vector<std::string> kTypes = {"auto", "f32", "f16", "bf16", "q8_0"};

/// Converts the type's name to lower case. Returns an error message, or an empty string if the type is valid.
std::string known_type(std::string& type) {
  std::ranges::transform(type, type.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (std::ranges::find(kTypes, type) != kTypes.end()) return "";
  return fmt::format(
      "There is no type {} to convert to, expected one of {}. For a smaller type convert first, then: "
      "hearth-profiler quantize",
      type, fmt::join(kTypes, ", "));
}

int run_convert(const convert::ConvertOptions& options) {
  const SignalWatch watch;  // on a signal, lets the program remove the partly written file before it exits
  convert::ConvertResult result;
  try {
    ProgressLine line("Converting");
    result = convert::convert_checkpoint(options, [&](double fraction) {
      if (watch.stopped()) throw Interrupted{};
      line.update(fraction);
    });
  } catch (const Interrupted&) {
    std::fputs("hearth-profiler: interrupted; the unfinished file is removed.\n", stderr);
    return watch.exit_code();
  }
  if (result.n_beyond_half > 0) {
    std::fprintf(stderr,
                 "hearth-profiler: %s values are beyond half precision and became infinite; convert with "
                 "--type bf16 instead.\n",
                 file_error::with_commas(result.n_beyond_half).c_str());
  }
  print_result(file_error::file_label(options.out.string()) + ": " + result.architecture + ", " +
               file_error::with_commas(result.n_elements) + " parameters in " +
               std::to_string(result.n_tensors) + " tensors, " + std::string(dtype_info(result.type).name) +
               ", " + file_error::with_commas(result.file_bytes) + " bytes\n");
  return 0;
}

}  // namespace

std::function<int()> add_convert_command(CLI::App& app) {
  // Shared by the options' callbacks and the returned function.
  const auto options = std::make_shared<convert::ConvertOptions>();
  CLI::App* command = app.add_subcommand("convert", "Make a GGUF file of a Hugging Face model's folder");
  command->footer(known_models());
  command
      ->add_option("DIR", options->folder,
                   "Folder with config.json, safetensors files and the tokenizer's files")
      ->required()
      ->type_name("");
  command->add_option("--out,-o", options->out, "File to write")->required()->type_name("FILE");
  command
      ->add_option("--type,-t", options->type,
                   "Type of the matrices: auto (the checkpoint's own, bf16 or f16), f32, f16, bf16 or q8_0. "
                   "Norms, biases and "
                   "routers are always f32")
      ->type_name("TYPE")
      ->transform(CLI::Validator(known_type, "", "type"))
      ->capture_default_str();
  command->add_option("--name", options->name, "The model's name in the file (default: the folder's)")
      ->type_name("NAME");
  command
      ->add_option("--pre", options->pre,
                   "How the tokenizer cuts text into words, a name of docs/models.md (default: found from "
                   "tokenizer.json)")
      ->type_name("NAME");
  command->add_flag("--force", options->replace, "Replace the file if it exists");
  return [options] { return run_convert(*options); };
}

}  // namespace hearth
