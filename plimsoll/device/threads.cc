#include "plimsoll/device/threads.h"

// Of the OpenMP runtime that oneDNN uses; declared here because its header comes with one compiler only.
extern "C" void omp_set_num_threads(int threads);
extern "C" int omp_get_max_threads();

namespace plimsoll::device {

void use_threads(int threads) { omp_set_num_threads(threads); }

ThreadScope::ThreadScope(int threads) : before_(omp_get_max_threads()) {
  if (threads > 0 && threads != before_) use_threads(threads);
}

ThreadScope::~ThreadScope() {
  if (omp_get_max_threads() != before_) use_threads(before_);
}

}  // namespace plimsoll::device
