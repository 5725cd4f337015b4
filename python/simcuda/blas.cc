// cuBLAS and cuBLASLt: handles, blank descriptors, and algorithms without workspace for every product.
// PyTorch gives them workspaces of its own, of sizes that do not depend on the algorithm.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

// PyTorch keeps a workspace for each handle, so that every thread's must be its own.
int create_handle(void** handle) {
  static char handles[4096];
  static std::atomic<size_t> next = 0;
  *handle = &handles[next++ % sizeof(handles)];
  return 0;
}

constexpr size_t kDescriptorBytes = 1024;  // larger than any of cuBLASLt's

int create_descriptor(void** descriptor) {
  *descriptor = std::calloc(1, kDescriptorBytes);
  return *descriptor != nullptr ? 0 : 3;  // CUBLAS_STATUS_ALLOC_FAILED
}

int destroy_descriptor(void* descriptor) {
  std::free(descriptor);
  return 0;
}

struct HeuristicResult {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

using Lookup = void*(void*, const char*);

Lookup* real_lookup() {
  for (const char* version : {"GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.34"}) {
    void* found = dlvsym(RTLD_NEXT, "dlsym", version);
    if (found != nullptr) return reinterpret_cast<Lookup*>(found);
  }
  std::abort();
}

bool starts_with(const char* name, const char* prefix) { return std::strncmp(name, prefix, std::strlen(prefix)) == 0; }

// This library's own function of that name, or null.
void* own(Lookup* lookup, const char* name) {
  static void* const self = [] {
    Dl_info info;
    return dladdr(reinterpret_cast<void*>(&real_lookup), &info) != 0 ? dlopen(info.dli_fname, RTLD_LAZY) : nullptr;
  }();
  return self != nullptr ? lookup(self, name) : nullptr;
}

}  // namespace

extern "C" {

// cuDNN looks functions of cuBLASLt and NVRTC up by hand. The real lookup is the last call here, since it asks who
// called it.
void* dlsym(void* library, const char* name) {
  static Lookup* const lookup = real_lookup();
  if (starts_with(name, "cublasLt") || starts_with(name, "nvrtc") || starts_with(name, "__nvrtc")) {
    void* const found = own(lookup, name);
    if (found != nullptr) return found;
  }
  return lookup(library, name);
}

int cublasCreate_v2(void** handle) { return create_handle(handle); }
int cublasLtCreate(void** handle) { return create_handle(handle); }
int cublasGetMathMode(void*, int* mode) { return *mode = 0; }
int cublasGetPointerMode_v2(void*, int* mode) { return *mode = 0; }
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int requested,
                                   HeuristicResult* results, int* returned) {
  std::memset(results, 0, sizeof(*results) * static_cast<size_t>(requested));
  *returned = requested;
  return 0;
}
size_t cublasLtGetVersion() { return 130401; }  // cuDNN asks whether it is new enough
int cublasLtMatmulDescCreate(void** descriptor, int, int) { return create_descriptor(descriptor); }
int cublasLtMatmulDescDestroy(void* descriptor) { return destroy_descriptor(descriptor); }
int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t) { return 0; }
int cublasLtMatmulPreferenceCreate(void** descriptor) { return create_descriptor(descriptor); }
int cublasLtMatmulPreferenceDestroy(void* descriptor) { return destroy_descriptor(descriptor); }
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return 0; }
int cublasLtMatrixLayoutCreate(void** descriptor, int, uint64_t, uint64_t, int64_t) {
  return create_descriptor(descriptor);
}
int cublasLtMatrixLayoutDestroy(void* descriptor) { return destroy_descriptor(descriptor); }
int cublasLtMatrixLayoutSetAttribute(void*, int, const void*, size_t) { return 0; }

}  // extern "C"
