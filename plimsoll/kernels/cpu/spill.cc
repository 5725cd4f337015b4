// Copies between the arena and the spill file: two kernels start one, two wait for it.
#include "plimsoll/kernels/spill.h"

#include "plimsoll/base/error.h"
#include "plimsoll/kernels/cut.h"
#include "plimsoll/kernels/device.h"

namespace plimsoll::kernels {
namespace {

// Where one copy lies in the file. The file remembers its job, so that the op that waits finds what another started.
struct Spot {
  std::shared_ptr<SpillFile> file;
  int64_t offset;
  SpillFile::Job* job;
};

Spot find_spot(int64_t at, int64_t room) {
  auto file = spill_file();
  if (!file) throw UnsupportedError("the plan spills results, and there is no spill file: give --spill-dir");
  const int64_t offset = file->room(room) + at;
  SpillFile::Job& job = file->job_at(offset);
  return {std::move(file), offset, &job};
}

// `make(spot, memory, bytes)` gives the task.
template <class Make>
KernelDef copy_kernel(Make make) {
  const auto prepare = [make](const Use& use) {
    const int64_t at = use.call.integer("at");
    const int64_t room = use.call.integer("room");
    return plain(
        [=, bytes = use.in(0).bytes()](const Memory& memory) { return make(find_spot(at, room), memory, bytes); });
  };
  return {prepare, contiguous_only, {}, nullptr, any_dtype};
}

Task start_spill(const Spot& spot, const Memory& memory, int64_t bytes) {
  return [=, from = memory.inputs[0]] { *spot.job = spot.file->write(from, bytes, spot.offset); };
}

Task start_fetch(const Spot& spot, const Memory& memory, int64_t bytes) {
  return [=, into = memory.outputs[0]] { *spot.job = spot.file->read(into, bytes, spot.offset); };
}

Task finish(const Spot& spot, const Memory&, int64_t) {
  return [=] { spot.file->wait(*spot.job); };
}

}  // namespace

void register_spill_cpu(KernelTable& table) {
  table.add("spill", copy_kernel(start_spill));
  table.add("spill_finish", copy_kernel(finish));
  table.add("fetch", copy_kernel(start_fetch));
  table.add("fetch_finish", copy_kernel(finish));
}

}  // namespace plimsoll::kernels
