#include "plimsoll/device/cuda/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "plimsoll/base/bytes.h"

namespace plimsoll::cuda {
namespace {

DevicePointer address(const std::byte* at) { return reinterpret_cast<DevicePointer>(at); }

}  // namespace

CudaPages::CudaPages(const Driver& driver, DeviceOrdinal device)
    : driver_(driver), device_(device), access_{{.location = {.id = device}}} {
  size_t granularity = 0;
  const AllocationProperties wanted = properties();
  const Result result = driver_.mem_get_granularity(&granularity, &wanted, kGranularityMinimum);
  if (result != kSuccess || granularity < 256 || !std::has_single_bit(granularity)) {
    throw UnsupportedError(fmt::format("{} has no virtual memory management: granularity {} B, {}", this->device(),
                                       granularity, driver_.describe(result)));
  }
  page_bytes_ = static_cast<int64_t>(granularity);
  keeps_mapped_ = driver_.device_count() > 1;
}

CudaPages::~CudaPages() = default;

AllocationProperties CudaPages::properties() const {
  AllocationProperties properties;
  properties.location.id = device_;
  return properties;
}

std::string CudaPages::device() const { return fmt::format("cuda:{}", device_); }

std::byte* CudaPages::reserve(int64_t bytes) {
  DevicePointer range = 0;
  const auto size = static_cast<size_t>(align_up(bytes, page_bytes_));
  driver_.check(driver_.mem_address_reserve(&range, size, static_cast<size_t>(page_bytes_), 0, 0),
                fmt::format("reserving {} of addresses on {}", format_bytes(bytes), device()));
  return reinterpret_cast<std::byte*>(range);
}

void CudaPages::release(std::byte* range, int64_t bytes) {
  driver_.mem_address_free(address(range), static_cast<size_t>(align_up(bytes, page_bytes_)));
}

void CudaPages::create_one(PageId& page) {
  AllocationHandle handle = 0;
  const AllocationProperties wanted = properties();
  const Result result = driver_.mem_create(&handle, static_cast<size_t>(page_bytes_), &wanted, 0);
  if (result == kErrorOutOfMemory) {
    throw PagesExhausted(fmt::format("{} has no page of {} left beside the {} held: {}", device(),
                                     format_bytes(page_bytes_), format_bytes(created_ * page_bytes_),
                                     driver_.describe(result)));
  }
  driver_.check(result, fmt::format("creating a page of {} on {}", format_bytes(page_bytes_), device()));
  if (unused_.empty()) {
    page = static_cast<PageId>(handles_.size());
    handles_.push_back(handle);
    unused_.reserve(handles_.size());  // so that destroy never allocates
  } else {
    page = unused_.back();
    unused_.pop_back();
    handles_[page] = handle;
  }
  ++created_;
}

void CudaPages::create(std::span<PageId> pages) {
  std::string why;
  const int64_t after = (created_ + static_cast<int64_t>(pages.size())) * page_bytes_;
  if (permit_ && !permit_(after, why)) throw PagesExhausted(why);
  const RelaxedCapture relaxed(driver_);
  size_t done = 0;
  try {
    for (; done < pages.size(); ++done) create_one(pages[done]);
  } catch (...) {
    destroy(pages.first(done));
    throw;
  }
}

void CudaPages::destroy(std::span<const PageId> pages) {
  const RelaxedCapture relaxed(driver_);
  for (const PageId page : pages) {
    driver_.mem_release(handles_[page]);
    handles_[page] = 0;
    unused_.push_back(page);
  }
  created_ -= static_cast<int64_t>(pages.size());
}

void CudaPages::map(std::byte* at, std::span<const PageId> pages) {
  const RelaxedCapture relaxed(driver_);
  const auto size = static_cast<size_t>(page_bytes_);
  size_t done = 0;
  Result result = kSuccess;
  for (; done < pages.size() && result == kSuccess; ++done) {
    result = driver_.mem_map(address(at) + done * size, size, 0, handles_[pages[done]], 0);
  }
  if (result != kSuccess) --done;
  if (result == kSuccess) {
    result = driver_.mem_set_access(address(at), pages.size() * size, access_.data(), access_.size());
  }
  if (result == kSuccess) {
    if (keeps_mapped_) mapped_.push_back({address(at), static_cast<int64_t>(pages.size())});
    return;
  }
  for (size_t i = 0; i < done; ++i) driver_.mem_unmap(address(at) + i * size, size);
  driver_.fail(result, fmt::format("mapping {} pages of {} on {}", pages.size(), format_bytes(page_bytes_), device()));
}

void CudaPages::unmap(std::byte* at, int64_t page_count) {
  const RelaxedCapture relaxed(driver_);
  driver_.mem_unmap(address(at), static_cast<size_t>(page_count * page_bytes_));
  if (keeps_mapped_) forget(address(at), page_count);
}

// Takes [at, at + page_count pages) out of the list of what is mapped; it may cut ranges.
void CudaPages::forget(DevicePointer at, int64_t page_count) {
  const auto bytes = static_cast<DevicePointer>(page_bytes_);
  const DevicePointer end = at + static_cast<DevicePointer>(page_count) * bytes;
  std::vector<Mapped> kept;
  for (const Mapped& range : mapped_) {
    const DevicePointer range_end = range.at + static_cast<DevicePointer>(range.pages) * bytes;
    if (range_end <= at || range.at >= end) {
      kept.push_back(range);
      continue;
    }
    if (range.at < at) kept.push_back({range.at, static_cast<int64_t>((at - range.at) / bytes)});
    if (range_end > end) kept.push_back({end, static_cast<int64_t>((range_end - end) / bytes)});
  }
  mapped_ = std::move(kept);
}

void CudaPages::share_with(DeviceOrdinal other) {
  const bool known = std::ranges::any_of(access_, [&](const AccessDescription& a) { return a.location.id == other; });
  if (known) return;
  const AccessDescription added{.location = {.id = other}};
  for (const Mapped& range : mapped_) {
    driver_.check(driver_.mem_set_access(range.at, static_cast<size_t>(range.pages * page_bytes_), &added, 1),
                  fmt::format("giving device {} access to {}", other, device()));
  }
  access_.push_back(added);
}

}  // namespace plimsoll::cuda
