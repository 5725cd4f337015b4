// Plans that spill, on their way through the executor: faults at every copy, and nothing allocated.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/spill.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/plan/plan.h"
#include "plimsoll/program/text.h"
#include "plimsoll/run/session.h"
#include "tests/kernels/against_reference.h"
#include "tests/run/allocation_count.h"
#include "tests/test_device.h"

namespace plimsoll {
namespace {

// Results that are wanted again at the end, in the other order.
constexpr const char* kProgram = R"(
  input %x: f32[64,64]
  input %i: i64[1]
  %a = exp(%x)
  %b = tanh(%a)
  %c = exp(%b)
  %d = tanh(%c)
  %e = exp(%d)
  %t = embedding(%e, %i)
  %f = mul(%e, %d)
  %g = mul(%f, %c)
  %h = mul(%g, %b)
  %k = mul(%h, %a)
  output %k
  output %t
)";

class SpillRun : public testing::Test {
 protected:
  SpillRun() { kernels::use_spill_file(file_); }
  ~SpillRun() override { kernels::use_spill_file(nullptr); }

  // All results go to the file when nothing reads them.
  run::Session session() const {
    const kernels::Lowered lowered = kernels::prepare(program_, on_test_device(1));
    plan::PlanOptions options = {.budget_bytes = 0, .recompute = false, .work_limit = 1000};
    options.spill = {.bytes_per_s = 1e9, .least_bytes = 1};
    options.budget_bytes = std::get<plan::Refusal>(plan::make_plan(lowered, options)).smallest_bytes;
    plan::Applied applied = plan::apply(std::get<plan::Plan>(plan::make_plan(lowered, options)), lowered);
    std::vector<run::Planned> planned;
    planned.push_back({std::move(applied.lowered), std::move(applied.memory)});
    return {std::move(planned), machine_budget()};
  }

  const program::Program program_ = program::parse_program(kProgram);
  std::shared_ptr<SpillFile> file_ = std::make_shared<SpillFile>(PLIMSOLL_SOURCE_DIR);
};

int64_t copies_in(const program::Program& program) {
  return std::count_if(program.ops.begin(), program.ops.end(),
                       [](const program::Op& op) { return op.def->name == "spill" || op.def->name == "fetch"; });
}

TEST_F(SpillRun, AllocatesNothing) {
  run::Session session = this->session();
  load(session.executor(), random_values(program_, {}));
  session.executor().step();
  const int64_t before = allocation_count();
  for (int i = 0; i < 3; ++i) session.executor().step();
  EXPECT_EQ(allocation_count() - before, 0);
}

TEST_F(SpillRun, EndsInATypedErrorWhicheverCopyFails) {
  const int64_t copies = copies_in(this->session().executor().program());
  ASSERT_GE(copies, 4);
  for (int64_t copy = 0; copy < copies; ++copy) {
    SCOPED_TRACE(copy);
    const auto file = std::make_shared<SpillFile>(PLIMSOLL_SOURCE_DIR);
    kernels::use_spill_file(file);
    run::Session session = this->session();
    load(session.executor(), random_values(program_, {}));
    session.executor().step();
    file->fail_transfer(copy, ENOSPC);
    EXPECT_THROW(session.executor().step(), SystemError);
    EXPECT_THROW(session.executor().step(), SystemError);
  }
}

TEST_F(SpillRun, HasNoCopyUnderWayWhenAnOpFails) {
  run::Session session = this->session();
  auto values = random_values(program_, {});
  values["i"].ints[0] = 64;
  load(session.executor(), values);
  EXPECT_THROW(session.executor().step(), ArgumentError);
  session.executor().write_one<int64_t>(program_.find("i"), 1);
  session.executor().step();
}

}  // namespace
}  // namespace plimsoll
