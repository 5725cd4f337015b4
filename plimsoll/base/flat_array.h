// A growing array of plain values for hot loops: push is a few instructions, and growing a large one moves pages, not
// bytes, since realloc may. New values are not initialised.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

namespace plimsoll {

template <typename T>
class FlatArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  size_t size() const { return size_; }
  T& operator[](size_t index) { return values_.get()[index]; }
  const T& operator[](size_t index) const { return values_.get()[index]; }

  void push(T value) {
    if (size_ == capacity_) grow(1);
    values_.get()[size_++] = value;
  }
  // Room for `count` more at the end, which the caller fills.
  T* extend(size_t count) {
    if (capacity_ - size_ < count) grow(count);
    size_ += count;
    return values_.get() + size_ - count;
  }
  void drop(size_t count) { size_ -= count; }
  std::span<const T> last(size_t count) const { return {values_.get() + size_ - count, count}; }

 private:
  struct Free {
    void operator()(T* values) const { std::free(values); }
  };

  [[gnu::noinline]] void grow(size_t count) {
    const size_t capacity = std::max<size_t>(1024, 2 * size_ + count);
    void* moved = std::realloc(values_.get(), capacity * sizeof(T));
    if (moved == nullptr) throw std::bad_alloc();
    static_cast<void>(values_.release());  // realloc has freed it
    values_.reset(static_cast<T*>(moved));
    capacity_ = capacity;
  }

  std::unique_ptr<T, Free> values_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace plimsoll
