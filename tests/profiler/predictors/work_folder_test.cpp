// The files of a training run: checkpoints come back as they were or not at all, and a folder belongs to
// one run.
#include "profiler/predictors/work_folder.h"

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "profiler/synthesis/normal_stream.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace hearth::test {
namespace {

constexpr int kModel = 5, kNeurons = 6;

LayerTraining some_training(bool with_moments) {
  LayerTraining training;
  training.net = empty_net(kModel, kNeurons);
  add_units(training.net, 3, 1);
  NormalStream random(2);
  random.fill(training.net.out);
  training.n_steps = 123;
  training.last_missed = 0.25;
  training.finished = !with_moments;
  if (with_moments) {
    NetTrainer::Moments& moments = training.moments;
    moments.n_steps = 456;
    for (std::vector<float>* m : {&moments.in, &moments.in_squares}) {
      m->resize(training.net.in.size());
      random.fill(*m);
    }
    for (std::vector<float>* m : {&moments.out, &moments.out_squares}) {
      m->resize(training.net.out.size());
      random.fill(*m);
    }
  }
  return training;
}

void check_same(const LayerTraining& a, const LayerTraining& b) {
  CHECK(a.net.rank == b.net.rank);
  CHECK(a.net.in == b.net.in);
  CHECK(a.net.out == b.net.out);
  CHECK(a.moments.in == b.moments.in);
  CHECK(a.moments.in_squares == b.moments.in_squares);
  CHECK(a.moments.out == b.moments.out);
  CHECK(a.moments.out_squares == b.moments.out_squares);
  CHECK(a.moments.n_steps == b.moments.n_steps);
  CHECK(a.n_steps == b.n_steps);
  CHECK(a.last_missed == b.last_missed);
  CHECK(a.finished == b.finished);
}

std::string message(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("checkpoints: they are read back as written") {
  for (const bool with_moments : {false, true}) {
    const LayerTraining training = some_training(with_moments);
    const std::optional<LayerTraining> back = parse_checkpoint(checkpoint_bytes(training), kModel, kNeurons);
    REQUIRE(back);
    check_same(*back, training);
  }
}

TEST_CASE("checkpoints: changed, cut or of another shape, they are not accepted") {
  const std::string bytes = checkpoint_bytes(some_training(true));
  CHECK(!parse_checkpoint(bytes, kModel + 1, kNeurons));
  CHECK(!parse_checkpoint(bytes, kModel, kNeurons - 1));
  CHECK(!parse_checkpoint(bytes + "x", kModel, kNeurons));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x20);
    if (parse_checkpoint(changed, kModel, kNeurons)) FAIL("byte " << i << " changed and nobody saw it");
    if (parse_checkpoint(bytes.substr(0, i), kModel, kNeurons)) FAIL("cut at " << i << " and nobody saw it");
  }
}

TEST_CASE("work folder: it saves, loads, and is removed when all is done") {
  const TempFolder temp;
  const std::filesystem::path path = temp / "work";
  {
    const WorkFolder folder(path, "run 1\n", false);
    CHECK(!folder.load(4, kModel, kNeurons));
    folder.save(4, some_training(true));
  }
  WorkFolder folder(path, "run 1\n", false);
  const std::optional<LayerTraining> back = folder.load(4, kModel, kNeurons);
  REQUIRE(back);
  check_same(*back, some_training(true));
  folder.save(4, some_training(false));
  CHECK(folder.load(4, kModel, kNeurons)->finished);
  const MappedNet mapped = folder.map(4, kModel, kNeurons);
  folder.remove();
  CHECK(!std::filesystem::exists(path));
  // A net mapped from its file equals the net, and stays valid when the file is removed.
  const PredictorNet net = some_training(false).net;
  CHECK(mapped.net.rank == net.rank);
  CHECK(std::ranges::equal(mapped.net.in, net.in));
  CHECK(std::ranges::equal(mapped.net.out, net.out));
}

TEST_CASE("work folder: another run's folder is refused, or emptied with restart") {
  const TempFolder temp;
  const std::filesystem::path path = temp / "work";
  {
    const WorkFolder folder(path, "run 1\n", false);
    folder.save(0, some_training(true));
  }
  CHECK(message([&] { WorkFolder(path, "run 2\n", false); }).find("--restart") != std::string::npos);
  const WorkFolder folder(path, "run 2\n", true);
  CHECK(!folder.load(0, kModel, kNeurons));
  CHECK(message([&] { WorkFolder(path, "run 2\n", false); }).find("another program") != std::string::npos);
}

TEST_CASE("work folder: damage is reported, and other files are left alone") {
  const TempFolder temp;
  const std::filesystem::path path = temp / "work";
  {
    const WorkFolder folder(path, "run\n", false);
    folder.save(1, some_training(true));
    const std::filesystem::path file = path / "layer-001.checkpoint";
    REQUIRE(std::filesystem::exists(file));
    std::fstream(file, std::ios::binary | std::ios::in | std::ios::out).seekp(40).put('\x55');
    CHECK(message([&] { folder.load(1, kModel, kNeurons); }).find("damaged") != std::string::npos);
    CHECK(message([&] { folder.map(1, kModel, kNeurons); }).find("damaged") != std::string::npos);
    CHECK(message([&] { folder.map(2, kModel, kNeurons); }).find("layer-002") != std::string::npos);
  }
  const std::filesystem::path home = temp / "home";
  std::filesystem::create_directory(home);
  std::ofstream(home / "letters.txt") << "mine";
  CHECK(message([&] { WorkFolder(home, "run\n", true); }).find("letters.txt") != std::string::npos);
  CHECK(std::filesystem::exists(home / "letters.txt"));
  std::ofstream(temp / "file") << "";
  CHECK(message([&] { WorkFolder(temp / "file", "run\n", false); }).find("cannot be made") !=
        std::string::npos);
}

}  // namespace hearth::test
