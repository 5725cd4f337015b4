// The CUDA runtime's entry points, as the libraries of PyTorch import them, over a card that is not there. Work that is
// launched does nothing; memory is addresses; what is copied back from the device is zeros. The layouts of structs and
// the numbers of attributes are those of CUDA 12 and 13's public headers.
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "card.h"
#include "memory.h"

namespace {

using namespace plimsoll::simcuda;

enum Status { kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotSupported = 801 };

thread_local int current_device = 0;

void* unique_handle() {
  static char handles[1 << 20];
  static size_t next = 0;
  return &handles[__atomic_fetch_add(&next, 16, __ATOMIC_RELAXED) % sizeof(handles)];
}

int attribute(int which) {
  const Card& c = card();
  switch (which) {
    case 1:
    case 2:
    case 3:
      return 1024;  // threads a block, and of it in x and y
    case 4:
      return 64;  // in z
    case 5:
      return 2147483647;  // grid x
    case 6:
    case 7:
      return 65535;  // grid y and z
    case 8:
      return c.shared_bytes_per_block;
    case 9:
      return 65536;  // constant memory
    case 10:
      return 32;  // warp
    case 12:
      return c.registers_per_block;
    case 13:
      return 1980000;  // kHz
    case 14:
      return 512;  // texture alignment
    case 15:
    case 19:
    case 31:
    case 41:
    case 78:
    case 79:
    case 80:
    case 83:
    case 95:
    case 99:
    case 115:
      return 1;
    case 16:
      return c.multiprocessors;
    case 37:
      return 5120;  // bits of the memory bus
    case 38:
      return c.l2_bytes;
    case 39:
      return c.threads_per_multiprocessor;
    case 40:
      return 3;  // copy engines
    case 75:
      return c.major();
    case 76:
      return c.minor();
    case 81:
      return c.shared_bytes_per_block_optin + 1024;
    case 82:
      return 65536;  // registers a multiprocessor
    case 97:
      return c.shared_bytes_per_block_optin;
    case 106:
      return c.blocks_per_multiprocessor;
    case 111:
      return 1024;  // shared memory that is reserved in each block
    case 120:
      return c.major() >= 9 ? 1 : 0;  // clusters
    default:
      return 0;
  }
}

// cudaDeviceProp of CUDA 13, and of CUDA 12, which has some numbers more. Only fields that PyTorch reads are named.
struct Properties13 {
  char name[256];
  char uuid[16];
  char luid[8];
  unsigned luid_mask;
  size_t total_bytes;
  size_t shared_per_block;
  int registers_per_block;
  int warp;
  size_t pitch;
  int threads_per_block;
  int threads_dim[3];
  int grid[3];
  size_t constant_bytes;
  int major;
  int minor;
  size_t texture_alignment;
  size_t texture_pitch;
  int multiprocessors;
  int integrated;
  int can_map_host;
  int textures_and_surfaces[39];
  size_t surface_alignment;
  int concurrent_kernels;
  int ecc;
  int pci[3];
  int tcc;
  int copy_engines;
  int unified_addressing;
  int bus_width;
  int l2_bytes;
  int persisting_l2;
  int threads_per_multiprocessor;
  int stream_priorities;
  int l1[2];
  size_t shared_per_multiprocessor;
  int registers_per_multiprocessor;
  int managed;
  int board[2];
  int native_atomic;
  int pageable;
  int concurrent_managed;
  int preemption;
  int host_pointer;
  int cooperative;
  size_t shared_optin;
  int page_tables[2];
  int blocks_per_multiprocessor;
  int access_window;
  size_t shared_reserved;
  int rest[76];
};

struct Properties12 {
  char name[256];
  char uuid[16];
  char luid[8];
  unsigned luid_mask;
  size_t total_bytes;
  size_t shared_per_block;
  int registers_per_block;
  int warp;
  size_t pitch;
  int threads_per_block;
  int threads_dim[3];
  int grid[3];
  int clock;
  size_t constant_bytes;
  int major;
  int minor;
  size_t texture_alignment;
  size_t texture_pitch;
  int overlap;
  int multiprocessors;
  int timeout;
  int integrated;
  int can_map_host;
  int compute_mode;
  int textures_and_surfaces[40];
  size_t surface_alignment;
  int concurrent_kernels;
  int ecc;
  int pci[3];
  int tcc;
  int copy_engines;
  int unified_addressing;
  int memory_clock;
  int bus_width;
  int l2_bytes;
  int persisting_l2;
  int threads_per_multiprocessor;
  int stream_priorities;
  int l1[2];
  size_t shared_per_multiprocessor;
  int registers_per_multiprocessor;
  int managed;
  int board[2];
  int native_atomic;
  int double_ratio;
  int pageable;
  int concurrent_managed;
  int preemption;
  int host_pointer;
  int cooperative;
  int cooperative_multi;
  size_t shared_optin;
  int page_tables[2];
  int blocks_per_multiprocessor;
  int access_window;
  size_t shared_reserved;
  int rest[76];
};

static_assert(sizeof(Properties13) == 1008 && offsetof(Properties13, shared_reserved) == 696);
static_assert(sizeof(Properties12) == 1032 && offsetof(Properties12, shared_reserved) == 720);

template <typename Properties>
void fill(Properties& p) {
  const Card& c = card();
  std::memset(&p, 0, sizeof(p));
  std::strncpy(p.name, c.name.c_str(), sizeof(p.name) - 1);
  p.total_bytes = static_cast<size_t>(c.memory_bytes);
  p.shared_per_block = static_cast<size_t>(c.shared_bytes_per_block);
  p.registers_per_block = c.registers_per_block;
  p.warp = 32;
  p.pitch = 2147483647;
  p.threads_per_block = 1024;
  for (int i = 0; i < 3; ++i) {
    p.threads_dim[i] = attribute(2 + i);
    p.grid[i] = attribute(5 + i);
  }
  p.constant_bytes = 65536;
  p.major = c.major();
  p.minor = c.minor();
  p.texture_alignment = 512;
  p.texture_pitch = 32;
  p.multiprocessors = c.multiprocessors;
  p.can_map_host = 1;
  for (int& size : p.textures_and_surfaces) size = 32768;
  p.surface_alignment = 512;
  p.concurrent_kernels = 1;
  p.copy_engines = 3;
  p.unified_addressing = 1;
  p.bus_width = attribute(37);
  p.l2_bytes = c.l2_bytes;
  p.threads_per_multiprocessor = c.threads_per_multiprocessor;
  p.stream_priorities = 1;
  p.shared_per_multiprocessor = static_cast<size_t>(attribute(81));
  p.registers_per_multiprocessor = 65536;
  p.managed = 1;
  p.cooperative = 1;
  p.shared_optin = static_cast<size_t>(c.shared_bytes_per_block_optin);
  p.blocks_per_multiprocessor = c.blocks_per_multiprocessor;
  p.shared_reserved = 1024;
}

struct FunctionAttributes {
  size_t shared_bytes;
  size_t constant_bytes;
  size_t local_bytes;
  int threads_per_block;
  int registers;
  int ptx_version;
  int binary_version;
  int cache_mode;
  int dynamic_shared_bytes;
};

struct PointerAttributes {
  int type;  // 0 unregistered, 1 host, 2 device
  int device;
  void* device_pointer;
  void* host_pointer;
};

enum CopyKind { kHostToHost = 0, kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3, kDefault = 4 };

// To the host comes zeros from the device; from host to host what there is.
void copy(void* to, const void* from, size_t bytes, int kind) {
  if (kind == kHostToDevice || kind == kDeviceToDevice || is_device(to)) return;
  if (kind == kDeviceToHost || is_device(from)) {
    std::memset(to, 0, bytes);
  } else {
    std::memmove(to, from, bytes);
  }
}

int create_handle(void** handle) {
  *handle = unique_handle();
  return kSuccess;
}

// As many blocks as threads allow: registers and shared memory of kernels are not known here.
int blocks_for(int* blocks, int threads) {
  const Card& c = card();
  const int by_threads = threads > 0 ? c.threads_per_multiprocessor / threads : 1;
  *blocks = by_threads < 1 ? 1 : (by_threads > c.blocks_per_multiprocessor ? c.blocks_per_multiprocessor : by_threads);
  return kSuccess;
}

}  // namespace

extern "C" {

int cudaGetDeviceCount(int* count) { return *count = 1, kSuccess; }
int cudaGetDevice(int* device) { return *device = current_device, kSuccess; }
int cudaSetDevice(int device) { return device == 0 ? kSuccess : 101; }
int cudaDriverGetVersion(int* version) { return *version = 13000, kSuccess; }
int cudaDeviceGetAttribute(int* value, int which, int) { return *value = attribute(which), kSuccess; }
int cudaGetDeviceProperties(Properties13* properties, int) { return fill(*properties), kSuccess; }
int cudaGetDeviceProperties_v2(Properties12* properties, int) { return fill(*properties), kSuccess; }
int cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 0, kSuccess; }
int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -5, kSuccess; }
int cudaDeviceGetDefaultMemPool(void** pool, int) { return create_handle(pool); }
int cudaDeviceGetPCIBusId(char* text, int length, int) {
  if (length > 0) std::strncpy(text, "0000:00:00.0", static_cast<size_t>(length));
  return kSuccess;
}
int cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, unsigned long long, int* status) {
  *function = nullptr;
  if (status != nullptr) *status = 1;  // symbol not found
  return kSuccess;
}
int cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags, int* status) {
  return cudaGetDriverEntryPointByVersion(name, function, 0, flags, status);
}
const char* cudaGetErrorName(int error) { return error == kSuccess ? "cudaSuccess" : "cudaErrorSimulated"; }
const char* cudaGetErrorString(int error) { return error == kSuccess ? "no error" : "not on a simulated card"; }

int cudaMalloc(void** address, size_t bytes) {
  *address = reserve_device(bytes);
  return *address != nullptr ? kSuccess : kOutOfMemory;
}
int cudaMallocAsync(void** address, size_t bytes, void*) { return cudaMalloc(address, bytes); }
int cudaFree(void* address) { return release_device(address), kSuccess; }
int cudaFreeAsync(void* address, void*) { return cudaFree(address); }
int cudaHostAlloc(void** address, size_t bytes, unsigned) {
  return posix_memalign(address, 4096, bytes) == 0 ? kSuccess : kOutOfMemory;
}
int cudaMallocHost(void** address, size_t bytes) { return cudaHostAlloc(address, bytes, 0); }
int cudaFreeHost(void* address) { return std::free(address), kSuccess; }
int cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  const int64_t left = card().memory_bytes - device_bytes_in_use();
  *total = static_cast<size_t>(card().memory_bytes);
  *free_bytes = left > 0 ? static_cast<size_t>(left) : 0;
  return kSuccess;
}
int cudaMemPoolGetAttribute(void*, int, void* value) { return std::memset(value, 0, 8), kSuccess; }
int cudaPointerGetAttributes(PointerAttributes* attributes, const void* address) {
  const bool device = is_device(address);
  *attributes = {device ? 2 : 0, 0, device ? const_cast<void*>(address) : nullptr,
                 device ? nullptr : const_cast<void*>(address)};
  return kSuccess;
}
int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) { return copy(to, from, bytes, kind), kSuccess; }
int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void*) {
  return copy(to, from, bytes, kind), kSuccess;
}
int cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                      int kind, void*) {
  for (size_t row = 0; row < height; ++row) {
    copy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width, kind);
  }
  return kSuccess;
}
int cudaGetSymbolAddress(void** address, const void*) {
  static void* symbols = reserve_device(1 << 20);
  return *address = symbols, kSuccess;
}

int cudaStreamCreate(void** stream) { return create_handle(stream); }
int cudaStreamCreateWithFlags(void** stream, unsigned) { return create_handle(stream); }
int cudaStreamCreateWithPriority(void** stream, unsigned, int) { return create_handle(stream); }
int cudaStreamGetPriority(void*, int* priority) { return *priority = 0, kSuccess; }
int cudaStreamIsCapturing(void*, int* status) { return *status = 0, kSuccess; }
int cudaStreamGetCaptureInfo(void*, int* status, unsigned long long* id, void**, const void***, const void***,
                             size_t*) {
  *status = 0;
  if (id != nullptr) *id = 0;
  return kSuccess;
}
int cudaStreamGetCaptureInfo_v2(void*, int* status, unsigned long long* id, void**, const void***, size_t*) {
  *status = 0;
  if (id != nullptr) *id = 0;
  return kSuccess;
}
int cudaStreamBeginCapture(void*, int) { return kNotSupported; }
int cudaThreadExchangeStreamCaptureMode(int*) { return kSuccess; }
int cudaEventCreate(void** event) { return create_handle(event); }
int cudaEventCreateWithFlags(void** event, unsigned) { return create_handle(event); }
int cudaEventElapsedTime(float* ms, void*, void*) { return *ms = 1.0F, kSuccess; }
int cudaEventElapsedTime_v2(float* ms, void*, void*) { return *ms = 1.0F, kSuccess; }
int cudaLaunchHostFunc(void*, void (*function)(void*), void* data) { return function(data), kSuccess; }
int cudaStreamAddCallback(void* stream, void (*function)(void*, int, void*), void* data, unsigned) {
  return function(stream, kSuccess, data), kSuccess;
}

int cudaFuncGetAttributes(FunctionAttributes* attributes, const void*) {
  *attributes = {0, 0, 0, 1024, 32, card().sm(), card().sm(), 0, card().shared_bytes_per_block};
  return kSuccess;
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads, size_t) {
  return blocks_for(blocks, threads);
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int threads, size_t, unsigned) {
  return blocks_for(blocks, threads);
}
int __cudaGetKernel(void** kernel, const void*) { return create_handle(kernel); }
void** __cudaRegisterFatBinary(void*) { return reinterpret_cast<void**>(unique_handle()); }
// Not 0, so that the launch itself is left out.
unsigned __cudaPushCallConfiguration(...) { return 1; }

}  // extern "C"
