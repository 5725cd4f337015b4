#include "plimsoll/base/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "plimsoll/base/error.h"

namespace plimsoll {
namespace {

constexpr size_t kBuffer = 1 << 18;
constexpr size_t kLookahead = 16;  // more than any opcode with its fixed operand
constexpr size_t kLongestName = 256;
constexpr size_t kLongestText = 64u << 20;  // a text beyond this is no part of any snapshot

struct OpcodeName {
  uint8_t code;
  const char* name;
};

// Opcodes that can make Python import, call or build something, or that stand for data we are not given.
constexpr OpcodeName kForbidden[] = {
    {'c', "GLOBAL"},     {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"},     {'b', "BUILD"},        {'i', "INST"},
    {'o', "OBJ"},        {0x81, "NEWOBJ"},       {0x92, "NEWOBJ_EX"}, {0x82, "EXT1"},        {0x83, "EXT2"},
    {0x84, "EXT4"},      {'P', "PERSID"},        {'Q', "BINPERSID"},  {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"},
    {0x8f, "EMPTY_SET"}, {0x90, "ADDITEMS"},     {0x91, "FROZENSET"}};

// The text opcodes of protocol 0.
constexpr OpcodeName kTextual[] = {{'I', "INT"},     {'L', "LONG"}, {'F', "FLOAT"}, {'S', "STRING"},
                                   {'V', "UNICODE"}, {'p', "PUT"},  {'g', "GET"}};

const char* find_name(std::span<const OpcodeName> names, uint8_t code) {
  for (const OpcodeName& entry : names) {
    if (entry.code == code) return entry.name;
  }
  return nullptr;
}

template <typename T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// The bytes of a pickle with at least kLookahead of them always readable past the cursor; beyond the end they are 0.
class Window {
 public:
  explicit Window(ByteSource& source) : source_(source), buffer_(kBuffer + kLookahead) {}

  const char* need() {
    if (end_ - cursor_ < kLookahead) refill();
    return buffer_.data() + cursor_;
  }

  const char* here() const { return buffer_.data() + cursor_; }
  bool at_end() const { return cursor_ >= end_; }
  bool overrun() const { return cursor_ > end_; }
  int64_t offset() const { return before_ + static_cast<int64_t>(cursor_); }
  void skip(size_t bytes) { cursor_ += bytes; }
  size_t ahead() const { return end_ - std::min(cursor_, end_); }  // bytes in the window

  // The next `size` bytes, as a view that lasts until the next call of anything.
  std::optional<std::string_view> take(size_t size) {
    if (cursor_ < end_ && size <= end_ - cursor_) {
      cursor_ += size;
      return std::string_view(buffer_.data() + cursor_ - size, size);
    }
    return take_long(size);
  }

 private:
  void refill() {
    if (finished_) return;
    const size_t left = end_ - cursor_;
    std::memmove(buffer_.data(), buffer_.data() + cursor_, left);
    before_ += static_cast<int64_t>(cursor_);
    cursor_ = 0;
    const size_t got = source_.read(buffer_.data() + left, kBuffer - left);
    finished_ = got < kBuffer - left;
    end_ = left + got;
    std::memset(buffer_.data() + end_, 0, kLookahead);
  }

  // Grows as bytes arrive, so that a length that lies costs nothing.
  std::optional<std::string_view> take_long(size_t size) {
    scratch_.clear();
    while (scratch_.size() < size) {
      need();
      if (at_end()) return std::nullopt;
      const size_t step = std::min(size - scratch_.size(), end_ - cursor_);
      scratch_.append(buffer_.data() + cursor_, step);
      cursor_ += step;
    }
    return scratch_;
  }

  ByteSource& source_;
  std::vector<char> buffer_;
  std::string scratch_;
  size_t cursor_ = 0;
  size_t end_ = 0;
  int64_t before_ = 0;  // bytes that lie before the buffer
  bool finished_ = false;
};

// The stack machine that a pickle is a program for.
class Machine {
 public:
  Machine(ByteSource& source, PickleHeap& heap, PickleReducer* reducer, const PickleNames& names)
      : window_(source), source_name_(source.name()), heap_(heap), reducer_(reducer), names_(names) {}

  PickleValue run() {
    check_start();
    while (step()) {
    }
    if (stack_.size() != 1 || !marks_.empty()) fail("the pickle stops with an unfinished value");
    return stack_.last(1)[0];
  }

 private:
  void check_start() {
    const char* at = window_.need();
    if (window_.at_end()) fail("the file is empty");
    if (static_cast<uint8_t>(*at) != 0x80) {
      fail(fmt::format("found {}, expected a pickle of protocol 2 to 5", quote({at, 1})));
    }
  }

  // Executes one opcode; false at STOP.
  bool step() {
    const auto code = static_cast<uint8_t>(*window_.need());
    if (window_.at_end()) fail("the pickle is cut short: no STOP opcode");
    at_ = window_.offset();
    window_.skip(1);
    switch (code) {
      case '.':
        return false;
      case 0x80:
        protocol(static_cast<uint8_t>(fixed(1)[0]));
        break;
      case 0x95:  // FRAME only says how many bytes may be read at once
        fixed(8);
        break;
      case 'j':
        get_run<uint32_t>('j');
        break;
      case 'h':
        get_run<uint8_t>('h');
        break;
      case 0x94:
        put(memo_.size());
        break;
      case 'q':
        put(static_cast<uint8_t>(fixed(1)[0]));
        break;
      case 'r':
        put(load<uint32_t>(fixed(4)));
        break;
      case 'K':
        push_integer(static_cast<uint8_t>(fixed(1)[0]));
        break;
      case 'M':
        push_integer(load<uint16_t>(fixed(2)));
        break;
      case 'J':
        push_integer(load<int32_t>(fixed(4)));
        break;
      case 0x8a:
        push_long(static_cast<uint8_t>(fixed(1)[0]));
        break;
      case 0x8b:
        push_long(load<uint32_t>(fixed(4)));
        break;
      case 'G':
        push(heap_.new_real(std::bit_cast<double>(__builtin_bswap64(load<uint64_t>(fixed(8))))));
        break;
      case 'N':
        push({});
        break;
      case 0x88:
        push({PickleKind::boolean, 1});
        break;
      case 0x89:
        push({PickleKind::boolean, 0});
        break;
      case 0x8c:  // SHORT_BINUNICODE, SHORT_BINSTRING, SHORT_BINBYTES
      case 'U':
      case 'C':
        push_text(static_cast<uint8_t>(fixed(1)[0]));
        break;
      case 'X':
      case 'T':
      case 'B':
        push_text(load<uint32_t>(fixed(4)));
        break;
      case 0x8d:
      case 0x8e:
      case 0x96:
        push_text(load<uint64_t>(fixed(8)));
        break;
      case '(':
        marks_.push_back(static_cast<uint32_t>(stack_.size()));
        break;
      case ']':
      case ')':
        push(heap_.new_container(false));
        break;
      case '}':
        push(heap_.new_container(true));
        break;
      case 'a':
        extend_below(1, false);
        break;
      case 's':
        extend_below(2, true);
        break;
      case 'e':
        extend_below(since_mark(), false);
        break;
      case 'u':
        extend_below(since_mark(), true);
        break;
      case 0x85:
      case 0x86:
      case 0x87:
        collect(size_t{code} - 0x84, false);
        break;
      case 't':
      case 'l':
        collect(since_mark(), false);
        break;
      case 'd':
        collect(since_mark(), true);
        break;
      case '0':
        drop(1);
        break;
      case '1':
        drop(since_mark());
        break;
      case '2':
        push(top(1));
        break;
      default:
        if (names_.empty() || !step_named(code)) refuse(code);
    }
    if (window_.overrun()) fail("the pickle is cut short in the middle of an opcode");
    return true;
  }

  // Opcodes that name, call or build, for files that may. False for others.
  bool step_named(uint8_t code) {
    switch (code) {
      case 'c': {
        const std::string module = line();
        push_name(module + "." + line());
        return true;
      }
      case 0x93: {  // STACK_GLOBAL
        const auto module = heap_.text(top(2));
        const auto name = heap_.text(top(1));
        if (!module || !name) fail("a name is made of what is no text");
        const std::string whole = fmt::format("{}.{}", *module, *name);
        drop(2);
        push_name(whole);
        return true;
      }
      case 'R':
        call();
        return true;
      case 'Q':
        collect(1, false);
        return true;
      case 'b':
        drop(1);
        top(1);
        return true;
      default:
        return false;
    }
  }

  // Up to the end of the line.
  std::string line() {
    std::string text;
    while (text.size() <= kLongestName) {
      const char c = take(1)[0];
      if (c == '\n') return text;
      text += c;
    }
    fail(fmt::format("found a name of more than {} bytes", kLongestName));
  }

  void push_name(const std::string& name) {
    const auto is_in = [&](std::span<const std::string_view> names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (!is_in(names_.known) && !is_in(names_.dicts)) {
      fail(fmt::format("the pickle names {}, which is no part of such a file; nothing was imported or run",
                       quote(name)));
    }
    push({PickleKind::text, static_cast<int64_t>(heap_.texts().intern(name))});
  }

  void call() {
    const auto name = heap_.text(top(2));
    if (!name) fail("something is called that has no name");
    if (std::find(names_.dicts.begin(), names_.dicts.end(), *name) == names_.dicts.end()) return collect(2, false);
    drop(2);
    push(heap_.new_container(true));
  }

  // The operand of the opcode under way: `size` bytes, at most 8. The window has them, since step() saw to it.
  const char* fixed(size_t size) {
    const char* at = window_.here();
    window_.skip(size);
    return at;
  }

  void protocol(uint8_t version) {
    if (version < 2 || version > 5) fail(fmt::format("found pickle protocol {}, expected 2 to 5", version));
  }

  void push(PickleValue value) { stack_.push(value); }
  void push_integer(int64_t value) { push({PickleKind::integer, value}); }

  void push_long(size_t size) {
    if (size > 8) return push_wide(size);
    const char* at = fixed(size);
    if (size == 0) return push_integer(0);
    const auto shift = static_cast<int>(64 - 8 * size);
    const int64_t value = static_cast<int64_t>(load<uint64_t>(at) << shift) >> shift;
    const bool inline_fits = value == (value << 4) >> 4;
    push(inline_fits ? PickleValue(PickleKind::integer, value)
                     : heap_.new_wide(static_cast<uint64_t>(value), static_cast<double>(value), true));
  }

  void push_wide(size_t size) {
    const std::string_view bytes = take(size);
    const bool negative = (bytes.back() & 0x80) != 0;
    const auto low = load<uint64_t>(bytes.data());
    double approximate = negative ? -1 : 0;
    bool fits = (static_cast<int64_t>(low) < 0) == negative;
    for (size_t i = size; i-- > 0;) {
      const auto byte = static_cast<uint8_t>(bytes[i]);
      approximate = approximate * 256 + byte;
      if (i >= 8) fits = fits && byte == (negative ? 0xff : 0);
    }
    push(heap_.new_wide(low, approximate, fits));
  }

  void push_text(uint64_t size) { push({PickleKind::text, static_cast<int64_t>(heap_.texts().intern(take(size)))}); }

  std::string_view take(uint64_t size) {
    if (size > kLongestText) fail(fmt::format("found a value of {} bytes, expected at most {}", size, kLongestText));
    const auto bytes = window_.take(size);
    if (!bytes) fail(fmt::format("the pickle is cut short in a value of {} bytes", size));
    return *bytes;
  }

  // A stack of frames is a long run of BINGET or LONG_BINGET, and most of a snapshot is such stacks. So they are
  // counted first and fetched together; a run that the window cuts goes on as another.
  template <typename Index>
  void get_run(char opcode) {
    constexpr size_t kStep = 1 + sizeof(Index);
    const char* first = window_.here();
    const size_t most = window_.ahead() / kStep;
    size_t count = 1;
    while (count < most && first[count * kStep - 1] == opcode) ++count;
    PickleValue* values = stack_.extend(count);
    for (size_t i = 0; i < count; ++i) {
      const Index index = load<Index>(first + i * kStep);
      if (index >= memo_.size()) fail(fmt::format("memo entry {} is used before it is set", index));
      values[i] = memo_[index];
    }
    window_.skip(count * kStep - 1);
  }

  // Picklers number the memo densely (Python 2 from 1); a gap would only be there to make us allocate it.
  void put(size_t index) {
    const size_t size = memo_.size();
    if (index == size) return memo_.push(top(1));
    if (index > size + 1) fail(fmt::format("memo entry {} skips past {}", index, size));
    if (index > size) std::fill_n(memo_.extend(2), 2, PickleValue());
    memo_[index] = top(1);
  }

  // Values above the innermost mark may be used; those below belong to someone else.
  size_t available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  PickleValue top(size_t depth) {
    if (available() < depth) fail("an opcode needs a value that is not there");
    return stack_.last(depth)[0];
  }

  size_t since_mark() {
    if (marks_.empty()) fail("an opcode needs a MARK that is not there");
    const size_t count = available();
    marks_.pop_back();
    return count;
  }

  void drop(size_t count) {
    if (available() < count) fail("an opcode needs a value that is not there");
    stack_.drop(count);
  }

  std::span<const PickleValue> last(size_t count) {
    if (available() < count) fail("an opcode needs a value that is not there");
    return stack_.last(count);
  }

  // Moves the last `count` values into the container below them.
  void extend_below(size_t count, bool dict) {
    const auto items = last(count);
    const PickleValue container = top(count + 1);
    check_container(container, count, dict);
    if (!heap_.extend(container, items, reducer_)) fail("a finished part of the snapshot is changed again");
    drop(count);
  }

  void check_container(PickleValue container, size_t count, bool dict) {
    const bool kind_ok = dict ? heap_.takes_pairs(container) : heap_.takes_items(container);
    if (!kind_ok) fail(dict ? "items are set in what is no dict" : "items are appended to what is no list");
    if (dict && count % 2 != 0) fail("a dict is given a key without a value");
  }

  void collect(size_t count, bool dict) {
    const auto items = last(count);
    if (dict && count % 2 != 0) fail("a dict is given a key without a value");
    const PickleValue container = heap_.new_container(dict);
    heap_.extend(container, items, dict ? reducer_ : nullptr);
    drop(count);
    push(container);
  }

  [[noreturn]] void refuse(uint8_t code) {
    if (const char* name = find_name(kForbidden, code)) {
      fail(fmt::format("found the opcode {}, which plain data does not need; nothing was imported or run. {}", name,
                       names_.empty() ? "A memory snapshot holds only numbers, text, lists and dicts: this file is "
                                        "something else"
                                      : "A file of weights holds tensors in dicts"));
    }
    if (const char* name = find_name(kTextual, code)) {
      fail(fmt::format("found the protocol 0 opcode {}, expected protocol 2 to 5", name));
    }
    fail(fmt::format("found byte 0x{:02x}, expected a pickle opcode", code));
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw InputError({.source = source_name_, .offset = at_}, what);
  }

  Window window_;
  std::string source_name_;
  PickleHeap& heap_;
  PickleReducer* reducer_;
  PickleNames names_;
  FlatArray<PickleValue> stack_;
  std::vector<uint32_t> marks_;
  FlatArray<PickleValue> memo_;
  int64_t at_ = 0;  // of the opcode under way
};

}  // namespace

PickleValue read_pickle(ByteSource& source, PickleHeap& heap, PickleReducer* reducer, const PickleNames& names) {
  return Machine(source, heap, reducer, names).run();
}

}  // namespace plimsoll
