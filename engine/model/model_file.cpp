// ModelFile: maps and parses the parts of a model, joins them, and returns their keys and tensors.
#include "engine/model/model_file.h"

#include <algorithm>
#include <utility>

#include "engine/model/gguf/cursor.h"
#include "engine/model/gguf/gguf_value.h"
#include "engine/model/gguf/mapped_file.h"
#include "engine/model/gguf/part.h"
#include "kernels/base/file_error.h"

namespace hearth {

using file_error::file_label;
using file_error::quoted;
using gguf::describe;
using gguf::MappedFile;
using gguf::Value;
using gguf::ValueType;

struct ModelFile::Contents {
  std::filesystem::path path;
  std::string label;  // label of `path`, for messages
  std::vector<MappedFile> mappings;
  gguf::Part first;                 // the first part, which has the keys
  std::vector<TensorInfo> tensors;  // tensors of all parts
  gguf::NameOrder tensor_order;

  const Value* find(std::string_view key) const {
    const gguf::KeyValue* entry = first.find_key(key);
    return entry != nullptr ? &entry->value : nullptr;
  }
  const Value* find_array(std::string_view key, const char* expected) const {
    const Value* value = find(key);
    if (value != nullptr && value->type != ValueType::kArray) fail_type(key, *value, expected);
    return value;
  }
  [[noreturn]] void fail_key(std::string_view key, const std::string& sentence) const {
    file_error::fail(label, "key " + quoted(key) + ' ' + sentence);
  }
  [[noreturn]] void fail_type(std::string_view key, const Value& value, const char* expected) const {
    fail_key(key, "holds " + describe(value) + ", expected " + expected + "; convert the model again");
  }
  [[noreturn]] void fail_absent(std::string_view key, const char* expected) const {
    fail_key(key, std::string("is missing, expected ") + expected +
                      "; the file is incomplete or of an unknown kind: convert the model again");
  }
};

namespace {

/// Reads an integer key that describes a part of a split model. Returns nullopt if the key is absent.
std::optional<int64_t> split_key(const gguf::Part& part, std::string_view key, const std::string& file) {
  const gguf::KeyValue* entry = part.find_key(key);
  if (entry == nullptr) return std::nullopt;
  const std::optional<int64_t> number = gguf::is_integer(entry->value.type)
                                            ? gguf::integer_at(entry->value.type, entry->value.bytes.data())
                                            : std::nullopt;
  if (!number) {
    file_error::fail(file, "key " + quoted(key) + " holds " + describe(entry->value) +
                               ", expected a small integer; split the model again");
  }
  return number;
}

/// Throws unless the part's keys agree with its file name.
void check_split(const gguf::Part& part, const std::string& file, int number, int count) {
  const std::optional<int64_t> found_count = split_key(part, "split.count", file);
  const std::optional<int64_t> found_index = split_key(part, "split.no", file);
  constexpr std::string_view kRemedy = "; give the parts their original names or download them again";
  if (!found_count || !found_index) {
    file_error::fail(file, std::string("key \"") + (found_count ? "split.no" : "split.count") +
                               "\" is missing, expected it in part " + std::to_string(number) + " of " +
                               std::to_string(count) + std::string(kRemedy));
  }
  if (*found_count == count && *found_index == number - 1) return;
  // The message has the numbers as the file stores them: split.no counts from 0, file names count from 1.
  file_error::fail(file, "its keys split.no and split.count are " + std::to_string(*found_index) + " and " +
                             std::to_string(*found_count) + ", expected " + std::to_string(number - 1) +
                             " and " + std::to_string(count) + " by its name" + std::string(kRemedy));
}

struct OpenPart {
  MappedFile mapping;
  gguf::Part part;
};

OpenPart open_part(const std::filesystem::path& path) {
  MappedFile mapping = MappedFile::open(path);
  gguf::Part part = gguf::parse_part(mapping.bytes(), file_label(path.string()));
  return {std::move(mapping), std::move(part)};
}

/// Opens all parts of a model and returns them in order. `given` is the part that was opened from `path`.
std::vector<OpenPart> open_all(OpenPart given, const std::filesystem::path& path) {
  const std::string label = file_label(path.string());
  const int64_t count = split_key(given.part, "split.count", label).value_or(1);
  std::vector<OpenPart> parts;
  if (count == 1 || count == 0) {  // 0: written by tools that do not split files
    parts.push_back(std::move(given));
    return parts;
  }
  const std::optional<gguf::SplitName> name = gguf::parse_split_name(path);
  if (!name) {
    file_error::fail(label,
                     "it is one of " + std::to_string(count) +
                         " parts, expected a name like NAME-00001-of-0000N.gguf by which to find the others; "
                         "give the parts their original names");
  }
  check_split(given.part, label, name->number, name->count);
  for (int number = 1; number <= name->count; ++number) {
    if (number == name->number) continue;
    const std::filesystem::path part_path = gguf::split_path(*name, number);
    std::error_code error;
    if (!std::filesystem::exists(part_path, error) && !error) {
      file_error::fail(label, "part " + std::to_string(number) + " of " + std::to_string(name->count) +
                                  " is missing, expected " + quoted(part_path.string(), 4096) +
                                  "; download the missing part");
    }
    parts.push_back(open_part(part_path));
    check_split(parts.back().part, file_label(part_path.string()), number, name->count);
  }
  parts.insert(parts.begin() + (name->number - 1), std::move(given));
  for (const OpenPart& part : parts) {
    if (part.part.powerinfer == parts.front().part.powerinfer) continue;
    file_error::fail(
        label,
        "some of its parts begin with \"GGUF\" and some with PowerInfer's \"PWRI\", expected the same of "
        "all; the parts belong to different models: download them again");
  }
  return parts;
}

}  // namespace

ModelFile::ModelFile(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
ModelFile::ModelFile(ModelFile&&) noexcept = default;
ModelFile& ModelFile::operator=(ModelFile&&) noexcept = default;
ModelFile::~ModelFile() = default;

ModelFile ModelFile::open(const std::filesystem::path& path) {
  std::unique_ptr<Contents> contents = std::make_unique<Contents>();
  contents->path = path;
  contents->label = file_label(path.string());
  std::vector<OpenPart> parts = open_all(open_part(path), path);
  for (OpenPart& part : parts) {
    if (contents->tensors.size() + part.part.tensors.size() > gguf::kMaxTensors) {
      file_error::fail(contents->label,
                       "its parts hold more than " + file_error::with_commas(gguf::kMaxTensors) +
                           " tensors, expected fewer: they are corrupt; download them again");
    }
    const std::vector<TensorInfo> tensors = std::exchange(part.part.tensors, {});
    contents->tensors.insert(contents->tensors.end(), tensors.begin(), tensors.end());
    contents->mappings.push_back(std::move(part.mapping));
  }
  contents->first = std::move(parts.front().part);
  contents->tensor_order = gguf::order_tensors(contents->tensors, contents->label);
  if (parts.size() > 1) {
    const std::optional<int64_t> total = split_key(contents->first, "split.tensors.count", contents->label);
    if (total && *total != static_cast<int64_t>(contents->tensors.size())) {
      file_error::fail(contents->label, "its parts hold " + std::to_string(contents->tensors.size()) +
                                            " tensors, but key " + "\"split.tensors.count\" says " +
                                            std::to_string(*total) +
                                            "; the parts belong to different models: download them again");
    }
  }
  return ModelFile(std::move(contents));
}

const std::filesystem::path& ModelFile::path() const { return contents_->path; }

size_t ModelFile::total_bytes() const {
  size_t total = 0;
  for (const MappedFile& mapping : contents_->mappings) total += mapping.bytes().size();
  return total;
}

bool ModelFile::is_powerinfer() const { return contents_->first.powerinfer; }

void ModelFile::prefault(const std::function<void(double)>& progress) const {
  std::vector<std::span<const std::byte>> regions;
  for (const MappedFile& mapping : contents_->mappings) regions.push_back(mapping.bytes());
  gguf::prefault(regions, progress);
}

std::vector<std::string_view> ModelFile::keys() const {
  std::vector<std::string_view> names;
  names.reserve(contents_->first.keys.size());
  for (const gguf::KeyValue& entry : contents_->first.keys) names.push_back(entry.key);
  return names;
}

std::string ModelFile::describe_key(std::string_view key) const {
  const Value* value = contents_->find(key);
  return value != nullptr ? describe(*value) : std::string();
}

const gguf::Value* ModelFile::find_value(std::string_view key) const { return contents_->find(key); }

bool ModelFile::has_key(std::string_view key) const { return contents_->find(key) != nullptr; }

std::optional<int64_t> ModelFile::find_int(std::string_view key) const {
  const Value* value = contents_->find(key);
  if (value == nullptr) return std::nullopt;
  if (!gguf::is_integer(value->type)) contents_->fail_type(key, *value, "an integer");
  const std::optional<int64_t> number = gguf::integer_at(value->type, value->bytes.data());
  if (!number)
    contents_->fail_key(key,
                        "holds an integer of 2^63 or more, expected a smaller one; convert the model again");
  return number;
}

std::optional<double> ModelFile::find_float(std::string_view key) const {
  const Value* value = contents_->find(key);
  if (value == nullptr) return std::nullopt;
  if (!gguf::is_float(value->type)) contents_->fail_type(key, *value, "a float");
  return gguf::float_at(value->type, value->bytes.data());
}

std::optional<bool> ModelFile::find_bool(std::string_view key) const {
  const Value* value = contents_->find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != ValueType::kBool) contents_->fail_type(key, *value, "a bool");
  return value->bytes[0] != std::byte{0};
}

std::optional<std::string_view> ModelFile::find_string(std::string_view key) const {
  const Value* value = contents_->find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != ValueType::kString) contents_->fail_type(key, *value, "a string");
  return std::string_view(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
}

int64_t ModelFile::get_int(std::string_view key) const {
  const std::optional<int64_t> value = find_int(key);
  if (!value) contents_->fail_absent(key, "an integer");
  return *value;
}

double ModelFile::get_float(std::string_view key) const {
  const std::optional<double> value = find_float(key);
  if (!value) contents_->fail_absent(key, "a float");
  return *value;
}

std::string_view ModelFile::get_string(std::string_view key) const {
  const std::optional<std::string_view> value = find_string(key);
  if (!value) contents_->fail_absent(key, "a string");
  return *value;
}

std::optional<std::vector<std::string_view>> ModelFile::find_strings(std::string_view key) const {
  const Value* value = contents_->find_array(key, "an array of strings");
  if (value == nullptr) return std::nullopt;
  if (value->element != ValueType::kString) contents_->fail_type(key, *value, "an array of strings");
  std::vector<std::string_view> strings;
  strings.reserve(value->count);
  gguf::Cursor cursor(value->bytes, contents_->label);
  cursor.enter("key");
  cursor.name_it(key);
  for (uint64_t i = 0; i < value->count; ++i) strings.push_back(cursor.read_string());
  return strings;
}

std::optional<std::vector<int64_t>> ModelFile::find_ints(std::string_view key) const {
  const Value* value = contents_->find_array(key, "an array of integers");
  if (value == nullptr) return std::nullopt;
  const bool bools = value->element == ValueType::kBool;
  if (!bools && !gguf::is_integer(value->element)) contents_->fail_type(key, *value, "an array of integers");
  const ValueType type = bools ? ValueType::kUint8 : value->element;
  std::vector<int64_t> numbers;
  numbers.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    const std::optional<int64_t> number =
        gguf::integer_at(type, value->bytes.data() + i * gguf::fixed_size(type));
    if (!number)
      contents_->fail_key(key,
                          "holds an integer of 2^63 or more, expected smaller ones; convert the model again");
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<std::vector<float>> ModelFile::find_floats(std::string_view key) const {
  const Value* value = contents_->find_array(key, "an array of floats");
  if (value == nullptr) return std::nullopt;
  if (!gguf::is_float(value->element)) contents_->fail_type(key, *value, "an array of floats");
  std::vector<float> numbers;
  numbers.reserve(value->count);
  const size_t size = gguf::fixed_size(value->element);
  for (uint64_t i = 0; i < value->count; ++i) {
    const std::optional<double> number = gguf::float_at(value->element, value->bytes.data() + i * size);
    numbers.push_back(static_cast<float>(*number));
  }
  return numbers;
}

std::span<const TensorInfo> ModelFile::tensors() const { return contents_->tensors; }

const TensorInfo* ModelFile::find_tensor(std::string_view name) const {
  return gguf::find_tensor(contents_->tensors, contents_->tensor_order, name);
}

}  // namespace hearth
