// PyTorch as the peer of a benchmark: processes of bench/step_torch.py, each doing a step when it is asked to.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "plimsoll/base/dtype.h"

namespace bench {

inline double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}

struct Measured {
  double ms = 0;
  int64_t bytes = 0;
};

// One way to run a model there.
struct TorchMode {
  std::string execution;  // eager or compile
  std::string format;     // contiguous or channels_last
  int threads = 2;
  plimsoll::DType precision = plimsoll::DType::f32;
  bool wall_clock = true;  // else processor time
  int limit_s = 600;       // for its start, in which it is compiled
};

inline const char* python() {
  const char* chosen = std::getenv("PLIMSOLL_PYTHON");
  return chosen == nullptr || *chosen == 0 ? "/usr/bin/python3" : chosen;
}

// A process that does a step for every line that it is sent. It is the first of a group of its own, with the processes
// that compile for it.
class Torch {
 public:
  Torch(const std::string& name, const TorchMode& mode) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::runtime_error("no socket for PyTorch");
    child_ = fork();
    if (child_ == 0) {
      setpgid(0, 0);
      dup2(ends[1], 0);
      dup2(ends[1], 1);
      close(ends[0]);
      const std::string script = PLIMSOLL_SOURCE_DIR "/bench/step_torch.py";
      execl(python(), python(), script.c_str(), name.c_str(), std::to_string(mode.threads).c_str(), mode.format.c_str(),
            mode.wall_clock ? "wall" : "cpu", std::string(plimsoll::name(mode.precision)).c_str(),
            mode.execution.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    to_ = fdopen(ends[0], "w");
    from_ = fdopen(fcntl(ends[0], F_DUPFD_CLOEXEC, 0), "r");
    if (!says_something(mode.limit_s)) {
      kill(-child_, SIGKILL);
      finish();
      throw std::runtime_error(
          fmt::format("PyTorch ({}, {}) was not ready after {} s", mode.execution, mode.format, mode.limit_s));
    }
    versions_ = read_line();
    if (!versions_.starts_with("ready ")) {
      finish();
      throw std::runtime_error(fmt::format("no PyTorch ({}) from {}: set PLIMSOLL_PYTHON to a Python that has it",
                                           mode.execution, python()));
    }
    versions_.erase(0, std::strlen("ready "));
  }
  ~Torch() { finish(); }
  Torch(const Torch&) = delete;
  Torch& operator=(const Torch&) = delete;

  Measured step() {
    std::fputs("step\n", to_);
    std::fflush(to_);
    Measured measured;
    if (std::sscanf(read_line().c_str(), "%lf %ld", &measured.ms, &measured.bytes) != 2) {
      throw std::runtime_error("PyTorch failed in a step");
    }
    return measured;
  }

  const std::string& versions() const { return versions_; }

 private:
  bool says_something(int limit_s) {
    pollfd end{fileno(from_), POLLIN, 0};
    return poll(&end, 1, limit_s * 1000) > 0;
  }

  std::string read_line() {
    char line[256] = {};
    if (std::fgets(line, sizeof line, from_) == nullptr) return "";
    return {line, std::strcspn(line, "\n")};
  }

  void finish() {
    std::fclose(to_);
    std::fclose(from_);
    waitpid(child_, nullptr, 0);
  }

  std::string versions_;
  pid_t child_;
  FILE* to_;
  FILE* from_;
};

// The formats of one execution in turn.
struct Peer {
  std::vector<std::unique_ptr<Torch>> processes;
  std::vector<std::string> formats;
  std::vector<std::vector<double>> ms;
  std::vector<int64_t> bytes;

  void step(bool counts) {
    for (size_t i = 0; i < processes.size(); ++i) {
      const Measured measured = processes[i]->step();
      if (counts) ms[i].push_back(measured.ms);
      bytes[i] = measured.bytes;
    }
  }
  // Of the formats, the fastest.
  size_t best() const {
    const auto slower = [](const auto& a, const auto& b) { return median(a) < median(b); };
    return static_cast<size_t>(std::min_element(ms.begin(), ms.end(), slower) - ms.begin());
  }
  double best_ms() const { return median(ms[best()]); }
  std::string text() const {
    if (processes.empty()) return "-";
    return fmt::format("{:.0f}{}", best_ms(), formats[best()] == "channels_last" ? " nhwc" : "");
  }
};

}  // namespace bench
