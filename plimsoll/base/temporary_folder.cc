#include "plimsoll/base/temporary_folder.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "plimsoll/base/error.h"

namespace plimsoll {

TemporaryFolder::TemporaryFolder(std::string_view start)
    : path_((std::filesystem::temp_directory_path() / fmt::format("{}XXXXXX", start)).string()) {
  if (mkdtemp(path_.data()) == nullptr) throw SystemError::from_errno("making a folder " + path_, errno);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!kept_) std::filesystem::remove_all(path_, ignored);
}

}  // namespace plimsoll
