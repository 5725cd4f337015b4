// Threads of libgomp that wait spin for milliseconds by default; where other processes want the cores, a step takes ten
// times as long then. How long they spin is read from the environment when libgomp is loaded, so this program starts
// once more, with the variable set, where it will compute and the user chose nothing. That happens before the
// constructors of libraries run, which take longer than all else here: nothing of the C library that needs them may be
// used, and no sanitizer is there yet.
#include <unistd.h>

#include <cstddef>

#define PLIMSOLL_BEFORE_ALL __attribute__((no_sanitize("address", "thread", "undefined")))

namespace plimsoll::cli {
namespace {

constexpr size_t kMostVariables = 4096;
char spins[] = "GOMP_SPINCOUNT=1000";  // some microseconds
char* variables[kMostVariables];

PLIMSOLL_BEFORE_ALL bool starts_with(const char* text, const char* start) {
  while (*start != '\0') {
    if (*text++ != *start++) return false;
  }
  return true;
}

PLIMSOLL_BEFORE_ALL bool computes(const char* verb) {
  return (starts_with(verb, "train") && verb[5] == '\0') || (starts_with(verb, "run") && verb[3] == '\0') ||
         (starts_with(verb, "plan") && verb[4] == '\0');
}

// Where the second start cannot be, threads spin.
PLIMSOLL_BEFORE_ALL void spin_shortly(int argc, char** argv, char** environment) {
  if (argc < 2 || !computes(argv[1])) return;
  size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (count + 2 >= kMostVariables || starts_with(environment[count], "OMP_WAIT_POLICY=") ||
        starts_with(environment[count], "GOMP_SPINCOUNT=")) {
      return;
    }
    variables[count] = environment[count];
  }
  variables[count] = spins;
  execve("/proc/self/exe", argv, variables);
}

using Start = void (*)(int, char**, char**);
__attribute__((section(".preinit_array"), used)) const Start start = spin_shortly;

}  // namespace
}  // namespace plimsoll::cli
