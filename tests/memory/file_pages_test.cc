#include "plimsoll/memory/file_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/memory/pool.h"
#include "tests/memory/temp_folder.h"

namespace plimsoll {
namespace {

constexpr int64_t kPage = 64 * kKiB;

// What one mapping writes the other reads.
void expect_two_views_of_one_page(FilePages pages) {
  std::vector<PageId> ids(3);
  pages.create(ids);
  std::byte* const range = pages.reserve(6 * kPage);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(range) % kPage, 0u);
  pages.map(range, ids);
  const std::vector<PageId> backwards = {ids[2], ids[1], ids[0]};
  pages.map(range + 3 * kPage, backwards);
  for (int64_t page = 0; page < 3; ++page) range[page * kPage + 5] = static_cast<std::byte>(page + 1);
  for (int64_t page = 0; page < 3; ++page) {
    EXPECT_EQ(range[(5 - page) * kPage + 5], static_cast<std::byte>(page + 1));
  }
  pages.unmap(range, 6);
  pages.destroy(ids);
  pages.release(range, 6 * kPage);
}

TEST(FilePages, OfTheHostCanBeSeenAtTwoPlaces) { expect_two_views_of_one_page(FilePages::host(kPage)); }

TEST(FilePages, OfASpillFileCanBeSeenAtTwoPlaces) {
  const TempFolder folder;
  expect_two_views_of_one_page(FilePages::spill(folder.path(), kPage));
}

TEST(FilePages, AreZeroWhenTheyAreUsedAgain) {
  FilePages pages = FilePages::host(kPage);
  std::byte* const range = pages.reserve(kPage);
  PageId id = 0;
  for (int round = 0; round < 2; ++round) {
    pages.create(std::span(&id, 1));
    pages.map(range, std::span(&id, 1));
    EXPECT_EQ(range[99], std::byte{0});
    range[99] = std::byte{1};
    pages.unmap(range, 1);
    pages.destroy(std::span(&id, 1));
  }
  pages.release(range, kPage);
}

TEST(FilePages, OfTwoMebibytesAreAligned) {
  FilePages pages = FilePages::host(2 * kMiB);
  std::byte* const range = pages.reserve(4 * kMiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(range) % (2 * kMiB), 0u);
  pages.release(range, 4 * kMiB);
}

TEST(FilePages, RefusePagesThatTheSystemCannotMap) {
  EXPECT_THROW(FilePages::host(256), ArgumentError);
  EXPECT_THROW(FilePages::host(3 * kMiB), ArgumentError);
  EXPECT_THROW(FilePages::host(-4096), ArgumentError);
}

TEST(FilePages, RefuseAddressSpaceThatNoMachineHas) {
  FilePages pages = FilePages::host(kPage);
  EXPECT_THROW(pages.reserve(int64_t{1} << 60), SystemError);
}

TEST(FilePages, OfASpillFileHaveNoNameInTheFolder) {
  const TempFolder folder;
  FilePages pages = FilePages::spill(folder.path(), kPage);
  PageId id = 0;
  pages.create(std::span(&id, 1));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

std::string spill_error(const std::string& folder) {
  try {
    FilePages::spill(folder, kPage);
  } catch (const SystemError& error) {
    return error.what();
  }
  return "no error";
}

TEST(FilePages, NameTheSpillFolderThatIsMissing) {
  const std::string error = spill_error("/no/such/folder");
  EXPECT_NE(error.find("/no/such/folder"), std::string::npos) << error;
  EXPECT_NE(error.find("No such file or directory"), std::string::npos) << error;
  EXPECT_NE(error.find("name another folder"), std::string::npos) << error;
}

TEST(FilePages, NameTheSpillFolderThatIsReadOnly) {
  const TempFolder folder;
  const bool is_root = geteuid() == 0;  // whom no permission stops; /proc does
  if (!is_root) chmod(folder.path().c_str(), 0500);
  const std::string path = is_root ? "/proc" : folder.path();
  EXPECT_NE(spill_error(path).find(path), std::string::npos) << spill_error(path);
}

TEST(FilePages, SayThatTheDiskIsFullAndTakeNothing) {
  const TempFolder folder;
  if (mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "a small disk to fill cannot be mounted here (needs root)";
  }
  {
    FilePages pages = FilePages::spill(folder.path(), kPage);
    std::vector<PageId> ids(17);
    EXPECT_THROW(pages.create(ids), PagesExhausted);
    ids.resize(16);
    EXPECT_NO_THROW(pages.create(ids)) << "the pages of the failure are still taken";
    try {
      PageId more = 0;
      pages.create(std::span(&more, 1));
      ADD_FAILURE() << "the disk holds more than it has";
    } catch (const PagesExhausted& error) {
      EXPECT_NE(std::string(error.what()).find("No space left on device"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(folder.path()), std::string::npos) << error.what();
    }
  }
  umount(folder.path().c_str());
}

// The limit on file sizes while it lives. Its signal must not reach the process.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(int64_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {static_cast<rlim_t>(bytes), before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(FilePages, OfTheHostHaveALimitOnFileSizesToo) {
  FilePages pages = FilePages::host(kPage);
  std::vector<PageId> ids(32);
  {
    const FileSizeLimit limit(kMiB);
    EXPECT_THROW(pages.create(ids), PagesExhausted);
  }
  pages.create(ids);
  pages.destroy(ids);
}

TEST(FilePages, TakeNoStandardDescriptor) {
  const TempFolder folder;
  const int standard_in = dup(STDIN_FILENO);
  close(STDIN_FILENO);
  {
    const FilePages host = FilePages::host(kPage);
    const FilePages spill = FilePages::spill(folder.path(), kPage);
    EXPECT_EQ(fcntl(STDIN_FILENO, F_GETFD), -1);
  }
  dup2(standard_in, STDIN_FILENO);
  close(standard_in);
}

TEST(FilePages, UnderAPoolTurnAFullDiskIntoAReportThatNamesIt) {
  const TempFolder folder;
  FilePages pages = FilePages::spill(folder.path(), kPage);
  trace::Recorder recorder(0);
  Pool pool(pages, {64 * kMiB, "test"}, recorder);
  {
    const FileSizeLimit limit(kMiB);
    try {
      pool.free(pool.allocate(2 * kMiB));
      GTEST_SKIP() << "the limit on file sizes does not bind here";
    } catch (const ResourceExhausted& error) {
      const std::string help = error.report().help.at(0);
      EXPECT_NE(help.find(folder.path()), std::string::npos) << help;
      EXPECT_NE(help.find("File too large"), std::string::npos) << help;
    }
    pool.free(pool.allocate(kMiB / 2));
  }
  pool.free(pool.allocate(2 * kMiB));
}

TEST(HostPageBytes, IsAtMostA4096thOfTheBudgetWithinWhatTheSystemHas) {
  EXPECT_EQ(host_page_bytes(kMiB), sysconf(_SC_PAGESIZE));
  EXPECT_EQ(host_page_bytes(kGiB), 256 * kKiB);
  EXPECT_EQ(host_page_bytes(100 * kGiB), 2 * kMiB);
}

}  // namespace
}  // namespace plimsoll
