#include "plimsoll/kernels/cpu/support/lent_heap.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

// Of the OpenMP runtime that oneDNN uses; declared here because its header comes with one compiler only.
extern "C" int omp_get_thread_num();

namespace plimsoll::kernels {
namespace {

constexpr size_t kPieceAlignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
constexpr uint32_t kBlockBytes = 16 << 10;  // a call of oneDNN takes less than one
constexpr uint32_t kBlocks = 64;

// Cuts off one piece after the other, and starts over when all are given back. How far it is and how many are out
// change together, so any thread may do either at any time.
class Block {
 public:
  void* take(size_t bytes) {
    if (bytes > kBlockBytes) return nullptr;
    const auto size = static_cast<uint32_t>((bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment);
    State now = state_.load(std::memory_order_relaxed);
    do {
      if (now.used + size > kBlockBytes) return nullptr;
    } while (!state_.compare_exchange_weak(now, {now.used + size, now.pieces + 1}, std::memory_order_acquire));
    return bytes_.data() + now.used;
  }

  void give_back() {
    State now = state_.load(std::memory_order_relaxed);
    State then;
    do {
      then = now.pieces == 1 ? State{} : State{now.used, now.pieces - 1};
    } while (!state_.compare_exchange_weak(now, then, std::memory_order_release));
  }

 private:
  struct alignas(8) State {  // in one word: clang would call a library for less
    uint32_t used;
    uint32_t pieces;
  };
  std::atomic<State> state_ = State{};
  alignas(64) std::array<std::byte, kBlockBytes> bytes_ = {};
};

constinit std::array<Block, kBlocks> blocks = {};
constinit std::atomic<uint32_t> threads_seen = 0;
constinit std::atomic<int> loans = 0;
constinit thread_local int loans_here = 0;
constinit thread_local Block* block_here = nullptr;

// Shared, when more threads have come than there are blocks.
Block& block_of_this_thread() {
  if (block_here == nullptr) block_here = &blocks[threads_seen++ % kBlocks];
  return *block_here;
}

// Which call a thread of OpenMP's works for is not to be seen. One that works for another gets its pieces as well.
bool is_lent_to() { return loans.load(std::memory_order_relaxed) > 0 && (loans_here > 0 || omp_get_thread_num() > 0); }

}  // namespace

HeapLoan::HeapLoan() {
  ++loans_here;
  loans.fetch_add(1, std::memory_order_relaxed);
}

HeapLoan::~HeapLoan() {
  loans.fetch_sub(1, std::memory_order_relaxed);
  --loans_here;
}

void* take_lent(size_t bytes) noexcept { return is_lent_to() ? block_of_this_thread().take(bytes) : nullptr; }

bool give_back_lent(void* piece) noexcept {
  const uintptr_t offset = reinterpret_cast<uintptr_t>(piece) - reinterpret_cast<uintptr_t>(blocks.data());
  if (offset >= sizeof blocks) return false;
  blocks[offset / sizeof(Block)].give_back();
  return true;
}

}  // namespace plimsoll::kernels

// The sanitizers have operators of their own, which look for mistakes.
#if defined(__has_feature)
#define PLIMSOLL_HAS(feature) __has_feature(feature)
#else
#define PLIMSOLL_HAS(feature) 0
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !PLIMSOLL_HAS(address_sanitizer) && \
    !PLIMSOLL_HAS(thread_sanitizer) && !PLIMSOLL_HAS(memory_sanitizer)

// The forms for arrays come down to these; aligned ones are not lent.
[[gnu::weak]] void* operator new(size_t bytes) {
  if (void* piece = plimsoll::kernels::take_lent(bytes)) return piece;
  for (;;) {
    if (void* block = std::malloc(std::max<size_t>(bytes, 1))) return block;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

[[gnu::weak]] void operator delete(void* block) noexcept {
  if (!plimsoll::kernels::give_back_lent(block)) std::free(block);
}

[[gnu::weak]] void operator delete(void* block, size_t) noexcept { ::operator delete(block); }

// They would come down to those in the standard library, but not in a sanitizer's, which a program may bring.
[[gnu::weak]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return ::operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

[[gnu::weak]] void operator delete(void* block, const std::nothrow_t&) noexcept { ::operator delete(block); }

#endif
