// Copies between the arena and the spill file: two kernels start one, two wait for it.
#include "plimsoll/kernels/spill.h"

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/device.h"
#include "plimsoll/kernels/tiling.h"

namespace plimsoll::kernels {
namespace {

// Where one copy lies in the file. The file remembers its job, so that the op that waits finds what another started.
struct SpillSlot {
  std::shared_ptr<SpillFile> file;
  int64_t offset;
  SpillFile::Job* job;
};

SpillSlot find_slot(int64_t at, int64_t region) {
  auto file = spill_file();
  if (!file) throw UnsupportedError("the plan spills results, and there is no spill file: give --spill-dir");
  const int64_t offset = file->region(region) + at;
  SpillFile::Job& job = file->job_at(offset);
  return {std::move(file), offset, &job};
}

// `make(spot, memory, bytes)` gives the task.
template <class Make>
KernelDef copy_kernel(Make make) {
  const auto prepare = [make](const KernelCall& call) {
    const int64_t at = call.op.integer("at");
    const int64_t region = call.op.integer("region");
    return plain(
        [=, bytes = call.in(0).bytes()](const Memory& memory) { return make(find_slot(at, region), memory, bytes); });
  };
  return {prepare, contiguous_only, {}, nullptr, any_dtype};
}

Task start_spill(const SpillSlot& slot, const Memory& memory, int64_t bytes) {
  return [=, from = memory.inputs[0]] { *slot.job = slot.file->write(from, bytes, slot.offset); };
}

Task start_fetch(const SpillSlot& slot, const Memory& memory, int64_t bytes) {
  return [=, into = memory.outputs[0]] { *slot.job = slot.file->read(into, bytes, slot.offset); };
}

Task finish(const SpillSlot& slot, const Memory&, int64_t) {
  return [=] { slot.file->wait(*slot.job); };
}

}  // namespace

void register_spill_cpu(KernelTable& table) {
  table.add("spill", copy_kernel(start_spill));
  table.add("spill_finish", copy_kernel(finish));
  table.add("fetch", copy_kernel(start_fetch));
  table.add("fetch_finish", copy_kernel(finish));
}

}  // namespace plimsoll::kernels
