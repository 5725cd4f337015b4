#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "run.h"

namespace {

using nlohmann::json;

std::string write_file(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

TEST(CliPack, PlacesBuffersAndProvesThePeak) {
  const std::string file = write_file("two.csv", "id,lower,upper,size\na,0,2,256\nb,2,4,256\nc,0,4,100\n");
  const Outcome outcome = run_cli("pack " + file + " --verify --json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const json result = json::parse(outcome.output);
  EXPECT_EQ(result["peak_bytes"], 356);
  EXPECT_EQ(result["lower_bound_bytes"], 356);
  EXPECT_EQ(result["optimal"], true);
  EXPECT_EQ(result["buffers"], 3);
}

TEST(CliPack, WritesOffsetsThatItReadsBackAsAHint) {
  const std::string file = write_file("hinted.csv", "id,lower,upper,size\na,0,3,10\nb,1,4,20\n");
  const std::string out = testing::TempDir() + "offsets.csv";
  ASSERT_EQ(run_cli("pack " + file + " -o " + out).status, 0);
  std::ifstream written(out);
  std::string header;
  std::getline(written, header);
  EXPECT_NE(header.find("offset"), std::string::npos) << header;
  EXPECT_EQ(run_cli("pack --hint " + out + " --hint " + out + " " + file + " --verify").status, 0);
}

TEST(CliPack, SaysThatABufferIsLargerThanTheCapacity) {
  const std::string file = write_file("large.csv", "id,lower,upper,size\nbig,0,1,300\n");
  const Outcome outcome = run_cli("pack " + file + " --capacity 256");
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  EXPECT_NE(outcome.output.find("big"), std::string::npos) << outcome.output;
}

TEST(CliPack, NamesLineAndColumnOfBadInput) {
  const std::string file = write_file("bad.csv", "id,lower,upper,size\na,0,2,256\nb,3,x,1\n");
  const Outcome outcome = run_cli("pack " + file);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.output.find("bad.csv:3:5: found 'x'"), std::string::npos) << outcome.output;
}

TEST(CliPack, PacksARecordedTrace) {
  const Outcome outcome = run_cli("pack --trace " PLIMSOLL_SOURCE_DIR
                                  "/tests/data/traces/resnet50_b64.csv.gz --time-limit 2 --verify --json");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const json result = json::parse(outcome.output);
  EXPECT_LE(result["peak_bytes"].get<double>(), 1.01 * result["lower_bound_bytes"].get<double>());
}

TEST(CliTensor, CountsBytesOfOneTensor) {
  const Outcome text = run_cli("tensor 10000x1000 --dtype f32");
  EXPECT_NE(text.output.find("40,000,000 bytes"), std::string::npos) << text.output;
  EXPECT_NE(text.output.find("38.15 MiB"), std::string::npos) << text.output;
  EXPECT_EQ(json::parse(run_cli("tensor 384x192 --dtype f16 --json").output)["bytes"], 147456);
  EXPECT_EQ(run_cli("tensor 3xx").status, 2);
  EXPECT_EQ(run_cli("tensor 99999999999x99999999999").status, 2);
}

}  // namespace
