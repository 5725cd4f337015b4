#include "plimsoll/device/cuda/nvml.h"

#include <dlfcn.h>

namespace plimsoll::cuda {
namespace {

using NvmlDevice = struct NvmlDeviceTag*;

struct NvmlMemory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

struct NvmlPci {  // nvmlPciInfo_t
  char bus_id_legacy[16] = {};
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned pci_device_id = 0;
  unsigned pci_subsystem_id = 0;
  char bus_id[32] = {};
};

class Nvml {
 public:
  explicit Nvml(const std::string& library) : library_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    find(init, "nvmlInit_v2");
    find(shutdown, "nvmlShutdown");
    find(count, "nvmlDeviceGetCount_v2");
    find(handle, "nvmlDeviceGetHandleByIndex_v2");
    find(name, "nvmlDeviceGetName");
    find(pci, "nvmlDeviceGetPciInfo_v3");
    find(memory, "nvmlDeviceGetMemoryInfo");
    works_ = complete_ && init() == 0;
  }
  ~Nvml() {
    if (works_) shutdown();
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool works() const { return works_; }

  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, NvmlDevice*) = nullptr;
  int (*name)(NvmlDevice, char*, unsigned) = nullptr;
  int (*pci)(NvmlDevice, NvmlPci*) = nullptr;
  int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;

 private:
  template <typename Function>
  void find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(dlsym(library_, symbol));
    complete_ = complete_ && function != nullptr;
  }

  void* library_;
  bool complete_ = true;
  bool works_ = false;
};

}  // namespace

std::vector<CardMemory> card_memory(const std::string& library) {
  std::vector<CardMemory> cards;
  const Nvml nvml(library);
  unsigned count = 0;
  if (!nvml.works() || nvml.count(&count) != 0) return cards;
  for (unsigned i = 0; i < count; ++i) {
    NvmlDevice device = nullptr;
    NvmlPci pci;
    NvmlMemory memory;
    char name[96] = {};
    if (nvml.handle(i, &device) != 0 || nvml.pci(device, &pci) != 0 || nvml.memory(device, &memory) != 0) continue;
    nvml.name(device, name, sizeof name - 1);
    cards.push_back({name, pci.bus_id, static_cast<int64_t>(memory.total), static_cast<int64_t>(memory.used)});
  }
  return cards;
}

}  // namespace plimsoll::cuda
