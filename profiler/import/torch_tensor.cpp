// Contains three readers, in the order in which they run: for the archive's entries, for the pickle that
// describes tensors, and for the tensors' elements.
//
// The archive's end record leads to the directory, the directory to each file's header, and the header to the
// bytes. The pickle's values refer to each other by their index in one table, so nothing recurses.
#include "profiler/import/torch_tensor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "engine/model/gguf/cursor.h"
#include "kernels/base/file_error.h"
#include "kernels/quant/half.h"

namespace hearth {
namespace {

using file_error::fail;
using file_error::quoted;
using file_error::with_commas;

constexpr const char* kDamaged = ": it is damaged; download it again";
constexpr const char* kFileDamaged = ": the file is damaged; download it again";

// -- the zip archive --

struct ZipEntry {
  std::string_view name;
  std::span<const std::byte> data;
};

constexpr uint32_t kFileSignature = 0x04034b50;
constexpr uint32_t kDirectorySignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr size_t kEndBytes = 22;           // the end record without its comment
constexpr size_t kLongestComment = 65535;  // the comment's length is a uint16

uint32_t signature_at(std::span<const std::byte> bytes, size_t at) {
  uint32_t signature = 0;
  std::memcpy(&signature, bytes.data() + at, sizeof signature);
  return signature;
}

// Returns the position of the archive's end record: the last occurrence of its signature.
size_t find_end(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() >= kEndBytes) {
    const size_t last = bytes.size() - kEndBytes;
    const size_t first = last - std::min(last, kLongestComment);
    for (size_t at = last + 1; at-- > first;) {
      if (signature_at(bytes, at) == kEndSignature) return at;
    }
  }
  fail(file, "it is a zip archive without a directory at its end: it is truncated; download it again");
}

// Returns a cursor at a position that was read from the file. Throws if it lies outside of the file.
gguf::Cursor cursor_at(std::span<const std::byte> bytes, const std::string& file, uint64_t at,
                       std::string_view kind) {
  gguf::Cursor cursor(bytes, file);
  cursor.enter(kind);
  cursor.take(at);
  return cursor;
}

void expect_signature(gguf::Cursor& cursor, uint32_t expected) {
  const size_t at = cursor.at();
  if (cursor.read<uint32_t>() != expected) {
    cursor.fail("has no signature at byte " + with_commas(at) + kDamaged);
  }
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Finds an entry's bytes. It uses only two lengths of the header before the bytes: those of the name and of
// the extra field. The sizes in the header may be missing, because a zip writer may put them behind the data.
std::span<const std::byte> data_at(std::span<const std::byte> bytes, const std::string& file, uint64_t at,
                                   uint32_t size, std::string_view name) {
  gguf::Cursor cursor = cursor_at(bytes, file, at, "zip entry");
  cursor.name_it(name);
  expect_signature(cursor, kFileSignature);
  cursor.take(22);  // version, flags, method, time, checksum, sizes
  const uint16_t name_bytes = cursor.read<uint16_t>();
  const uint16_t extra_bytes = cursor.read<uint16_t>();
  cursor.take(uint64_t{name_bytes} + extra_bytes);
  return cursor.take(size);
}

ZipEntry read_entry(gguf::Cursor& directory, std::span<const std::byte> bytes, const std::string& file) {
  expect_signature(directory, kDirectorySignature);
  directory.take(4);  // versions
  const uint16_t flags = directory.read<uint16_t>();
  const uint16_t method = directory.read<uint16_t>();
  directory.take(8);  // time, checksum
  const uint32_t packed_bytes = directory.read<uint32_t>();
  const uint32_t unpacked_bytes = directory.read<uint32_t>();
  const uint16_t name_bytes = directory.read<uint16_t>();
  const uint16_t extra_bytes = directory.read<uint16_t>();
  const uint16_t comment_bytes = directory.read<uint16_t>();
  directory.take(8);  // disk, attributes
  const uint32_t at = directory.read<uint32_t>();
  ZipEntry entry;
  entry.name = as_text(directory.take(name_bytes));
  directory.take(uint64_t{extra_bytes} + comment_bytes);
  constexpr uint16_t kEncrypted = 1;
  if (method != 0 || (flags & kEncrypted) != 0 || packed_bytes != unpacked_bytes) {
    fail(file, "zip entry " + quoted(entry.name) +
                   " is compressed or encrypted, expected it stored as PyTorch does; save the tensor again "
                   "with torch.save");
  }
  entry.data = data_at(bytes, file, at, unpacked_bytes, entry.name);
  return entry;
}

/// Returns all entries, in the directory's order. They point into `bytes`, the whole file. Throws
/// ModelFileError if the file is not an archive, or is damaged, compressed or encrypted.
std::vector<ZipEntry> read_zip_entries(std::span<const std::byte> bytes, const std::string& file) {
  gguf::Cursor end = cursor_at(bytes, file, find_end(bytes, file), "zip end record");
  end.take(10);  // signature, disks, entries on this disk
  const uint16_t count = end.read<uint16_t>();
  end.take(4);  // bytes of the directory
  gguf::Cursor directory = cursor_at(bytes, file, end.read<uint32_t>(), "zip directory");
  std::vector<ZipEntry> entries;  // not reserved, because the entry count may be wrong
  for (uint16_t i = 0; i < count; ++i) entries.push_back(read_entry(directory, bytes, file));
  return entries;
}

// -- the pickle --

// The pickle of one tensor has about 150 bytes. The limit bounds the memory that any pickle can use.
constexpr size_t kLongestPickle = size_t{1} << 16;

constexpr const char* kSaveOne = "; save each layer's counts alone, with torch.save(counts, path)";
constexpr const char* kSaveState =
    "; save a predictor's two layers with torch.save(model.state_dict(), path)";
constexpr std::string_view kRebuild = "torch._utils\n_rebuild_tensor_v2";
constexpr std::string_view kModule = "torch\n";

enum class Kind : uint8_t { kMark, kNone, kBool, kInt, kText, kGlobal, kTuple, kDict, kStorage, kCall };

constexpr const char* kKindNames[] = {"a mark",     "None",    "a boolean", "a number",       "a text",
                                      "a function", "a tuple", "a dict",    "a bare storage", "an object"};

struct Node {
  Kind kind = Kind::kNone;
  int64_t number = 0;     // the value of an integer
  std::string_view text;  // the characters of a text, or "module\nname" of a global
  size_t first = 0;       // for a tuple, storage, call or dict: index of its first part in Machine::parts_
  size_t count = 0;
  size_t first_item = 0;  // for a dict, or a call that makes a dict: index of its first key in parts_
  size_t n_items = 0;
};

using NodeId = uint32_t;

class Machine {
 public:
  Machine(std::span<const std::byte> pickle, const std::string& file)
      : pickle_(pickle), cursor_(pickle, file) {
    cursor_.enter("data.pkl");
  }

  /// Runs the pickle to its end. Returns the value that is then on top of the stack.
  const Node& run() {
    while (step(cursor_.read<uint8_t>())) {
    }
    return nodes_[pop()];
  }

  const Node& part(const Node& node, size_t i) const { return nodes_[parts_[node.first + i]]; }
  /// Returns item i of a dict, counting keys and values in turn: item 2k is key k, and item 2k + 1 its value.
  const Node& item(const Node& node, size_t i) const { return nodes_[parts_[node.first_item + i]]; }
  [[noreturn]] void fail(const std::string& sentence) const { cursor_.fail(sentence); }

 private:
  bool step(uint8_t operation);  // false: the end
  bool step_rare(uint8_t operation);

  void push(Node node) {
    stack_.push_back(static_cast<NodeId>(nodes_.size()));
    nodes_.push_back(node);
  }
  void push_number(int64_t number, Kind kind = Kind::kInt) {
    Node node;
    node.kind = kind;
    node.number = number;
    push(node);
  }
  void push_text(Kind kind, std::span<const std::byte> bytes) {
    Node node;
    node.kind = kind;
    node.text = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    push(node);
  }
  NodeId pop() {
    if (stack_.empty()) fail("takes more values than it has" + std::string(kFileDamaged));
    const NodeId top = stack_.back();
    stack_.pop_back();
    return top;
  }

  // Replaces the topmost `count` values by one value that contains them.
  void gather(Kind kind, size_t count) {
    if (count > stack_.size()) fail("takes more values than it has" + std::string(kFileDamaged));
    Node node;
    node.kind = kind;
    node.first = parts_.size();
    node.count = count;
    parts_.insert(parts_.end(), stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    push(node);
  }
  // Returns the number of values above the topmost mark on the stack.
  size_t count_to_mark() const {
    size_t count = 0;
    while (count < stack_.size() && nodes_[stack_[stack_.size() - 1 - count]].kind != Kind::kMark) ++count;
    if (count == stack_.size()) fail("ends a tuple that it did not begin" + std::string(kFileDamaged));
    return count;
  }
  void gather_to_mark() {
    gather(Kind::kTuple, count_to_mark());
    stack_.erase(stack_.end() - 2);  // the mark, below the tuple
  }

  // Adds the topmost `count` keys and values to the dict below them. Refuses to fill a dict twice, because
  // torch.save fills a small dict in a single operation.
  void fill_dict(size_t count) {
    gather(Kind::kTuple, count);
    const Node items = nodes_[pop()];
    if (stack_.empty()) fail("fills a dict that it did not make" + std::string(kFileDamaged));
    Node& dict = nodes_[stack_.back()];
    const bool fillable = dict.kind == Kind::kDict || dict.kind == Kind::kCall;
    if (!fillable || dict.n_items > 0 || count % 2 != 0) {
      fail("fills a value that is not an empty dict" + std::string(kFileDamaged));
    }
    dict.first_item = items.first;
    dict.n_items = count;
  }
  void fill_dict_to_mark() {
    const size_t count = count_to_mark();
    stack_.erase(stack_.end() - static_cast<std::ptrdiff_t>(count) - 1);
    fill_dict(count);
  }

  // Reads "module\nname\n", and pushes the text without its last newline.
  void push_global() {
    const size_t begin = cursor_.at();
    for (int lines = 0; lines < 2;) {
      if (cursor_.read<char>() == '\n') ++lines;
    }
    push_text(Kind::kGlobal, pickle_.subspan(begin, cursor_.at() - begin - 1));
  }

  // Pushes an integer of `n_bytes` bytes, stored in little-endian two's complement.
  void push_long(uint8_t n_bytes) {
    const std::span<const std::byte> bytes = cursor_.take(n_bytes);
    if (n_bytes > sizeof(int64_t)) fail("holds a number of " + std::to_string(n_bytes) + " bytes" + kSaveOne);
    const bool negative = n_bytes > 0 && (std::to_integer<unsigned>(bytes.back()) & 0x80u) != 0;
    int64_t number = negative ? -1 : 0;
    std::memcpy(&number, bytes.data(), bytes.size());
    push_number(number);
  }

  void remember(uint32_t key) {
    if (stack_.empty()) fail("remembers a value that it does not have" + std::string(kFileDamaged));
    memo_[key] = stack_.back();
  }
  void recall(uint32_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) fail("recalls a value that it did not remember" + std::string(kFileDamaged));
    stack_.push_back(found->second);
  }

  std::span<const std::byte> pickle_;
  gguf::Cursor cursor_;
  std::vector<Node> nodes_;
  std::vector<NodeId> parts_;
  std::vector<NodeId> stack_;
  std::map<uint32_t, NodeId> memo_;
};

// Runs one operation. The comments below give its name in Python's pickletools.
bool Machine::step(uint8_t operation) {
  switch (operation) {
    case 0x80:  // PROTO
      if (const uint8_t protocol = cursor_.read<uint8_t>(); protocol > 2) {
        fail("is written in pickle protocol " + std::to_string(protocol) +
             ", expected 2; save the tensor again with torch.save and its default protocol");
      }
      return true;
    case '.':
      return false;
    case 'c':
      push_global();
      return true;
    case 'q':
      remember(cursor_.read<uint8_t>());
      return true;
    case 'h':
      recall(cursor_.read<uint8_t>());
      return true;
    case '(':
      push_number(0, Kind::kMark);
      return true;
    case 't':
      gather_to_mark();
      return true;
    case ')':
      gather(Kind::kTuple, 0);
      return true;
    case 0x85:  // TUPLE1
    case 0x86:
    case 0x87:
      gather(Kind::kTuple, operation - 0x84u);
      return true;
    case 'X':
      push_text(Kind::kText, cursor_.take(cursor_.read<uint32_t>()));
      return true;
    case 'K':
      push_number(cursor_.read<uint8_t>());
      return true;
    case 'M':
      push_number(cursor_.read<uint16_t>());
      return true;
    case 'J':
      push_number(cursor_.read<int32_t>());
      return true;
    case 'Q':
      gather(Kind::kStorage, 1);
      return true;
    case 'R':
      gather(Kind::kCall, 2);
      return true;
    default:
      return step_rare(operation);
  }
}

bool Machine::step_rare(uint8_t operation) {
  switch (operation) {
    case 'r':
      remember(cursor_.read<uint32_t>());
      return true;
    case 'j':
      recall(cursor_.read<uint32_t>());
      return true;
    case 0x8a:  // LONG1
      push_long(cursor_.read<uint8_t>());
      return true;
    case 0x88:  // NEWTRUE
    case 0x89:
      push_number(operation == 0x88 ? 1 : 0, Kind::kBool);
      return true;
    case 'N':
      push_number(0, Kind::kNone);
      return true;
    case 'u':
      fill_dict_to_mark();
      return true;
    case 's':
      fill_dict(2);
      return true;
    case 'b':  // BUILD: would set attributes of an object, such as tensor versions; they are dropped
      pop();
      return true;
    case '}':
      push_number(0, Kind::kDict);
      return true;
    default:
      constexpr std::string_view kHex = "0123456789abcdef";
      fail("holds more than a tensor: pickle operation 0x" +
           std::string{kHex[operation >> 4], kHex[operation & 15]} + " at byte " +
           with_commas(cursor_.at() - 1) + kSaveOne);
  }
}

// Interprets the pickle's result: a call _rebuild_tensor_v2(storage, offset, size, stride, ...), where
// storage is the tuple ("storage", type, key, device, elements).
class Description {
 public:
  explicit Description(const Machine& machine) : machine_(&machine) {}

  const Node& part(const Node& node, size_t i, Kind kind, const char* what) const {
    if (i >= node.count || machine_->part(node, i).kind != kind) unexpected(what);
    return machine_->part(node, i);
  }
  int64_t number(const Node& node, size_t i, const char* what) const {
    const int64_t number = part(node, i, Kind::kInt, what).number;
    if (number < 0) unexpected(what);
    return number;
  }
  [[noreturn]] void unexpected(const char* what) const {
    machine_->fail("describes a tensor whose " + std::string(what) + " is not as PyTorch writes it" +
                   kFileDamaged);
  }

  /// The position of a tensor's elements, and the tuples with its sizes and strides.
  struct Placed {
    std::string_view storage_type, storage_key;
    int64_t storage_elements = 0, offset = 0;
    const Node *shape = nullptr, *strides = nullptr;
  };

  Placed placed(const Node& root) const {
    if (root.kind != Kind::kCall) {
      machine_->fail("holds " + std::string(kKindNames[static_cast<size_t>(root.kind)]) +
                     ", expected one tensor" + kSaveOne);
    }
    const Node& function = machine_->part(root, 0);
    if (function.kind != Kind::kGlobal || function.text != kRebuild) {
      machine_->fail("holds an object made by " + quoted(function.text) + ", expected one tensor" + kSaveOne);
    }
    const Node& arguments = part(root, 1, Kind::kTuple, "description");
    const Node& storage = part(part(arguments, 0, Kind::kStorage, "storage"), 0, Kind::kTuple, "storage");
    Placed placed;
    placed.storage_type = part(storage, 1, Kind::kGlobal, "storage type").text;
    if (!placed.storage_type.starts_with(kModule)) unexpected("storage type");
    placed.storage_type.remove_prefix(kModule.size());
    placed.storage_key = part(storage, 2, Kind::kText, "storage key").text;
    placed.storage_elements = number(storage, 4, "storage size");
    placed.offset = number(arguments, 1, "offset");
    placed.shape = &part(arguments, 2, Kind::kTuple, "shape");
    placed.strides = &part(arguments, 3, Kind::kTuple, "stride");
    return placed;
  }

  PickledTensor tensor(const Node& root) const {
    const Placed found = placed(root);
    if (found.shape->count != 1) {
      machine_->fail("holds a tensor of " + std::to_string(found.shape->count) +
                     " dimensions, expected one: the counts of a layer" + kSaveOne);
    }
    return {.storage_type = found.storage_type,
            .storage_key = found.storage_key,
            .storage_elements = found.storage_elements,
            .offset = found.offset,
            .size = number(*found.shape, 0, "shape"),
            .stride = number(*found.strides, 0, "stride")};
  }

  /// Returns the matrices of a dict of tensors. The dict may be of any dict class, such as OrderedDict.
  std::vector<PickledMatrix> matrices(const Node& root) const {
    if (root.n_items == 0) machine_->fail(std::string("holds no dict of tensors") + kSaveState);
    std::vector<PickledMatrix> matrices;
    for (size_t i = 0; i + 1 < root.n_items; i += 2) {
      const Node& name = machine_->item(root, i);
      if (name.kind != Kind::kText) machine_->fail(std::string("holds a tensor without a name") + kSaveState);
      const Placed found = placed(machine_->item(root, i + 1));
      if (found.shape->count != 2) {
        machine_->fail("holds tensor " + quoted(name.text) + " of " + std::to_string(found.shape->count) +
                       " dimensions, expected two" + kSaveState);
      }
      matrices.push_back({.name = name.text,
                          .storage_type = found.storage_type,
                          .storage_key = found.storage_key,
                          .storage_elements = found.storage_elements,
                          .offset = found.offset,
                          .n_rows = number(*found.shape, 0, "shape"),
                          .n_cols = number(*found.shape, 1, "shape"),
                          .row_stride = number(*found.strides, 0, "stride"),
                          .col_stride = number(*found.strides, 1, "stride")});
    }
    return matrices;
  }

 private:
  const Machine* machine_;
};

// Returns whether the index of the last element, offset + (n_rows - 1) * row_stride + (n_cols - 1) *
// col_stride, is below `elements`. An overflow counts as outside.
bool lies_within(int64_t elements, int64_t offset, int64_t n_rows, int64_t row_stride, int64_t n_cols,
                 int64_t col_stride) {
  if (n_rows == 0 || n_cols == 0) return true;
  int64_t last = 0, last_column = 0;
  return !__builtin_mul_overflow(n_rows - 1, row_stride, &last) &&
         !__builtin_mul_overflow(n_cols - 1, col_stride, &last_column) &&
         !__builtin_add_overflow(last, last_column, &last) && !__builtin_add_overflow(last, offset, &last) &&
         last < elements;
}

// -- the elements --

constexpr const char* kSaveAgain = "; save the tensor again with torch.save";

// Twenty times the width of known FFNs. Bounds the result even if a view repeats one element (stride 0).
constexpr int64_t kMaxElements = int64_t{1} << 20;

template <typename T>
double plain(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return static_cast<double>(value);
}

template <float (*widen)(uint16_t)>
double widened(const std::byte* bytes) {
  uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return static_cast<double>(widen(bits));
}

struct ElementType {
  std::string_view storage;  // the class's name in module torch
  size_t bytes;
  double (*read)(const std::byte* bytes);
};

constexpr std::array<ElementType, 6> kElementTypes = {{
    {"IntStorage", 4, plain<int32_t>},
    {"LongStorage", 8, plain<int64_t>},
    {"HalfStorage", 2, widened<float_from_half>},
    {"BFloat16Storage", 2, widened<float_from_bfloat16>},
    {"FloatStorage", 4, plain<float>},
    {"DoubleStorage", 8, plain<double>},
}};

void require_zip(std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 4));
  if (head.starts_with("PK\x03\x04")) return;
  if (head.starts_with("\x80\x02")) {
    fail(file, "it is a pickle, as PyTorch before 1.6 writes tensors, expected a zip archive" +
                   std::string(kSaveAgain) + " of a newer PyTorch");
  }
  fail(file,
       "it begins with " + quoted(head) + ", expected a zip archive as torch.save writes it" + kSaveAgain);
}

const ZipEntry* find_entry(std::span<const ZipEntry> entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [name](const ZipEntry& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

const ElementType& element_type(std::string_view storage, const std::string& file) {
  for (const ElementType& type : kElementTypes) {
    if (type.storage == storage) return type;
  }
  fail(file,
       "its elements are a " + quoted(storage) +
           ", expected int32, int64, float16, bfloat16, float32 or float64; convert the tensor and save it "
           "again with torch.save");
}

// Archives state their byte order since PyTorch 2.1. Older archives do not, and are little-endian.
void require_little_endian(std::span<const ZipEntry> entries, const std::string& folder,
                           const std::string& file) {
  const ZipEntry* order = find_entry(entries, folder + "byteorder");
  if (order == nullptr) return;
  const std::string_view text(reinterpret_cast<const char*>(order->data.data()), order->data.size());
  if (text != "little") {
    fail(file, "its byte order is " + quoted(text) + ", expected \"little\"" + kSaveAgain +
                   " on a little-endian machine");
  }
}

}  // namespace

namespace {

void require_short(std::span<const std::byte> pickle, const std::string& file) {
  if (pickle.size() <= kLongestPickle) return;
  fail(file, "data.pkl has " + with_commas(pickle.size()) + " bytes, expected at most " +
                 with_commas(kLongestPickle) + ": it describes more than one layer's tensors");
}

[[noreturn]] void fail_beyond(const Machine& machine, int64_t n, int64_t offset, int64_t stored) {
  machine.fail("describes " + with_commas(static_cast<uint64_t>(n)) + " elements from element " +
               with_commas(static_cast<uint64_t>(offset)) + " on, beyond the " +
               with_commas(static_cast<uint64_t>(stored)) + " stored" + kFileDamaged);
}

}  // namespace

PickledTensor read_tensor_pickle(std::span<const std::byte> pickle, const std::string& file) {
  require_short(pickle, file);
  Machine machine(pickle, file);
  const Node root = machine.run();
  const PickledTensor tensor = Description(machine).tensor(root);
  if (!lies_within(tensor.storage_elements, tensor.offset, tensor.size, tensor.stride, 1, 0)) {
    fail_beyond(machine, tensor.size, tensor.offset, tensor.storage_elements);
  }
  return tensor;
}

std::vector<PickledMatrix> read_state_pickle(std::span<const std::byte> pickle, const std::string& file) {
  require_short(pickle, file);
  Machine machine(pickle, file);
  const Node root = machine.run();
  std::vector<PickledMatrix> matrices = Description(machine).matrices(root);
  for (const PickledMatrix& matrix : matrices) {
    if (!lies_within(matrix.storage_elements, matrix.offset, matrix.n_rows, matrix.row_stride, matrix.n_cols,
                     matrix.col_stride)) {
      fail_beyond(machine, matrix.n_rows, matrix.offset, matrix.storage_elements);
    }
  }
  return matrices;
}

namespace {

/// An archive that torch.save wrote. All its entries are in `folder`.
struct Archive {
  std::vector<ZipEntry> entries;
  std::string folder;
  std::span<const std::byte> pickle;
};

Archive open_archive(std::span<const std::byte> bytes, const std::string& file) {
  constexpr std::string_view kPickle = "data.pkl";
  require_zip(bytes, file);
  Archive archive;
  archive.entries = read_zip_entries(bytes, file);
  const auto pickle = std::ranges::find_if(
      archive.entries, [](const ZipEntry& entry) { return entry.name.ends_with("/data.pkl"); });
  if (pickle == archive.entries.end()) {
    fail(file, "it is a zip archive without data.pkl, expected a tensor" + std::string(kSaveAgain));
  }
  archive.folder = pickle->name.substr(0, pickle->name.size() - kPickle.size());
  archive.pickle = pickle->data;
  require_little_endian(archive.entries, archive.folder, file);
  return archive;
}

/// Returns the bytes of a storage. Throws if it does not have n_elements elements.
std::span<const std::byte> storage_of(const Archive& archive, std::string_view key, int64_t n_elements,
                                      const ElementType& type, const std::string& file) {
  const std::string name = archive.folder + "data/" + std::string(key);
  const ZipEntry* storage = find_entry(archive.entries, name);
  if (storage == nullptr || storage->data.size() % type.bytes != 0 ||
      storage->data.size() / type.bytes != static_cast<uint64_t>(n_elements)) {
    fail(file,
         "its entry " + quoted(name) +
             (storage == nullptr ? " is missing" : " has " + with_commas(storage->data.size()) + " bytes") +
             ", expected " + with_commas(static_cast<uint64_t>(n_elements)) + " elements of " +
             std::to_string(type.bytes) + " bytes: it is damaged; download it again");
  }
  return storage->data;
}

}  // namespace

std::vector<double> read_torch_vector(std::span<const std::byte> bytes, const std::string& file) {
  const Archive archive = open_archive(bytes, file);
  const PickledTensor tensor = read_tensor_pickle(archive.pickle, file);
  const ElementType& type = element_type(tensor.storage_type, file);
  if (tensor.size > kMaxElements) {
    fail(file, "it holds " + with_commas(static_cast<uint64_t>(tensor.size)) +
                   " elements, expected at most " + with_commas(kMaxElements) +
                   ": it does not have a layer's activation counts");
  }
  const std::span<const std::byte> storage =
      storage_of(archive, tensor.storage_key, tensor.storage_elements, type, file);
  std::vector<double> elements(static_cast<size_t>(tensor.size));
  for (size_t i = 0; i < elements.size(); ++i) {
    const size_t at = static_cast<size_t>(tensor.offset) + i * static_cast<size_t>(tensor.stride);
    elements[i] = type.read(storage.data() + at * type.bytes);
  }
  return elements;
}

std::vector<TorchMatrix> read_torch_state(std::span<const std::byte> bytes, const std::string& file,
                                          bool with_values) {
  const Archive archive = open_archive(bytes, file);
  const std::vector<PickledMatrix> matrices = read_state_pickle(archive.pickle, file);
  // A pickle can name the same tensor many times, so the number is limited. A predictor has two tensors.
  constexpr size_t kMostMatrices = 8;
  if (matrices.size() > kMostMatrices) {
    fail(file, "it holds " + std::to_string(matrices.size()) + " tensors, expected two" + kSaveState);
  }
  std::vector<TorchMatrix> state;
  for (const PickledMatrix& matrix : matrices) {
    const ElementType& type = element_type(matrix.storage_type, file);
    const std::span<const std::byte> storage =
        storage_of(archive, matrix.storage_key, matrix.storage_elements, type, file);
    // A view may repeat elements, but predictors have no such views. Refusing them keeps memory use
    // proportional to the file.
    int64_t n_elements = 0;
    if (__builtin_mul_overflow(matrix.n_rows, matrix.n_cols, &n_elements) ||
        n_elements > matrix.storage_elements) {
      fail(file, "tensor " + quoted(matrix.name) + " has more elements than are stored" + kFileDamaged);
    }
    TorchMatrix read{std::string(matrix.name), matrix.n_rows, matrix.n_cols, {}};
    read.values.reserve(static_cast<size_t>(with_values ? n_elements : 0));
    for (int64_t row = 0; row < matrix.n_rows && with_values; ++row) {
      for (int64_t col = 0; col < matrix.n_cols; ++col) {
        const int64_t at = matrix.offset + row * matrix.row_stride + col * matrix.col_stride;
        read.values.push_back(
            static_cast<float>(type.read(storage.data() + static_cast<size_t>(at) * type.bytes)));
      }
    }
    state.push_back(std::move(read));
  }
  return state;
}

}  // namespace hearth
