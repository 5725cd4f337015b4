#include "plimsoll/device/cuda/nvml.h"

#include <dlfcn.h>

#include <array>

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

struct NvmlUtilisation {
  unsigned gpu = 0;
  unsigned memory = 0;
};

struct NvmlProcess {  // nvmlProcessInfo_v2_t
  unsigned pid = 0;
  unsigned long long used = 0;
  unsigned gpu_instance = 0;
  unsigned compute_instance = 0;
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
    find(utilisation, "nvmlDeviceGetUtilizationRates");  // these two may be missing
    find(processes, "nvmlDeviceGetComputeRunningProcesses_v3");
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
  int (*utilisation)(NvmlDevice, NvmlUtilisation*) = nullptr;
  int (*processes)(NvmlDevice, unsigned*, NvmlProcess*) = nullptr;

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

std::vector<CardProcess> processes_on(const Nvml& nvml, NvmlDevice device) {
  std::array<NvmlProcess, 64> found;
  unsigned count = found.size();
  std::vector<CardProcess> processes;
  if (nvml.processes == nullptr || nvml.processes(device, &count, found.data()) != 0) return processes;
  for (unsigned i = 0; i < count; ++i) {
    const bool is_known = found[i].used != ~0ULL;
    processes.push_back({found[i].pid, is_known ? static_cast<int64_t>(found[i].used) : -1});
  }
  return processes;
}

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
    NvmlUtilisation utilisation;
    const bool tells = nvml.utilisation != nullptr && nvml.utilisation(device, &utilisation) == 0;
    cards.push_back({name, pci.bus_id, static_cast<int64_t>(memory.total), static_cast<int64_t>(memory.used),
                     tells ? static_cast<int>(utilisation.gpu) : -1, processes_on(nvml, device)});
  }
  return cards;
}

}  // namespace plimsoll::cuda
