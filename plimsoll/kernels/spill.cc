#include "plimsoll/kernels/spill.h"

namespace plimsoll::kernels {
namespace {

std::shared_ptr<SpillFile>& current() {
  static std::shared_ptr<SpillFile> file;
  return file;
}

}  // namespace

void use_spill_file(std::shared_ptr<SpillFile> file) { current() = std::move(file); }

std::shared_ptr<SpillFile> spill_file() { return current(); }

}  // namespace plimsoll::kernels
