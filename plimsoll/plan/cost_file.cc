// The cost cache as a file: for each machine a table.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/file.h"
#include "plimsoll/device/device.h"
#include "plimsoll/plan/cost_cache.h"

namespace plimsoll::plan {
namespace {

using nlohmann::json;

constexpr int kVersion = 3;
constexpr int64_t kOldDays = 180;
constexpr size_t kMostEntries = 20'000;  // of one machine
constexpr size_t kMostMachines = 16;
constexpr int64_t kMostFileBytes = 64 * kMiB;
constexpr double kMostSeconds = 1e5;  // of an op: more is nonsense

// By machine.
using CostFile = std::map<std::string, CostTable>;

MeasuredOp read_op(const std::string& key, const json& op) {
  const MeasuredOp read{op.at("seconds"), op.at("flops"), op.at("bytes"), op.at("day"), op.at("runs")};
  const bool makes_sense = std::isfinite(read.seconds) && read.seconds >= 0 && read.seconds < kMostSeconds &&
                           read.flops >= 0 && read.bytes >= 0 && read.day >= 0 && read.runs > 0;
  if (!makes_sense) throw InputError({}, fmt::format("{} takes {}", key, op.dump()));
  return read;
}

CostFile parse_file(const std::string& text) {
  const json read = json::parse(text, nullptr, false);
  if (read.is_discarded()) throw InputError({}, "it is not JSON");
  if (!read.is_object() || !read.contains("plimsoll_costs")) throw InputError({}, "it is no table of costs");
  if (read["plimsoll_costs"] != kVersion) throw InputError({}, "it is of another version");
  CostFile file;
  try {
    for (const auto& [machine, ops] : read.at("machines").items()) {
      CostTable& table = file[machine];
      for (const auto& [key, op] : ops.items()) table[key] = read_op(key, op);
    }
  } catch (const json::exception&) {
    throw InputError({}, "something in it is not as it is written");
  }
  return file;
}

CostFile read_costs(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  if (path.empty() || !fs::exists(path, failed)) return {};
  if (!fs::is_regular_file(path)) throw InputError({}, "it is no file");
  if (fs::file_size(path) > static_cast<uintmax_t>(kMostFileBytes)) throw InputError({}, "it is too large");
  return parse_file(read_file(path));
}

// Whoever has it may write. Held by an open file, so that it ends with the process, however that ends.
class Lock {
 public:
  explicit Lock(const std::string& path) : descriptor_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) throw SystemError::from_errno(fmt::format("writing {}", quote(path)), errno);
    constexpr int kTries = 100;
    constexpr auto kPause = std::chrono::milliseconds(10);
    for (int i = 0; i < kTries; ++i) {
      if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
      std::this_thread::sleep_for(kPause);
    }
    close(descriptor_);
    throw SystemError(fmt::format("another process holds {}", quote(path)));
  }
  ~Lock() { close(descriptor_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int descriptor_;
};

int64_t newest_day(const CostTable& table) {
  int64_t newest = 0;
  for (const auto& [key, op] : table) newest = std::max(newest, op.day);
  return newest;
}

// What is old goes, and of what is more than may be, the oldest.
void trim(CostTable& table) {
  const int64_t day = today();
  std::erase_if(table, [&](const auto& entry) { return day - entry.second.day > kOldDays; });
  if (table.size() <= kMostEntries) return;
  std::vector<int64_t> days;
  for (const auto& [key, op] : table) days.push_back(op.day);
  const auto nth = days.begin() + static_cast<std::ptrdiff_t>(days.size() - kMostEntries);
  std::nth_element(days.begin(), nth, days.end());
  const int64_t oldest = *nth;
  std::erase_if(table, [&](const auto& entry) { return entry.second.day < oldest; });
  while (table.size() > kMostEntries) table.erase(std::prev(table.end()));
}

void trim(CostFile& file) {
  while (file.size() > kMostMachines) {
    file.erase(std::min_element(file.begin(), file.end(), [](const auto& a, const auto& b) {
      return newest_day(a.second) < newest_day(b.second);
    }));
  }
}

void merge(CostTable& into, const CostTable& table) {
  for (const auto& [key, op] : table) {
    if (!op.quiet) continue;
    const auto [found, is_new] = into.try_emplace(key, op);
    if (!is_new) found->second = better_of(found->second, op);
  }
}

std::string text_of(const CostFile& file) {
  json machines = json::object();
  for (const auto& [machine, table] : file) {
    json& ops = machines[machine] = json::object();
    for (const auto& [key, op] : table) {
      ops[key] = {
          {"seconds", op.seconds}, {"flops", op.flops}, {"bytes", op.bytes}, {"day", op.day}, {"runs", op.runs}};
    }
  }
  const json written = {{"plimsoll_costs", kVersion}, {"machines", std::move(machines)}};
  return written.dump(1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

LoadedCosts load_costs(const std::string& path) {
  try {
    CostFile file = read_costs(path);
    const auto own = file.find(device::cpu_device().cost_id());
    return {own == file.end() ? CostTable{} : std::move(own->second), ""};
  } catch (const std::exception& error) {
    return {{}, fmt::format("the cost cache {} is ignored and will be written anew: {}", path, error.what())};
  }
}

void save_costs(const std::string& path, const CostTable& table) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  const Lock lock(path + ".lock");
  CostFile file;
  try {
    file = read_costs(path);
  } catch (const std::exception&) {  // written anew
  }
  CostTable& own = file[device::cpu_device().cost_id()];
  merge(own, table);
  trim(own);
  trim(file);
  write_file(path, text_of(file));
}

}  // namespace plimsoll::plan
