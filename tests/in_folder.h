// Paths in a folder that is gone with the test: `folder / "name"`.
#pragma once

#include <string>

#include "plimsoll/base/temporary_folder.h"

namespace plimsoll {

inline std::string operator/(const TemporaryFolder& folder, const std::string& name) {
  return folder.path() + "/" + name;
}

}  // namespace plimsoll
