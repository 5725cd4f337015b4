// The files in a zip archive, by name, where they lie in the memory of the archive. Of what zip can do only what numpy
// and PyTorch write: stored or deflated files, more than 4 GiB too; no encryption, no parts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/base/mapped_file.h"

namespace plimsoll::models {

struct ZipEntry {
  std::span<const std::byte> bytes;  // as they are stored
  bool deflated = false;
  uint64_t size = 0;  // once inflated
};
using ZipEntries = std::map<std::string, ZipEntry, std::less<>>;

// InputError, with what was found where, for an archive that is cut, damaged or written in another way.
ZipEntries read_zip(const MappedFile& file);

// The bytes of a deflated entry. InputError when they are not so many.
std::shared_ptr<const std::vector<std::byte>> inflate_entry(const std::string& path, const std::string& name,
                                                            const ZipEntry& entry);

}  // namespace plimsoll::models
