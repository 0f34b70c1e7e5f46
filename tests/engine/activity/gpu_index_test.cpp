// PowerInfer's GPU index: it marks this model's neurons, or a message describes the file.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/activity/gpu_index.h"
#include "engine/model/model_file.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_writer.h"

namespace hearth::test {
namespace {

constexpr uint32_t kInt32 = 18;  // as PowerInfer numbers its types

GgufWriter& ints(GgufWriter& writer, const std::string& name, const std::vector<int32_t>& values) {
  return writer.raw_tensor(name, kInt32, {values.size()}, std::as_bytes(std::span(values)));
}

// The keys as PowerInfer's exporter writes them.
GgufWriter header(uint32_t n_layers) {
  GgufWriter writer;
  writer.magic("PWRI").key("general.architecture", "generic.gpu_index");
  writer.key("generic.gpu_index.block_count", n_layers).key("split.vram_capacity", uint64_t{1} << 30);
  return writer;
}

// Two layers with five neurons: in the first, 1 and 3 are hot; in the second, none is, and its bucket is
// empty.
GgufWriter two_layers() {
  GgufWriter writer = header(2);
  ints(writer, "blk.0.gpu_idx", {0, 1, 0, 1, 0});
  ints(writer, "blk.0.gpu_bucket", {1, 3});
  ints(writer, "blk.1.gpu_idx", {0, 0, 0, 0, 0});
  ints(writer, "blk.1.gpu_bucket", {});
  return writer;
}

std::string refusal_of(const Bytes& bytes, int n_layers = 2, int d_ff = 5) {
  try {
    activity::parse_gpu_index(bytes, "m.gpuidx", n_layers, d_ff);
  } catch (const ModelFileError& error) {
    return error.what();
  }
  return "(read)";
}

// For one layer with five neurons.
std::string refusal_of(const std::vector<int32_t>& mask, const std::vector<int32_t>& bucket) {
  GgufWriter writer = header(1);
  ints(writer, "blk.0.gpu_idx", mask);
  ints(writer, "blk.0.gpu_bucket", bucket);
  return refusal_of(writer.bytes(), 1);
}

TEST_CASE("marks are read layer by layer, marked neurons are hottest") {
  const ActivityProfile profile = activity::parse_gpu_index(two_layers().bytes(), "m.gpuidx", 2, 5);
  CHECK(profile.counts == std::vector<std::vector<double>>{{0, 1, 0, 1, 0}, {0, 0, 0, 0, 0}});
  CHECK(profile.hottest_first(0) == std::vector<int32_t>{1, 3, 0, 2, 4});
  CHECK(profile.hottest_first(1) == std::vector<int32_t>{0, 1, 2, 3, 4});
}

TEST_CASE("both numbers that int32 has had are read") {
  for (const uint32_t type : {18u, 26u}) {
    const std::vector<int32_t> mask = {0, 0, 1, 0, 0}, bucket = {2};
    GgufWriter writer = header(1);
    writer.raw_tensor("blk.0.gpu_idx", type, {5}, std::as_bytes(std::span(mask)));
    writer.raw_tensor("blk.0.gpu_bucket", type, {1}, std::as_bytes(std::span(bucket)));
    CHECK(activity::parse_gpu_index(writer.bytes(), "m.gpuidx", 1, 5).hottest_first(0).front() == 2);
  }
}

TEST_CASE("another model's index is distinguished from a damaged one") {
  const Bytes bytes = two_layers().bytes();
  CHECK(refusal_of(bytes, 32) == "m.gpuidx: it is of another model: it has 2 layers, this model 32");
  CHECK(refusal_of(bytes, 2, 11008) ==
        "m.gpuidx: it is of another model: its layer 0 has 5 neurons, this model's 11,008");
  GgufWriter llama;
  llama.magic("PWRI").key("general.architecture", "llama").key("generic.gpu_index.block_count", uint32_t{2});
  CHECK_THAT(refusal_of(llama.bytes()), ContainsSubstring("says architecture \"llama\""));
  GgufWriter plain = two_layers();
  CHECK_THAT(refusal_of(plain.magic("GGUF").bytes()), ContainsSubstring("it begins with \"GGUF\""));
  CHECK_THAT(refusal_of(Bytes{std::byte{0x6e}, std::byte{0x6f}}), ContainsSubstring("it begins with \"no\""));
}

TEST_CASE("an index whose mask and bucket disagree is refused") {
  CHECK(refusal_of({0, 1, 0, 0, 1}, {1, 4}) == "(read)");
  CHECK(refusal_of({1, 1, 1, 1, 1}, {0, 1, 2, 3, 4}) == "(read)");
  CHECK_THAT(refusal_of({0, 2, 0, 0, 0}, {1}),
             ContainsSubstring("blk.0.gpu_idx holds 2, expected only 0 and 1"));
  for (const std::vector<int32_t>& bucket :
       {std::vector<int32_t>{4, 1}, {1}, {1, 3}, {1, 4, 5}, {-1, 4}, {1, 1}, {}}) {
    CHECK_THAT(refusal_of({0, 1, 0, 0, 1}, bucket),
               ContainsSubstring("blk.0.gpu_bucket is not the ascending list"));
  }
  CHECK_THAT(refusal_of({0, 0, 0, 0, 0}, {0, 1, 2, 3, 4, 5}),
             ContainsSubstring("has 6 elements, expected at most 5"));
}

TEST_CASE("an index whose tensor names and positions name different layers is refused") {
  GgufWriter writer = header(2);
  ints(writer, "blk.1.gpu_idx", {0, 0, 0, 0, 0});
  ints(writer, "blk.1.gpu_bucket", {});
  ints(writer, "blk.0.gpu_idx", {0, 0, 0, 0, 0});
  ints(writer, "blk.0.gpu_bucket", {});
  CHECK_THAT(refusal_of(writer.bytes()),
             ContainsSubstring("tensor \"blk.1.gpu_idx\" is at the place of \"blk.0.gpu_idx\""));
}

TEST_CASE("an index with other wrong claims is refused") {
  GgufWriter three = two_layers();
  CHECK_THAT(refusal_of(ints(three, "blk.2.gpu_idx", {1}).bytes()),
             ContainsSubstring("claims 5 tensors, expected two for each of 2 layers"));
  GgufWriter newer = two_layers();
  CHECK_THAT(refusal_of(newer.version(4).bytes()), ContainsSubstring("says version 4, expected 3"));
  GgufWriter keys = two_layers();
  CHECK_THAT(refusal_of(keys.claim_keys(1000).bytes()), ContainsSubstring("claims 1,000 keys"));
  GgufWriter aligned = two_layers();
  CHECK_THAT(refusal_of(aligned.alignment(64).bytes()),
             ContainsSubstring("key \"general.alignment\" is set"));
  GgufWriter uncounted;
  uncounted.magic("PWRI").key("general.architecture", "generic.gpu_index");
  CHECK_THAT(refusal_of(uncounted.bytes()),
             ContainsSubstring("has no integer key \"generic.gpu_index.block_count\""));
  GgufWriter floats = header(1);
  floats.tensor("blk.0.gpu_idx", {5}, std::vector<float>(5));
  CHECK_THAT(refusal_of(floats.claim_tensors(2).bytes(), 1),
             ContainsSubstring("has type 0, expected 18 or 26 (I32)"));
  GgufWriter matrix = header(1);
  matrix.raw_tensor("blk.0.gpu_idx", kInt32, {5, 1}, Bytes(20));
  CHECK_THAT(refusal_of(matrix.claim_tensors(2).bytes(), 1),
             ContainsSubstring("has 2 dimensions, expected one"));
  GgufWriter beyond = header(1);
  beyond.raw_tensor("blk.0.gpu_idx", kInt32, {5}, Bytes(20), uint64_t{1} << 40);
  beyond.raw_tensor("blk.0.gpu_bucket", kInt32, {0}, {});
  CHECK_THAT(refusal_of(beyond.bytes(), 1),
             ContainsSubstring("tensor \"blk.0.gpu_idx\" needs 1,099,511,627,776"));
}

TEST_CASE("an index cut anywhere or with any byte changed is read or refused, and never crashes") {
  const Bytes whole = two_layers().bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::unique_ptr<std::byte[]> copy = std::make_unique<std::byte[]>(size);
    std::memcpy(copy.get(), whole.data(), size);
    try {
      activity::parse_gpu_index({copy.get(), size}, "m.gpuidx", 2, 5);
    } catch (const ModelFileError& error) {
      CHECK(std::string(error.what()).starts_with("m.gpuidx: "));
    }
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    Bytes changed = whole;
    changed[at] ^= std::byte{0xff};
    const std::string result = refusal_of(changed);
    CHECK((result == "(read)" || result.starts_with("m.gpuidx: ")));
  }
}

}  // namespace
}  // namespace hearth::test
