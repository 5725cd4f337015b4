#include "tests/run/allocation_count.h"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {

std::atomic<int64_t> count = 0;
std::atomic<int64_t> taken = 0;
std::atomic<int64_t> most_taken = 0;

}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(PLIMSOLL_SANITIZED)
#define PLIMSOLL_COUNTS 0  // the sanitizers have a malloc of their own
#else
#define PLIMSOLL_COUNTS 1
// In place of the C library's, for all that this binary is linked with.
// NOLINTBEGIN: the names are given.
extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t elements, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* block);

static void* counted(void* block) {
  ++count;
  if (block == nullptr) return block;
  const int64_t now = taken += static_cast<int64_t>(malloc_usable_size(block));
  int64_t most = most_taken;
  while (now > most && !most_taken.compare_exchange_weak(most, now)) continue;
  return block;
}

static void* uncounted(void* block) {
  if (block != nullptr) taken -= static_cast<int64_t>(malloc_usable_size(block));
  return block;
}

void* malloc(size_t bytes) { return counted(__libc_malloc(bytes)); }
void* calloc(size_t elements, size_t bytes) { return counted(__libc_calloc(elements, bytes)); }
void* realloc(void* block, size_t bytes) { return counted(__libc_realloc(uncounted(block), bytes)); }
void* memalign(size_t alignment, size_t bytes) { return counted(__libc_memalign(alignment, bytes)); }
void free(void* block) { __libc_free(uncounted(block)); }

void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void** block, size_t alignment, size_t bytes) {
  *block = memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}

}  // extern "C"
   // NOLINTEND
#endif

namespace plimsoll {

int64_t allocation_count() { return count; }
int64_t heap_bytes() { return taken; }
int64_t heap_peak_bytes() { return most_taken; }
void reset_heap_peak() { most_taken = taken.load(); }

bool counts_allocations() { return PLIMSOLL_COUNTS != 0; }

}  // namespace plimsoll
