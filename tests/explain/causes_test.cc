// From real files to causes, and the promises that every diagnosis keeps.
#include "plimsoll/explain/causes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "plimsoll/base/bytes.h"
#include "plimsoll/explain/explain.h"

namespace plimsoll::explain {
namespace {

const std::string kData = PLIMSOLL_SOURCE_DIR "/tests/data/oom/";

Explanation explain_file(const std::string& name) { return explain(read_input(kData + name), name); }

std::vector<Cause> causes(const Explanation& explanation) {
  std::vector<Cause> result;
  for (const Diagnosis& diagnosis : explanation.diagnoses) result.push_back(diagnosis.cause);
  return result;
}

bool offers(const Diagnosis& diagnosis, std::string_view setting) {
  return std::any_of(diagnosis.remedies.begin(), diagnosis.remedies.end(),
                     [&](const Remedy& remedy) { return remedy.setting.find(setting) != std::string::npos; });
}

TEST(Causes, AStepThatDiedAtACapIsFullOfActivations) {
  const Explanation explanation = explain_file("oom_gpt2.pickle.gz");
  ASSERT_EQ(explanation.diagnoses.size(), 1u);
  const Diagnosis& diagnosis = explanation.diagnoses[0];
  EXPECT_EQ(diagnosis.cause, Cause::activations);
  EXPECT_EQ(diagnosis.confidence, Confidence::high);
  EXPECT_EQ(diagnosis.limit_bytes, 4 * kGiB);
  EXPECT_EQ(diagnosis.requested_bytes, 96 * kMiB);
  EXPECT_EQ(diagnosis.place, "train.py:42 in <module>");
  EXPECT_FALSE(offers(diagnosis, "expandable_segments")) << "it would win 33 MiB where 96 are missing";
  EXPECT_TRUE(offers(diagnosis, "gradient_checkpointing_enable"));
}

TEST(Causes, WhoHoldsItIsToldByTheModelsOwnLinesAndOnceEach) {
  const Diagnosis diagnosis = explain_file("oom_gpt2.pickle.gz").diagnoses.at(0);
  EXPECT_EQ(diagnosis.culprits.at(0).module, "modeling_gpt2.py:608 > 305 > 240 > activations.py:66");
  EXPECT_EQ(diagnosis.culprits[0].blocks, 17);
  std::set<std::tuple<std::string, std::string, std::string, Category>> rows;
  for (const Culprit& culprit : diagnosis.culprits) {
    EXPECT_TRUE(rows.insert({culprit.place, culprit.module, culprit.innermost, culprit.category}).second)
        << culprit.place << " " << culprit.module;
  }
}

TEST(Causes, ALoopThatKeepsOutputsIsALeak) {
  const Diagnosis diagnosis = explain_file("leak.pickle.gz").diagnoses.at(0);
  EXPECT_EQ(diagnosis.cause, Cause::leak);
  EXPECT_EQ(diagnosis.place, "train.py:35 in <module>");
  EXPECT_NEAR(static_cast<double>(diagnosis.bytes_per_step.value()), 524288, 0.02 * 524288);
}

TEST(Causes, AHealthyRunIsHealthy) {
  const Diagnosis diagnosis = explain_file("widecnn.pickle.gz").diagnoses.at(0);
  EXPECT_EQ(diagnosis.cause, Cause::healthy);
  EXPECT_TRUE(diagnosis.remedies.empty());
  EXPECT_NE(diagnosis.headline.find("6.17 GiB reserved"), std::string::npos) << diagnosis.headline;
}

TEST(Causes, EachMessageHasItsOwn) {
  EXPECT_EQ(causes(explain_file("torch_ooms.txt")),
            (std::vector{Cause::request_too_large, Cause::fragmentation, Cause::garbage_size, Cause::host_memory,
                         Cause::pinned_host_memory}));
}

TEST(Causes, OfJaxOnlyRealFailuresCount) {
  const Explanation explanation = explain_file("jax_oom.txt");
  EXPECT_EQ(causes(explanation), (std::vector{Cause::device_full, Cause::request_too_large, Cause::request_too_large}));
  EXPECT_EQ(explanation.diagnoses[0].requested_bytes, 512 * kMiB);
  EXPECT_EQ(explanation.diagnoses[1].requested_bytes, 14'400'000'000);
  ASSERT_EQ(explanation.notes.size(), 1u);
}

TEST(Causes, EvidenceAddsUp) {
  for (const char* name :
       {"oom_gpt2.pickle.gz", "leak.pickle.gz", "widecnn.pickle.gz", "torch_ooms.txt", "jax_oom.txt", "oom_gpt2.txt"}) {
    for (const Diagnosis& diagnosis : explain_file(name).diagnoses) {
      for (const Account& account : diagnosis.accounts) {
        const int64_t sum = std::accumulate(account.parts.begin(), account.parts.end(), int64_t{0},
                                            [](int64_t total, const Holder& part) { return total + part.bytes; });
        EXPECT_EQ(sum, account.total_bytes) << name << ": " << account.name;
      }
      if (diagnosis.culprits.empty()) continue;
      const int64_t held = std::accumulate(diagnosis.culprits.begin(), diagnosis.culprits.end(), int64_t{0},
                                           [](int64_t total, const Culprit& culprit) { return total + culprit.bytes; });
      EXPECT_EQ(held, diagnosis.accounts.at(0).total_bytes) << name;
    }
  }
}

// A history made by hand: a device's events and what is left.
class History {
 public:
  History() { device_.index = 0; }

  uint32_t stack(std::initializer_list<std::pair<std::string, std::string>> frames) {
    std::vector<uint32_t> ids;
    for (const auto& [file, name] : frames) {
      ids.push_back(
          snapshot_.stacks.intern_frame({snapshot_.stacks.texts.intern(name), snapshot_.stacks.texts.intern(file), 7}));
    }
    return snapshot_.stacks.intern(ids);
  }

  uint64_t alloc(int64_t bytes, uint32_t stack) {
    next_ += 1 << 20;
    live_[next_] = {bytes, stack};
    add(Action::alloc, next_, bytes, stack);
    return next_;
  }

  void free(uint64_t address, uint32_t stack = 0) {
    add(Action::free_requested, address, live_[address].first, stack);
    live_.erase(address);
  }

  void end_step() {
    time_ += 1;
    snapshot_.annotations.push_back({"Optimizer.step#Adam.step", time_, 0, false});
  }

  void oom(int64_t bytes, int64_t device_free) { add(Action::oom, static_cast<uint64_t>(device_free), bytes, 0); }

  // What is alive lies in one segment each, with `free_in_each` free bytes behind it.
  Diagnosis diagnose(int64_t free_in_each = 0) {
    for (const auto& [address, block] : live_) {
      Segment segment;
      segment.address = address;
      segment.bytes = block.first + free_in_each;
      segment.blocks.push_back({address, block.first, block.first, block.second, BlockState::active});
      if (free_in_each > 0) segment.blocks.push_back({address + 1, free_in_each, 0, 0, BlockState::inactive});
      device_.segments.push_back(segment);
    }
    snapshot_.devices = {device_};
    const auto timeline = make_timeline(snapshot_, device_, stack_roles(snapshot_.stacks));
    return explain::diagnose(snapshot_, device_, timeline);
  }

  Snapshot& snapshot() { return snapshot_; }

 private:
  void add(Action action, uint64_t address, int64_t bytes, uint32_t stack) {
    time_ += 10;
    device_.events.push_back({time_, address, bytes, stack, 0, action, 0});
  }

  Snapshot snapshot_;
  DeviceState device_;
  std::map<uint64_t, std::pair<int64_t, uint32_t>> live_;
  uint64_t next_ = 1 << 20;
  int64_t time_ = 0;
};

const std::initializer_list<std::pair<std::string, std::string>> kForward = {
    {"site-packages/torch/nn/modules/linear.py", "forward"},
    {"site-packages/torch/nn/modules/module.py", "_call_impl"},
    {"train.py", "step"}};
const std::initializer_list<std::pair<std::string, std::string>> kBuild = {
    {"site-packages/torch/nn/modules/module.py", "_apply"}, {"train.py", "main"}};

TEST(Causes, FreeBytesBetweenLiveBlocksAreFragmentation) {
  History history;
  const uint32_t forward = history.stack(kForward);
  for (int i = 0; i < 10; ++i) history.alloc(10 * kMiB, forward);
  history.oom(300 * kMiB, 10 * kMiB);
  const Diagnosis diagnosis = history.diagnose(100 * kMiB);
  EXPECT_EQ(diagnosis.cause, Cause::fragmentation);
  EXPECT_TRUE(offers(diagnosis, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
  EXPECT_EQ(diagnosis.remedies[0].saves_bytes, 1000 * kMiB);
}

TEST(Causes, ExpandableSegmentsThatAreOnAreNotOffered) {
  History history;
  history.alloc(10 * kMiB, history.stack(kForward));
  history.oom(300 * kMiB, 10 * kMiB);
  history.snapshot().settings["expandable_segments"] = "True";
  const Diagnosis diagnosis = history.diagnose(400 * kMiB);
  EXPECT_EQ(diagnosis.cause, Cause::fragmentation);
  EXPECT_FALSE(offers(diagnosis, "expandable"));
}

TEST(Causes, AModelThatDoesNotFitIsItsParameters) {
  History history;
  const uint32_t build = history.stack(kBuild);
  for (int i = 0; i < 20; ++i) history.alloc(kGiB, build);
  history.oom(kGiB, 100 * kMiB);
  EXPECT_EQ(history.diagnose().cause, Cause::parameters_and_optimizer);
}

TEST(Causes, OneOddStepIsNoTrend) {
  History history;
  const uint32_t forward = history.stack(kForward);
  history.alloc(kGiB, history.stack(kBuild));
  for (int step = 0; step < 8; ++step) {
    const uint64_t activation = history.alloc(kGiB, forward);
    history.free(activation);
    history.end_step();
  }
  history.alloc(5 * kGiB, forward);
  history.oom(kGiB, 100 * kMiB);
  EXPECT_EQ(history.diagnose().cause, Cause::odd_step);
}

TEST(Causes, ARequestBeyondTheDeviceIsTooLarge) {
  History history;
  history.alloc(kGiB, history.stack(kForward));
  history.oom(100 * kGiB, 8 * kGiB);
  EXPECT_EQ(history.diagnose().cause, Cause::request_too_large);
}

TEST(Causes, AForwardPassWithoutStepsIsNoLeak) {
  History history;
  const uint32_t forward = history.stack(kForward);
  for (int layer = 0; layer < 64; ++layer) {
    history.alloc(100 * kMiB, forward);
    history.free(history.alloc(50 * kMiB, forward));
  }
  history.oom(kGiB, 100 * kMiB);
  EXPECT_EQ(history.diagnose().cause, Cause::activations);
}

TEST(Causes, AnInferenceLoopThatKeepsOutputsLeaksPerCall) {
  History history;
  const uint32_t forward = history.stack(kForward);
  const uint32_t keep = history.stack({{"serve.py", "handle"}});
  for (int call = 0; call < 64; ++call) {
    for (int i = 0; i < 20; ++i) history.free(history.alloc(10 * kMiB, forward));
    history.alloc(10 * kMiB, keep);
  }
  const Diagnosis diagnosis = history.diagnose();
  EXPECT_EQ(diagnosis.cause, Cause::leak);
  EXPECT_EQ(diagnosis.bytes_per_step, 10 * kMiB);
  EXPECT_EQ(diagnosis.place, "serve.py:7 in handle");
}

TEST(Causes, ALeakThatHoldsMostOfTheMemoryIsTheCauseThoughTheLastRequestFindsHoles) {
  History history;
  const uint32_t forward = history.stack(kForward);
  const uint32_t keep = history.stack({{"serve.py", "handle"}});
  for (int call = 0; call < 64; ++call) {
    for (int i = 0; i < 20; ++i) history.free(history.alloc(10 * kMiB, forward));
    history.alloc(10 * kMiB, keep);
  }
  history.oom(100 * kMiB, kMiB);
  EXPECT_EQ(history.diagnose(2 * kMiB).cause, Cause::leak);
}

TEST(Causes, WhatIsOlderThanTheRecordingIsNotGuessed) {
  History history;
  history.oom(kGiB, 100 * kMiB);
  Segment segment;
  segment.bytes = 10 * kGiB;
  segment.blocks.push_back({64, 10 * kGiB, 10 * kGiB, 0, BlockState::active});
  DeviceState device;
  device.segments.push_back(segment);
  device.events.push_back({10, 100 * kMiB, kGiB, 0, 0, Action::oom, 0});
  const Snapshot snapshot;
  const auto timeline = make_timeline(snapshot, device, stack_roles(snapshot.stacks));
  EXPECT_EQ(diagnose(snapshot, device, timeline).cause, Cause::device_full);
}

TEST(Causes, EveryCauseHasANameAndADescription) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < kCauses; ++i) {
    const auto cause = static_cast<Cause>(i);
    EXPECT_FALSE(name(cause).empty());
    EXPECT_TRUE(description(cause).ends_with(".")) << name(cause);
    EXPECT_EQ(std::count(names.begin(), names.end(), name(cause)), 0);
    names.push_back(name(cause));
  }
}

}  // namespace
}  // namespace plimsoll::explain
