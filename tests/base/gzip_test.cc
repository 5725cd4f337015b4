#include "plimsoll/base/gzip.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"

namespace plimsoll {
namespace {

TEST(Gzip, InflatesWhatItDeflated) {
  for (const size_t size : {0, 1, 1'000'000}) {
    const std::string text(size, 'x');
    const Inflated inflated = gunzip(gzip(text));
    EXPECT_FALSE(inflated.fault);
    EXPECT_EQ(inflated.bytes, text);
  }
}

TEST(Gzip, InflatesMembersOneAfterAnother) { EXPECT_EQ(gunzip(gzip("ab") + gzip("cd")).bytes, "abcd"); }

TEST(Gzip, KeepsWhatCameBeforeTheFault) {
  const std::string whole = gzip("abc");
  for (size_t size = 0; size < whole.size(); ++size) {
    const Inflated inflated = gunzip(whole.substr(0, size));
    ASSERT_TRUE(inflated.fault) << size;
    EXPECT_EQ(inflated.fault->message, "the gzip data ends early");
    EXPECT_EQ(inflated.fault->offset, static_cast<int64_t>(size));
  }
  EXPECT_EQ(gunzip(whole + "garbage").bytes, "abc");
  EXPECT_TRUE(gunzip(whole + "garbage").fault);
}

TEST(Gzip, StopsAtTheLimit) {
  const Inflated inflated = gunzip(gzip(std::string(10'000'000, 'x')), 1'000'000);
  ASSERT_TRUE(inflated.fault);
  EXPECT_LT(inflated.bytes.size(), 3'000'000u);
}

TEST(File, NamesThePathThatCannotBeWritten) {
  try {
    write_file("/no/such/folder/x", "abc");
    FAIL() << "wrote a file where no folder is";
  } catch (const SystemError& error) {
    EXPECT_NE(std::string(error.what()).find("/no/such/folder/x"), std::string::npos) << error.what();
  }
}

TEST(File, RefusesToReadAFolder) { EXPECT_THROW(read_file("/"), SystemError); }

}  // namespace
}  // namespace plimsoll
