#include "plimsoll/base/oom.h"

#include <gtest/gtest.h>

#include "plimsoll/base/bytes.h"

namespace plimsoll {
namespace {

OomReport sample() {
  OomReport report;
  report.requested_bytes = 294'912;
  report.spec = TensorSpec{DType::f32, {384, 192}};
  report.op = "matmul";
  report.tag = "fc1.weight";
  report.category = Category::parameter;
  report.budget = {200 * kKiB, "--budget"};
  report.live_bytes = 100 * kKiB;
  report.live_by_category[static_cast<size_t>(Category::activation)] = 100 * kKiB;
  report.largest_live = {{100 * kKiB, Category::activation, "x"}};
  report.tried = {"spill: 0 B freed"};
  report.help = {"raise --budget to 388.00 KiB"};
  return report;
}

TEST(OomReport, FirstLineIsInTheFormPeopleSearchFor) {
  EXPECT_TRUE(sample().first_line().starts_with(
      "OOM when allocating tensor with shape[384,192] and type float on cpu by allocator pool: "))
      << sample().first_line();
}

TEST(OomReport, TextTellsAllOfIt) {
  const std::string text = sample().text();
  for (const char* part : {"204,800 B", "--budget", "294,912 B", "fc1.weight", "matmul", "parameter", "activation",
                           "largest free", "spill: 0 B freed", "raise --budget"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(ResourceExhausted, CarriesItsReport) {
  try {
    throw ResourceExhausted(sample());
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), sample().text());
    EXPECT_EQ(dynamic_cast<const ResourceExhausted&>(error).report().tag, "fc1.weight");
  }
}

TEST(InputError, NamesThePlace) {
  EXPECT_STREQ(InputError({.source = "run.csv", .line = 12, .column = 7}, quote("abc"), "a number of bytes").what(),
               "run.csv:12:7: found 'abc', expected a number of bytes");
  EXPECT_STREQ(InputError({.source = "a.pickle", .offset = 40}, "truncated").what(), "a.pickle at byte 40: truncated");
}

TEST(Quote, MakesRubbishPrintable) {
  EXPECT_EQ(quote(std::string_view("a\0\x1b[", 4)), "'a\\x00\\x1b['");
  EXPECT_EQ(quote(std::string(100, 'x')), "'" + std::string(60, 'x') + "'...");
}

}  // namespace
}  // namespace plimsoll
