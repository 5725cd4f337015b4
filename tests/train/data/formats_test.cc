#include "plimsoll/train/data/formats.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/base/gzip.h"
#include "plimsoll/train/data/npy.h"
#include "plimsoll/train/data/open.h"
#include "tests/train/data/made_files.h"

namespace plimsoll::train::data {
namespace {

std::vector<float> counted(int count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i);
  return values;
}

// A zip archive of stored or deflated entries, as numpy.savez writes it.
std::string zip_of(const std::vector<std::pair<std::string, std::string>>& entries, bool deflated) {
  std::string zip;
  std::string directory;
  const auto number = [](std::string& to, uint64_t value, int width) {
    for (int i = 0; i < width; ++i) to += static_cast<char>(value >> (8 * i) & 0xFF);
  };
  for (const auto& [name, bytes] : entries) {
    std::string packed = bytes;
    if (deflated) {  // gzip is deflate between a header of 10 bytes and a trailer of 8
      packed = gzip(bytes);
      packed = packed.substr(10, packed.size() - 18);
    }
    const uint64_t at = zip.size();
    for (std::string* to : {&zip, &directory}) {
      number(*to, to == &zip ? 0x04034b50 : 0x02014b50, 4);
      if (to == &directory) number(*to, 20, 2);
      number(*to, 20, 2);
      number(*to, 0, 2);
      number(*to, deflated ? 8 : 0, 2);
      number(*to, 0, 8);  // time, date, checksum
      number(*to, packed.size(), 4);
      number(*to, bytes.size(), 4);
      number(*to, name.size(), 2);
      number(*to, 0, 2);
      if (to == &directory) {
        to->append(2 + 2 + 2 + 4, '\0');
        number(*to, at, 4);
      }
      *to += name;
    }
    zip += packed;
  }
  const uint64_t first = zip.size();
  zip += directory;
  number(zip, 0x06054b50, 4);
  number(zip, 0, 4);
  number(zip, entries.size(), 2);
  number(zip, entries.size(), 2);
  number(zip, directory.size(), 4);
  number(zip, first, 4);
  number(zip, 0, 2);
  return zip;
}

TEST(Npy, GivesRowsOfTwoFiles) {
  const Folder folder;
  folder.write("x.npy", npy_of("<f4", "(3, 2)", bytes_of(counted(6))));
  folder.write("y.npy", npy_of("<i4", "(3,)", bytes_of(std::vector<int32_t>{7, 8, 9})));
  const auto source = open(folder.path());
  EXPECT_EQ(source->size(), 3);
  EXPECT_EQ(source->fields()[0].spec.text(), "f32[2]");
  const auto sample = read_sample(*source, 1);
  EXPECT_EQ(values_of<float>(sample[0]), (std::vector<float>{2, 3}));
  EXPECT_EQ(values_of<int32_t>(sample[1]), (std::vector<int32_t>{8}));
  EXPECT_EQ(source->memory_bytes(), 0);
}

TEST(Npy, RefusesWhatItCannotRead) {
  const Folder folder;
  const auto why = [&](const std::string& file) {
    const std::string path = folder.write("x.npy", file);
    return message_of<InputError>([&] { open(path); });
  };
  EXPECT_TRUE(has(why(npy_of("<c8", "(3, 2)", "")), "x.npy at byte"));
  EXPECT_TRUE(has(why(npy_of("<c8", "(3, 2)", "")), "dtype '<c8', expected f8, f4"));
  EXPECT_TRUE(has(why(npy_of(">f4", "(3, 2)", bytes_of(counted(6)))), "order of bytes"));
  EXPECT_TRUE(has(why(npy_of("<f4", "(3, 2)", bytes_of(counted(6)), "True")), "ascontiguousarray"));
  EXPECT_TRUE(has(why(npy_of("<f4", "(3, 2)", bytes_of(counted(5)))), "found 20 bytes of data, expected 24"));
  EXPECT_TRUE(has(why(npy_of("<f4", "(4611686018427387904, 4611686018427387904)", "")), "expected more"));
  EXPECT_TRUE(has(why(npy_of("<f4", "(-3, 2)", "")), "a number of 0 or more"));
  EXPECT_TRUE(has(why("\x93NUMPY"), "no NumPy file"));
  EXPECT_TRUE(has(why(std::string("\x93NUMPY\x01\x00\xff\xff{'", 12)), "a header of 65535"));
  EXPECT_TRUE(has(why(""), "no NumPy file"));
}

TEST(Npy, RefusesLabelsOfAnotherNumber) {
  const Folder folder;
  folder.write("x.npy", npy_of("<f4", "(3, 2)", bytes_of(counted(6))));
  folder.write("y.npy", npy_of("<i4", "(2,)", bytes_of(std::vector<int32_t>{7, 8})));
  EXPECT_TRUE(has(message_of<InputError>([&] { open(folder.path()); }), "y.npy: 2 rows, but"));
}

TEST(Npy, TellsTheRowOfBadValues) {
  const Folder folder;
  std::vector<float> values = counted(6);
  values[3] = NAN;
  folder.write("x.npy", npy_of("<f4", "(3, 2)", bytes_of(values)));
  folder.write("y.npy", npy_of("<i8", "(3,)", bytes_of(std::vector<int64_t>{0, 1, 10})));
  const auto source = open(folder.path(), {.classes = 10});
  read_sample(*source, 0);
  EXPECT_TRUE(has(message_of<DataError>([&] { read_sample(*source, 1); }), "x of row 1 has a NaN"));
  EXPECT_TRUE(has(message_of<DataError>([&] { read_sample(*source, 2); }), "target of row 2 is 10, expected 0 to 9"));
  EXPECT_TRUE(std::isnan(values_of<float>(read_sample(*open(folder.path(), {.check_finite = false}), 1)[0])[1]));
}

TEST(Npz, GivesStoredAndDeflatedArrays) {
  const Folder folder;
  const std::string x = npy_of("<f4", "(3, 2)", bytes_of(counted(6)));
  const std::string y = npy_of("|u1", "(3,)", bytes_of(std::vector<uint8_t>{7, 8, 9}));
  for (const bool deflated : {false, true}) {
    const auto source = open(folder.write("d.npz", zip_of({{"y.npy", y}, {"x.npy", x}}, deflated)));
    const auto sample = read_sample(*source, 2);
    EXPECT_EQ(values_of<float>(sample[0]), (std::vector<float>{4, 5}));
    EXPECT_EQ(values_of<uint8_t>(sample[1]), (std::vector<uint8_t>{9}));
    EXPECT_EQ(source->memory_bytes(), deflated ? static_cast<int64_t>(x.size() + y.size()) : 0);
  }
}

TEST(Npz, RefusesArchivesThatLie) {
  const Folder folder;
  const std::string x = npy_of("<f4", "(3, 2)", bytes_of(counted(6)));
  const auto why = [&](const std::string& file) {
    const std::string path = folder.write("d.npz", file);
    return message_of<InputError>([&] { open(path); });
  };
  const std::string whole = zip_of({{"x.npy", x}}, false);
  EXPECT_TRUE(has(why(whole.substr(0, whole.size() - 30)), "no directory of a zip archive"));
  EXPECT_TRUE(has(why(zip_of({{"z.npy", x}}, false)), "found the arrays z, expected one named x"));
  std::string corrupt = zip_of({{"x.npy", x}}, true);
  corrupt.replace(40, 20, 20, '\xff');
  EXPECT_TRUE(has(why(corrupt), "could be inflated"));
  std::string beyond = whole;
  beyond[beyond.size() - 4] = '\x7f';  // the directory's offset
  EXPECT_TRUE(has(why(beyond), "the archive is cut short"));
}

TEST(Idx, GivesImagesAndTheLabelsBesideThem) {
  const Folder folder;
  const std::string pixels = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::string labels = {3, 9};
  for (const bool packed : {false, true}) {
    const std::string ending = packed ? ".gz" : "";
    const auto file = [&](const std::string& bytes) { return packed ? gzip(bytes) : bytes; };
    const auto images = folder.write("train-images-idx3-ubyte" + ending, file(idx_of({2, 2, 2}, pixels)));
    folder.write("train-labels-idx1-ubyte" + ending, file(idx_of({2}, labels)));
    const auto source = open(images, {.mean = {0.5F}, .std = {0.5F}});
    EXPECT_EQ(source->fields()[0].spec.text(), "u8[1,2,2]");
    EXPECT_NEAR(255 * source->fields()[0].scale[0] + source->fields()[0].offset[0], 1.0, 1e-6);
    const auto sample = read_sample(*source, 1);
    EXPECT_EQ(values_of<uint8_t>(sample[0]), (std::vector<uint8_t>{4, 5, 6, 7}));
    EXPECT_EQ(values_of<uint8_t>(sample[1]), (std::vector<uint8_t>{9}));
  }
  EXPECT_EQ(open(folder.path())->size(), 2);
}

TEST(Idx, RefusesWhatItCannotRead) {
  const Folder folder;
  const std::string labels = folder.write("labels", idx_of({2}, "ab"));
  const auto why = [&](const std::string& file) {
    const std::string path = "idx:" + folder.write("images", file) + "," + labels;
    return message_of<InputError>([&] { open(path); });
  };
  EXPECT_TRUE(has(why(idx_of({2, 2, 2}, "1234567")), "found 7 bytes of data, expected 8"));
  EXPECT_TRUE(has(why(idx_of({2, 2, 2}, "12345678", 0x0D)), "IDX type 0x0d"));
  EXPECT_TRUE(has(why(idx_of({0x7fffffff, 0x7fffffff, 0x7fffffff}, "")), "the file is cut short"));
  EXPECT_TRUE(has(why("\x01"), "an IDX file"));
  EXPECT_TRUE(has(why(gzip(idx_of({2, 2, 2}, "12345678")).substr(0, 20)), "gzip data ends early"));
}

TEST(Cifar, GivesRecordsOfSeveralFiles) {
  const Folder folder;
  std::string first(3073, '\x11');
  first[0] = 4;
  std::string second(3073 * 2, '\x22');
  second[0] = 5;
  second[3073] = 11;
  folder.write("data_batch_1.bin", first);
  folder.write("data_batch_2.bin", second);
  const auto source = open(folder.path());
  EXPECT_EQ(source->size(), 3);
  const auto sample = read_sample(*source, 1);
  EXPECT_EQ(values_of<uint8_t>(sample[0])[3071], 0x22);
  EXPECT_EQ(values_of<uint8_t>(sample[1]), (std::vector<uint8_t>{5}));
  EXPECT_TRUE(has(message_of<DataError>([&] { read_sample(*source, 2); }), "is 11, expected 0 to 9"));
  EXPECT_TRUE(has(message_of<InputError>([&] { open("cifar100:" + folder.path() + "/data_batch_1.bin"); }),
                  "records of 3074 (CIFAR-100)"));
}

TEST(Tokens, GivesSequencesAndTheNextTokens) {
  const Folder folder;
  const std::string path = folder.write("t.bin", bytes_of(std::vector<uint16_t>{1, 2, 3, 4, 50000, 6, 7, 8}));
  const auto source = open(path, {.sequence = 3, .vocabulary = 50257});
  EXPECT_EQ(source->size(), 2);
  const auto sample = read_sample(*source, 1);
  EXPECT_EQ(values_of<int64_t>(sample[0]), (std::vector<int64_t>{4, 50000, 6}));
  EXPECT_EQ(values_of<int64_t>(sample[1]), (std::vector<int64_t>{50000, 6, 7}));
  const auto wide = open("u32:" + path, {.sequence = 3});
  EXPECT_EQ(values_of<int64_t>(read_sample(*wide, 0)[0]), (std::vector<int64_t>{0x20001, 0x40003, 0x6c350}));
}

TEST(Tokens, RefusesWhatTheModelCannotTake) {
  const Folder folder;
  const std::string path = folder.write("t.bin", bytes_of(std::vector<uint16_t>{1, 2, 3, 4, 500}));
  const auto source = open(path, {.sequence = 2, .vocabulary = 100});
  read_sample(*source, 0);
  EXPECT_TRUE(has(message_of<DataError>([&] { read_sample(*source, 1); }), "token 500 in the sequence here"));
  EXPECT_TRUE(has(message_of<InputError>([&] { open(path, {.sequence = 5}); }), "found 5 tokens, expected 6"));
  EXPECT_THROW(open(path), ArgumentError);
  EXPECT_TRUE(has(message_of<InputError>([&] { open("u32:" + path, {.sequence = 1}); }), "is it u16?"));
}

TEST(Text, GivesItsBytesAsTokens) {
  const Folder folder;
  const auto source = open(folder.write("t.txt", "to be\xff"), {.sequence = 2, .vocabulary = 256});
  EXPECT_EQ(source->size(), 2);
  const auto sample = read_sample(*source, 1);
  EXPECT_EQ(values_of<int64_t>(sample[0]), (std::vector<int64_t>{' ', 'b'}));
  EXPECT_EQ(values_of<int64_t>(sample[1]), (std::vector<int64_t>{'b', 'e'}));
  EXPECT_TRUE(has(message_of<DataError>([&] {
                    const auto small = open(folder.path() + "/t.txt", {.sequence = 5, .vocabulary = 128});
                    read_sample(*small, 0);
                  }),
                  "token 255 in the sequence here, expected 0 to 127"));
}

TEST(Lines, ArePaddedWithTargetsThatAreIgnored) {
  const Folder folder;
  const std::string path = folder.write("t.txt", "abc\n\nxyzuvw\r\nq");
  const auto source = open("lines:" + path, {.sequence = 4, .vocabulary = 256});
  EXPECT_EQ(source->size(), 3);
  const auto padded = read_sample(*source, 0);
  EXPECT_EQ(values_of<int64_t>(padded[0]), (std::vector<int64_t>{'a', 'b', 'c', '\n'}));
  EXPECT_EQ(values_of<int64_t>(padded[1]), (std::vector<int64_t>{'b', 'c', '\n', -100}));
  const auto cut = read_sample(*source, 1);
  EXPECT_EQ(values_of<int64_t>(cut[0]), (std::vector<int64_t>{'x', 'y', 'z', 'u'}));
  EXPECT_EQ(values_of<int64_t>(cut[1]), (std::vector<int64_t>{'y', 'z', 'u', 'v'}));
  EXPECT_EQ(source->name(2), path + ":4");
  EXPECT_EQ(source->memory_bytes(), 3 * 8);
  EXPECT_TRUE(has(message_of<InputError>([&] { open("lines:" + folder.write("e.txt", "\n\n"), {.sequence = 4}); }),
                  "found no lines"));
  EXPECT_TRUE(
      has(message_of<DataError>([&] { read_sample(*open("lines:" + path, {.sequence = 4, .vocabulary = 120}), 1); }),
          "t.txt:3: byte 122 in the line"));
}

TEST(Csv, GivesColumnsAndLabels) {
  const Folder folder;
  std::string text = "a,kind,\"b, c\"\r\n";
  for (int i = 0; i < 40; ++i) text += std::to_string(i) + ".5," + std::to_string(i % 3) + ", -1e3\n\n";
  const std::string path = folder.write("d.csv", text);
  const auto source = open(path, {.label_column = "kind"});
  EXPECT_EQ(source->size(), 40);
  const auto sample = read_sample(*source, 37);
  EXPECT_EQ(values_of<float>(sample[0]), (std::vector<float>{37.5F, -1000}));
  EXPECT_EQ(values_of<int64_t>(sample[1]), (std::vector<int64_t>{1}));
  EXPECT_EQ(source->fields()[1].spec.text(), "i64[]");
  EXPECT_EQ(source->name(1), path + ":4");
  EXPECT_EQ(open(path, {.label_column = "0"})->fields()[1].spec.text(), "f32[]");
  EXPECT_THROW(open(path, {.label_column = "sort"}), ArgumentError);
}

TEST(Csv, TellsTheLineOfBadCells) {
  const Folder folder;
  const auto source = open(folder.write("d.csv", "1,2,0\n1,x,0\n1,2\n1,2,3,4\n1,nan,0\n1,2,9\n1,,0\n"), {.classes = 9});
  const auto why = [&](int64_t row) { return message_of<DataError>([&] { read_sample(*source, row); }); };
  read_sample(*source, 0);
  EXPECT_TRUE(has(why(1), "d.csv:2:3: found 'x', expected a number"));
  EXPECT_TRUE(has(why(2), "d.csv:3: found 2 columns, expected 3"));
  EXPECT_TRUE(has(why(3), "d.csv:4: found more columns"));
  EXPECT_TRUE(has(why(4), "d.csv:5:3: found 'nan', expected a finite number"));
  EXPECT_TRUE(has(why(5), "d.csv:6:5: found label 9, expected 0 to 8"));
  EXPECT_TRUE(has(why(6), "an empty cell"));
  EXPECT_EQ(open(folder.write("f.csv", "1,,0\n1,2,0\n"))->size(), 2);  // a value that is missing makes no header
  EXPECT_EQ(open(folder.write("f.csv", ",a,b\n1,2,0\n"))->size(), 1);  // a name that is missing does
  EXPECT_TRUE(has(message_of<InputError>([&] { open(folder.write("e.csv", "\n\n")); }), "no lines"));
  EXPECT_TRUE(has(message_of<InputError>([&] { open(folder.write("e.csv", "a,b\n")); }), "a header alone"));
}

TEST(Open, SaysWhatItKnows) {
  const Folder folder;
  EXPECT_TRUE(has(message_of<SystemError>([&] { open(folder.path() + "/none"); }), "no such file"));
  EXPECT_TRUE(has(message_of<ArgumentError>([&] { open(folder.write("a.doc", "")); }), "FORMAT:PATH"));
  EXPECT_TRUE(has(message_of<InputError>([&] { open(folder.path()); }), "found no images"));
}

}  // namespace
}  // namespace plimsoll::train::data
