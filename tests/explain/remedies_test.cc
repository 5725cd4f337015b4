// Every remedy against every audience: none may speak of another framework, backend, task or version, and everybody has
// at least one.
#include "plimsoll/explain/remedies.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "plimsoll/base/bytes.h"
#include "tests/explain/vocabulary.h"

namespace plimsoll::explain {
namespace {

const std::vector<std::span<const RemedyRow>>& tables() {
  static const std::vector<std::span<const RemedyRow>> kTables = {collect_remedies(), engine_remedies(),
                                                                  torch_remedies(),   framework_remedies(),
                                                                  host_remedies(),    common_remedies()};
  return kTables;
}

// With every figure known, so that no precondition hides a row.
Situation rich(Framework framework, Backend backend, Task task, Cause cause) {
  Situation situation;
  situation.framework = framework;
  situation.backend = backend;
  situation.task = task;
  situation.cause = cause;
  situation.arena = Arena::worker;
  situation.subject = "NCCL";
  situation.place = "train.py:1";
  situation.is_fallback = true;
  situation.blocks = 4;
  situation.version = {2, 9};
  for (const auto field :
       {&Situation::requested_bytes, &Situation::limit_bytes, &Situation::total_bytes, &Situation::allowed_bytes,
        &Situation::allocated_bytes, &Situation::free_bytes, &Situation::idle_bytes, &Situation::other_bytes,
        &Situation::process_bytes, &Situation::padding_bytes, &Situation::activation_bytes, &Situation::state_bytes,
        &Situation::optimizer_bytes, &Situation::scratch_bytes, &Situation::leaked_bytes,
        &Situation::leak_per_step_bytes}) {
    situation.*field = kGiB;
  }
  situation.total_bytes = 4 * kGiB;
  return situation;
}

template <typename Visit>
void for_every_audience(const Visit& visit) {
  for (size_t framework = 0; framework < kFrameworks; ++framework) {
    for (size_t backend = 0; backend < kBackends; ++backend) {
      for (size_t task = 0; task < kTasks; ++task) {
        for (size_t cause = 0; cause < kCauses; ++cause) {
          Situation situation = rich(static_cast<Framework>(framework), static_cast<Backend>(backend),
                                     static_cast<Task>(task), static_cast<Cause>(cause));
          for (const Arena arena : {Arena::worker, Arena::host}) {
            situation.arena = arena;
            visit(situation);
          }
        }
      }
    }
  }
}

TEST(Remedies, NoneReachesAnAudienceThatItIsNotFor) {
  for_every_audience([](const Situation& situation) {
    for (const Remedy& remedy : remedies_for(situation)) {
      const std::string_view word =
          wrong_word(remedy, {situation.framework, situation.engine, situation.backend, situation.task});
      EXPECT_TRUE(word.empty()) << fmt::format("{} says \"{}\" to {} on {} at {}", remedy.id, word,
                                               name(situation.framework), name(situation.backend),
                                               name(situation.task));
    }
  });
}

TEST(Remedies, EveryCauseOfEveryAudienceHasOne) {
  for_every_audience([](const Situation& situation) {
    Diagnosis diagnosis;
    add_remedies(situation, diagnosis);
    EXPECT_EQ(diagnosis.remedies.empty(), situation.cause == Cause::healthy)
        << name(situation.framework) << " " << name(situation.backend) << " " << name(situation.cause);
    EXPECT_EQ(diagnosis.no_remedy.empty(), !diagnosis.remedies.empty());
  });
}

TEST(Remedies, RowsHaveNamesOfTheirOwnAndSaySomething) {
  std::set<std::string_view> ids;
  for (const auto table : tables()) {
    for (const RemedyRow& row : table) {
      EXPECT_TRUE(ids.insert(row.id).second) << row.id;
      EXPECT_NE(row.causes, 0u) << row.id;
      EXPECT_FALSE(row.action.empty()) << row.id;
    }
  }
}

TEST(Remedies, EveryRowIsReached) {
  std::set<std::string> reached;
  for_every_audience([&](Situation situation) {
    for (const char* subject : {"NCCL", "a mapped tensor", "Windows", "Java", "TensorRT-LLM", "4096", ""}) {
      situation.subject = subject;
      for (const bool bare : {false, true}) {
        situation.is_fallback = !bare;
        if (bare) {
          situation.version = {1, 9};
          situation.transformers = true;
          situation.allowed_bytes.reset();
          situation.leak_per_step_bytes.reset();
        }
        for (const auto table : tables()) {
          for (const RemedyRow& row : table) {
            if (applies(row, situation)) reached.insert(std::string(row.id));
          }
        }
      }
      situation.version = {};
      situation.requested_bytes.reset();
      situation.total_bytes.reset();
      situation.allowed_bytes = kGiB;
      situation.leak_per_step_bytes = kGiB;
    }
  });
  for (const auto table : tables()) {
    for (const RemedyRow& row : table) EXPECT_TRUE(reached.contains(std::string(row.id))) << row.id;
  }
}

bool has(const std::vector<Remedy>& remedies, std::string_view id) {
  return std::any_of(remedies.begin(), remedies.end(), [&](const Remedy& remedy) { return remedy.id == id; });
}

TEST(Remedies, OnesOfLaterVersionsWaitForThem) {
  Situation situation = rich(Framework::torch, Backend::cuda, Task::training, Cause::fragmentation);
  situation.version = {2, 0};
  EXPECT_FALSE(has(remedies_for(situation), "torch.expandable_segments"));
  EXPECT_TRUE(has(remedies_for(situation), "torch.max_split_size"));
  situation.version = {2, 1};
  EXPECT_TRUE(has(remedies_for(situation), "torch.expandable_segments"));
  situation.cause = Cause::device_full;
  EXPECT_TRUE(has(remedies_for(situation), "torch.record_snapshot"));
  situation.version = {1, 13};
  EXPECT_FALSE(has(remedies_for(situation), "torch.record_snapshot"));
  EXPECT_TRUE(has(remedies_for(situation), "torch.memory_summary"));
}

TEST(Remedies, WhereNothingTellsTheFirstSaysWhatToCollectAndOthersWhatMayHelp) {
  const auto first = [](Framework framework, Backend backend) {
    const auto remedies = remedies_for(rich(framework, backend, Task::unknown, Cause::unknown));
    EXPECT_GE(remedies.size(), 2u) << name(framework);
    return remedies.empty() ? "" : remedies[0].id;
  };
  EXPECT_EQ(first(Framework::torch, Backend::cuda), "torch.launch_blocking");
  EXPECT_EQ(first(Framework::ggml, Backend::cuda), "collect.cuda");
  EXPECT_EQ(first(Framework::ggml, Backend::rocm), "collect.rocm");
  EXPECT_EQ(first(Framework::mlx, Backend::mps), "collect.any");
  EXPECT_EQ(first(Framework::unknown, Backend::unknown), "collect.any");
}

TEST(Remedies, SaveWhatTheSituationShows) {
  Situation situation = rich(Framework::torch, Backend::cuda, Task::training, Cause::fragmentation);
  situation.idle_bytes = 3 * kGiB;
  const auto remedies = remedies_for(situation);
  ASSERT_FALSE(remedies.empty());
  EXPECT_EQ(remedies[0].id, "torch.expandable_segments");
  EXPECT_EQ(remedies[0].saves_bytes, 3 * kGiB);
  EXPECT_EQ(remedies[0].setting, "PYTORCH_ALLOC_CONF=expandable_segments:True");
}

TEST(Remedies, AKilledWebServerHearsNothingOfLoaders) {
  Situation situation = rich(Framework::kernel, Backend::cpu, Task::unknown, Cause::host_memory);
  situation.subject = "gunicorn (pid 7)";
  for (const Remedy& remedy : remedies_for(situation)) {
    EXPECT_EQ(remedy.setting.find("DataLoader"), std::string::npos) << remedy.setting;
  }
}

TEST(Remedies, TakeFiguresOfBrokenFiles) {
  for_every_audience([](Situation situation) {
    for (OptionalBytes* bytes :
         {&situation.requested_bytes, &situation.limit_bytes, &situation.allowed_bytes, &situation.allocated_bytes,
          &situation.total_bytes, &situation.free_bytes, &situation.process_bytes, &situation.activation_bytes}) {
      *bytes = INT64_MAX;
    }
    EXPECT_EQ(remedies_for(situation).empty(), situation.cause == Cause::healthy);
  });
}

}  // namespace
}  // namespace plimsoll::explain
