#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plimsoll/base/error.h"
#include "plimsoll/base/pickle.h"
#include "plimsoll/models/weights/archives.h"
#include "plimsoll/models/weights/zip.h"

namespace plimsoll::models {
namespace {

constexpr std::string_view kTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kParameter = "torch._utils._rebuild_parameter";
constexpr std::array<std::string_view, 1> kDicts = {"collections.OrderedDict"};

struct StorageType {
  std::string_view name, stored;
  int64_t bytes;
};
constexpr std::array kStorages = {
    StorageType{"torch.DoubleStorage", "F64", 8}, StorageType{"torch.FloatStorage", "F32", 4},
    StorageType{"torch.HalfStorage", "F16", 2},   StorageType{"torch.BFloat16Storage", "BF16", 2},
    StorageType{"torch.LongStorage", "I64", 8},   StorageType{"torch.IntStorage", "I32", 4},
    StorageType{"torch.ShortStorage", "I16", 2},  StorageType{"torch.CharStorage", "I8", 1},
    StorageType{"torch.ByteStorage", "U8", 1},    StorageType{"torch.BoolStorage", "BOOL", 1}};

std::vector<std::string_view> known_names() {
  std::vector<std::string_view> names = {kTensor, kParameter};
  for (const StorageType& storage : kStorages) names.push_back(storage.name);
  return names;
}

class StateDict {
 public:
  explicit StateDict(const std::string& path)
      : file_(std::make_shared<const MappedFile>(path)), entries_(open(*file_)) {}

  StoredTensors read() {
    const ZipEntry& pickle = find_pickle();
    check_byte_order();
    const std::string_view bytes(reinterpret_cast<const char*>(pickle.bytes.data()), pickle.bytes.size());
    const std::vector<std::string_view> names = known_names();
    const auto source = open_memory(bytes, file_->path());
    const PickleValue root = read_pickle(*source, heap_, nullptr, {names, kDicts});
    StoredTensors tensors = tensors_of(root);
    for (const char* key : {"state_dict", "model_state_dict", "model"}) {
      if (tensors.empty()) tensors = tensors_of(heap_.find(root, key));
    }
    if (tensors.empty()) fail("there is no tensor in it", "a state dict, as torch.save(model.state_dict(), ..) writes");
    return tensors;
  }

 private:
  [[noreturn]] void fail(std::string_view what, std::string_view expected = "") const {
    throw InputError({.source = file_->path()}, what, expected);
  }

  static ZipEntries open(const MappedFile& file) {
    const std::span<const std::byte> bytes = file.bytes();
    if (!bytes.empty() && bytes[0] == std::byte{0x80}) {
      throw InputError({.source = file.path()}, "PyTorch's format of before 1.6",
                       "an archive: load it and torch.save it again");
    }
    return read_zip(file);
  }

  const ZipEntry& find_pickle() {
    constexpr std::string_view kPickle = "data.pkl";
    for (const auto& [name, entry] : entries_) {
      const bool fits = name == kPickle || name.ends_with("/data.pkl");
      if (!fits || entry.deflated) continue;
      folder_ = name.substr(0, name.size() - kPickle.size());
      return entry;
    }
    fail("there is no data.pkl in it", "what torch.save writes");
  }

  void check_byte_order() const {
    const auto found = entries_.find(folder_ + "byteorder");
    if (found == entries_.end()) return;
    const auto* text = reinterpret_cast<const char*>(found->second.bytes.data());
    if (std::string_view(text, found->second.bytes.size()) != "little") fail("its numbers are not little-endian");
  }

  StoredTensors tensors_of(PickleValue dict) const {
    StoredTensors tensors;
    if (!heap_.is_dict(dict)) return tensors;
    const auto items = heap_.items(dict);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const auto name = heap_.text(items[i]);
      const auto arguments = tensor_arguments(items[i + 1]);
      if (name && !arguments.empty()) tensors.insert_or_assign(std::string(*name), tensor_of(*name, arguments));
    }
    return tensors;
  }

  // Of the call that rebuilds a tensor, seen through that of a parameter. Empty: it is none.
  std::span<const PickleValue> tensor_arguments(PickleValue value) const {
    auto call = heap_.items(value);
    if (call.size() == 2 && heap_.text(call[0]) == kParameter) {
      const auto arguments = heap_.items(call[1]);
      call = arguments.empty() ? arguments : heap_.items(arguments[0]);
    }
    if (call.size() != 2 || heap_.text(call[0]) != kTensor) return {};
    return heap_.items(call[1]);
  }

  std::vector<int64_t> numbers(std::string_view name, PickleValue value) const {
    std::vector<int64_t> found;
    for (const PickleValue item : heap_.items(value)) {
      const auto number = heap_.integer(item);
      if (!number || *number < 0 || found.size() == Shape::kMaxRank) {
        fail(fmt::format("tensor {} has a shape that is not of a few numbers", quote(name)));
      }
      found.push_back(*number);
    }
    return found;
  }

  // (storage, first element, shape, strides, ..)
  StoredTensor tensor_of(std::string_view name, std::span<const PickleValue> arguments) const {
    if (arguments.size() < 4) fail(fmt::format("tensor {} is rebuilt of {} values", quote(name), arguments.size()));
    StoredTensor tensor;
    tensor.name = name;
    tensor.file = file_;
    tensor.shape = Shape(numbers(name, arguments[2]));
    check_strides(name, tensor.shape, numbers(name, arguments[3]));
    const auto [type, storage] = storage_of(name, arguments[0]);
    tensor.dtype = type->stored;
    const int64_t count = elements(name, tensor.shape);
    const int64_t first = heap_.integer(arguments[1]).value_or(-1);
    const int64_t held = static_cast<int64_t>(storage.size()) / type->bytes;
    if (first < 0 || first > held || count > held - first) {
      fail(fmt::format("tensor {} reaches beyond its storage of {} elements", quote(name), held));
    }
    tensor.bytes = storage.subspan(static_cast<size_t>(first * type->bytes), static_cast<size_t>(count * type->bytes));
    return tensor;
  }

  int64_t elements(std::string_view name, const Shape& shape) const {
    try {
      return shape.elements();
    } catch (const ArgumentError& error) {
      fail(fmt::format("tensor {}: {}", quote(name), error.what()));
    }
  }

  void check_strides(std::string_view name, const Shape& shape, const std::vector<int64_t>& strides) const {
    if (strides.size() != static_cast<size_t>(shape.rank())) fail(fmt::format("tensor {} lacks strides", quote(name)));
    if (elements(name, shape) == 0) return;
    int64_t expected = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (shape[axis] != 1 && strides[static_cast<size_t>(axis)] != expected) {
        throw UnsupportedError(fmt::format("{}: tensor {} is not stored row by row; save .contiguous() of it",
                                           file_->path(), quote(name)));
      }
      expected *= shape[axis];
    }
  }

  struct Storage {
    const StorageType* type;
    std::span<const std::byte> bytes;
  };

  // The persistent id ('storage', type, key, device, elements).
  Storage storage_of(std::string_view name, PickleValue value) const {
    const auto id = heap_.items(value);
    const auto parts = id.size() == 1 ? heap_.items(id[0]) : id;
    if (parts.size() < 3 || heap_.text(parts[0]) != "storage" || !heap_.text(parts[1]) || !heap_.text(parts[2])) {
      fail(fmt::format("tensor {} has no storage", quote(name)));
    }
    const auto found = entries_.find(fmt::format("{}data/{}", folder_, *heap_.text(parts[2])));
    if (found == entries_.end() || found->second.deflated) {
      fail(fmt::format("the storage {} of tensor {} is not there", quote(*heap_.text(parts[2])), quote(name)));
    }
    for (const StorageType& type : kStorages) {
      if (type.name == *heap_.text(parts[1])) return {&type, found->second.bytes};
    }
    fail(fmt::format("tensor {} has elements of {}", quote(name), *heap_.text(parts[1])));
  }

  std::shared_ptr<const MappedFile> file_;
  ZipEntries entries_;
  std::string folder_;  // of the archive, with a slash
  TextTable texts_;
  PickleHeap heap_{texts_};
};

}  // namespace

StoredTensors read_torch_file(const std::string& path) { return StateDict(path).read(); }

StoredTensors read_weights(const std::string& path) {
  if (path.ends_with(".npz")) return read_npz(path);
  for (const char* ending : {".pt", ".pth", ".bin"}) {
    if (path.ends_with(ending)) return read_torch_file(path);
  }
  return read_safetensors(path);
}

}  // namespace plimsoll::models
