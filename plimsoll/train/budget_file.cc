#include "plimsoll/train/budget_file.h"

#include <fmt/format.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"

namespace plimsoll::train {
namespace {

constexpr int64_t kMostFileBytes = 256;

}  // namespace

BudgetFile::BudgetFile(std::string path, Budget& budget, std::function<void(const std::string&)> on_note)
    : path_(std::move(path)), on_note_(std::move(on_note)) {
  if (path_.empty()) return;
  seen_ = read_small_file(path_, kMostFileBytes);
  budget = {size_in(seen_), path_};
}

bool BudgetFile::changes(Budget& budget) {
  if (path_.empty()) return false;
  try {
    std::string text = read_small_file(path_, kMostFileBytes);
    if (text == seen_) return false;
    seen_ = std::move(text);
    const int64_t bytes = size_in(seen_);
    if (bytes == budget.bytes) return false;
    budget = {bytes, path_};
    return true;
  } catch (const Error& error) {
    if (on_note_ && noted_ != error.what()) on_note_(fmt::format("the budget stays: {}", error.what()));
    noted_ = error.what();
    return false;
  }
}

int64_t BudgetFile::size_in(const std::string& text) const {
  const auto bytes = try_parse_bytes(text);
  if (!bytes || *bytes == 0) {
    throw InputError({.source = path_}, text.empty() ? "nothing" : quote(text), "a size like 2GiB");
  }
  return *bytes;
}

}  // namespace plimsoll::train
