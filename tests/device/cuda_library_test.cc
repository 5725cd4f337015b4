#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "plimsoll/device/cuda/library.h"

namespace plimsoll::cuda {
namespace {

TEST(CudaLibrary, SaysWhatIsMissingAndWhatToDo) {
  const Library found = find_library({"libnot_there.so.1", "libnot_there.so"});
  EXPECT_EQ(found.handle, nullptr);
  EXPECT_NE(found.path.find("libnot_there.so.1 or libnot_there.so not found"), std::string::npos) << found.path;
  EXPECT_NE(found.path.find("PLIMSOLL_CUDA_LIBRARIES"), std::string::npos) << found.path;
}

TEST(CudaLibrary, LooksWhereTheEnvironmentSaysFirst) {
  // What any process has, under a name that only that folder has.
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "cuda_libraries";
  std::filesystem::create_directories(folder);
  std::filesystem::remove(folder / "libonly_here.so");
  const Library libc = find_library({"libz.so.1"});
  if (libc.handle == nullptr) GTEST_SKIP() << "no library to link to";
  for (const char* place : {"/lib/x86_64-linux-gnu/libz.so.1", "/usr/lib/x86_64-linux-gnu/libz.so.1"}) {
    if (!std::filesystem::exists(place)) continue;
    std::filesystem::create_symlink(place, folder / "libonly_here.so");
    break;
  }
  if (!std::filesystem::exists(folder / "libonly_here.so")) GTEST_SKIP() << "no library to link to";
  setenv("PLIMSOLL_CUDA_LIBRARIES", ("/nowhere:" + folder.string()).c_str(), 1);
  const Library found = find_library({"libonly_here.so"});
  unsetenv("PLIMSOLL_CUDA_LIBRARIES");
  EXPECT_NE(found.handle, nullptr);
  EXPECT_EQ(found.path, (folder / "libonly_here.so").string());
}

TEST(CudaLibrary, LooksIntoCudasFoldersAndPythonsPackages) {
  const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / "venv";
  std::filesystem::create_directories(root / "lib/python3.12/site-packages/nvidia/cudnn/lib");
  setenv("VIRTUAL_ENV", root.c_str(), 1);
  const std::vector<std::string> folders = library_folders();
  unsetenv("VIRTUAL_ENV");
  EXPECT_EQ(folders.front(), "/usr/local/cuda/lib64");
  const std::string wheel = (root / "lib/python3.12/site-packages/nvidia/cudnn/lib").string();
  EXPECT_NE(std::find(folders.begin(), folders.end(), wheel), folders.end());
}

}  // namespace
}  // namespace plimsoll::cuda
