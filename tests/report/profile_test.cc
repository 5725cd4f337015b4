#include "plimsoll/report/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plimsoll/models/step.h"
#include "plimsoll/train/start_session.h"

namespace plimsoll::report {
namespace {

// Three steps of a small model, each op timed.
struct Profiled : testing::Test {
  Profiled() {
    started = train::start_session(models::find_model("lenet"), {.sizes = {{"batch", 4}}}, {.threads = 1}, 1);
    run::Session& session = *started.session;
    session.executor().time_ops();
    OpTimes times;
    for (int i = 0; i < 3; ++i) {
      session.executor().step();
      times.add(session);
    }
    profile = profile_of("lenet", session, times);
    profile.steps = {{0.5, 0.25}, {0.5, 0}, {0.25, 0}};
  }

  train::StartedSession started;
  Profile profile;
};

const ProfileRow* find(const std::vector<ProfileRow>& rows, std::string_view name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

double measured_of(const std::vector<ProfileRow>& rows) {
  double sum = 0;
  for (const ProfileRow& row : rows) sum += row.measured_s;
  return sum;
}

TEST_F(Profiled, EveryTableHasTheWholeTime) {
  const ProfileTables tables = tables_of(profile);
  EXPECT_GT(tables.total.measured_s, 0);
  EXPECT_GT(tables.total.predicted_s, 0);
  for (const auto* rows : {&tables.ops, &tables.modules, &tables.phases}) {
    EXPECT_NEAR(measured_of(*rows), tables.total.measured_s, 1e-9);
  }
  EXPECT_NEAR(tables.total.measured_s, profile.history[0].all_seconds(), 1e-9);
}

TEST_F(Profiled, OpsOfALayerInAllPhasesAreOfItsModule) {
  const ProfileTables tables = tables_of(profile);
  const ProfileRow* conv = find(tables.modules, "conv2");
  ASSERT_NE(conv, nullptr);
  EXPECT_GE(conv->runs, 5) << "forward, gradients of weights and bias, and an update of each";
  EXPECT_EQ(find(tables.modules, "grad.tanh"), nullptr) << "a gradient is of what it is the gradient of";
  EXPECT_GT(conv->bytes, 0);
  EXPECT_EQ(tables.phases.size(), 3U);
}

TEST_F(Profiled, CategoriesAreThoseAtThePeakAndTheData) {
  profile.data = ProfiledData{.planned_bytes = 4096, .peak_bytes = 1024, .workers = 2};
  const ProfileTables tables = tables_of(profile);
  int64_t bytes = 0;
  for (const ProfileRow& row : tables.categories) bytes += row.bytes;
  EXPECT_EQ(bytes, live_peak_bytes(profile.history) + 1024);
  ASSERT_NE(find(tables.categories, "data"), nullptr);
  EXPECT_EQ(find(tables.categories, "data")->bytes, 1024);
}

TEST_F(Profiled, TheFileIsAChromeTraceWithTheTables) {
  profile.data = ProfiledData{.planned_bytes = 4096, .peak_bytes = 1024, .workers = 2};
  const auto json = nlohmann::json::parse(profile_file(profile));
  const auto& told = json["plimsoll"];
  EXPECT_EQ(told["data"]["steps_that_waited"], 1);
  EXPECT_EQ(told["data"]["last_step_that_waited"], 1);
  EXPECT_EQ(told["median_step_s"], 0.5);
  EXPECT_EQ(told["ops"].size(), tables_of(profile).ops.size());
  const auto named = [&](const std::string& name) {
    return std::any_of(json["traceEvents"].begin(), json["traceEvents"].end(),
                       [&](const auto& event) { return event["name"] == name; });
  };
  EXPECT_TRUE(named("wait of step 1"));
  EXPECT_FALSE(named("wait of step 2"));
  EXPECT_TRUE(named("step 3"));
}

TEST_F(Profiled, TheTextSaysThatNoStepWaited) {
  profile.data = ProfiledData{};
  EXPECT_NE(profile_text(profile).find("1 of 3 steps waited"), std::string::npos);
  profile.steps = {{0.5, 0}};
  EXPECT_NE(profile_text(profile).find("no step waited"), std::string::npos);
}

TEST(OpTimes, TheFirstStepDoesNotCount) {
  auto started = train::start_session(models::find_model("mlp"), {.sizes = {{"batch", 2}}}, {.threads = 1}, 1);
  run::Session& session = *started.session;
  OpTimes times;
  times.add(session);
  EXPECT_TRUE(times.median().empty()) << "ops are not timed";
  session.executor().time_ops();
  std::vector<std::vector<double>> seen;
  for (int i = 0; i < 4; ++i) {
    session.executor().step();
    times.add(session);
    seen.push_back(session.executor().op_seconds());
  }
  for (size_t op = 0; op < seen[0].size(); ++op) {
    std::vector<double> later = {seen[1][op], seen[2][op], seen[3][op]};
    std::sort(later.begin(), later.end());
    EXPECT_EQ(times.median()[0][op], later[1]);
  }
}

}  // namespace
}  // namespace plimsoll::report
