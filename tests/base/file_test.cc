#include "plimsoll/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "plimsoll/base/descriptor.h"
#include "plimsoll/base/error.h"
#include "tests/memory/temp_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

class WriteFile : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  size_t files() const { return std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()); }
  TempFolder folder_;
};

TEST_F(WriteFile, ReplacesAFileAndKeepsItsMode) {
  folder_.write("plan", "a longer text than the new one");
  chmod(path("plan").c_str(), 0640);
  write_file(path("plan"), "new");
  EXPECT_EQ(read_file(path("plan")), "new");
  struct stat found {};
  stat(path("plan").c_str(), &found);
  EXPECT_EQ(found.st_mode & 07777, 0640U);
  EXPECT_EQ(files(), 1U);
}

TEST_F(WriteFile, MakesANewFileAsTheUmaskSays) {
  const mode_t before = umask(027);
  write_file(path("plan"), "new");
  umask(before);
  struct stat found {};
  stat(path("plan").c_str(), &found);
  EXPECT_EQ(found.st_mode & 07777, 0640U);
}

TEST_F(WriteFile, GoesThroughLinksAlsoToWhatIsNotThereYet) {
  fs::create_directory(path("other"));
  fs::create_symlink("other/plan", path("link"));
  fs::create_symlink("link", path("link2"));
  for (const char* text : {"first", "second"}) {
    write_file(path("link2"), text);
    EXPECT_TRUE(fs::is_symlink(path("link2")) && fs::is_symlink(path("link")));
    EXPECT_EQ(read_file(path("other/plan")), text);
  }
  fs::create_symlink("round", path("round"));
  EXPECT_THROW(write_file(path("round"), "x"), SystemError);
}

TEST_F(WriteFile, WritesToAFifoAndADeviceInPlace) {
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read_file(path("fifo")); });
  write_file(path("fifo"), "through");
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(fs::is_fifo(path("fifo")));
  if (mknod(path("null").c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0) {
    write_file(path("null"), "gone");
    EXPECT_TRUE(fs::is_character_file(path("null")));
  }
  EXPECT_THROW(write_file(folder_.path(), "x"), SystemError);
}

TEST_F(WriteFile, WritesBehindWhatADescriptorHoldsAlready) {
  std::FILE* out = std::fopen(path("out").c_str(), "wb");
  std::fputs("before ", out);
  std::fflush(out);
  write_file("/dev/fd/" + std::to_string(fileno(out)), "plan ");
  std::fputs("after", out);
  std::fclose(out);
  EXPECT_EQ(read_file(path("out")), "before plan after");
}

// As a full disk does, without one.
TEST_F(WriteFile, LeavesTheOldFileWholeWhereTheNewOneDoesNotFit) {
  folder_.write("plan", "old");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(write_file(path("plan"), std::string(10000, 'x')), SystemError);
  EXPECT_THROW(write_file(path("another"), std::string(10000, 'x')), SystemError);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(read_file(path("plan")), "old");
  EXPECT_EQ(files(), 1U);
}

TEST(ReadSmallFile, RefusesWhatCouldMakeItWait) {
  const TempFolder folder;
  folder.write("size", "2GiB\n");
  EXPECT_EQ(read_small_file(folder.path() + "/size", 100), "2GiB\n");
  EXPECT_THROW(read_small_file(folder.path() + "/size", 4), SystemError);
  EXPECT_EQ(read_small_file(folder.path() + "/size", 5), "2GiB\n");
  ASSERT_EQ(mkfifo((folder.path() + "/fifo").c_str(), 0600), 0);
  for (const std::string& path :
       {folder.path() + "/fifo", folder.path() + "/none", folder.path(), std::string("/dev/zero")}) {
    EXPECT_THROW(read_small_file(path, 100), SystemError) << path;
  }
}

TEST(ReadFile, RefusesDevicesThatHaveNoEnd) {
  EXPECT_THROW(read_file("/dev/zero"), SystemError);
  EXPECT_THROW(read_file("/nowhere"), SystemError);
}

TEST(KeepApart, LeavesTheStandardDescriptors) {
  const int standard_in = dup(STDIN_FILENO);
  close(STDIN_FILENO);
  const int opened = open("/dev/null", O_RDONLY);  // NOLINT: it is the first that is free
  EXPECT_EQ(opened, STDIN_FILENO);
  const int kept = keep_apart(opened);
  EXPECT_GT(kept, STDERR_FILENO);
  EXPECT_NE(fcntl(kept, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(fcntl(STDIN_FILENO, F_GETFD), -1);
  close(kept);
  dup2(standard_in, STDIN_FILENO);
  close(standard_in);
}

}  // namespace
}  // namespace plimsoll
