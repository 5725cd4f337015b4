// A sorted sequence in blocks of a few hundred items, each block with a summary of its items: inserting, erasing and
// looking up touch one block, and a question about all items looks at the summaries only. Items are found by
// `operator<`; a Summary is made from the items of a block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace plimsoll::pack {

template <typename Item, typename Summary>
class SortedBlocks {
 public:
  struct Block {
    Item front;               // the first of its items, here so that looking for a block stays within one array
    std::vector<Item> items;  // never empty
    Summary summary;
  };

  // Where an item stands. Good until the sequence changes.
  struct Cursor {
    size_t block = 0;
    size_t index = 0;
  };

  explicit SortedBlocks(std::vector<Item> items = {}) {
    std::sort(items.begin(), items.end());
    for (size_t from = 0; from < items.size(); from += kUsual) {
      const size_t count = std::min(kUsual, items.size() - from);
      blocks_.push_back(block_of(std::span(items).subspan(from, count)));
    }
  }

  const std::vector<Block>& blocks() const { return blocks_; }

  void insert(const Item& item) {
    if (blocks_.empty()) {
      blocks_.push_back(block_of({&item, 1}));
      return;
    }
    const size_t at = block_for(item);
    std::vector<Item>& items = blocks_[at].items;
    items.insert(std::lower_bound(items.begin(), items.end(), item), item);
    if (items.size() > kMost) split(at);
    refresh(blocks_[at]);
  }

  // One item that is neither smaller nor larger, which must be there.
  void erase(const Item& item) {
    const Cursor at = lower_bound(item);
    std::vector<Item>& items = blocks_[at.block].items;
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(at.index));
    if (items.empty()) {
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at.block));
    } else {
      refresh(blocks_[at.block]);
    }
  }

  // The first item that is not smaller; at_end when there is none.
  Cursor lower_bound(const Item& item) const {
    if (blocks_.empty()) return {};
    const size_t block = block_for(item);
    const std::vector<Item>& items = blocks_[block].items;
    const size_t index = std::lower_bound(items.begin(), items.end(), item) - items.begin();
    return index < items.size() ? Cursor{block, index} : Cursor{block + 1, 0};
  }

  bool at_begin(Cursor at) const { return at.block == 0 && at.index == 0; }
  bool at_end(Cursor at) const { return at.block == blocks_.size(); }
  const Item& operator[](Cursor at) const { return blocks_[at.block].items[at.index]; }
  Cursor next(Cursor at) const {
    return at.index + 1 < blocks_[at.block].items.size() ? Cursor{at.block, at.index + 1} : Cursor{at.block + 1, 0};
  }
  Cursor previous(Cursor at) const {
    return at.index > 0 ? Cursor{at.block, at.index - 1} : Cursor{at.block - 1, blocks_[at.block - 1].items.size() - 1};
  }

 private:
  static constexpr size_t kUsual = 192;
  static constexpr size_t kMost = 2 * kUsual;

  static Block block_of(std::span<const Item> items) {
    return {items.front(), std::vector<Item>(items.begin(), items.end()), Summary(items)};
  }

  static void refresh(Block& block) {
    block.front = block.items.front();
    block.summary = Summary(block.items);
  }

  // The last block that begins before the item, so that the first of several equal ones is found.
  size_t block_for(const Item& item) const {
    const auto after = std::lower_bound(blocks_.begin(), blocks_.end(), item,
                                        [](const Block& block, const Item& sought) { return block.front < sought; });
    return after == blocks_.begin() ? 0 : after - blocks_.begin() - 1;
  }

  void split(size_t at) {
    std::vector<Item>& items = blocks_[at].items;
    Block upper = block_of(std::span<const Item>(items).subspan(items.size() / 2));
    items.resize(items.size() / 2);
    blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(upper));
  }

  std::vector<Block> blocks_;
};

}  // namespace plimsoll::pack
