// Durations and suggestions.
#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/base/duration.h"
#include "plimsoll/base/similar.h"

namespace plimsoll {
namespace {

TEST(FormatSeconds, ReadsAsPeopleSayIt) {
  EXPECT_EQ(format_seconds(0.0381), "38.1 ms");
  EXPECT_EQ(format_seconds(0), "0.0 ms");
  EXPECT_EQ(format_seconds(2.966e-5), "29.7 us");
  EXPECT_EQ(format_seconds(0.0001), "0.1 ms");
  EXPECT_EQ(format_seconds(0.99999), "1.000 s");
  EXPECT_EQ(format_seconds(1.204), "1.204 s");
  EXPECT_EQ(format_seconds(59.9999), "1 min 00 s");
  EXPECT_EQ(format_seconds(343.4396), "5 min 43 s");
  EXPECT_EQ(format_seconds(3599.7), "1 h 00 min");
  EXPECT_EQ(format_seconds(7500), "2 h 05 min");
  EXPECT_EQ(format_seconds(INFINITY), "inf s");
}

TEST(SimilarHint, KnowsTypingErrors) {
  const std::vector<std::string> verbs = {"train", "run", "plan", "explain"};
  EXPECT_EQ(similar_hint("trian", verbs), "did you mean train? ");
  EXPECT_EQ(similar_hint("explian", verbs), "did you mean explain? ");
  EXPECT_EQ(similar_hint("zzz", verbs), "");
  EXPECT_EQ(similar_hint(std::string(100000, 'a'), verbs), "");
}

}  // namespace
}  // namespace plimsoll
