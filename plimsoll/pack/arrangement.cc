#include "plimsoll/pack/arrangement.h"

#include <utility>

namespace plimsoll::pack {
namespace {

std::vector<Tenant> tenants_of(const std::vector<Buffer>& buffers, const std::vector<int64_t>& offsets) {
  std::vector<Tenant> tenants;
  tenants.reserve(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    for_each_area(buffers[i], offsets[i], [&](const Area& area) {
      tenants.push_back({area, static_cast<int32_t>(i)});
    });
  }
  return tenants;
}

}  // namespace

Arrangement::Arrangement(std::vector<Buffer> buffers, std::vector<int64_t> offsets)
    : buffers_(std::move(buffers)), offsets_(std::move(offsets)), occupancy_(tenants_of(buffers_, offsets_)) {}

void Arrangement::set(int32_t id, Buffer buffer) {
  if (id == size()) {
    buffers_.emplace_back();
    offsets_.push_back(kNowhere);
  }
  buffers_[id] = std::move(buffer);
}

void Arrangement::put(int32_t id, int64_t offset) {
  offsets_[id] = offset;
  for_each_area(buffers_[id], offset, [&](const Area& area) { occupancy_.insert({area, id}); });
}

void Arrangement::take(int32_t id) {
  for_each_area(buffers_[id], offsets_[id], [&](const Area& area) { occupancy_.erase({area, id}); });
  offsets_[id] = kNowhere;
}

void Arrangement::put_all(std::vector<int64_t> offsets) {
  offsets_ = std::move(offsets);
  occupancy_ = Occupancy(tenants_of(buffers_, offsets_));
}

bool Arrangement::is_free(const Buffer& buffer, int64_t offset, int64_t most_cells) const {
  bool free = true;
  for_each_area(buffer, offset, [&](const Area& area) { free = free && occupancy_.is_free(area, most_cells); });
  return free;
}

}  // namespace plimsoll::pack
