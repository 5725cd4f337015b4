// cuDNN: its graph API chooses engines from the description of the simulated card, by the library that PyTorch loads
// (9.8 and later); nothing is executed. What needs a handle of a real device is answered here.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "card.h"

namespace {

using plimsoll::simcuda::card;
using Descriptor = void*;

enum DescriptorType { kEngineHeuristics = 4, kPlan = 5, kDeviceProperties = 38 };
enum Attribute {
  kHeuristicsDevice = 204,
  kPlanHandle = 400,
  kPlanDevice = 407,
  kGraphHandle = 800,
  kDeviceJson = 2702,
};
enum AttributeType { kTypeDescriptor = 15, kTypeChar = 24 };

void* library() {
  static void* the_library = [] {
    void* found = dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_NOLOAD);
    if (found == nullptr) found = dlopen("libcudnn.so.9", RTLD_LAZY);
    if (found == nullptr) {
      std::fprintf(stderr, "plimsoll: no cuDNN 9: %s\n", dlerror());
      std::exit(2);
    }
    return found;
  }();
  return the_library;
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(library(), name));
}

using SetAttribute = int(Descriptor, int, int, int64_t, const void*);
using Finalize = int(Descriptor);
using Create = int(int, Descriptor*);

int set_attribute(Descriptor descriptor, int name, int type, int64_t count, const void* values) {
  static SetAttribute* const function = real<SetAttribute>("cudnnBackendSetAttribute");
  return function(descriptor, name, type, count, values);
}

int finalize(Descriptor descriptor) {
  static Finalize* const function = real<Finalize>("cudnnBackendFinalize");
  return function(descriptor);
}

int create(int type, Descriptor* descriptor) {
  static Create* const function = real<Create>("cudnnBackendCreateDescriptor");
  return function(type, descriptor);
}

Descriptor make_device() {
  Descriptor device = nullptr;
  const std::string& json = card().json;
  int status = create(kDeviceProperties, &device);
  if (status == 0)
    status = set_attribute(device, kDeviceJson, kTypeChar, static_cast<int64_t>(json.size() + 1), json.c_str());
  if (status == 0) status = finalize(device);
  if (status != 0) {
    std::fprintf(stderr, "plimsoll: this cuDNN does not take the description of the card (%d)\n", status);
    std::exit(2);
  }
  return device;
}

Descriptor device() {
  static const Descriptor the_device = make_device();
  return the_device;
}

}  // namespace

extern "C" {

int cudnnCreate(void** handle) {
  static char the_handle[64];
  return *handle = the_handle, 0;
}

int cudnnBackendCreateDescriptor(int type, Descriptor* descriptor) {
  const int status = create(type, descriptor);
  if (status != 0) return status;
  if (type == kEngineHeuristics) {
    const Descriptor of_card = device();
    return set_attribute(*descriptor, kHeuristicsDevice, kTypeDescriptor, 1, &of_card);
  }
  if (type == kPlan) {
    const Descriptor of_card = device();
    return set_attribute(*descriptor, kPlanDevice, kTypeDescriptor, 1, &of_card);
  }
  return 0;
}

int cudnnBackendSetAttribute(Descriptor descriptor, int name, int type, int64_t count, const void* values) {
  if (name == kGraphHandle || name == kPlanHandle) return 0;
  return set_attribute(descriptor, name, type, count, values);
}

int cudnnBackendExecute(void*, Descriptor, Descriptor) { return 0; }

int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void*, int, int, void*, void*, void*, void*, void*,
                                                             size_t* bytes) {
  return *bytes = 0, 0;
}
int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void*, int, int, void*, void*, void*, void*, void*, void*, void*,
                                                      size_t* bytes) {
  return *bytes = 0, 0;
}
int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void*, int, int, void*, void*, size_t* bytes) {
  return *bytes = 0, 0;
}
int cudnnDropoutGetStatesSize(void*, size_t* bytes) { return *bytes = 0, 0; }

}  // extern "C"
