// Checkpoints beside what the disk can do, in the same run: a file of about 500 MB against `dd` with fsync, a step
// while one is written against a step alone, memory beside the plan, and resuming against reading the file.
//
//   bench_checkpoint [--folder DIR] [--rounds N]
//
// DIR is on the disk that is measured; the working folder unless given. Rounds alternate between ours and dd's, and the
// median of each counts, since disks that others share vary.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/duration.h"
#include "plimsoll/base/error.h"
#include "plimsoll/memory/process.h"
#include "plimsoll/models/nn.h"
#include "plimsoll/train/checkpoint_folder.h"
#include "plimsoll/train/fitted_training.h"
#include "plimsoll/train/training.h"

namespace {

using namespace plimsoll;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int64_t kWidth = 3712;  // three squares of it with Adam's state: 496 MB
constexpr int64_t kBatch = 16;
constexpr int kSteps = 5;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

models::Model wide_model() {
  models::Net net;
  models::Value x = net.input("x", {models::Net::batch(), kWidth});
  for (const char* name : {"fc1", "fc2", "fc3"}) x = models::relu(net, models::linear(net, name, x, kWidth));
  return models::classify(std::move(net), models::linear(net, "head", x, 10));
}

// Zeros, as ours are not: no disk here compresses.
double dd_seconds(const std::string& path, int64_t bytes) {
  const auto start = Clock::now();
  const std::string command =
      fmt::format("dd if=/dev/zero of='{}' bs=1M count={} conv=fsync status=none", path, bytes / kMiB);
  if (std::system(command.c_str()) != 0) throw Error("dd failed");
  const double seconds = seconds_since(start);
  fs::remove(path);
  return seconds;
}

// The file's pages, out of the page cache.
void forget_pages(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw SystemError::from_errno("opening " + path, errno);
  fsync(fd);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

double read_seconds(const std::string& path) {
  forget_pages(path);
  const auto start = Clock::now();
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<char> block(static_cast<size_t>(kMiB));
  while (read(fd, block.data(), block.size()) > 0) continue;
  close(fd);
  return seconds_since(start);
}

struct Saved {
  double write_s = 0;  // until it is on the disk, nothing else running
  double step_s = 0;   // a step while one is written
};

class Bench {
 public:
  Bench(const std::string& folder, int rounds)
      : folder_(folder), rounds_(rounds), training_(wide_model(), {.batch = kBatch, .budget = "auto"}) {
    for (int i = 0; i < 2; ++i) training_.step();
    bytes_ = train::bytes_of(training_.fitted().kept());
    held_bytes_ = process_peak_bytes();
  }

  void run() {
    std::vector<double> ours;
    std::vector<double> dds;
    std::vector<double> alone;
    std::vector<double> beside;
    for (int round = 0; round < rounds_; ++round) {
      dds.push_back(dd_seconds(folder_ + "/dd", bytes_));
      const Saved saved = save(alone);
      ours.push_back(saved.write_s);
      beside.push_back(saved.step_s);
    }
    const int64_t memory = process_peak_bytes() - held_bytes_;
    const std::string path = *train::newest_checkpoint(folder_ + "/run");
    std::vector<double> reads;
    std::vector<double> resumes;
    for (int round = 0; round < rounds_; ++round) {
      reads.push_back(read_seconds(path));
      forget_pages(path);
      const auto start = Clock::now();
      training_.load(path);
      resumes.push_back(seconds_since(start));
    }
    print(median(ours), median(dds), median(alone), median(beside), memory, median(resumes), median(reads));
  }

 private:
  // A checkpoint by itself, steps alone, and steps while another is written.
  Saved save(std::vector<double>& alone) {
    train::CheckpointFolder folder(folder_ + "/run", 1, train::staging_bytes_for(bytes_, INT64_MAX));
    train::FittedTraining& fitted = training_.fitted();
    Saved saved;
    auto start = Clock::now();
    folder.save(fitted.kept(), fitted.state());
    folder.wait();
    saved.write_s = seconds_since(start);
    start = Clock::now();
    for (int i = 0; i < kSteps; ++i) training_.step();
    alone.push_back(seconds_since(start) / kSteps);
    folder.save(fitted.kept(), fitted.state());
    start = Clock::now();
    for (int i = 0; i < kSteps; ++i) training_.step();
    saved.step_s = seconds_since(start) / kSteps;
    folder.wait();
    return saved;
  }

  void print(double ours, double dd, double alone, double beside, int64_t memory, double resume, double read) const {
    const auto rate = [&](double seconds) { return static_cast<double>(bytes_) / seconds / 1e6; };
    fmt::print("a checkpoint of {} MB, medians of {} rounds\n", bytes_ / 1'000'000, rounds_);
    fmt::print("  {:<34} {:>12} {:>12}  {}\n", "", "Plimsoll", "peer", "");
    fmt::print("  {:<34} {:>7.0f} MB/s {:>7.0f} MB/s  {:.2f} x dd with fsync\n", "written", rate(ours), rate(dd),
               dd / ours);
    fmt::print("  {:<34} {:>12} {:>12}  {:+.1f} % of a step alone\n", "a step while one is written",
               format_seconds(beside), format_seconds(alone), 100 * (beside / alone - 1));
    fmt::print("  {:<34} {:>12} {:>12}  beside the plan\n", "memory", format_bytes(memory), "32.00 MiB");
    fmt::print("  {:<34} {:>12} {:>12}  {:.2f} x reading the file\n", "resume", format_seconds(resume),
               format_seconds(read), resume / read);
  }

  std::string folder_;
  int rounds_;
  train::Training training_;
  int64_t bytes_ = 0;
  int64_t held_bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::string folder = ".";
  int rounds = 3;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string_view(argv[i]) == "--folder") folder = argv[i + 1];
    if (std::string_view(argv[i]) == "--rounds") rounds = std::max(1, std::atoi(argv[i + 1]));
  }
  try {
    const std::string place = fs::absolute(folder).string() + fmt::format("/bench_checkpoint.{}", getpid());
    fs::create_directories(place);
    Bench(place, rounds).run();
    fs::remove_all(place);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_checkpoint: {}\n", error.what());
    return 1;
  }
}
