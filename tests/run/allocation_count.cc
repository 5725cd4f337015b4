#include "tests/run/allocation_count.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {

std::atomic<int64_t> count = 0;

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

void* malloc(size_t bytes) {
  ++count;
  return __libc_malloc(bytes);
}

void* calloc(size_t elements, size_t bytes) {
  ++count;
  return __libc_calloc(elements, bytes);
}

void* realloc(void* block, size_t bytes) {
  ++count;
  return __libc_realloc(block, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  ++count;
  return __libc_memalign(alignment, bytes);
}

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

bool counts_allocations() { return PLIMSOLL_COUNTS != 0; }

}  // namespace plimsoll
