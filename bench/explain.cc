// Explain: our unpickler beside Python's on the same snapshot, the whole explanation, and the log reader.
#include "plimsoll/explain/explain.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "plimsoll/base/bytes.h"

namespace {

using namespace plimsoll;

constexpr int kRuns = 3;
constexpr int64_t kEvents = 1'000'000;
constexpr int64_t kLogBytes = 2'000'000'000;

struct Cost {
  double seconds = 0;      // of processor time, the least of the runs
  int64_t peak_bytes = 0;  // resident, beyond what the process had before
};

// Runs `work` in a process of its own, so that its memory is its own too.
Cost measure(const std::function<void()>& work) {
  Cost best{1e9, 0};
  for (int run = 0; run < kRuns; ++run) {
    const pid_t child = fork();
    if (child == 0) {
      work();
      _exit(0);
    }
    int status = 0;
    rusage usage{};
    wait4(child, &status, 0, &usage);
    if (status != 0) std::abort();
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    best.seconds = std::min(best.seconds, seconds(usage.ru_utime) + seconds(usage.ru_stime));
    best.peak_bytes = std::max<int64_t>(best.peak_bytes, usage.ru_maxrss * kKiB);
  }
  return best;
}

Cost python_load(const std::string& script, const std::string& file) {
  Cost best{1e9, 0};
  for (int run = 0; run < kRuns; ++run) {
    std::FILE* pipe = popen(fmt::format("python3 {} load {}", script, file).c_str(), "r");
    double seconds = 0;
    long bytes = 0;
    if (std::fscanf(pipe, "%lf %ld", &seconds, &bytes) != 2) std::abort();
    pclose(pipe);
    best.seconds = std::min(best.seconds, seconds);
    best.peak_bytes = std::max<int64_t>(best.peak_bytes, bytes);
  }
  return best;
}

// A training log without end, in which nothing fails until the last line.
class EndlessLog : public ByteSource {
 public:
  EndlessLog() {
    for (int step = 0; step < 20000; ++step) {
      text_ += fmt::format(
          "2024-05-01 12:00:00,{:03} INFO trainer: step {} loss {:.4f} lr 1e-4 mem {:.1f} GiB grad_norm {:.3f}\n",
          step % 1000, step, 1.0 / (step + 1), step % 80 * 0.9, step % 7 * 0.31);
      text_ += fmt::format("[rank{}]: Epoch {}: {}%|###   | {}/1000 [00:12<01:00, allocated memory={:.1f}G]\n",
                           step % 8, step / 1000, step % 100, step % 1000, step % 80 * 0.9);
    }
  }

  size_t read(char* buffer, size_t size) override {
    size_t done = 0;
    while (done < size && given_ < kLogBytes) {
      const auto at = static_cast<size_t>(given_) % text_.size();
      const size_t step = std::min({size - done, text_.size() - at, static_cast<size_t>(kLogBytes - given_)});
      text_.copy(buffer + done, step, at);
      done += step;
      given_ += static_cast<int64_t>(step);
    }
    return done;
  }
  const std::string& name() const override { return name_; }

 private:
  std::string text_;
  std::string name_ = "log";
  int64_t given_ = 0;
};

void row(const char* what, double ours, double peer, double goal, const char* unit) {
  fmt::print("{:<44} {:>9.2f} {:>9.2f}  {:>8.2f} {}\n", what, ours, peer, goal, unit);
}

}  // namespace

int main() {
  const std::string script = "bench/explain_snapshot.py";
  const std::string file = fmt::format("/tmp/plimsoll_bench_{}.pickle", getpid());
  if (std::system(fmt::format("python3 {} make {} {}", script, file, kEvents).c_str()) != 0) return 2;
  const Cost python = python_load(script, file);
  const Cost idle = measure([] {});
  const Cost read = measure([&] { explain::read_torch_snapshot(*open_file(file)); });
  const Cost whole = measure([&] { explain::explain(explain::read_input(file), file); });
  const Cost log = measure([] {
    EndlessLog source;
    if (!explain::read_log(source).failures.empty()) std::abort();
  });
  std::remove(file.c_str());
  const auto mebibytes = [&](int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(kMiB); };
  fmt::print("snapshot of {} events with stacks; processor time, least of {} runs\n", format_count(kEvents), kRuns);
  fmt::print("{:<44} {:>9} {:>9}  {:>8}\n", "", "ours", "Python", "goal");
  row("unpickle, s", read.seconds, python.seconds, python.seconds / 10, "s or less");
  row("unpickle, MiB", mebibytes(read.peak_bytes - idle.peak_bytes), mebibytes(python.peak_bytes),
      mebibytes(python.peak_bytes) / 5, "MiB or less");
  row("whole explanation, s", whole.seconds, 0, 5, "s or less");
  row("log, MB/s", static_cast<double>(kLogBytes) / 1e6 / log.seconds, 0, 500, "MB/s or more");
  row("log of 2 GB, MiB", mebibytes(log.peak_bytes - idle.peak_bytes), 0, 0, "constant");
  fmt::print("unpickling is {:.1f} x faster in 1/{:.1f} of the memory\n", python.seconds / read.seconds,
             static_cast<double>(python.peak_bytes) / static_cast<double>(read.peak_bytes - idle.peak_bytes));
}
