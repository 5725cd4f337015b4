// Two ranks on this machine, a thread each: training steps beside PyTorch's DistributedDataParallel over gloo, the same
// models and batches, each in turn, medians; and a sum over ranks of 100 MB beside that of MPI alone, in one process.
//
//   bench_ranks [CASE].. [--rounds N] [--steps N] [--alone]
//
// PyTorch is bench/ranks_torch.py, run by the Python that PLIMSOLL_PYTHON in the environment names (`./dev bench` makes
// one), else by the system's, in the better of its two memory formats for images; --alone leaves it out. Memory is the
// most that the process of rank 0 held, code and libraries included. On a machine that does other work figures say
// little but as a ratio: the load is printed with them.
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/torch_peer.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/device/mpi.h"

namespace {

using namespace plimsoll;
using bench::median;
using Json = nlohmann::json;

constexpr int kRanks = 2;
constexpr int kWarmSteps = 2;
constexpr int64_t kReducedBytes = 100'000'000;

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// ---- a sum over ranks, as one of them ----

// MPI's own, of everything at once.
class BareMpi {
 public:
  BareMpi() : library_(dlopen("libmpi.so.40", RTLD_NOW | RTLD_NOLOAD)) {
    find("MPI_Allreduce", all_reduce_);
    find("ompi_mpi_comm_world", world_);
    find("ompi_mpi_op_sum", sum_);
    find("ompi_mpi_float", f32_);
  }

  void all_reduce(std::vector<float>& data) const {
    void* const in_place = reinterpret_cast<void*>(1);  // NOLINT: MPI_IN_PLACE
    if (all_reduce_(in_place, data.data(), static_cast<int>(data.size()), f32_, sum_, world_) != 0) {
      throw std::runtime_error("MPI_Allreduce failed");
    }
  }

 private:
  template <class F>
  void find(const char* name, F& into) {
    into = library_ == nullptr ? nullptr : reinterpret_cast<F>(dlsym(library_, name));
    if (into == nullptr) throw std::runtime_error(fmt::format("Open MPI's library has no {}", name));
  }

  void* library_;
  int (*all_reduce_)(const void*, void*, int, void*, void*, void*) = nullptr;
  void* world_ = nullptr;
  void* sum_ = nullptr;
  void* f32_ = nullptr;
};

template <class F>
double reduce_ms(device::Communicator& ranks, std::vector<float>& data, const F& reduce) {
  std::fill(data.begin(), data.end(), static_cast<float>(ranks.rank() + 1));
  ranks.barrier();
  const double start = now_ms();
  reduce();
  const double taken = now_ms() - start;
  const auto sum = static_cast<float>(ranks.ranks() * (ranks.ranks() + 1) / 2);
  if (std::any_of(data.begin(), data.end(), [&](float value) { return value != sum; })) {
    throw std::runtime_error("the sum over ranks is wrong");
  }
  return taken;
}

// Prints, as rank 0, the milliseconds of each round.
int run_as_rank(int rounds) {
  const auto ranks = device::join_mpi();
  const BareMpi bare;
  std::vector<float> data(static_cast<size_t>(kReducedBytes) / sizeof(float));
  Json json;
  for (int i = 0; i <= rounds; ++i) {
    const double ours = reduce_ms(*ranks, data, [&] {
      ranks->all_reduce(DType::f32, reinterpret_cast<std::byte*>(data.data()), static_cast<int64_t>(data.size()));
    });
    const double theirs = reduce_ms(*ranks, data, [&] { bare.all_reduce(data); });
    if (i == 0) continue;  // memory is touched, ranks are connected
    json["ours_ms"].push_back(ours);
    json["bare_ms"].push_back(theirs);
  }
  if (ranks->rank() == 0) fmt::print("{}\n", json.dump());
  std::fflush(stdout);
  ranks->barrier();
  return 0;
}

// ---- all of it ----

// The JSON that a command prints, the whole of its output but what comes before the first brace.
Json output_of(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("no pipe");
  std::string output;
  char buffer[4096];
  while (const size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, got);
  const int status = pclose(pipe);
  const size_t start = output.find('{');
  if (status != 0 || start == std::string::npos) {
    throw std::runtime_error(fmt::format("`{}` ended with status {}", command, WEXITSTATUS(status)));
  }
  return Json::parse(output.substr(start, output.rfind('}') + 1 - start));
}

std::string mpirun() {
  return fmt::format("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n {} ", kRanks);
}

std::string load() {
  std::string one;
  std::ifstream("/proc/loadavg") >> one;
  return one;
}

struct Case {
  std::string name;
  int64_t batch;  // of all ranks
  std::vector<std::string> formats;
};

const Case kCases[] = {{"resnet18", 16, {"contiguous", "channels_last"}}, {"p14", 32, {"contiguous", "channels_last"}}};

struct Options {
  std::vector<std::string> cases;
  int rounds = 3;
  int steps = 8;
  bool alone = false;
};

struct Side {
  std::vector<double> ms;
  int64_t peak_bytes = 0;

  void add(const std::vector<double>& steps, int64_t bytes) {
    ms.insert(ms.end(), steps.begin() + kWarmSteps, steps.end());
    peak_bytes = std::max(peak_bytes, bytes);
  }
};

void step_ours(const std::string& binary, const Case& c, int steps, Side& ours) {
  const Json json = output_of(
      fmt::format("{}{} train {} --batch {} --threads 1 --steps {} --budget 8GiB --no-measure --optimizer adam "
                  "--allow batch-norm-micro-batches --json 2>/dev/null",
                  mpirun(), binary, c.name, c.batch, steps));
  std::vector<double> ms;
  for (const Json& step : json.at("steps")) ms.push_back(1e3 * step.at("seconds").get<double>());
  ours.add(ms, json.at("process_peak_bytes"));
}

void step_torch(const Case& c, const std::string& format, int steps, Side& torch, std::string& versions) {
  const Json json = output_of(fmt::format("{} {}/bench/ranks_torch.py {} {} {} {} 2>/dev/null", bench::python(),
                                          PLIMSOLL_SOURCE_DIR, c.name, format, kRanks, steps));
  torch.add(json.at("ms"), json.at("peak_bytes"));
  versions = json.at("versions");
}

void compare(const std::string& binary, const Case& c, const Options& options) {
  Side ours;
  std::vector<Side> torch(c.formats.size());
  std::string versions;
  for (int round = 0; round < options.rounds; ++round) {
    step_ours(binary, c, options.steps, ours);
    for (size_t i = 0; i < torch.size() && !options.alone; ++i) {
      step_torch(c, c.formats[i], options.steps, torch[i], versions);
    }
  }
  const std::string name = fmt::format("{} b{}", c.name, c.batch);
  if (options.alone) {
    fmt::print("{:<14} {:>9.0f} {:>11}\n", name, median(ours.ms), format_bytes(ours.peak_bytes));
    return;
  }
  const auto faster = [](const Side& a, const Side& b) { return median(a.ms) < median(b.ms); };
  const Side& best = *std::min_element(torch.begin(), torch.end(), faster);
  fmt::print("{:<14} {:>9.0f} {:>11} {:>9.0f} {:>11} {:>7.2f}x {:>7.2f}x  {}, load {}\n", name, median(ours.ms),
             format_bytes(ours.peak_bytes), median(best.ms), format_bytes(best.peak_bytes),
             median(best.ms) / median(ours.ms),
             static_cast<double>(ours.peak_bytes) / static_cast<double>(best.peak_bytes), versions, load());
  std::fflush(stdout);
}

void compare_reduction(const std::string& self, int rounds) {
  const Json json = output_of(fmt::format("{}{} --rank --rounds {}", mpirun(), self, 2 * rounds + 1));
  const double ours = median(json.at("ours_ms"));
  const double bare = median(json.at("bare_ms"));
  fmt::print("\nsum over {} ranks of {} MB: ours {:.1f} ms, MPI alone {:.1f} ms: {:.2f} of its speed, load {}\n",
             kRanks, kReducedBytes / 1'000'000, ours, bare, bare / ours, load());
}

Options options_of(int argc, char** argv, bool& is_rank) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--rank") {
      is_rank = true;
    } else if (argument == "--alone") {
      options.alone = true;
    } else if (argument == "--rounds" && i + 1 < argc) {
      options.rounds = std::atoi(argv[++i]);
    } else if (argument == "--steps" && i + 1 < argc) {
      options.steps = std::max(kWarmSteps + 1, std::atoi(argv[++i]));
    } else {
      options.cases.push_back(argument);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) try {
  bool is_rank = false;
  const Options options = options_of(argc, argv, is_rank);
  if (is_rank) return run_as_rank(options.rounds);
  const std::filesystem::path self = std::filesystem::canonical("/proc/self/exe");
  const std::string binary = (self.parent_path().parent_path() / "cli" / "plimsoll").string();
  fmt::print("{} ranks, one thread each; times in ms of a step, memory of rank 0\n", kRanks);
  fmt::print("{:<14} {:>9} {:>11} {:>9} {:>11} {:>8} {:>8}\n", "", "ours", "memory", "DDP", "memory", "faster",
             "memory");
  for (const Case& c : kCases) {
    const auto& asked = options.cases;
    if (asked.empty() || std::find(asked.begin(), asked.end(), c.name) != asked.end()) compare(binary, c, options);
  }
  compare_reduction(self.string(), options.rounds);
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "bench_ranks: {}\n", error.what());
  return 1;
}
