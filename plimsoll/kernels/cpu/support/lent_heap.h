// Memory for what a library takes on the heap while it runs and gives back before it is done: oneDNN makes lists of
// arguments and copies of functions in every call, on the calling thread and on OpenMP's. While a HeapLoan lives, what
// these take by `operator new` are pieces of fixed blocks, so that a planned step allocates nothing.
//
// For that lent_heap.cc replaces the global operators new and delete, weakly: in a program that brings its own these
// win, and loans do nothing. Nor do they under sanitizers. Without a loan, or when a block is full, the operators do
// what the standard library's do. Pieces may outlive the loan, and any thread may give them back.
#pragma once

#include <cstddef>

namespace plimsoll::kernels {

// Loans nest. One ends on the thread where it began.
class HeapLoan {
 public:
  HeapLoan();
  ~HeapLoan();
  HeapLoan(const HeapLoan&) = delete;
  HeapLoan& operator=(const HeapLoan&) = delete;
};

// What the operators ask first. A piece aligned as `operator new` aligns, nullptr when none is lent to this thread or
// the block is full; whether `piece` was one, which is then given back.
void* take_lent(size_t bytes) noexcept;
bool give_back_lent(void* piece) noexcept;

}  // namespace plimsoll::kernels
