// The data pipeline beside its peers, on the same machine and in the same run: a folder of JPEGs (made here) to
// normalised batches against PyTorch's DataLoader with torchvision, decoding against plain TurboJPEG, .npy and tokens
// against memcpy from the page cache, and what the pipeline itself takes for a batch.
//
//   bench_data [--alone] [--images N]
//
// PyTorch is bench/data_torch.py, run by the Python that PLIMSOLL_PYTHON in the environment names (`./dev bench data`
// makes one); --alone leaves it out. Memory is the proportional set size of the whole process and its children,
// sampled.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <turbojpeg.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>

#include "bench/torch_peer.h"
#include "plimsoll/base/bytes.h"
#include "plimsoll/base/file.h"
#include "plimsoll/base/mapped_file.h"
#include "plimsoll/models/nn.h"
#include "plimsoll/train/data/adaptors.h"
#include "plimsoll/train/data/image.h"
#include "plimsoll/train/data/open.h"
#include "plimsoll/train/data/pipeline.h"

namespace {

using namespace plimsoll;
using namespace plimsoll::train::data;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kHeight = 375;
constexpr int kWidth = 500;
constexpr int64_t kSize = 224;
constexpr int64_t kBatch = 32;
constexpr int kWorkers = 2;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// ---- files ----

// Soft shapes with some grain, as photographs have: about 60 KB each.
std::string photograph(uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> grain(0, 6);
  std::uniform_real_distribution<float> phase(0, 6.28F);
  const float shifts[6] = {phase(random), phase(random), phase(random), phase(random), phase(random), phase(random)};
  std::vector<uint8_t> pixels;
  pixels.reserve(static_cast<size_t>(kHeight * kWidth * 3));
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      const float noise = grain(random);
      for (int c = 0; c < 3; ++c) {
        const auto fx = static_cast<float>(x);
        const auto fy = static_cast<float>(y);
        const float shape = std::sin(fx / 37 + shifts[c]) + std::sin(fy / 23 + shifts[c + 3]) + std::sin((fx + fy) / 9);
        pixels.push_back(static_cast<uint8_t>(std::clamp(128 + 36 * shape + noise, 0.0F, 255.0F)));
      }
    }
  }
  const tjhandle jpeg = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  tjCompress2(jpeg, pixels.data(), kWidth, 0, kHeight, TJPF_RGB, &bytes, &size, TJSAMP_420, 90, 0);
  std::string file(reinterpret_cast<char*>(bytes), size);
  tjFree(bytes);
  tjDestroy(jpeg);
  return file;
}

void make_images(const fs::path& folder, int count) {
  for (int i = 0; i < count; ++i) {
    const fs::path path = folder / fmt::format("class{}", i % 4) / fmt::format("{:05}.jpg", i);
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << photograph(static_cast<uint32_t>(i));
  }
}

// ---- a process and what it takes ----

int64_t pss_of(pid_t pid) {
  std::ifstream rollup(fmt::format("/proc/{}/smaps_rollup", pid));
  for (std::string line; std::getline(rollup, line);) {
    if (line.starts_with("Pss:")) return std::strtoll(line.c_str() + 4, nullptr, 10) * kKiB;
  }
  return 0;
}

int64_t tree_pss(pid_t pid) {
  int64_t bytes = pss_of(pid);
  std::ifstream children(fmt::format("/proc/{}/task/{}/children", pid, pid));
  for (pid_t child = 0; children >> child;) bytes += tree_pss(child);
  return bytes;
}

struct Outcome {
  double rate = 0;
  int64_t bytes = 0;  // at most, of all processes
  std::string text;   // after the rate
};

Outcome run_process(const std::vector<std::string>& command) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    close(ends[0]);
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    execv(words[0], words.data());
    _exit(127);
  }
  close(ends[1]);
  Outcome outcome;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    outcome.bytes = std::max(outcome.bytes, tree_pss(child));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  char text[256] = {};
  const ssize_t got = read(ends[0], text, sizeof text - 1);
  close(ends[0]);
  if (status != 0 || got <= 0) throw std::runtime_error(fmt::format("{} failed", command[0]));
  char* end = nullptr;
  outcome.rate = std::strtod(text, &end);
  outcome.text = std::string(end, std::strcspn(end, "\n"));
  return outcome;
}

// ---- images ----

// What a step does with a batch: reads it into the memory of a program's inputs.
class Reader {
 public:
  Reader() {
    models::Net net;
    const auto x = net.input("x", {models::Net::batch(), 3, kSize, kSize});
    program_ = classify(std::move(net), global_avg_pool(net, x)).program;
    for (int64_t count = 1; count <= kBatch; ++count) bound_.push_back(program::bind(program_, {{"batch", count}}));
    floats_.resize(static_cast<size_t>(kBatch * 3 * kSize * kSize));
  }
  void read(const DataBatch& batch) {
    const auto& program = bound_[static_cast<size_t>(batch.size()) - 1];
    const auto bytes = std::as_writable_bytes(std::span(floats_));
    batch.read(program, program.inputs[0], 0, bytes);
  }

 private:
  program::Program program_;
  std::vector<program::Program> bound_;
  std::vector<float> floats_;
};

int run_images(const std::string& folder) {
  OpenOptions open_options{.height = kSize, .width = kSize};
  open_options.mean = {0.485F, 0.456F, 0.406F};
  open_options.std = {0.229F, 0.224F, 0.225F};
  Pipeline pipeline(open(folder, open_options), {.batch = kBatch, .shuffle = true, .workers = kWorkers});
  Reader reader;
  double rate = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    const auto start = Clock::now();
    while (const auto batch = pipeline.next()) reader.read(*batch);
    rate = static_cast<double>(pipeline.source().size()) / seconds_since(start);
  }
  fmt::print("{} pipeline {}\n", rate, format_bytes(pipeline.stats().peak_bytes));
  return 0;
}

void bench_images(const fs::path& folder, bool alone) {
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  fmt::print("folder of JPEGs ({} x {}) to normalised f32 [{},3,{},{}], {} workers\n", kWidth, kHeight, kBatch, kSize,
             kSize, kWorkers);
  fmt::print("  {:<34}{:>12}{:>14}\n", "", "images/s", "memory");
  const std::string images = (folder / "images").string();
  std::vector<Outcome> ours;
  std::vector<Outcome> theirs;
  for (int round = 0; round < 3; ++round) {
    ours.push_back(run_process({self, "--run-images", images}));
    if (alone) continue;
    theirs.push_back(run_process({bench::python(), PLIMSOLL_SOURCE_DIR "/bench/data_torch.py", images,
                                  std::to_string(kWorkers), std::to_string(kBatch), std::to_string(kSize)}));
  }
  const auto best = [](const std::vector<Outcome>& of) {
    return *std::max_element(of.begin(), of.end(), [](const auto& a, const auto& b) { return a.rate < b.rate; });
  };
  const Outcome mine = best(ours);
  fmt::print("  {:<34}{:>12.0f}{:>14}\n", "Plimsoll," + mine.text, mine.rate, format_bytes(mine.bytes));
  if (alone) return;
  const Outcome peer = best(theirs);
  fmt::print("  {:<34}{:>12.0f}{:>14}\n", peer.text.substr(1), peer.rate, format_bytes(peer.bytes));
  fmt::print("  {:<34}{:>11.2f}x{:>13.2f}x\n", "", mine.rate / peer.rate,
             static_cast<double>(mine.bytes) / static_cast<double>(peer.bytes));
}

// Both in turn; medians of the rounds.
template <class A, class B>
std::pair<double, double> in_turn(int rounds, const A& ours, const B& theirs) {
  std::vector<double> a;
  std::vector<double> b;
  for (int i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    ours();
    const auto middle = Clock::now();
    theirs();
    a.push_back(std::chrono::duration<double>(middle - start).count());
    b.push_back(seconds_since(middle));
  }
  return {bench::median(a), bench::median(b)};
}

void bench_decoding(const fs::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder / "images" / "class0")) {
    files.push_back(read_file(entry.path().string()));
    if (files.size() == 40) break;
  }
  ImageDecoder decoder(64 * kMiB);
  const tjhandle jpeg = tjInitDecompress();
  std::vector<uint8_t> pixels(static_cast<size_t>(kHeight * kWidth * 3));
  const auto ours = [&] {
    ImageSize size;
    for (const std::string& file : files) decoder.decode_whole(std::as_bytes(std::span(file)), "", 3, size);
  };
  const auto plain = [&] {
    for (const std::string& file : files) {
      tjDecompress2(jpeg, reinterpret_cast<const uint8_t*>(file.data()), file.size(), pixels.data(), kWidth, 0, kHeight,
                    TJPF_RGB, 0);
    }
  };
  const auto [mine, theirs] = in_turn(15, ours, plain);
  std::vector<std::byte> small(static_cast<size_t>(3 * kSize * kSize));
  const auto start = Clock::now();
  for (const std::string& file : files) {
    decoder.decode(std::as_bytes(std::span(file)), "", 3, {kSize, kSize}, small);
  }
  const double resized = seconds_since(start);
  tjDestroy(jpeg);
  const auto each_ms = [&](double time) { return 1e3 * time / static_cast<double>(files.size()); };
  fmt::print("decoding on one thread: {:.2f} ms, plain TurboJPEG {:.2f} ms: {:.2f}x its speed; resized {:.2f} ms\n",
             each_ms(mine), each_ms(theirs), theirs / mine, each_ms(resized));
}

// ---- rows and tokens against memcpy ----

// Seconds of one epoch.
double epoch_seconds(Pipeline& pipeline) {
  const auto start = Clock::now();
  while (const auto batch = pipeline.next()) {
  }
  return seconds_since(start);
}

void bench_rows(const std::string& what, std::shared_ptr<const Source> source, const std::string& file) {
  const auto bytes = static_cast<double>(sample_bytes(source->fields()) * source->size());
  Pipeline pipeline(source, {.batch = 64, .workers = 1});
  const MappedFile mapped(file);
  const auto batch = static_cast<size_t>(64 * sample_bytes(source->fields()));
  std::vector<std::byte> into(batch);
  const auto copy = [&] {  // as many bytes as the pipeline delivers
    const size_t size = mapped.bytes().size() - batch;
    for (double done = 0; done < bytes; done += static_cast<double>(batch)) {
      std::memcpy(into.data(), mapped.bytes().data() + static_cast<size_t>(done) % size, batch);
    }
  };
  const auto [mine, theirs] = in_turn(
      7, [&] { epoch_seconds(pipeline); }, copy);
  fmt::print("{}: {:.2f} GB/s, memcpy {:.2f} GB/s: {:.2f}x its speed\n", what, bytes / mine / 1e9, bytes / theirs / 1e9,
             theirs / mine);
}

void make_npy(const fs::path& path, int64_t rows, int64_t columns) {
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  header.resize(117, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header;
  std::vector<float> row(static_cast<size_t>(columns), 0.5F);
  for (int64_t i = 0; i < rows; ++i) {
    file.write(reinterpret_cast<const char*>(row.data()), static_cast<std::streamsize>(row.size() * 4));
  }
}

void make_tokens(const fs::path& path, int64_t count) {
  std::vector<uint16_t> tokens(static_cast<size_t>(count));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint16_t>(i * 31);
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(tokens.data()), 2 * count);
}

void bench_overhead() {
  const auto source =
      callback(4'000'000, {{.name = "x", .spec = {DType::f32, {}}}}, [](int64_t, uint64_t, SampleMemory) {});
  for (const int64_t batch : {1, 32}) {
    Pipeline pipeline(take(source, 100'000 * batch), {.batch = batch, .shuffle = true});
    epoch_seconds(pipeline);
    const std::clock_t start = std::clock();
    const double seconds = epoch_seconds(pipeline);
    const double processor = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    fmt::print(
        "overhead, samples without content: {:.2f} us of processor time a batch of {} ({:.2f} us on the clock)\n",
        processor / 100'000 * 1e6, batch, seconds / 100'000 * 1e6);
  }
}

int run_all(bool alone, int images) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("plimsoll_bench_data_{}", getpid());
  fs::create_directories(folder);
  make_images(folder / "images", images);
  bench_images(folder, alone);
  bench_decoding(folder);
  make_npy(folder / "x.npy", 20'000, 3072);
  bench_rows(".npy, rows of 12 KiB", open((folder / "x.npy").string()), (folder / "x.npy").string());
  make_tokens(folder / "tokens.bin", 40'000'000);
  bench_rows("tokens, u16 to i64, sequences of 1024", open((folder / "tokens.bin").string(), {.sequence = 1024}),
             (folder / "tokens.bin").string());
  bench_overhead();
  fs::remove_all(folder);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  bool alone = false;
  int images = 1000;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--run-images" && i + 1 < argc) return run_images(argv[i + 1]);
    if (std::string_view(argv[i]) == "--alone") alone = true;
    if (std::string_view(argv[i]) == "--images" && i + 1 < argc) images = std::atoi(argv[++i]);
  }
  try {
    return run_all(alone, images);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_data: {}\n", error.what());
    return 1;
  }
}
