// Where a pool's memory comes from. A PageSource gives address space and physical pages apart from each other, so that
// the pages of freed blocks can be shown at another address: reserve a range, create pages, map them into it. A page
// may be mapped at several addresses at once. The four verbs are those of CUDA's virtual memory (cuMemAddressReserve,
// cuMemCreate, cuMemMap with cuMemSetAccess, cuMemUnmap) and of mmap over a file.
//
// Giving back (release, destroy, unmap) does not throw. Not thread-safe: the pool on a source serialises the calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "plimsoll/base/error.h"

namespace plimsoll {

// Physical pages by number; a number is used again after destroy.
using PageId = uint32_t;

// The device or disk has no more pages. The pool turns this into reclaim and then ResourceExhausted.
class PagesExhausted : public SystemError {
 public:
  using SystemError::SystemError;
};

class PageSource {
 public:
  virtual ~PageSource() = default;

  virtual std::string device() const = 0;  // as reports name it: "cpu", "cuda:0"
  virtual int64_t page_bytes() const = 0;  // a power of two

  // Address space without memory, aligned to a page. SystemError when there is none.
  virtual std::byte* reserve(int64_t bytes) = 0;
  virtual void release(std::byte* range, int64_t bytes) = 0;  // no pages are mapped there any more

  // Fills `pages` with new pages, all or none. PagesExhausted when there are not so many.
  virtual void create(std::span<PageId> pages) = 0;
  virtual void destroy(std::span<const PageId> pages) = 0;

  // Shows `pages`, in this order, from `at` on: a place inside a reserved range where nothing is mapped. All or, with a
  // SystemError, none.
  virtual void map(std::byte* at, std::span<const PageId> pages) = 0;
  virtual void unmap(std::byte* at, int64_t page_count) = 0;

  // Makes what is mapped there ready to be read and written, so that the first touch takes nothing more from the
  // system. A source need not know how.
  virtual void prefault(std::byte* /*at*/, int64_t /*page_count*/) {}
};

}  // namespace plimsoll
