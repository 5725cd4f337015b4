#include "plimsoll/train/budget_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/temporary_folder.h"

namespace plimsoll::train {
namespace {

class BudgetFileTest : public testing::Test {
 protected:
  void write(const std::string& text) const { std::ofstream(path_) << text; }

  TemporaryFolder folder_{"plimsoll-budget-file-"};
  std::string path_ = folder_.path() + "/budget";
  Budget budget_{.bytes = kGiB, .source = "--budget"};
};

TEST_F(BudgetFileTest, IsTheBudgetFromTheStartAndWheneverItChanges) {
  write("2GiB\n");
  BudgetFile file(path_, budget_);
  EXPECT_EQ(budget_.bytes, 2 * kGiB);
  EXPECT_EQ(budget_.source, path_);
  EXPECT_FALSE(file.changes(budget_));
  write("2048MiB\n");
  EXPECT_FALSE(file.changes(budget_)) << "the same size in other words";
  write("64MiB\n");
  EXPECT_TRUE(file.changes(budget_));
  EXPECT_EQ(budget_.bytes, 64 * kMiB);
  EXPECT_FALSE(file.changes(budget_));
}

TEST_F(BudgetFileTest, NotesOnceWhyTheBudgetStays) {
  write("2GiB");
  std::vector<std::string> notes;
  BudgetFile file(path_, budget_, [&](const std::string& note) { notes.push_back(note); });
  write("lots");
  EXPECT_FALSE(file.changes(budget_));
  EXPECT_FALSE(file.changes(budget_));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(notes[0].starts_with("the budget stays: ")) << notes[0];
  std::filesystem::remove(path_);
  EXPECT_FALSE(file.changes(budget_));
  EXPECT_FALSE(file.changes(budget_));
  EXPECT_EQ(notes.size(), 2u);
  EXPECT_EQ(budget_.bytes, 2 * kGiB);
}

TEST_F(BudgetFileTest, RefusesAFileWithoutASizeAtTheStart) {
  EXPECT_THROW(BudgetFile(path_, budget_), SystemError);
  write("0");
  EXPECT_THROW(BudgetFile(path_, budget_), InputError);
  EXPECT_EQ(budget_.bytes, kGiB);
}

TEST_F(BudgetFileTest, WithoutAPathNothingChanges) {
  BudgetFile none("", budget_);
  EXPECT_FALSE(none.changes(budget_));
  EXPECT_EQ(budget_.source, "--budget");
}

}  // namespace
}  // namespace plimsoll::train
