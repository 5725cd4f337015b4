// How many threads kernels of the CPU run on: those of the OpenMP runtime that libraries share with us.
#pragma once

namespace plimsoll::device {

// The calling thread's parallel regions have so many threads from now on.
void use_threads(int threads);

// The same for a while; 0 changes nothing.
class ThreadScope {
 public:
  explicit ThreadScope(int threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
};

}  // namespace plimsoll::device
