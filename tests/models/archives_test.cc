#include "plimsoll/models/weights/archives.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/models/weights/weights.h"

namespace plimsoll::models {
namespace {

using std::string_literals::operator""s;

template <class T>
std::string raw(T number) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &number, sizeof(T));
  return bytes;
}

std::string floats(std::initializer_list<float> numbers) {
  std::string bytes;
  for (const float number : numbers) bytes += raw(number);
  return bytes;
}

// A zip archive of files that are stored, or of one method for all.
std::string zip(const std::map<std::string, std::string>& files, uint16_t method = 0, uint32_t inflated = 0) {
  std::string all;
  std::string directory;
  for (const auto& [name, content] : files) {
    const auto size = static_cast<uint32_t>(content.size());
    const std::string sizes = raw(size) + raw(inflated == 0 ? size : inflated);
    const std::string common =
        raw<uint16_t>(20) + raw<uint16_t>(0) + raw(method) + raw<uint32_t>(0) + raw<uint32_t>(0) + sizes;
    const std::string lengths = raw(static_cast<uint16_t>(name.size())) + raw<uint16_t>(0);
    directory += "PK\1\2" + raw<uint16_t>(20) + common + lengths + raw<uint16_t>(0) + raw<uint32_t>(0) +
                 raw<uint32_t>(0) + raw(static_cast<uint32_t>(all.size())) + name;
    all += "PK\3\4" + common + lengths + name + content;
  }
  const auto count = static_cast<uint16_t>(files.size());
  return all + directory + "PK\5\6" + raw<uint32_t>(0) + raw(count) + raw(count) +
         raw(static_cast<uint32_t>(directory.size())) + raw(static_cast<uint32_t>(all.size())) + raw<uint16_t>(0);
}

std::string npy(const std::string& header, const std::string& data) {
  return "\x93NUMPY\1\0"s + raw(static_cast<uint16_t>(header.size())) + header + data;
}
const std::string kMatrix = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";

// {'a': the call that rebuilds a tensor of six floats as `shape` with `strides`}
std::string pickle(const std::string& shape = "K\2K\3\x86", const std::string& strides = "K\3K\1\x86",
                   const std::string& callable = "torch._utils\n_rebuild_tensor_v2") {
  return "\x80\2}X\1\0\0\0ac"s + callable +
         "\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0000X\3\0\0\0cpuK\6tQK\0"s + shape + strides + "\x89" +
         "ccollections\nOrderedDict\n)RtRs.";
}

class Archives : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& bytes) const {
    write_file(folder_ + "/" + name, bytes);
    return folder_ + "/" + name;
  }
  std::string error_of(const std::string& name, const std::string& bytes) const {
    try {
      read_weights(file(name, bytes));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  void expect_error(const std::string& name, const std::string& bytes, const std::string& part) const {
    const std::string found = error_of(name, bytes);
    EXPECT_NE(found.find(part), std::string::npos) << found;
  }

 private:
  std::string folder_ = testing::TempDir() + "archives_" + std::to_string(getpid());
};

float element(const StoredTensors& tensors, const std::string& name, int64_t place) {
  std::vector<float> one(1);
  tensors.at(name).read(one, place);
  return one[0];
}

TEST_F(Archives, ArraysOfNumpy) {
  const std::string array = npy(kMatrix, floats({0, 1, 2, 3, 4, 5}));
  const StoredTensors read = read_weights(file("w.npz", zip({{"fc.weight.npy", array}})));
  EXPECT_EQ(read.at("fc.weight").shape, (Shape{2, 3}));
  EXPECT_EQ(element(read, "fc.weight", 4), 4);
}

TEST_F(Archives, DeflatedArraysAreInflated) {
  const std::string array = npy(kMatrix, floats({0, 1, 2, 3, 4, 5}));
  std::string deflated(200, '\0');
  z_stream stream{};
  ASSERT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(array.data()));
  stream.avail_in = static_cast<uInt>(array.size());
  stream.next_out = reinterpret_cast<Bytef*>(deflated.data());
  stream.avail_out = static_cast<uInt>(deflated.size());
  ASSERT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  deflated.resize(stream.total_out);
  deflateEnd(&stream);
  const auto size = static_cast<uint32_t>(array.size());
  EXPECT_EQ(element(read_weights(file("w.npz", zip({{"a.npy", deflated}}, 8, size))), "a", 5), 5);
  expect_error("w.npz", zip({{"a.npy", deflated}}, 8, size + 1), "does not inflate");
  expect_error("w.npz", zip({{"a.npy", deflated}}, 8, 4000000000U), "larger than deflate");
}

TEST_F(Archives, WrongArraysAreRefused) {
  const std::string data = floats({0, 1, 2, 3, 4, 5});
  const auto with = [&](const std::string& header) { return zip({{"a.npy", npy(header, data)}}); };
  expect_error("w.npz", with("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }"), "'>f4'");
  expect_error("w.npz", with("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }"), "by columns");
  expect_error("w.npz", with("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }"), "do not make");
  expect_error("w.npz", with("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }"), "'a'");
  expect_error("w.npz", with("{'descr': '<f4', 'shape': (-2, 3), 'fortran_order': False}"), "few numbers");
  expect_error("w.npz", with("{'descr': '<f4'}"), "no 'shape'");
  expect_error("w.npz", zip({{"a.npy", "text"}}), "no array");
}

TEST_F(Archives, DamagedArchivesAreRefused) {
  const std::string whole = zip({{"a.npy", npy(kMatrix, floats({0, 1, 2, 3, 4, 5}))}});
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_NE(error_of("w.npz", whole.substr(0, size)), "no error");
  expect_error("w.npz", zip({{"a.npy", "x"}}, 12), "compression method 12");
  for (size_t i = 0; i < whole.size(); ++i) {  // whatever one byte says: a result or an error
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x55);
    error_of("w.npz", changed);
  }
}

std::string torch_archive(const std::string& pickled, const std::string& data = floats({0, 1, 2, 3, 4, 5})) {
  return zip({{"w/data.pkl", pickled}, {"w/data/0", data}});
}

TEST_F(Archives, StateDictsOfPyTorch) {
  const StoredTensors read = read_weights(file("w.pt", torch_archive(pickle())));
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read.at("a").shape, (Shape{2, 3}));
  EXPECT_EQ(read.at("a").dtype, "F32");
  EXPECT_EQ(element(read, "a", 5), 5);
}

TEST_F(Archives, CodeInAStateDictIsNeverRun) {
  expect_error("w.pt", torch_archive(pickle("K\2K\3\x86", "K\3K\1\x86", "posix\nsystem")), "'posix.system'");
  expect_error("w.pt", torch_archive("\x80\2c__builtin__\neval\nX\1\0\0\0001\x85R."s), "nothing was imported");
  expect_error("w.pt", torch_archive("\x80\2(X\1\0\0\0aicollections\nOrderedDict\n."s), "INST");
}

TEST_F(Archives, StateDictsThatLieAreRefused) {
  expect_error("w.pt", torch_archive(pickle("K\2K\4\x86", "K\4K\1\x86")), "beyond its storage");
  expect_error("w.pt", torch_archive(pickle("K\2K\3\x86", "K\1K\2\x86")), "contiguous");
  expect_error("w.pt", torch_archive(pickle("J\xff\xff\xff\xffK\3\x86")), "few numbers");
  expect_error("w.pt", torch_archive(pickle(), "123"), "beyond its storage");
  expect_error("w.pt", zip({{"w/data.pkl", pickle()}}), "is not there");
  expect_error("w.pt", zip({{"w/other", "x"}}), "no data.pkl");
  expect_error("w.pt", torch_archive("\x80\2}."s), "no tensor");
  expect_error("w.pt", "\x80\2}."s, "before 1.6");
}

}  // namespace
}  // namespace plimsoll::models
