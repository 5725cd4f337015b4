// Models of ONNX files beside ONNX Runtime, two threads each: seconds to read and bind a file and to estimate its
// training, milliseconds of an inference, and by how much the process grows for it.
//
// usage: bench_onnx [--batch N] [--cpu] [FILE.onnx]...   (default: 1 and 8 of those in ../shared/data/onnx)
//
// Files may lack their weights: both sides draw them. PLIMSOLL_PYTHON must have onnx and onnxruntime; without them the
// peer's columns stay empty. Each case runs in a process of its own, ours and the peer's in turns: a pause, in which
// threads of the other that spin while they wait go to sleep, a step that is not counted, and one that is. --cpu counts
// the processor's time of all threads in place of the clock's, for a machine that others use: OMP_WAIT_POLICY=passive,
// so that waiting is not counted.
//
// Memory of reading is anonymous memory at its largest: the heap, which is not given back on the way.
#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>

#include "plimsoll/base/bytes.h"
#include "plimsoll/base/error.h"
#include "plimsoll/kernels/prepare.h"
#include "plimsoll/memory/limits.h"
#include "plimsoll/memory/process.h"
#include "plimsoll/models/onnx/load.h"
#include "plimsoll/models/step.h"
#include "plimsoll/plan/estimate.h"
#include "plimsoll/run/session.h"
#include "plimsoll/train/initialize.h"
#include "plimsoll/train/synthetic.h"

namespace plimsoll {
namespace {

constexpr int kRuns = 9;
constexpr int kThreads = 2;
constexpr auto kPause = std::chrono::milliseconds(30);  // also in onnx_runtime.py
constexpr int64_t kTokens = 128;

struct Case {
  std::string file;
  int64_t batch;
  bool cpu = false;
};

// What a case gave, through a pipe.
struct Row {
  double read_s = 0, estimate_s = 0;
  int64_t read_bytes = 0;
  double our_ms = 0, peer_ms = 0;  // the peer's: 0 without one
  int64_t our_bytes = 0, peer_bytes = 0;
};

double now_s(const Case& of) {
  timespec time{};
  clock_gettime(of.cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0;
  int64_t resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// What of it is not pages of files, such as this program.
int64_t anonymous_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) << 10;
  }
  throw std::runtime_error("/proc/self/status has no RssAnon");
}

double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}

// ONNX Runtime in a process that runs the model once for every line that it is sent.
class Peer {
 public:
  explicit Peer(const Case& of) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("no socket");
    const char* chosen = std::getenv("PLIMSOLL_PYTHON");
    const std::string python = chosen == nullptr ? "/usr/bin/python3" : chosen;
    child_ = fork();
    if (child_ == 0) {
      dup2(ends[1], 0);
      dup2(ends[1], 1);
      execl(python.c_str(), python.c_str(), PLIMSOLL_SOURCE_DIR "/bench/onnx_runtime.py", of.file.c_str(),
            std::to_string(of.batch).c_str(), std::to_string(kTokens).c_str(), std::to_string(kThreads).c_str(),
            of.cpu ? "cpu" : "clock", nullptr);
      _exit(127);
    }
    close(ends[1]);
    to_ = fdopen(ends[0], "w");
    from_ = fdopen(fcntl(ends[0], F_DUPFD_CLOEXEC, 0), "r");
    is_there_ = read_line() == "ready";
  }
  ~Peer() {
    std::fclose(to_);
    std::fclose(from_);
    waitpid(child_, nullptr, 0);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  bool is_there() const { return is_there_; }
  double step_ms(int64_t& bytes) {
    std::fputs("step\n", to_);
    std::fflush(to_);
    double ms = 0;
    if (std::sscanf(read_line().c_str(), "%lf %ld", &ms, &bytes) != 2) throw std::runtime_error("the peer failed");
    return ms;
  }

 private:
  std::string read_line() {
    char line[256] = {};
    if (std::fgets(line, sizeof line, from_) == nullptr) return "";
    return {line, std::strcspn(line, "\n")};
  }

  pid_t child_;
  FILE* to_;
  FILE* from_;
  bool is_there_ = false;
};

// Reading and estimating alone, in a process that does nothing else.
Row measure_reading(const Case& of) {
  Row row;
  malloc_trim(0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);  // so that what is resident in the end is what was at most
  mallopt(M_MMAP_THRESHOLD, INT_MAX);
  const int64_t before = anonymous_bytes();
  const double start = now_s(of);
  const models::OnnxOptions options{.sizes = {{"batch", of.batch}}, .init = true};
  const models::ModelInfo info = models::load_onnx(of.file, options);
  models::build_step(info, {.training = false, .sizes = {{"batch", of.batch}}});
  row.read_s = now_s(of) - start;
  row.read_bytes = anonymous_bytes() - before;
  const program::Program step = models::build_step(info, {.sizes = {{"batch", of.batch}}});
  plan::estimate(kernels::prepare(step, {.threads = kThreads}));
  row.estimate_s = now_s(of) - start;
  return row;
}

Row measure_inference(const Case& of) {
  Row row;
  Peer peer(of);
  const int64_t before = resident_bytes();
  const models::OnnxOptions options{.sizes = {{"batch", of.batch}}, .init = true};
  const models::ModelInfo info = models::load_onnx(of.file, options);
  const models::Step step = models::build_whole_step(info, {.training = false, .sizes = {{"batch", of.batch}}});
  run::Session session(step.program, {.threads = kThreads}, machine_budget());
  train::start_values(session.executor(), step.inits, step.state_inits, 1);
  train::fill_inputs(session.executor(), 1);
  std::vector<double> ours;
  std::vector<double> theirs;
  for (int i = 0; i < kRuns; ++i) {  // in turns, so that a busy machine is so for both
    std::this_thread::sleep_for(kPause);
    session.executor().step();
    const double start = now_s(of);
    session.executor().step();
    ours.push_back(1e3 * (now_s(of) - start));
    if (peer.is_there()) theirs.push_back(peer.step_ms(row.peer_bytes));
  }
  row.our_ms = median(ours);
  row.our_bytes = process_peak_bytes() - before;
  if (!theirs.empty()) row.peer_ms = median(theirs);
  return row;
}

// In a process of its own, whose memory is the case's alone. Nothing: it failed.
template <class F>
std::optional<Row> measured_apart(const F& measure, const Case& of) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    int status = 1;
    try {
      const Row row = measure(of);
      status = write(ends[1], &row, sizeof row) == sizeof row ? 0 : 1;
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}: {}\n", of.file, error.what());
    }
    _exit(status);
  }
  close(ends[1]);
  Row row;
  const bool whole = read(ends[0], &row, sizeof row) == sizeof row;
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return whole ? std::optional(row) : std::nullopt;
}

struct Means {
  double speed = 0, memory = 0;  // sums of logarithms
  int count = 0;
};

void bench(const Case& of, Means& means) {
  const auto reading = measured_apart(measure_reading, of);
  const auto running = measured_apart(measure_inference, of);
  const std::string name = std::filesystem::path(of.file).stem().string();
  if (!reading || !running) return fmt::print("| {} | {} | failed |\n", name, of.batch);
  const auto file_bytes = static_cast<double>(std::filesystem::file_size(of.file));
  fmt::print("| {} | {} | {:.2f} | {:.2f} | {} ({:.1f} x) | {:.1f} |", name, of.batch, reading->read_s,
             reading->estimate_s, format_bytes(reading->read_bytes),
             static_cast<double>(reading->read_bytes) / file_bytes, running->our_ms);
  if (running->peer_ms > 0) {
    const double speed = running->peer_ms / running->our_ms;
    const double memory = static_cast<double>(running->our_bytes) / static_cast<double>(running->peer_bytes);
    fmt::print(" {:.1f} | {:.2f} | {} | {} | {:.2f} |\n", running->peer_ms, speed, format_bytes(running->our_bytes),
               format_bytes(running->peer_bytes), memory);
    means.speed += std::log(speed);
    means.memory += std::log(memory);
    ++means.count;
  } else {
    fmt::print(" - | - | {} | - | - |\n", format_bytes(running->our_bytes));
  }
  std::fflush(stdout);
}

std::vector<std::string> default_files() {
  const std::filesystem::path folder = PLIMSOLL_SOURCE_DIR "/../shared/data/onnx";
  if (!std::filesystem::exists(folder)) throw std::runtime_error("name .onnx files: ../shared/data/onnx is not there");
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".onnx") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void bench_all(const std::vector<std::string>& arguments) {
  std::vector<int64_t> batches = {1, 8};
  std::vector<std::string> files;
  bool cpu = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--batch" && i + 1 < arguments.size()) {
      batches = {std::stoll(arguments[++i])};
    } else if (arguments[i] == "--cpu") {
      cpu = true;
    } else {
      files.push_back(arguments[i]);
    }
  }
  if (files.empty()) files = default_files();
  fmt::print(
      "| model | batch | read and bind, s | with estimate, s | memory to read (x file) | ms | ONNX Runtime ms | speed "
      "| "
      "memory | ONNX Runtime | of it |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  Means means;
  for (const std::string& file : files) {
    for (const int64_t batch : batches) bench({file, batch, cpu}, means);
  }
  if (means.count == 0) return;
  fmt::print("\ngeometric means of {}: {:.2f} x the speed of ONNX Runtime, {:.2f} x its memory\n", means.count,
             std::exp(means.speed / means.count), std::exp(means.memory / means.count));
}

}  // namespace
}  // namespace plimsoll

int main(int count, char** arguments) {
  try {
    plimsoll::bench_all({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_onnx: {}\n", error.what());
    return 1;
  }
}
