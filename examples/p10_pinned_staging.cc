// P10: page-locked staging for transfers to a device. Batches are read into page-locked buffers, which copies to the
// device run out of while it works on the batch before. The buffers come out of the bytes that the pipeline was given,
// as whole pages of the system and no more; an allocator that rounds to the next power of two takes 1.6 times as much
// here. The device is a simulated one, asynchronous and with memory that the host cannot touch; a card's goes the same
// way.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "plimsoll/base/bytes.h"
#include "plimsoll/device/pinned.h"
#include "plimsoll/memory/arena.h"
#include "plimsoll/train/data/adaptors.h"
#include "plimsoll/train/data/pipeline.h"

namespace {

using namespace plimsoll;
namespace data = train::data;

constexpr int64_t kSamples = 96;
constexpr int64_t kWidth = 1100;
constexpr int64_t kBatch = 4;
constexpr int64_t kBatchBytes = kBatch * kWidth * 4;
constexpr int64_t kMost = 60 * kKiB;  // three batches of 17,600 bytes, each with its indices in five pages

// What the system has page-locked of this process.
int64_t locked_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmLck:")) return std::stoll(line.substr(6)) * kKiB;
  }
  return -1;
}

// Where batches are on the device: one is copied while the other is in use.
struct Slot {
  std::byte* at = nullptr;
  std::shared_ptr<const data::DataBatch> batch = {};  // until the copy is done
  std::unique_ptr<device::Event> arrived = {};
  std::unique_ptr<device::Event> used = {};
  std::function<void()> work = {};
};

// The sum of all values, by the device, and the most that was page-locked meanwhile.
struct Run {
  double sum = 0;
  int64_t most_locked = 0;
};

Run sum_on(device::Device& device, data::Pipeline& pipeline) {
  const auto pages = device.pages(2 * kBatchBytes);
  const Arena arena(*pages, 2 * kBatchBytes, {kMiB, "this example"});
  const auto copies = device.stream({.queue = device::Queue::to_device});
  const auto compute = device.stream();
  Run run;
  std::array<Slot, 2> slots;
  for (size_t i = 0; i < slots.size(); ++i) {
    Slot& slot = slots[i];
    slot.at = arena.data() + static_cast<int64_t>(i) * kBatchBytes;
    slot.arrived = device.event();
    slot.used = device.event();
    slot.work = [&run, values = reinterpret_cast<const float*>(device.kernel_address(slot.at))] {
      run.sum = std::accumulate(values, values + kBatch * kWidth, run.sum);
    };
  }
  for (size_t next = 0;; next = 1 - next) {
    Slot& slot = slots[next];
    copies->synchronize();  // the buffer that the copy before read may go back
    slot.batch = pipeline.next();
    if (!slot.batch) break;
    copies->wait(*slot.used);
    copies->copy(slot.at, slot.batch->field(0).data(), kBatchBytes);
    copies->record(*slot.arrived);
    compute->wait(*slot.arrived);
    compute->enqueue(slot.work);
    compute->record(*slot.used);
    run.most_locked = std::max(run.most_locked, locked_bytes());
  }
  compute->synchronize();
  return run;
}

}  // namespace

int main() {
  std::vector<float> table(kSamples * kWidth);
  std::iota(table.begin(), table.end(), 0.0F);
  device::Device& device = device::find_device("sim");
  const int64_t before = locked_bytes();
  Run run;
  data::PipelineStats stats;
  {
    data::Pipeline pipeline(
        data::arrays({{{.name = "x", .spec = {DType::f32, {kWidth}}}, std::as_bytes(std::span(table))}}),
        {.batch = kBatch, .shuffle = true, .seed = 1, .max_bytes = kMost, .pinned_for = &device});
    run = sum_on(device, pipeline);
    stats = pipeline.stats();
    const auto doubled = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(kBatchBytes)));
    fmt::print("{} batches through {} page-locked of {} at most; a batch of {} takes {}, to the next power of two {}\n",
               stats.batches, format_bytes(stats.peak_bytes), format_bytes(kMost), format_count(kBatchBytes),
               format_count(pipeline.batch_bytes()), format_count(doubled));
    if (pipeline.batch_bytes() >= doubled) return 1;
  }
  const auto elements = static_cast<double>(kSamples * kWidth);
  const bool is_counted = run.most_locked - before == stats.peak_bytes && stats.peak_bytes <= kMost;
  return run.sum == elements * (elements - 1) / 2 && is_counted && locked_bytes() == before ? 0 : 1;
}
