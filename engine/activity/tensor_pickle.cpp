// The stack machine, and the reading of what it leaves. Values are descriptions in one table and name each
// other by position, so a pickle that repeats itself costs no more than its length, and nothing here
// recurses.
#include "engine/activity/tensor_pickle.h"

#include <cstring>
#include <map>
#include <vector>

#include "engine/model/gguf/cursor.h"
#include "engine/model/gguf/fault.h"

namespace hearth::activity {
namespace {

using gguf::with_commas;

// One tensor's takes 150 bytes; the limit bounds memory whatever is inside.
constexpr size_t kLongestPickle = size_t{1} << 16;

constexpr const char* kSaveOne = "; save each layer's counts alone, with torch.save(counts, path)";
constexpr const char* kAgain = ": the file is damaged; download it again";
constexpr std::string_view kRebuild = "torch._utils\n_rebuild_tensor_v2";
constexpr std::string_view kModule = "torch\n";

enum class Kind : uint8_t { kMark, kNone, kBool, kInt, kText, kGlobal, kTuple, kDict, kStorage, kCall };

constexpr const char* kKindNames[] = {"a mark",     "None",    "a boolean", "a number",       "a text",
                                      "a function", "a tuple", "a dict",    "a bare storage", "an object"};

struct Node {
  Kind kind = Kind::kNone;
  int64_t number = 0;     // of an integer
  std::string_view text;  // of a text; of a global "module\nname"
  size_t first = 0;       // of a tuple, storage or call: its parts in Machine's list
  size_t count = 0;
};

using NodeId = uint32_t;

class Machine {
 public:
  Machine(std::span<const std::byte> pickle, const std::string& file)
      : pickle_(pickle), cursor_(pickle, file) {
    cursor_.enter("data.pkl");
  }

  /// Runs the pickle to its end; what is on top of the stack then.
  const Node& run() {
    while (step(cursor_.read<uint8_t>())) {
    }
    return nodes_[pop()];
  }

  const Node& part(const Node& node, size_t i) const { return nodes_[parts_[node.first + i]]; }
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
    if (stack_.empty()) fail("takes more values than it has" + std::string(kAgain));
    const NodeId top = stack_.back();
    stack_.pop_back();
    return top;
  }

  // Replaces the topmost `count` values by one of them all.
  void gather(Kind kind, size_t count) {
    if (count > stack_.size()) fail("takes more values than it has" + std::string(kAgain));
    Node node;
    node.kind = kind;
    node.first = parts_.size();
    node.count = count;
    parts_.insert(parts_.end(), stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    push(node);
  }
  void gather_to_mark() {
    size_t count = 0;
    while (count < stack_.size() && nodes_[stack_[stack_.size() - 1 - count]].kind != Kind::kMark) ++count;
    if (count == stack_.size()) fail("ends a tuple that it did not begin" + std::string(kAgain));
    gather(Kind::kTuple, count);
    stack_.erase(stack_.end() - 2);  // the mark, below the tuple
  }

  // "module\nname\n": the text without its last newline.
  void push_global() {
    const size_t begin = cursor_.at();
    for (int lines = 0; lines < 2;) {
      if (cursor_.read<char>() == '\n') ++lines;
    }
    push_text(Kind::kGlobal, pickle_.subspan(begin, cursor_.at() - begin - 1));
  }

  // Little-endian two's complement of so many bytes.
  void push_long(uint8_t n_bytes) {
    const std::span<const std::byte> bytes = cursor_.take(n_bytes);
    if (n_bytes > sizeof(int64_t)) fail("holds a number of " + std::to_string(n_bytes) + " bytes" + kSaveOne);
    const bool negative = n_bytes > 0 && (std::to_integer<unsigned>(bytes.back()) & 0x80u) != 0;
    int64_t number = negative ? -1 : 0;
    std::memcpy(&number, bytes.data(), bytes.size());
    push_number(number);
  }

  void remember(uint32_t key) {
    if (stack_.empty()) fail("remembers a value that it does not have" + std::string(kAgain));
    memo_[key] = stack_.back();
  }
  void recall(uint32_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) fail("recalls a value that it did not remember" + std::string(kAgain));
    stack_.push_back(found->second);
  }

  std::span<const std::byte> pickle_;
  gguf::Cursor cursor_;
  std::vector<Node> nodes_;
  std::vector<NodeId> parts_;
  std::vector<NodeId> stack_;
  std::map<uint32_t, NodeId> memo_;
};

// Operations by their letters in Python's pickletools.
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

// What the machine leaves, taken apart: _rebuild_tensor_v2(storage, offset, size, stride, ...), with storage
// ("storage", type, key, device, elements).
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
    machine_->fail("describes a tensor whose " + std::string(what) + " is not as PyTorch writes it" + kAgain);
  }

  PickledTensor tensor(const Node& root) const {
    if (root.kind != Kind::kCall) {
      machine_->fail("holds " + std::string(kKindNames[static_cast<size_t>(root.kind)]) +
                     ", expected one tensor" + kSaveOne);
    }
    const Node& function = machine_->part(root, 0);
    if (function.kind != Kind::kGlobal || function.text != kRebuild) {
      machine_->fail("holds an object made by " + gguf::quoted(function.text) + ", expected one tensor" +
                     kSaveOne);
    }
    const Node& arguments = part(root, 1, Kind::kTuple, "description");
    const Node& storage = part(part(arguments, 0, Kind::kStorage, "storage"), 0, Kind::kTuple, "storage");
    PickledTensor tensor;
    tensor.storage_type = part(storage, 1, Kind::kGlobal, "storage type").text;
    if (!tensor.storage_type.starts_with(kModule)) unexpected("storage type");
    tensor.storage_type.remove_prefix(kModule.size());
    tensor.storage_key = part(storage, 2, Kind::kText, "storage key").text;
    tensor.storage_elements = number(storage, 4, "storage size");
    tensor.offset = number(arguments, 1, "offset");
    const Node& shape = part(arguments, 2, Kind::kTuple, "shape");
    const Node& strides = part(arguments, 3, Kind::kTuple, "stride");
    if (shape.count != 1) {
      machine_->fail("holds a tensor of " + std::to_string(shape.count) +
                     " dimensions, expected one: the counts of a layer" + kSaveOne);
    }
    tensor.size = number(shape, 0, "shape");
    tensor.stride = number(strides, 0, "stride");
    return tensor;
  }

 private:
  const Machine* machine_;
};

// offset + (size - 1) * stride < elements, without overflow.
bool lies_within(const PickledTensor& tensor) {
  if (tensor.size == 0) return true;
  int64_t last = 0;
  return !__builtin_mul_overflow(tensor.size - 1, tensor.stride, &last) &&
         !__builtin_add_overflow(last, tensor.offset, &last) && last < tensor.storage_elements;
}

}  // namespace

PickledTensor read_tensor_pickle(std::span<const std::byte> pickle, const std::string& file) {
  if (pickle.size() > kLongestPickle) {
    gguf::fail(file, "data.pkl has " + with_commas(pickle.size()) + " bytes, expected at most " +
                         with_commas(kLongestPickle) + " for one tensor" + kSaveOne);
  }
  Machine machine(pickle, file);
  const Node root = machine.run();
  const PickledTensor tensor = Description(machine).tensor(root);
  if (!lies_within(tensor)) {
    machine.fail("describes " + with_commas(static_cast<uint64_t>(tensor.size)) + " elements from element " +
                 with_commas(static_cast<uint64_t>(tensor.offset)) + " on, beyond the " +
                 with_commas(static_cast<uint64_t>(tensor.storage_elements)) + " stored" + kAgain);
  }
  return tensor;
}

}  // namespace hearth::activity
