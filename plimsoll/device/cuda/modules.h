// Compiled kernels: machine code by the text it was made of, kept on disk between runs, and the functions in it, loaded
// once for a device. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "plimsoll/device/cuda/compute_api.h"
#include "plimsoll/device/cuda/driver.h"

namespace plimsoll::cuda {

// The machine code of `text`, out of the cache or compiled now. Files are named by a hash of the text, the architecture
// and the compiler's version, and lie in PLIMSOLL_CUDA_CACHE, or in plimsoll/cuda under the user's cache folder; a
// folder that cannot be written is no error.
std::string machine_code(const std::string& text, const std::string& name, const std::string& architecture);

class Modules {
 public:
  // Of the device whose context is current where functions are asked for.
  Modules(const Driver& driver, const Compute& compute, std::string architecture)
      : driver_(driver), compute_(compute), architecture_(std::move(architecture)) {}

  // A function of the compiled text. Loads it when it is first asked for; `name` is for messages.
  FunctionHandle function(const std::string& text, const std::string& name, const char* function);

 private:
  Driver driver_;
  Compute compute_;
  std::string architecture_;
  std::mutex mutex_;
  std::map<std::string, ModuleHandle> modules_;  // by text; the driver frees them with the context
  std::map<std::pair<ModuleHandle, std::string>, FunctionHandle> functions_;
};

}  // namespace plimsoll::cuda
