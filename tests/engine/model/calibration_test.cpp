// The side file of calibrated sparsity: what is written can be read, and a damaged or missing file, or one
// for another model, is reported in a sentence.
#include "engine/model/calibration.h"

#include <filesystem>
#include <fstream>
#include <limits>

#include "engine/model_runtime.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hearth::test {
namespace {

namespace fs = std::filesystem;

/// A SwiGLU model with two layers on disk.
struct ModelOnDisk {
  explicit ModelOnDisk(const TinyShape& shape = {}) : path(folder / "model.gguf") {
    TinyModel("llama", shape).write(path);
  }
  ModelFile file() const { return ModelFile::open(path); }
  void write(const Calibration& calibration) const {
    const ModelFile model = file();
    write_calibration(model, read_model_spec(model, ""), calibration);
  }
  Calibration read() const {
    const ModelFile model = file();
    return read_calibration(model, read_model_spec(model, ""));
  }
  std::string complaint() const {
    try {
      read();
    } catch (const ModelFileError& error) {
      return error.what();
    }
    return {};
  }
  fs::path side_file() const { return calibration_path(path); }
  TempFolder folder;
  fs::path path;
};

Calibration some() {
  return {.thresholds = {0.25f, 0.0f},
          .text_sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
          .fidelity_budget = 0.01,
          .dense_perplexity = 18.5,
          .perplexity = 18.6,
          .skipped = 0.45};
}

/// A side file for the model with these thresholds.
GgufWriter side_file_of(const ModelOnDisk& disk, const std::vector<float>& thresholds) {
  GgufWriter writer;
  writer.key("general.architecture", "hearth.calibration")
      .key("calibration.model_bytes", static_cast<int64_t>(fs::file_size(disk.path)))
      .key("calibration.block_count", int64_t{2})
      .key("calibration.feed_forward_length", int64_t{48})
      .key("calibration.text_sha256", "0")
      .key("calibration.fidelity_budget", 0.01)
      .key("calibration.dense_perplexity", 2.0)
      .key("calibration.perplexity", 2.0)
      .key("calibration.skipped", 0.5)
      .array("calibration.thresholds", thresholds);
  return writer;
}

}  // namespace

TEST_CASE("calibration: what is written is read, and replaced whole") {
  const ModelOnDisk disk;
  disk.write(some());
  CHECK(disk.side_file().filename() == "model.gguf.calibration");
  const Calibration read = disk.read();
  CHECK(read.thresholds == some().thresholds);
  CHECK(read.text_sha256 == some().text_sha256);
  CHECK(read.fidelity_budget == 0.01);
  CHECK(read.dense_perplexity == 18.5);
  CHECK(read.perplexity == 18.6);
  CHECK(read.skipped == 0.45);
  Calibration other = some();
  other.thresholds = {1.0f, 2.0f};
  disk.write(other);
  CHECK(disk.read().thresholds == other.thresholds);
  // Nothing else is left in the folder.
  CHECK(std::distance(fs::directory_iterator(disk.folder.path()), fs::directory_iterator()) == 2);
}

TEST_CASE("calibration: without a side file the message names the command") {
  const ModelOnDisk disk;
  CHECK_THAT(
      disk.complaint(),
      ContainsSubstring("model.gguf: ") && ContainsSubstring("model.gguf.calibration") &&
          ContainsSubstring("does not exist") &&
          ContainsSubstring("hearth-profiler calibrate --model " + disk.path.string() + " --text FILE"));
  LoadOptions options;
  options.path = disk.path;
  options.n_threads = 1;
  options.sparsity.mode = "calibrated";
  CHECK_THROWS_AS(ModelRuntime::load(options), ModelFileError);
  disk.write(some());
  CHECK(ModelRuntime::load(options)->placed().sparsity.mode == Sparsity::kCalibrated);
}

TEST_CASE("calibration: another model's side file is refused") {
  const ModelOnDisk disk;
  TinyShape wider;
  wider.d_ff = 64;
  const ModelOnDisk other(wider);
  other.write(some());
  fs::copy_file(other.side_file(), disk.side_file());
  CHECK_THAT(disk.complaint(), ContainsSubstring("model.gguf.calibration: ") &&
                                   ContainsSubstring("of another model") &&
                                   ContainsSubstring("hearth-profiler calibrate"));
  // Equal shapes in a file of another size are refused too.
  GgufWriter larger = side_file_of(disk, {1, 1});
  larger.write(disk.side_file());
  CHECK(disk.complaint().empty());
  std::ofstream(disk.path, std::ios::app | std::ios::binary) << std::string(32, '\0');
  CHECK_THAT(disk.complaint(), ContainsSubstring("of another model"));
}

TEST_CASE("calibration: impossible thresholds are refused") {
  const ModelOnDisk disk;
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& thresholds :
       {std::vector<float>{1, nan}, {inf, 1}, {-1, 1}, {1}, {1, 1, 1}, {}}) {
    side_file_of(disk, thresholds).write(disk.side_file());
    INFO(thresholds.size());
    CHECK_THAT(disk.complaint(),
               ContainsSubstring("model.gguf.calibration: ") && ContainsSubstring("calibration.thresholds") &&
                   ContainsSubstring("not 2 numbers") && ContainsSubstring("hearth-profiler calibrate"));
  }
}

TEST_CASE("calibration: a damaged side file is refused in a sentence") {
  const ModelOnDisk disk;
  disk.write(some());
  std::ifstream in(disk.side_file(), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  // Cut anywhere, it is no GGUF file or lacks a key; it is never read as thresholds.
  for (size_t n = 0; n < whole.size(); n += 7) {
    std::ofstream(disk.side_file(), std::ios::binary) << whole.substr(0, n);
    const std::string said = disk.complaint();
    INFO(n << ": " << said);
    const bool only_padding_is_gone = said.empty() && disk.read().thresholds == some().thresholds;
    CHECK((only_padding_is_gone || said.find("model.gguf.calibration") != std::string::npos));
  }
  // A GGUF file of another kind.
  fs::copy_file(disk.path, disk.side_file(), fs::copy_options::overwrite_existing);
  CHECK_THAT(disk.complaint(), ContainsSubstring("is not a calibration"));
}

}  // namespace hearth::test
