#include "plimsoll/explain/text_scan.h"

#include <gtest/gtest.h>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/causes.h"
#include "plimsoll/explain/log.h"

namespace plimsoll::explain {
namespace {

TEST(Numbers, AreReadAsPeopleAndProgramsWriteThem) {
  EXPECT_EQ(leading_size("924. GiB for an array"), 924 * kGiB);
  EXPECT_EQ(leading_size("20. Then more"), 20);
  EXPECT_EQ(leading_size("8,589,934,592 bytes"), 8 * kGiB);
  EXPECT_EQ(leading_size("1,234 MiB"), 1234 * kMiB);
  EXPECT_EQ(leading_size("1900,00 MiB"), 1900 * kMiB);
  EXPECT_EQ(leading_size("1,900.50 MiB"), 1900 * kMiB + kMiB / 2);
  EXPECT_EQ(leading_size("20.00 of"), 20);
  EXPECT_EQ(leading_size("17179869184.00 GiB"), std::nullopt);
  EXPECT_EQ(leading_size("many"), std::nullopt);
}

TEST(Numbers, SomeWriteGBAndMeanGiB) {
  EXPECT_EQ(leading_size("2.00 GB", Units::as_written), 2'000'000'000);
  EXPECT_EQ(leading_size("2.00 GB", Units::binary), 2 * kGiB);
  EXPECT_EQ(leading_size("2.00 GiB", Units::binary), 2 * kGiB);
  EXPECT_EQ(leading_size("320 bytes", Units::binary), 320);
}

TEST(Numbers, BeyondAnyMemoryAreNoSizes) {
  EXPECT_TRUE(is_beyond_any_memory("18446744071562067968"));
  EXPECT_FALSE(is_beyond_any_memory("4096"));
  EXPECT_FALSE(is_beyond_any_memory("none"));
}

Failure only_failure(std::string_view text) {
  const LogFindings findings = read_log(*open_memory(text, "log"));
  EXPECT_EQ(findings.failures.size(), 1u) << text;
  return findings.failures.empty() ? Failure{} : findings.failures[0];
}

TEST(Wrapping, WithinWordsAndFiguresIsUndone) {
  const std::string message =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.58 GiB. GPU 1 has a total capacity of 39.56 GiB "
      "of "
      "which 2.81 GiB is free. Including non-PyTorch memory, this process has 36.74 GiB memory in use. Of the "
      "allocated "
      "memory 35.90 GiB is allocated by PyTorch, and 341.77 MiB is reserved by PyTorch but unallocated.";
  for (const size_t columns : {70u, 79u, 80u, 100u, 120u}) {
    std::string wrapped;
    for (size_t i = 0; i < message.size(); i += columns) wrapped += message.substr(i, columns) + "\n";
    const Failure failure = only_failure(wrapped);
    EXPECT_EQ(failure.requested_bytes, leading_size("3.58 GiB")) << wrapped;
    EXPECT_EQ(failure.total_bytes, leading_size("39.56 GiB")) << wrapped;
    EXPECT_EQ(failure.process_bytes, leading_size("36.74 GiB")) << wrapped;
    EXPECT_EQ(failure.allocated_bytes, leading_size("35.90 GiB")) << wrapped;
    EXPECT_EQ(failure.unallocated_bytes, leading_size("341.77 MiB")) << wrapped;
    EXPECT_EQ(diagnose(failure).cause, Cause::device_full) << wrapped;
  }
}

TEST(Context, TellsTaskVersionAndServer) {
  const std::string oom =
      "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity; 14.11 GiB "
      "already "
      "allocated; 402.75 MiB free; 14.30 GiB reserved in total by PyTorch)\n";
  const Failure trained = only_failure(
      "PyTorch version: 1.13.1+cu117\nTraceback (most recent call last):\n  File \"/a/run.py\", line 3, in f\n"
      "    loss.backward()\n" +
      oom);
  EXPECT_EQ(trained.task, Task::training);
  EXPECT_EQ(trained.version, (Version{1, 13}));
  const Failure served = only_failure(
      "Traceback (most recent call last):\n  File \"/env/site-packages/vllm/worker/worker.py\", line 3, in f\n    "
      "x()\n" +
      oom);
  EXPECT_EQ(served.task, Task::inference);
  EXPECT_EQ(served.engine, Framework::vllm);
  EXPECT_EQ(only_failure(oom).task, Task::unknown);
  EXPECT_LT(only_failure(oom).version, (Version{2, 0})) << "the wording is of 2.0 at most";
}

}  // namespace
}  // namespace plimsoll::explain
