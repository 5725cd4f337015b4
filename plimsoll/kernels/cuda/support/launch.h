// How kernels of CUDA are described and launched. An op becomes a list of Steps: launches of compiled text, copies,
// calls of libraries. What a launch is specialised by (dtypes, formulas) is macros before its text; sizes are
// arguments.
#pragma once

#include <cstring>
#include <string>
#include <variant>
#include <vector>

#include "plimsoll/device/cuda/paper.h"
#include "plimsoll/kernels/kernel.h"

namespace plimsoll::kernels::cuda {

using plimsoll::cuda::CompileOnly;

// An address that is known when the op is bound. Where the operand is left out, or the result not wanted, it is null.
struct At {
  enum class Where : uint8_t { in, out, scratch, none } where = Where::none;
  int index = 0;
  int64_t offset = 0;  // bytes

  At operator+(int64_t bytes) const { return {where, index, offset + bytes}; }
};
inline At in(int i) { return {At::Where::in, i, 0}; }
inline At out(int k = 0) { return {At::Where::out, k, 0}; }
inline At scratch(int64_t offset) { return {At::Where::scratch, 0, offset}; }
inline At none() { return {}; }

std::byte* address(const At& at, const Memory& memory);

// Where the kernel reports what is wrong with an operand.
struct FaultOf {
  int operand = 0;
};

// A struct of device code that begins with an address, and its other bytes.
struct WithAddress {
  At at;
  std::vector<std::byte> rest;
};

template <class T>
std::vector<std::byte> bytes_of_struct(const T& value) {
  std::vector<std::byte> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// Arguments of a kernel, in order: addresses, numbers, plain structs as the device code declares them.
class Arguments {
 public:
  template <class... T>
  explicit Arguments(const T&... all) {
    (add(all), ...);
  }
  void add(const At& at) { parts_.emplace_back(at); }
  void add(const FaultOf& fault) { parts_.emplace_back(fault); }
  void add(const WithAddress& both) { parts_.emplace_back(both); }
  template <class T>
  void add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
    parts_.emplace_back(bytes_of_struct(value));
  }

  // Whether all addresses are on the boundaries of vectors of 16 bytes.
  bool are_aligned(const Memory& memory) const;
  // The bytes of each argument with the addresses of `memory`.
  std::vector<std::vector<std::byte>> bound(const Memory& memory) const;

 private:
  std::vector<std::variant<At, FaultOf, WithAddress, std::vector<std::byte>>> parts_;
};

// "#define name value" lines.
class Defines {
 public:
  Defines& set(std::string_view name, std::string_view value = "1");
  Defines& set(std::string_view name, DType dtype);  // the device code's name of it
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string_view type_name(DType dtype);

struct Grid {
  int64_t x = 1;
  int64_t y = 1;
  int64_t z = 1;
};
struct Block {
  unsigned x = 256;
  unsigned y = 1;
};

struct Launch {
  explicit Launch(std::string text) : source(std::move(text)) {}

  std::string source;  // kernels/cuda/source/<source>.cuh
  std::string before;  // another text that comes before it; may be empty
  Defines defines;
  std::string function = "run";
  Grid grid;
  Block block;
  unsigned shared_bytes = 0;
  Arguments arguments;
};

// What is done with a stream when the op runs.
using Step = std::function<Task(const Memory&)>;

Step step(Launch launch);
Step fill_bytes(At at, uint8_t value, int64_t bytes);
Step copy_bytes(At to, At from, int64_t bytes);

// One after the other.
Kernel kernel_of(std::vector<Step> steps, int64_t scratch_bytes = 0);

// The whole text of a launch, as it is compiled; `aligned`: as Arguments::are_aligned says.
std::string text_of(const Launch& launch, bool aligned);

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// So many blocks of `threads` for n elements of work, `each` for a thread.
int64_t blocks_for(int64_t n, int64_t threads = 256, int64_t each = 1);

// Scratch in pieces.
class Scratch {
 public:
  At take(int64_t bytes);
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

}  // namespace plimsoll::kernels::cuda
