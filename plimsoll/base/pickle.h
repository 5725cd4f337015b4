// Reads a Python pickle of plain data, protocols 2 to 5, without running anything. Only opcodes that make numbers,
// text, bytes, lists, tuples and dicts are known; whatever would import, call or build an object is an error that
// names the opcode and its place. A caller may name the few callables that its files need (PickleNames): they are never
// called, but kept as data for the caller to read. Nothing recurses and every size is bound by the bytes that were
// really there, so a hostile file costs at most a small multiple of its own length.
//
// No tree of small objects is made. Values are 8 bytes, containers lie in one heap, and a PickleReducer may turn a
// dict or list into one number of its own the moment it is complete, so that a snapshot of millions of dicts never
// exists as dicts.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/base/byte_source.h"
#include "plimsoll/base/flat_array.h"
#include "plimsoll/base/hash_index.h"

namespace plimsoll {

// Texts by number, each once.
class TextTable {
 public:
  uint32_t intern(std::string_view text);
  std::string_view operator[](uint32_t id) const { return texts_[id]; }
  size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // a deque: views of them stay valid
  HashIndex index_;
};

enum class PickleKind : uint8_t { none, boolean, integer, wide_integer, real, text, container };

// A value: its kind in the low 4 bits, the rest above. Integers of 60 bits are held here, wider ones in the heap.
class PickleValue {
 public:
  PickleValue() = default;
  PickleValue(PickleKind kind, int64_t payload)
      : bits_(static_cast<uint64_t>(payload) << 4 | static_cast<uint64_t>(kind)) {}

  PickleKind kind() const { return static_cast<PickleKind>(bits_ & 15); }
  bool is(PickleKind kind) const { return this->kind() == kind; }
  int64_t payload() const { return static_cast<int64_t>(bits_) >> 4; }
  size_t index() const { return static_cast<size_t>(bits_ >> 4); }
  bool operator==(const PickleValue&) const = default;

 private:
  uint64_t bits_ = 0;
};

// Turns finished containers into numbers of its own ("objects").
class PickleReducer {
 public:
  virtual ~PickleReducer() = default;
  // `items` are keys and values in turn, `existing` the object that this dict is already. Nothing: keep it as a dict.
  virtual std::optional<uint64_t> reduce_dict(std::optional<uint64_t> existing, std::span<const PickleValue> items) = 0;
  virtual std::optional<uint64_t> reduce_list(std::optional<uint64_t> existing, std::span<const PickleValue> items) = 0;
};

// What a pickle's values refer to.
class PickleHeap {
 public:
  explicit PickleHeap(TextTable& texts) : texts_(&texts) {}

  // The integer, or nothing when `value` is none or does not fit in int64_t.
  std::optional<int64_t> integer(PickleValue value) const {
    return value.is(PickleKind::integer) ? std::optional(value.payload()) : wide_integer(value);
  }
  // Any integer modulo 2^64, for addresses, which only have to be told apart. 0 when it is no integer.
  uint64_t address(PickleValue value) const;
  std::optional<double> number(PickleValue value) const;  // integer, real or boolean
  std::optional<std::string_view> text(PickleValue value) const;
  // Items of a list or tuple; keys and values in turn of a dict. Empty for anything else.
  std::span<const PickleValue> items(PickleValue value) const;
  // What the reducer made of this container.
  std::optional<uint64_t> object(PickleValue value) const {
    if (!value.is(PickleKind::container) || type(value) < Type::list_object) return std::nullopt;
    return containers_[value.index()] >> 2;
  }
  // Whether items can be set in it (a dict) or appended (a list), also when it is an object now.
  bool takes_pairs(PickleValue value) const { return value.is(PickleKind::container) && has_pairs(type(value)); }
  bool takes_items(PickleValue value) const { return value.is(PickleKind::container) && !has_pairs(type(value)); }
  bool is_dict(PickleValue value) const { return value.is(PickleKind::container) && type(value) == Type::dict; }
  bool is_list(PickleValue value) const { return value.is(PickleKind::container) && type(value) == Type::list; }
  // The value under `key` in a dict; none when absent.
  PickleValue find(PickleValue dict, std::string_view key) const;

  TextTable& texts() { return *texts_; }
  PickleValue new_container(bool is_dict);
  PickleValue new_wide(uint64_t low, double approximate, bool fits);
  PickleValue new_real(double real);
  // Puts `items` at the end of a container, or lets `reducer` have them. False when the container is an object that
  // takes no more. Objects are below 2^62.
  bool extend(PickleValue container, std::span<const PickleValue> items, PickleReducer* reducer);

 private:
  enum class Type : uint64_t { list, dict, list_object, dict_object };
  struct Extent {
    size_t first = 0;  // in pool_
    size_t size = 0;
    size_t capacity = 0;
  };
  struct Wide {
    uint64_t low;
    double approximate;
    bool fits;
  };
  static bool has_pairs(Type type) { return type == Type::dict || type == Type::dict_object; }
  Type type(PickleValue value) const { return static_cast<Type>(containers_[value.index()] & 3); }
  const Extent& extent(PickleValue value) const { return extents_[containers_[value.index()] >> 2]; }
  std::optional<int64_t> wide_integer(PickleValue value) const;
  Extent& extent_of(PickleValue value);
  void append(Extent& extent, std::span<const PickleValue> items);
  void make_room(Extent& extent, size_t size);

  TextTable* texts_;
  FlatArray<uint64_t> containers_;  // the type below, the object or the number of the extent above
  std::vector<Extent> extents_{1};  // number 0: still empty
  std::vector<PickleValue> pool_;
  std::vector<Wide> wides_;
  std::vector<double> reals_;
};

// What a pickle may name ("torch._utils._rebuild_tensor_v2"), beyond plain data. A name becomes its text, a call the
// list [name, arguments], a persistent id the list [id]; a call of one of `dicts` becomes an empty dict, and state that
// an object would be built with is dropped. Any other name is an error.
struct PickleNames {
  std::span<const std::string_view> known = {};
  std::span<const std::string_view> dicts = {};

  bool empty() const { return known.empty() && dicts.empty(); }
};

// Reads one pickle and returns its value. InputError with the byte offset for anything that is not plain data.
PickleValue read_pickle(ByteSource& source, PickleHeap& heap, PickleReducer* reducer = nullptr,
                        const PickleNames& names = {});

}  // namespace plimsoll
