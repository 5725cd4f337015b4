#include "plimsoll/models/weights/compressed.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>

#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/base/temporary_folder.h"
#include "plimsoll/models/weights/safetensors.h"
#include "plimsoll/models/weights/weights.h"

namespace plimsoll::models {
namespace {

std::vector<float> random_values(size_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

std::vector<float> read_all(const CompressedTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.shape.elements()));
  tensor.read(values, 0);
  return values;
}

double error_of(const std::vector<float>& a, const std::vector<float>& b, const std::vector<float>& weights = {}) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += std::pow(a[i] - b[i], 2) * (weights.empty() ? 1.0 : weights[i % weights.size()]);
  }
  return std::sqrt(sum);
}

TEST(Compressed, BytesOfRowsAreCloseAndAQuarter) {
  const std::vector<float> values = random_values(30 * 17);
  const CompressedTensor tensor = quantize_tensor("w", {30, 17}, values, 8, 0);
  EXPECT_EQ(tensor.bytes(), 30 * 17 + 30 * 4);
  EXPECT_LT(error_of(read_all(tensor), values), 0.01 * error_of(std::vector<float>(values.size()), values));
}

TEST(Compressed, FourBitsTakeHalfAByteAndRowsBeginWithAByte) {
  const std::vector<float> values = random_values(5 * 37);
  const CompressedTensor tensor = quantize_tensor("w", {5, 37}, values, 4, 16);
  EXPECT_EQ(tensor.data.size(), 5U * 19);
  EXPECT_EQ(tensor.scales.size(), 5U * 3);
  EXPECT_LT(error_of(read_all(tensor), values), 0.12 * error_of(std::vector<float>(values.size()), values));
  std::vector<float> some(4);
  tensor.read(some, 39);
  const std::vector<float> all = read_all(tensor);
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + 39));
}

TEST(Compressed, CalibrationMakesTheErrorOfWhatMattersSmaller) {
  const size_t columns = 64;
  std::vector<float> values = random_values(8 * columns);
  std::vector<float> importance(columns, 1);
  for (size_t row = 0; row < 8; ++row) values[row * columns] *= 3;  // large, and multiplied by next to nothing
  importance[0] = 1e-4F;
  const auto plain = read_all(quantize_tensor("w", {8, 64}, values, 4, 0));
  const auto calibrated = read_all(quantize_tensor("w", {8, 64}, values, 4, 0, importance));
  EXPECT_LT(error_of(calibrated, values, importance), 0.9 * error_of(plain, values, importance));
}

TEST(Compressed, ZerosAndWhatIsNotFiniteAreZero) {
  const std::vector<float> values = {0, 0, 0, 0, INFINITY, 1, NAN, -1};
  const std::vector<float> found = read_all(quantize_tensor("w", {2, 4}, values, 8, 0));
  EXPECT_EQ(found, (std::vector<float>{0, 0, 0, 0, 0, 1, 0, -1}));
}

TEST(Compressed, AFileGivesTheSameModelBack) {
  const TemporaryFolder folder("compressed");
  const std::string path = folder.path() + "/small.safetensors";
  const CompressedTensors tensors = {quantize_tensor("fc1.weight", {6, 32}, random_values(6 * 32), 4, 16),
                                     quantize_tensor("fc2.weight", {4, 32}, random_values(4 * 32), 8, 0),
                                     plain_tensor("fc1.bias", {6}, random_values(6))};
  write_compressed(path, tensors);
  EXPECT_TRUE(is_compressed(path));
  const CompressedTensors found = read_compressed(path);
  ASSERT_EQ(found.size(), 3U);
  for (const CompressedTensor& tensor : tensors) {
    const auto same =
        std::find_if(found.begin(), found.end(), [&](const auto& one) { return one.name == tensor.name; });
    ASSERT_NE(same, found.end());
    EXPECT_EQ(read_all(*same), read_all(tensor)) << tensor.name;
  }
}

TEST(Compressed, FilesThatDoNotFitTogetherAreRefused) {
  const TemporaryFolder folder("compressed");
  const std::string path = folder.path() + "/bad.safetensors";
  for (const int bits : {5, 4, 32}) {
    CompressedTensor tensor = quantize_tensor("w", {4, 32}, random_values(4 * 32), 8, 0);
    write_compressed(path, {tensor});
    std::string text;
    {
      std::ifstream file(path, std::ios::binary);
      text.assign(std::istreambuf_iterator<char>(file), {});
    }
    const size_t place = text.find("\\\"bits\\\":8");
    ASSERT_NE(place, std::string::npos);
    text.replace(place, 10, bits == 32 ? "\\\"bits\\\":3" : "\\\"bits\\\":" + std::to_string(bits));
    std::ofstream(path, std::ios::binary) << text;
    EXPECT_THROW(read_compressed(path), InputError) << bits;
  }
}

TEST(Compressed, GroupsWithoutEndAreRefused) {
  const TemporaryFolder folder("compressed");
  const std::string path = folder.path() + "/groups.safetensors";
  const std::string header =
      stored_header({{"w", DType::i8, {2, 2}}, {"w.scale", DType::f32, {2, 1}}},
                    {{"plimsoll.compressed", R"({"w":{"bits":8,"group":9223372036854775807,"shape":[2,2]}})"}});
  write_file(path, header + std::string(4 + 8, '\0'));
  try {
    read_compressed(path);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("in groups of 9223372036854775807"), std::string::npos) << error.what();
  }
}

TEST(Compressed, AModelLacksNothing) {
  const auto tensors =
      std::make_shared<const CompressedTensors>(CompressedTensors{plain_tensor("fc1.bias", {6}, random_values(6))});
  EXPECT_THROW(with_tensors(find_model("lenet"), tensors, "x").build({}, Size::full), ArgumentError);
}

}  // namespace
}  // namespace plimsoll::models
