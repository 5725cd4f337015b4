// Entry points that do nothing on a simulated card, and those whose bytes or results are not known, which end the run
// with their name. On x86-64 and AArch64 a function may be called with more arguments than it takes.
#include <cstdio>
#include <cstdlib>

namespace {

[[noreturn]] void refuse(const char* name) {
  std::fprintf(stderr, "plimsoll: the script calls %s, which is not simulated: its memory cannot be predicted\n", name);
  std::_Exit(3);
}

}  // namespace

extern "C" {

#define PLIMSOLL_IGNORED(name) \
  int name() { return 0; }
#define PLIMSOLL_REFUSED(name) \
  int name() { refuse(#name); }
#include "stubs.def"

}  // extern "C"
