#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/base/mapped_file.h"
#include "plimsoll/train/data/formats.h"
#include "plimsoll/train/data/joined.h"
#include "plimsoll/train/data/rows.h"

namespace plimsoll::train::data {
namespace {

constexpr int64_t kPixels = 3 * 32 * 32;

std::unique_ptr<Source> open_file(const std::string& path, int64_t label_bytes, const OpenOptions& options) {
  const auto mapped = std::make_shared<const MappedFile>(path);
  const auto bytes = static_cast<int64_t>(mapped->bytes().size());
  const int64_t record = label_bytes + kPixels;
  if (bytes == 0 || bytes % record != 0) {
    throw InputError({.source = path, .offset = bytes - bytes % record}, fmt::format("{} bytes", bytes),
                     fmt::format("records of {} (CIFAR-{}): the file is cut short or no CIFAR binary", record,
                                 label_bytes == 1 ? 10 : 100));
  }
  Rows pixels{.field = {.name = "x", .spec = {DType::u8, {3, 32, 32}}},
              .bytes = mapped->bytes().subspan(static_cast<size_t>(label_bytes)),
              .stride = record,
              .count = bytes / record,
              .file = path,
              .owner = mapped,
              .offset = label_bytes};
  normalise(pixels.field, options);
  Rows labels = pixels;
  labels.field = {.name = "target", .spec = {DType::u8, {}}};
  labels.offset = label_bytes - 1;
  labels.bytes = mapped->bytes().subspan(static_cast<size_t>(labels.offset));
  RowChecks checks = checks_of(options);
  if (checks.classes == 0) checks.classes = label_bytes == 1 ? 10 : 100;
  return rows_source({std::move(pixels), std::move(labels)}, checks);
}

}  // namespace

std::unique_ptr<Source> open_cifar(const std::vector<std::string>& files, int64_t label_bytes,
                                   const OpenOptions& options) {
  std::vector<std::shared_ptr<const Source>> parts;
  for (const std::string& file : files) parts.push_back(open_file(file, label_bytes, options));
  return joined(std::move(parts));
}

}  // namespace plimsoll::train::data
