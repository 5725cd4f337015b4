#include "card.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace plimsoll::simcuda {
namespace {

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "plimsoll: the simulated card: %s\n", what.c_str());
  std::exit(2);
}

std::string read_file() {
  const char* path = std::getenv("PLIMSOLL_SIM_CARD");
  if (path == nullptr) fail("PLIMSOLL_SIM_CARD is not set: expected a file with a device's properties");
  std::ifstream file(path);
  if (!file) fail(std::string("cannot read ") + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

size_t value_at(const std::string& json, const std::string& key) {
  const size_t found = json.find('"' + key + '"');
  if (found == std::string::npos) fail("its description lacks \"" + key + '"');
  return json.find_first_not_of(" :\t\n", found + key.size() + 2);
}

int64_t number(const std::string& json, const std::string& key) { return std::atoll(&json[value_at(json, key)]); }

std::string text(const std::string& json, const std::string& key) {
  const size_t start = value_at(json, key) + 1;
  return json.substr(start, json.find('"', start) - start);
}

Card read_card() {
  const std::string json = read_file();
  const auto small = [&json](const char* key) { return static_cast<int>(number(json, key)); };
  return {.json = json,
          .name = text(json, "deviceName"),
          .memory_bytes = number(json, "totalGlobalMem"),
          .version = small("deviceVer"),
          .multiprocessors = small("multiProcessorCount"),
          .l2_bytes = small("l2CacheSize"),
          .shared_bytes_per_block = small("maxSharedMemoryPerBlock"),
          .shared_bytes_per_block_optin = small("maxSharedMemoryPerBlockOptin"),
          .registers_per_block = small("regsPerBlock"),
          .threads_per_multiprocessor = small("maxThreadsPerSM"),
          .blocks_per_multiprocessor = small("maxCtasPerSM")};
}

}  // namespace

const Card& card() {
  static const Card the_card = read_card();
  return the_card;
}

}  // namespace plimsoll::simcuda
