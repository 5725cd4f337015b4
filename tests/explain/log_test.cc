#include "plimsoll/explain/log.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/explain.h"

namespace plimsoll::explain {
namespace {

LogFindings read(std::string_view text) { return read_log(*open_memory(text, "log")); }

std::string oom(int gpu, std::string_view requested = "20.00 MiB") {
  return fmt::format(
      "CUDA out of memory. Tried to allocate {} (GPU {}; 11.93 GiB total capacity; 11.25 GiB already allocated; 1.06 "
      "MiB "
      "free; 11.26 GiB reserved in total by PyTorch)",
      requested, gpu);
}

TEST(Log, FindsAMessageWhereverItLies) {
  const std::string noise(100, 'x');
  for (const size_t before : {0u, 1u, 1048575u, 1048576u, 1097700u, 1097728u, 1100000u, 3000000u}) {
    std::string text;
    while (text.size() < before) text += noise + "\n";
    text.resize(before, 'x');
    if (!text.empty()) text.back() = '\n';
    const auto lines = std::count(text.begin(), text.end(), '\n');
    const LogFindings findings = read(text + oom(0) + "\n" + noise);
    ASSERT_EQ(findings.failures.size(), 1u) << before;
    EXPECT_EQ(findings.failures[0].line, lines + 1) << before;
    EXPECT_EQ(findings.failures[0].requested_bytes, 20 * kMiB) << before;
  }
}

TEST(Log, FindsAMessageInAnEnormousLine) {
  const std::string padding(3 << 20, 'x');
  EXPECT_EQ(read(padding + oom(0) + padding).failures.size(), 1u);
}

TEST(Log, SkipsColours) {
  const LogFindings findings = read(
      "\x1b[31mRuntimeError\x1b[0m: CUDA out of memory. \x1b[1mTried to allocate 20.00 MiB\x1b[0m (GPU 0; 11.93 GiB "
      "total capacity; 11.25 GiB already allocated; 1.06 MiB free; 11.26 GiB cached)");
  ASSERT_EQ(findings.failures.size(), 1u);
  EXPECT_EQ(findings.failures[0].requested_bytes, 20 * kMiB);
}

TEST(Log, ReadsNotebooks) {
  const LogFindings findings =
      read("  \"evalue\": \"" + oom(0) +
           "\",\n   \"traceback\": [\n    \"\\u001b[0;31mRuntimeError\\u001b[0m: " + oom(0) + "\"\n   ]\n");
  ASSERT_EQ(findings.failures.size(), 1u) << "a notebook says everything twice";
  EXPECT_EQ(findings.failures[0].occurrences, 2);
}

TEST(Log, KeepsInterleavedRanksApart) {
  const LogFindings findings = read(
      "[rank0]: Traceback (most recent call last):\n"
      "[rank1]: Traceback (most recent call last):\n"
      "[rank0]: torch.OutOfMemoryError: " +
      oom(0) + "\n" + "[rank1]: torch.OutOfMemoryError: " + oom(1) + "\n" + "[1,7]<stderr>: " + oom(7) + "\n" +
      "(Worker pid=12, ip=10.0.0.1) " + oom(3) + "\n" + "5: " + oom(5) + "\n");
  ASSERT_EQ(findings.failures.size(), 5u);
  EXPECT_EQ(findings.failures[0].rank, "rank0");
  EXPECT_EQ(findings.failures[1].rank, "rank1");
  EXPECT_EQ(findings.failures[1].device, "1");
  EXPECT_EQ(findings.failures[2].rank, "1,7");
  EXPECT_EQ(findings.failures[3].rank, "Worker pid=12, ip=10.0.0.1");
  EXPECT_EQ(findings.failures[4].rank, "5");
}

TEST(Log, PutsWrappedMessagesTogether) {
  const LogFindings findings = read(
      "\xe2\x94\x82 OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
      "\xe2\x94\x82\n"
      "\xe2\x94\x82 23.69 GiB of which 1.00 GiB is free. Of the allocated memory 9.00 GiB is allocated by PyTorch, "
      "\xe2\x94\x82\n"
      "\xe2\x94\x82 and 100.00 MiB is reserved by PyTorch but unallocated. \xe2\x94\x82\n");
  ASSERT_EQ(findings.failures.size(), 1u);
  EXPECT_EQ(findings.failures[0].requested_bytes, 2 * kGiB);
  EXPECT_EQ(findings.failures[0].free_bytes, kGiB);
  EXPECT_EQ(findings.failures[0].allocated_bytes, 9 * kGiB);
  EXPECT_EQ(findings.failures[0].unallocated_bytes, 100 * kMiB);
}

TEST(Log, NamesTheUsersLineOfTheTraceback) {
  const LogFindings findings = read(
      "Traceback (most recent call last):\n"
      "  File \"/home/me/train.py\", line 35, in step\n    loss = model(x)\n"
      "  File \"/usr/lib/python3/site-packages/torch/nn/modules/module.py\", line 1501, in _call_impl\n    return f()\n"
      "RuntimeError: " +
      oom(0) + "\n");
  ASSERT_EQ(findings.failures.size(), 1u);
  EXPECT_EQ(findings.failures[0].place, "train.py:35 in step");
}

TEST(Log, ReadsUtf16) {
  std::string utf16 = "\xff\xfe";
  for (const char c : "RuntimeError: " + oom(0) + "\r\n") utf16 += {c, '\0'};
  EXPECT_EQ(read(utf16).failures.size(), 1u);
}

TEST(Log, ReadsTablesOfMemorySummary) {
  const Input input = read_input(PLIMSOLL_SOURCE_DIR "/tests/data/oom/oom_gpt2.txt");
  ASSERT_EQ(input.log.summaries.size(), 1u);
  const MemorySummary& summary = input.log.summaries[0];
  EXPECT_EQ(summary.ooms, 1);
  EXPECT_EQ(summary.retries, 1);
  EXPECT_EQ(summary.allocated_bytes, 3891 * kMiB);
  EXPECT_EQ(summary.allocated_peak_bytes, 3987 * kMiB);
  EXPECT_EQ(summary.reserved_bytes, 4020 * kMiB);
  EXPECT_EQ(summary.non_releasable_bytes, 33737 * kKiB);
}

TEST(Log, FindsNothingWhereThereIsNothing) {
  for (const std::string& text : {std::string("step 1 loss 0.5 memory 3 GiB\n"), std::string("\0\x80\xff\n", 4),
                                  std::string("the word MemoryErrors is no error, out of memory neither\n")}) {
    EXPECT_TRUE(read(text).failures.empty()) << text;
  }
  const Explanation explanation =
      explain(Input{.kind = InputKind::log, .snapshot = {}, .log = read("all is well\n")}, "log");
  ASSERT_EQ(explanation.notes.size(), 1u);
  EXPECT_TRUE(explanation.notes[0].starts_with("found nothing in 12 bytes; looked for ")) << explanation.notes[0];
}

TEST(Log, OfManyFailuresKeepsAThousand) {
  std::string text;
  for (int i = 0; i < 1200; ++i) text += oom(0, fmt::format("{}.00 MiB", i + 1)) + "\n";
  const LogFindings findings = read(text);
  EXPECT_EQ(findings.failures.size(), 1000u);
  EXPECT_EQ(findings.more_failures, 200);
}

}  // namespace
}  // namespace plimsoll::explain
