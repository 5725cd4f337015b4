// A device: memory, streams, and the facts about it that plans need. Kernels, executors and eager tensors see this and
// never the CPU. Its kernels are found by its name (kernels/device.h). Nobody but a device's own code dereferences its
// memory: values go in and out by read and write.
//
// To add one: a folder or file here, an entry in find_device, a table of kernels (docs/kernels.md).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plimsoll/base/budget.h"
#include "plimsoll/device/stream.h"
#include "plimsoll/memory/page_source.h"

namespace plimsoll::device {

// What a device can do at best, in arithmetic and to and from its memory.
struct Rates {
  double flops_per_s = 0;
  double bytes_per_s = 0;
};

struct Traits {
  std::string name;        // "cpu", "cuda:0"
  int64_t alignment = 64;  // of every buffer in an arena, and of its size
  bool is_host = true;     // its memory is the host's, and its stream runs work at once
  bool runs = true;        // false: on paper, for plans; what would run something is an UnsupportedError
};

enum class Queue : uint8_t { compute, to_device, from_device };

struct StreamOptions {
  Queue queue = Queue::compute;
  int threads = 0;  // for work of the host and kernels of the CPU; 0: as many as are set
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const Traits& traits() const = 0;

  // Where arenas and pools of about so many bytes get their memory. For one owner; the device outlives it.
  virtual std::unique_ptr<PageSource> pages(int64_t bytes) = 0;

  virtual std::unique_ptr<Stream> stream(const StreamOptions& options = {}) = 0;
  virtual std::unique_ptr<Event> event() = 0;

  // Copies that are done on return. Not ordered with streams: whoever writes or reads the same has synchronized.
  virtual void read(std::span<std::byte> to, const std::byte* from) = 0;
  virtual void write(std::byte* to, std::span<const std::byte> from) = 0;

  // Where kernels find what is at an address of this device: the same place, but for devices that watch over theirs.
  // Null, where blocks without memory are, stays null.
  virtual std::byte* kernel_address(std::byte* at) const { return at; }

  // What times of its kernels are kept under: the processor or card as the system names it, and what limits it now.
  virtual std::string cost_id() const = 0;

  // How long it takes what `work` puts on an idle stream, by the device's own clock. Nothing where that is the host's.
  virtual std::optional<double> seconds_of(Stream& stream, const std::function<void()>& work);

  // By its data sheet, where it cannot be measured.
  virtual std::optional<Rates> rates() const { return std::nullopt; }

  // What this device can give now, and which rule says so.
  virtual Budget budget() const = 0;
  // What it takes of its own memory beside arenas and pools (a context, loaded code). 0 on the host, whose process is
  // measured as a whole (train/overhead.h).
  virtual int64_t overhead_bytes() const { return 0; }
};

// "cpu", or "cuda" and "cuda:N" where the build has them, or "cuda:h200" for a card on paper. The same device for the
// same name, made when it is first asked for. ArgumentError for a name that is none, UnsupportedError for a device that
// was not built or is not there.
Device& find_device(std::string_view name);

// Whether products and convolutions of f32 on cards may round their operands to tf32 (11 bits), which is faster: for
// the process, no at first. Kernels ask when they are prepared and bound.
void allow_tf32(bool allowed);
bool allows_tf32();

Device& cpu_device();
// "sim", for tests: asynchronous, with memory that the host cannot touch, and the kernels of the CPU.
Device& sim_device();
// ArgumentError for an ordinal that there is not, UnsupportedError where there is no driver.
Device& cuda_device(int ordinal);
// ArgumentError for a name that is none.
Device& paper_card(std::string_view name);

}  // namespace plimsoll::device
