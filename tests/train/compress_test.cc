#include "plimsoll/train/compress.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "plimsoll/base/error.h"
#include "plimsoll/models/weights/weights.h"
#include "plimsoll/train/start_session.h"
#include "plimsoll/train/synthetic.h"
#include "tests/in_folder.h"

namespace plimsoll::train {
namespace {

const models::StepOptions kStep = {.training = false, .sizes = {{"batch", 4}}};
const kernels::DeviceOptions kDevice = {.threads = 1};

// Six different batches.
class SyntheticBatches : public Batches {
 public:
  Delivered next() override {
    if (position_.sample >= 24) return {};
    position_.sample += 4;
    return {std::make_shared<SyntheticBatch>(static_cast<uint64_t>(position_.sample)), 4};
  }
  int64_t batches_per_epoch() const override { return 6; }
  DataPosition position() const override { return position_; }
  void seek(const DataPosition& position) override { position_ = position; }

 private:
  DataPosition position_;
};

Compression compress_lenet(const CompressOptions& options, Batches* data = nullptr) {
  return compress(models::find_model("lenet"), kStep, kDevice, data, options);
}

TEST(Compress, BytesTakeAQuarterAndAreCloseToF32) {
  SyntheticBatches data;
  const Compression done = compress_lenet({.bits = 8}, &data);
  EXPECT_LT(done.after.weight_bytes, 0.3 * static_cast<double>(done.before.weight_bytes));
  EXPECT_LT(done.after.arena_bytes, done.before.arena_bytes);
  EXPECT_GT(done.relative_error, 0);
  EXPECT_LT(done.relative_error, 0.02);
  EXPECT_EQ(done.test_samples, 8) << "two batches are left after four to calibrate on";
  EXPECT_TRUE(done.after.accuracy.has_value());
}

TEST(Compress, FourBitsTakeLessAndAreFurtherOff) {
  const Compression bytes = compress_lenet({.bits = 8});
  const Compression nibbles = compress_lenet({.bits = 4});
  EXPECT_LT(nibbles.after.weight_bytes, 0.8 * static_cast<double>(bytes.after.weight_bytes));
  EXPECT_GT(nibbles.relative_error, bytes.relative_error);
  EXPECT_LT(nibbles.relative_error, 0.3);
}

TEST(Compress, ZerosSaveNothing) {
  const Compression done = compress_lenet({.prune = 0.5});
  EXPECT_NEAR(done.zero_share, 0.5, 0.01);
  EXPECT_EQ(done.after.weight_bytes, done.before.weight_bytes);
  EXPECT_EQ(done.after.arena_bytes, done.before.arena_bytes);
  EXPECT_GT(done.relative_error, 0);
}

TEST(Compress, ChannelsThatGoSaveBytes) {
  const Compression done = compress_lenet({.prune = 0.5, .structured = true});
  EXPECT_EQ(done.channels, 6 + 16 + 120 + 84);
  EXPECT_EQ(done.pruned_channels, 3 + 8 + 60 + 42);
  EXPECT_LT(done.after.parameters, 0.3 * static_cast<double>(done.before.parameters));
  EXPECT_LT(done.after.arena_bytes, done.before.arena_bytes);
}

// A channel whose weights and bias are zero adds nothing: without it the result is the same.
TEST(Compress, ChannelsWithoutWeightsGoUnnoticed) {
  const models::ModelInfo& lenet = models::find_model("lenet");
  const Compression whole = compress_lenet({.prune = 1e-9});
  models::CompressedTensors tensors;
  for (const models::CompressedTensor& tensor : whole.tensors) {
    std::vector<float> values(static_cast<size_t>(tensor.shape.elements()));
    tensor.read(values, 0);
    const bool zeroed = tensor.name == "fc2.weight" || tensor.name == "fc2.bias";
    if (zeroed) std::fill_n(values.begin(), tensor.columns() * 21, 0.0F);
    tensors.push_back(models::plain_tensor(tensor.name, tensor.shape, values));
  }
  const auto shared = std::make_shared<const models::CompressedTensors>(std::move(tensors));
  const models::ModelInfo some = models::with_tensors(lenet, shared, "a test");
  const Compression done = compress(some, kStep, kDevice, nullptr, {.prune = 0.25, .structured = true});
  const auto row = std::find_if(done.tensors.begin(), done.tensors.end(),
                                [](const auto& tensor) { return tensor.name == "fc2.bias"; });
  std::vector<float> bias(static_cast<size_t>(row->shape.elements()));
  row->read(bias, 0);
  EXPECT_EQ(bias.size(), 63U);
  EXPECT_EQ(std::count(bias.begin(), bias.end(), 0.0F), 0) << "the 21 without weights are those that went";
}

TEST(Compress, TheFileIsTheModelForOtherVerbs) {
  const TemporaryFolder folder("compress");
  const Compression done = compress_lenet({.bits = 8, .prune = 0.5, .structured = true});
  models::write_compressed(folder / "small.safetensors", done.tensors);
  const models::ModelInfo read = models::with_weights(models::find_model("lenet"), folder / "small.safetensors");
  models::StepOptions step = kStep;
  step.precision = DType::i8;
  const StartedSession started = start_session(read, step, kDevice, 1);
  EXPECT_EQ(started.session->executor().arena_bytes(), done.after.arena_bytes);
  step = {.sizes = {{"batch", 4}}};
  EXPECT_NO_THROW(start_session(read, step, kDevice, 1).session->executor().step()) << "it can be trained, too";
}

TEST(Compress, BadOptionsAreRefused) {
  SyntheticBatches data;
  EXPECT_THROW(compress_lenet({.bits = 3}), ArgumentError);
  EXPECT_THROW(compress_lenet({.prune = 1}), ArgumentError);
  EXPECT_THROW(compress_lenet({.bits = 8, .calibration_batches = 6}, &data), ArgumentError);
}

}  // namespace
}  // namespace plimsoll::train
