// cuDNN: its graph API chooses engines from the description of the simulated card, by the library that PyTorch loads
// (9.8 and later); nothing is executed. What needs a handle of a real device is answered here.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "card.h"
#include "split_sums.h"

namespace {

using namespace plimsoll::simcuda;

enum DescriptorType { kEngine = 2, kEngineHeuristics = 4, kPlan = 5, kKnobChoice = 7, kDeviceProperties = 38 };
enum Attribute {
  kHeuristicsResults = 202,
  kHeuristicsDevice = 204,
  kConfigurationEngine = 300,
  kConfigurationKnobs = 302,
  kPlanHandle = 400,
  kPlanWorkspace = 402,
  kPlanDevice = 407,
  kKnobType = 600,
  kKnobValue = 601,
  kGraphHandle = 800,
  kEngineNumber = 1301,
  kDeviceJson = 2702,
};
enum AttributeType { kTypeInt64 = 3, kTypeKnob = 9, kTypeDescriptor = 15, kTypeChar = 24 };
enum Knob { kTileSize = 2, kKernel = 25, kClusterRows = 27, kClusterColumns = 28 };

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
using GetAttribute = int(Descriptor, int, int, int64_t, int64_t*, void*);

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

int get_attribute(Descriptor descriptor, int name, int type, int64_t most, int64_t* count, void* values) {
  static GetAttribute* const function = real<GetAttribute>("cudnnBackendGetAttribute");
  return function(descriptor, name, type, most, count, values);
}

void destroy(Descriptor descriptor) {
  static Finalize* const function = real<Finalize>("cudnnBackendDestroyDescriptor");
  function(descriptor);
}

int64_t number(Descriptor descriptor, int name) {
  int64_t value = -1;
  int64_t count = 0;
  return get_attribute(descriptor, name, kTypeInt64, 1, &count, &value) == 0 && count == 1 ? value : -1;
}

void read_knob(Descriptor knob, EngineChoice& choice) {
  int type = -1;
  int64_t count = 0;
  if (get_attribute(knob, kKnobType, kTypeKnob, 1, &count, &type) != 0) return;
  const int64_t value = number(knob, kKnobValue);
  if (type == kTileSize) choice.tile = value;
  if (type == kKernel) choice.kernel = value;
  if (type == kClusterRows) choice.cluster_rows = value;
  if (type == kClusterColumns) choice.cluster_columns = value;
}

EngineChoice choice_of(Descriptor configuration) {
  EngineChoice choice;
  int64_t count = 0;
  Descriptor engine = nullptr;
  if (create(kEngine, &engine) != 0) return choice;
  if (get_attribute(configuration, kConfigurationEngine, kTypeDescriptor, 1, &count, &engine) == 0) {
    choice.engine = number(engine, kEngineNumber);
  }
  destroy(engine);
  constexpr int64_t kMostKnobs = 32;
  Descriptor knobs[kMostKnobs] = {};
  for (Descriptor& knob : knobs) create(kKnobChoice, &knob);
  count = 0;
  get_attribute(configuration, kConfigurationKnobs, kTypeDescriptor, kMostKnobs, &count, knobs);
  for (int64_t i = 0; i < count && i < kMostKnobs; ++i) read_knob(knobs[i], choice);
  for (const Descriptor knob : knobs) destroy(knob);
  return choice;
}

bool is_hopper() { return card().version == 900; }

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
  note_attribute(descriptor, name, type, count, values);
  return set_attribute(descriptor, name, type, count, values);
}

int cudnnBackendGetAttribute(Descriptor descriptor, int name, int type, int64_t most, int64_t* count, void* values) {
  const int status = get_attribute(descriptor, name, type, most, count, values);
  if (status != 0 || values == nullptr || !is_hopper()) return status;
  if (name == kHeuristicsResults && count != nullptr) {
    note_configurations(descriptor, std::min(most, *count), static_cast<const Descriptor*>(values));
  }
  if (name == kPlanWorkspace) {
    auto& bytes = *static_cast<int64_t*>(values);
    bytes += missing_workspace(descriptor, bytes, card().multiprocessors, choice_of);
  }
  return status;
}

int cudnnBackendDestroyDescriptor(Descriptor descriptor) {
  forget_descriptor(descriptor);
  destroy(descriptor);
  return 0;
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

}  // extern "C"
