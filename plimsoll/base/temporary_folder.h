// A folder of its own under the system's folder for temporary files, removed with all that is in it at the end of its
// life, unless it is to be kept. SystemError when it cannot be made.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

class TemporaryFolder {
 public:
  // Its name begins with `start`.
  explicit TemporaryFolder(std::string_view start);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  std::string path_;
  bool kept_ = false;
};

}  // namespace plimsoll
