// Runs the built binary with descriptors, signals and limits of the test's choice.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

// A process of the binary; stdout and stderr come back apart unless the set-up in the child changes them.
class Process {
 public:
  explicit Process(const std::vector<std::string>& arguments, const std::function<void()>& in_child = {}) {
    int out_ends[2];
    int err_ends[2];
    if (pipe2(out_ends, O_CLOEXEC) != 0 || pipe2(err_ends, O_CLOEXEC) != 0) return;
    std::vector<char*> argv = {const_cast<char*>(PLIMSOLL_BINARY)};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out_ends[1], STDOUT_FILENO);
      dup2(err_ends[1], STDERR_FILENO);
      setenv("XDG_CACHE_HOME", PLIMSOLL_BINARY ".cache", 1);  // not the user's
      if (in_child) in_child();
      execv(PLIMSOLL_BINARY, argv.data());
      _exit(127);
    }
    close(out_ends[1]);
    close(err_ends[1]);
    out_ = out_ends[0];
    err_ = err_ends[0];
  }
  ~Process() {
    if (!done_) {
      kill(pid_, SIGKILL);
      wait();
    }
    close(out_);
    close(err_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void send(int signal) const { kill(pid_, signal); }
  pid_t pid() const { return pid_; }

  // Reads all that it prints, until it ends.
  Process& wait() {
    pollfd ends[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
    std::string* texts[2] = {&out, &err};
    for (int open = 2; open > 0;) {
      poll(ends, 2, -1);
      for (int i = 0; i < 2; ++i) {
        if (ends[i].fd < 0 || ends[i].revents == 0) continue;
        char buffer[4096];
        const ssize_t got = read(ends[i].fd, buffer, sizeof(buffer));
        if (got > 0) texts[i]->append(buffer, static_cast<size_t>(got));
        if (got > 0) continue;
        ends[i].fd = -1;
        --open;
      }
    }
    waitpid(pid_, &status_, 0);
    done_ = true;
    return *this;
  }

  int status() const { return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1; }
  int signal() const { return WIFSIGNALED(status_) ? WTERMSIG(status_) : 0; }

  std::string out = {};
  std::string err = {};

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  int status_ = 0;
  bool done_ = false;
};
