#include "plimsoll/explain/snapshot.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/base/gzip.h"
#include "plimsoll/explain/stack_roles.h"

namespace plimsoll::explain {
namespace {

using std::string_literals::operator""s;

constexpr const char* kData = PLIMSOLL_SOURCE_DIR "/tests/data/oom/";

Snapshot read(const std::string& name) { return read_torch_snapshot(*open_file(kData + name)); }

Snapshot parse(std::string_view bytes) { return read_torch_snapshot(*open_memory(bytes, "x.pickle")); }

int64_t sum(const DeviceState& device, bool only_active) {
  int64_t bytes = 0;
  for (const Segment& segment : device.segments) {
    if (!only_active) bytes += segment.bytes;
    for (const Block& block : segment.blocks)
      bytes += only_active && block.state == BlockState::active ? block.bytes : 0;
  }
  return bytes;
}

TEST(TorchSnapshot, HasTheTotalsThatPythonCounts) {
  const Snapshot snapshot = read("oom_gpt2.pickle.gz");
  ASSERT_EQ(snapshot.devices.size(), 1u);
  const DeviceState& device = snapshot.devices[0];
  EXPECT_EQ(device.segments.size(), 84u);
  EXPECT_EQ(device.events.size(), 490u);
  EXPECT_EQ(sum(device, false), 4'215'275'520);
  EXPECT_EQ(sum(device, true), 4'080'065'024);
  EXPECT_EQ(snapshot.annotations.size(), 2u);
  EXPECT_EQ(snapshot.settings.at("expandable_segments"), "False");
}

TEST(TorchSnapshot, KeepsStacksInnermostFirst) {
  const Snapshot snapshot = read("oom_gpt2.pickle.gz");
  const Block& block = snapshot.devices[0].segments[0].blocks[0];
  const auto frames = snapshot.stacks.frames(block.stack);
  ASSERT_EQ(frames.size(), 11u);
  EXPECT_EQ(snapshot.stacks.name(frames[0]), "convert");
  EXPECT_EQ(snapshot.stacks.file(frames.back()), "train.py");
  EXPECT_EQ(snapshot.stacks.frame(frames.back()).line, 41);
}

TEST(TorchSnapshot, IsTheSamePlainAndCompressed) {
  const std::string plain = gunzip(read_file(kData + "widecnn.pickle.gz"s)).bytes;
  const Snapshot a = parse(plain);
  const Snapshot b = read("widecnn.pickle.gz");
  EXPECT_EQ(a.devices[0].events.size(), b.devices[0].events.size());
  EXPECT_EQ(sum(a.devices[0], true), sum(b.devices[0], true));
}

TEST(TorchSnapshot, ReadsTheListThatOldVersionsWrote) {
  // pickle.dumps([{"device": 0, "address": 4096, "total_size": 1024, "segment_type": "small", "blocks": [
  //   {"size": 512, "state": "active_allocated"}, {"size": 512, "state": "inactive"}]}], 2), without the memo
  const std::string old =
      "\x80\x02]}(U\x06"
      "deviceK\x00U\x07"
      "addressM\x00\x10U\x0atotal_sizeM\x00\x04U\x06"
      "blocks]("
      "}(U\x04sizeM\x00\x02U\x05stateU\x10"
      "active_allocatedu}(U\x04sizeM\x00\x02U\x05stateU\x08inactiveueua."s;
  const Snapshot snapshot = parse(old);
  ASSERT_EQ(snapshot.devices.size(), 1u);
  const auto& blocks = snapshot.devices[0].segments[0].blocks;
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[1].address, 4096u + 512u) << "addresses are counted where they are not given";
  EXPECT_EQ(blocks[0].state, BlockState::active);
}

TEST(TorchSnapshot, SaysWhatItFoundInsteadOfASnapshot) {
  try {
    parse("\x80\x02}U\x05modelK\x01s."s);
    FAIL() << "expected an InputError";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "x.pickle: found a dict of 'model', expected a PyTorch memory snapshot: a dict with a "
                 "list under 'segments'");
  }
}

TEST(TorchSnapshot, RefusesSizesThatMemoryCannotHave) {
  const std::string negative =
      "\x80\x02]}(U\x06"
      "blocks]}(U\x04sizeJ\xff\xff\xff\xffU\x05stateU\x01xuaua."s;
  EXPECT_THROW(parse(negative), InputError);
}

TEST(TorchSnapshot, CutAtEveryByteIsAnErrorOrNothingLost) {
  const std::string whole = gunzip(read_file(kData + "oom_gpt2.pickle.gz"s)).bytes;
  for (size_t size = 0; size < whole.size(); size += 997) {
    EXPECT_THROW(parse(std::string_view(whole).substr(0, size)), InputError) << size;
  }
}

TEST(TorchSnapshot, CutGzipIsAnError) {
  const std::string path = testing::TempDir() + "cut.pickle.gz";
  const std::string whole = read_file(kData + "leak.pickle.gz"s);
  write_file(path, std::string_view(whole).substr(0, whole.size() / 2));
  EXPECT_THROW(read_torch_snapshot(*open_file(path)), InputError);
}

struct Call {
  std::string_view name;
  std::string_view file;
  int line;
};

// A stack of calls, innermost first.
std::string path_of(std::initializer_list<Call> calls) {
  StackTable stacks;
  std::vector<uint32_t> frames;
  for (const Call& call : calls) {
    frames.push_back(stacks.intern_frame({stacks.texts.intern(call.name), stacks.texts.intern(call.file), call.line}));
  }
  return module_path(stacks, stacks.intern(frames));
}

TEST(ModulePath, HasTheLinesOfTheModelsForward) {
  EXPECT_EQ(path_of({{"forward", "/lib/torch/nn/modules/linear.py", 134},
                     {"forward", "/home/me/model.py", 88},
                     {"_call_impl", "/lib/torch/nn/modules/module.py", 1700},
                     {"forward", "/home/me/model.py", 41},
                     {"<module>", "/home/me/train.py", 7}}),
            "model.py:41 > 88");
}

TEST(ModulePath, NamesFunctionsThatForwardCalls) {
  EXPECT_EQ(path_of({{"softmax", "/lib/torch/nn/functional.py", 9},
                     {"attend", "/home/me/ops.py", 12},
                     {"forward", "/home/me/model.py", 88},
                     {"train", "/home/me/train.py", 7}}),
            "model.py:88 > attend ops.py:12");
}

TEST(ModulePath, NamesClassesWhereTheRecordingHasThem) {
  EXPECT_EQ(path_of({{"MLP.forward", "/home/me/model.py", 60},
                     {"Block.forward", "/home/me/model.py", 88},
                     {"Gpt.forward", "/home/me/model.py", 31}}),
            "Gpt.forward model.py:31 > Block.forward 88 > MLP.forward 60");
}

TEST(ModulePath, AFolderCalledTorchMayBeTheUsers) {
  EXPECT_EQ(path_of({{"forward", "/lib/python3.12/site-packages/torch/nn/modules/linear.py", 134},
                     {"forward", "/home/me/torch/train.py", 20}}),
            "train.py:20");
}

TEST(ModulePath, IsEmptyOutsideOfModules) {
  EXPECT_EQ(path_of({{"step", "/home/me/train.py", 7}, {"<module>", "/home/me/train.py", 9}}), "");
}

}  // namespace
}  // namespace plimsoll::explain
