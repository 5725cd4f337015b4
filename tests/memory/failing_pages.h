// Page sources for tests, over simulated pages. StrictPages checks that its user keeps the contract of PageSource:
// nothing is mapped over something else, only what is mapped is unmapped, no page is destroyed while it can be seen.
// FailingPages is one that refuses the Nth request.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "plimsoll/memory/simulated_pages.h"

namespace plimsoll {

class StrictPages : public PageSource {
 public:
  StrictPages(int64_t page_bytes, int64_t capacity_bytes) : pages_(page_bytes, capacity_bytes, "strict") {}

  int64_t created_pages() const { return pages_.created_pages(); }
  int64_t mapped_pages() const { return static_cast<int64_t>(page_at_.size()); }
  int64_t most_created_pages() const { return most_created_; }
  bool nothing_left() const { return created_pages() == 0 && mapped_pages() == 0 && ranges_.empty(); }

  std::string device() const override { return pages_.device(); }
  int64_t page_bytes() const override { return pages_.page_bytes(); }

  std::byte* reserve(int64_t bytes) override {
    std::byte* const range = pages_.reserve(bytes);
    ranges_[range] = bytes;
    return range;
  }
  void release(std::byte* range, int64_t bytes) override {
    EXPECT_EQ(ranges_.count(range), 1u) << "released, but never reserved";
    EXPECT_EQ(ranges_[range], bytes) << "released with another size than it was reserved with";
    const auto mapped = page_at_.lower_bound(range);
    EXPECT_TRUE(mapped == page_at_.end() || mapped->first >= range + bytes) << "released with pages in it";
    ranges_.erase(range);
  }

  void create(std::span<PageId> pages) override {
    pages_.create(pages);
    for (const PageId page : pages) EXPECT_TRUE(views_.emplace(page, 0).second) << "page " << page << " exists";
    most_created_ = std::max(most_created_, created_pages());
  }
  void destroy(std::span<const PageId> pages) override {
    pages_.destroy(pages);
    for (const PageId page : pages) {
      EXPECT_EQ(views_.count(page), 1u) << "page " << page << " does not exist";
      EXPECT_EQ(views_[page], 0) << "page " << page << " is destroyed while it is mapped";
      views_.erase(page);
    }
  }

  void map(std::byte* at, std::span<const PageId> pages) override {
    for (const PageId page : pages) {
      EXPECT_TRUE(page_at_.emplace(at, page).second) << "something is mapped here already";
      EXPECT_EQ(views_.count(page), 1u) << "page " << page << " does not exist";
      ++views_[page];
      at += page_bytes();
    }
  }
  void unmap(std::byte* at, int64_t page_count) override {
    for (; page_count > 0; --page_count, at += page_bytes()) {
      const auto mapped = page_at_.find(at);
      ASSERT_TRUE(mapped != page_at_.end()) << "nothing is mapped here";
      --views_[mapped->second];
      page_at_.erase(mapped);
    }
  }

 private:
  SimulatedPages pages_;
  std::map<std::byte*, int64_t> ranges_;  // reserved
  std::map<std::byte*, PageId> page_at_;
  std::map<PageId, int> views_;  // of each page that exists
  int64_t most_created_ = 0;
};

class FailingPages : public StrictPages {
 public:
  using StrictPages::StrictPages;

  // The Nth call from now on is refused, counted from 1; 0: none.
  void fail_create_at(int64_t n) { creates_left_ = n; }
  void fail_map_at(int64_t n) { maps_left_ = n; }
  void fail_reserve_at(int64_t n) { reserves_left_ = n; }
  bool failed() const { return failed_; }

  std::byte* reserve(int64_t bytes) override {
    if (is_due(reserves_left_)) throw SystemError("no address space, as the test wanted");
    return StrictPages::reserve(bytes);
  }
  void create(std::span<PageId> pages) override {
    if (is_due(creates_left_)) throw PagesExhausted("no pages, as the test wanted");
    StrictPages::create(pages);
  }
  void map(std::byte* at, std::span<const PageId> pages) override {
    if (is_due(maps_left_)) throw SystemError("no mapping, as the test wanted");
    StrictPages::map(at, pages);
  }

 private:
  bool is_due(int64_t& left) {
    if (left == 0 || --left > 0) return false;
    failed_ = true;
    return true;
  }

  int64_t creates_left_ = 0;
  int64_t maps_left_ = 0;
  int64_t reserves_left_ = 0;
  bool failed_ = false;
};

}  // namespace plimsoll
