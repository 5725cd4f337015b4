// NVRTC: programs that nobody will launch. cuDNN compiles a kernel for every shape of attention, and tells a workspace
// only once that is done; compiled for real, a loop with a growing cache would take minutes.
#include <dlfcn.h>

#include <cstddef>
#include <cstring>

namespace {

constexpr size_t kBinaryBytes = 64;

int tell_size(size_t* bytes) { return *bytes = kBinaryBytes, 0; }
int write_binary(char* binary) { return std::memset(binary, 0, kBinaryBytes), 0; }

// Of the runtime that cuDNN was built with: it wants the same one here.
size_t runtime_version() {
  using Version = size_t();
  auto* const version = reinterpret_cast<Version*>(dlsym(dlopen("libcudnn.so.9", RTLD_LAZY), "cudnnGetCudartVersion"));
  return version != nullptr ? version() : 13000;
}

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  const size_t version = runtime_version();
  *major = static_cast<int>(version / 1000);
  *minor = static_cast<int>(version % 1000 / 10);
  return 0;
}
int nvrtcCreateProgram(void** program, const char*, const char*, int, const char* const*, const char* const*) {
  static char program_of_all[64];
  return *program = program_of_all, 0;
}
int nvrtcDestroyProgram(void** program) { return *program = nullptr, 0; }
int nvrtcCompileProgram(void*, int, const char* const*) { return 0; }
int __nvrtcCPEx() { return 0; }  // cuDNN's way to compile, not in the header
int nvrtcGetCUBINSize(void*, size_t* bytes) { return tell_size(bytes); }
int nvrtcGetCUBIN(void*, char* binary) { return write_binary(binary); }
int nvrtcGetPTXSize(void*, size_t* bytes) { return tell_size(bytes); }
int nvrtcGetPTX(void*, char* binary) { return write_binary(binary); }
int nvrtcGetProgramLogSize(void*, size_t* bytes) { return *bytes = 1, 0; }
int nvrtcGetProgramLog(void*, char* log) { return *log = '\0'; }
int nvrtcAddNameExpression(void*, const char*) { return 0; }
int nvrtcGetLoweredName(void*, const char* expression, const char** name) { return *name = expression, 0; }
const char* nvrtcGetErrorString(int) { return "not on a simulated card"; }

}  // extern "C"
