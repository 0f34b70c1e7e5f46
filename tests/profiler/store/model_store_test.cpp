// The store: models in a folder are found by name, and nothing else is touched.
#include "profiler/store/model_store.h"

#include <fstream>

#include "profiler/store/hub.h"
#include "profiler/store/part_file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

using namespace hearth;
using hearth::test::TempFolder;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// Stores a file as a pull does.
void put(const ModelStore& store, const std::string& id, const std::string& file,
         const std::string& commit = "abcdef0123") {
  const size_t slash = id.find('/');
  const HubReference reference{.owner = id.substr(0, slash),
                               .repository = id.substr(slash + 1),
                               .revision = {},
                               .file = {},
                               .quant = {}};
  const fs::path place = store.place_of(reference, file);
  write(place, "GGUF");
  store.write_origin(place, {.source = "hf:" + id,
                             .revision = {},
                             .commit = commit,
                             .file = file,
                             .sha256 = {},
                             .size = 4,
                             .pulled = {}});
}

std::string found(const ModelStore& store, std::string_view reference) {
  const std::optional<StoredModel> model = store.find(parse_model_reference(reference));
  return model ? model->path().lexically_relative(store.folder()).string() : "";
}

}  // namespace

TEST_CASE("store: a missing or empty folder holds no model") {
  const TempFolder folder;
  CHECK(ModelStore(folder / "none").list(true).empty());
  CHECK(found(ModelStore(folder / "none"), "hf:a/b").empty());
}

TEST_CASE("store: models are found by reference, quantization, file, revision and name") {
  const TempFolder folder;
  const ModelStore store(folder.path());
  put(store, "a/b", "x-Q8_0.gguf");
  put(store, "a/b", "x-Q4_K_M.gguf");
  put(store, "c/d", "s/y-Q2_K.gguf");
  CHECK(found(store, "hf:a/b") == "a/b/x-Q4_K_M.gguf");
  CHECK(found(store, "hf:a/b:q8_0") == "a/b/x-Q8_0.gguf");
  CHECK(found(store, "hf:a/b:x-Q8_0.gguf") == "a/b/x-Q8_0.gguf");
  CHECK(found(store, "hf:a/b:Q5_0").empty());
  CHECK(found(store, "hf:a/b@abcdef0").size() > 0);
  CHECK(found(store, "hf:a/b@1234567").empty());
  CHECK(found(store, "hf:a/other").empty());
  CHECK(found(store, "hf:c/d") == "c/d/s/y-Q2_K.gguf");
  CHECK(found(store, "X-q8_0") == "a/b/x-Q8_0.gguf");
  put(store, "e/f", "x-Q8_0.gguf");
  CHECK_THROWS_AS(found(store, "x-Q8_0"), ReferenceError);
}

TEST_CASE("store: model files that a user put there count too; hidden and other files do not") {
  const TempFolder folder;
  const ModelStore store(folder.path());
  write(folder / "mine.gguf", "GGUF");
  write(folder / ".hidden.gguf", "x");
  write(folder / ".git/y.gguf", "x");
  write(folder / "notes.txt", "x");
  fs::create_directories(folder / "folder.gguf");
  const std::vector<StoredModel> models = store.list(true);
  REQUIRE(models.size() == 1);
  CHECK(models[0].name == "mine");
  CHECK_FALSE(models[0].origin.has_value());
  CHECK(found(store, "mine") == "mine.gguf");
}

TEST_CASE("store: a split model counts as one, and is found only when complete") {
  const TempFolder folder;
  const ModelStore store(folder.path());
  put(store, "a/b", "x-Q8_0-00001-of-00002.gguf");
  REQUIRE(store.list(false).size() == 1);
  CHECK_FALSE(store.list(false)[0].complete());
  CHECK(found(store, "hf:a/b").empty());
  put(store, "a/b", "x-Q8_0-00002-of-00002.gguf");
  CHECK(store.list(false)[0].complete());
  CHECK(found(store, "hf:a/b") == "a/b/x-Q8_0-00001-of-00002.gguf");
  CHECK(found(store, "x-Q8_0") == "a/b/x-Q8_0-00001-of-00002.gguf");
}

TEST_CASE("store: an unfinished download is listed as such, and removing it leaves nothing") {
  const TempFolder folder;
  const ModelStore store(folder.path());
  const HubReference reference{.owner = "a", .repository = "b", .revision = {}, .file = {}, .quant = {}};
  const fs::path partial = store.partial_of(store.place_of(reference, "x-Q8_0.gguf"));
  CHECK(partial == folder / ".partial/a/b/x-Q8_0.gguf");
  {
    PartFile part(partial, [] {});
    part.reserve(1000);
    part.state().size = 1000;
    part.append(std::string(300, 'x'));
    part.save();
  }
  CHECK(found(store, "hf:a/b").empty());
  const std::vector<StoredModel> models = store.list(true);
  REQUIRE(models.size() == 1);
  CHECK(models[0].unfinished);
  CHECK(models[0].bytes == 1000);
  CHECK(models[0].bytes_there == 300);
  REQUIRE(store.named("x-Q8_0").size() == 1);
  store.remove(models[0]);
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("store: removing a model also removes its origin and empty folders, and nothing else") {
  const TempFolder folder;
  const ModelStore store(folder / "models");
  put(store, "a/b", "x.gguf");
  put(store, "a/c", "y.gguf");
  store.remove(store.named("x").at(0));
  CHECK_FALSE(fs::exists(folder / "models/a/b"));
  CHECK(fs::exists(folder / "models/a/c/y.gguf"));
  store.remove(store.named("a/c/y").at(0));
  CHECK(fs::exists(folder / "models"));
  CHECK(fs::is_empty(folder / "models"));
}

TEST_CASE("store: an hf: reference names all models of its repository, or that of its quantization or file") {
  const TempFolder folder;
  const ModelStore store(folder.path());
  put(store, "a/b", "x-Q8_0.gguf");
  put(store, "a/b", "s/x-Q4_0.gguf");
  put(store, "a/bc", "x-Q4_0.gguf");
  CHECK(store.named("hf:a/b").size() == 2);
  CHECK(store.named("hf:a/b:q4_0").size() == 1);
  CHECK(store.named("hf:a/b:s/x-Q4_0.gguf").size() == 1);
  CHECK(store.named("hf:a/none").empty());
  CHECK(store.named("../b").empty());
}

TEST_CASE("store: an origin is read back, and a damaged one is ignored") {
  const ModelOrigin origin{.source = "hf:a/b",
                           .revision = "main",
                           .commit = "abc",
                           .file = "x",
                           .sha256 = "d",
                           .size = 7,
                           .pulled = "now"};
  const std::optional<ModelOrigin> again = parse_origin(origin_text(origin));
  REQUIRE(again);
  CHECK(again->source == "hf:a/b");
  CHECK(again->size == 7);
  for (const std::string_view bad :
       {"", "{", "[]", "{}", R"({"hearth_origin": 1})", R"({"hearth_origin": 2, "source": "x"})"})
    CHECK_FALSE(parse_origin(bad).has_value());
}

TEST_CASE("store: its folder is --models, or else models in the cache folder") {
  const TempFolder folder;
  Options options;
  const Environment environment = {{"XDG_CACHE_HOME", folder.path().string()}};
  CHECK(model_store(options, environment).folder() == folder / "hearth/models");
  options.models = (folder / "m/").string();
  CHECK(model_store(options, environment).folder() == folder / "m");
  options.models.clear();
  CHECK_THROWS_AS(model_store(options, {}), ReferenceError);
}

TEST_CASE("store: a failure to delete is reported in a sentence") {
  const TempFolder folder;
  const ModelStore store(folder.path());
  StoredModel model;
  model.name = "a";
  model.parts = {folder / "a.gguf"};
  fs::create_directories(folder / "a.gguf/not empty");
  CHECK_THROWS_AS(store.remove(model), PullError);
  CHECK_THROWS_WITH(store.remove(model), ContainsSubstring("a.gguf cannot be deleted") &&
                                             ContainsSubstring("check the permissions"));
}
