#include "plimsoll/explain/log_merge.h"

#include <algorithm>
#include <cstdlib>

#include "plimsoll/explain/text_scan.h"

namespace plimsoll::explain {
namespace {

// Whether two figures are the same as far as messages round them: to hundredths of their unit.
bool same_size(OptionalBytes a, OptionalBytes b) {
  if (!a || !b) return false;
  int64_t unit = 1;
  while (unit <= std::max(*a, *b) / 1024) unit *= 1024;
  return std::abs(*a - *b) <= unit * 6 / 1000;
}

bool merge_kernel(const Failure& later, Failure& known) {
  const bool kernel = later.framework == Framework::kernel && known.framework == Framework::kernel;
  if (!kernel || later.line - known.line >= 2000 || contains(later.message, "invoked oom-killer") ||
      contains(known.message, "Killed process") || !kKernelForm.add(later.message, known)) {
    return false;
  }
  if (contains(later.message, "Kill")) known.message = later.message;
  return true;
}

// Before 1.0 PyTorch's C library logged, and then Python raised.
bool is_ancient_echo(const Failure& later, const Failure& known) {
  const auto ancient = [](const Failure& failure) {
    return failure.framework == Framework::torch && failure.version == Version{0, 3};
  };
  return ancient(later) && ancient(known) && later.line - known.line < 200;
}

// TensorFlow tries to reserve the card, or to pin memory, again and again with less, and to start cuDNN.
bool merge_retry(const Failure& later, Failure& known) {
  const bool again = later.subject == known.subject && (later.subject == "preallocation" || later.subject == "pinned");
  const bool pinned = later.arena == Arena::pinned_host && known.arena == Arena::pinned_host && !later.raised;
  const bool handle = later.subject == "cuDNN" && known.arena == Arena::device_direct;
  const bool retry = later.framework == known.framework && (again || pinned || handle);
  if (retry) ++known.occurrences;
  return retry;
}

// Some say one failure in several lines, each of which could open a report: the one with figures stays.
bool merge_family(const Failure& later, Failure& known) {
  const bool table = later.form != nullptr && known.form != nullptr && later.framework == known.framework;
  const bool near = later.line - known.line < 20;
  const bool same =
      !later.requested_bytes || !known.requested_bytes || *later.requested_bytes == *known.requested_bytes;
  const bool same_memory = later.arena == known.arena || !later.requested_bytes;
  if (!table || !near || !same || !same_memory) return false;
  if (!known.requested_bytes && later.requested_bytes) known.requested_bytes = later.requested_bytes;
  if (!known.says && later.says) {
    known.says = later.says;
    known.sure = later.sure;
    known.headline = later.headline;
  }
  if (known.backend == Backend::unknown) known.backend = later.backend;
  known.raised = known.raised || later.raised;
  return true;
}

// A server says in its own words what its framework said of the same step.
bool merge_server(const Failure& later, Failure& known) {
  const bool server =
      later.framework == Framework::vllm || later.framework == Framework::sglang || later.framework == Framework::tgi;
  const bool torch = known.framework == Framework::torch || known.framework == later.framework;
  const bool same = torch && server && (known.engine == later.framework || known.engine == Framework::unknown);
  if (!same || later.says != Cause::device_full || later.line - known.line >= 60) return false;
  known.framework = later.framework;
  known.task = later.task;
  return true;
}

// An allocator logs, then the framework raises. What could not be reserved at the start is then no failure of its
// own.
bool merge_allocator(const Failure& later, Failure& known) {
  const bool one_family = (later.framework == Framework::tensorflow || later.framework == Framework::jax) &&
                          (known.framework == Framework::tensorflow || known.framework == Framework::jax);
  if (one_family && contains(later.message, "BufferAssignment OOM Debugging")) return true;  // more of the same
  if (one_family && known.subject == "preallocation" && later.arena == Arena::device) {
    known = later;
    return true;
  }
  const bool same_memory = later.arena == known.arena || known.arena == Arena::pinned_host;
  const bool exception = !known.raised && later.raised && later.line - known.line < 400 && same_memory;
  if (!one_family || (!exception && !same_size(later.requested_bytes, known.requested_bytes))) return false;
  known.framework = later.framework;
  known.raised = known.raised || later.raised;
  known.message = later.message;
  if (!later.subject.empty()) known.subject = later.subject;
  if (known.place.empty()) known.place = later.place;
  if (later.arena != Arena::device) known.arena = later.arena;
  return true;
}

}  // namespace

bool merge_failure(const Failure& later, Failure& known) {
  return merge_kernel(later, known) || merge_retry(later, known) || merge_family(later, known) ||
         merge_server(later, known) || merge_allocator(later, known) || is_ancient_echo(later, known);
}

bool same_message(std::string_view a, std::string_view b) {
  const auto core = [](std::string_view text) {
    const size_t at = text.find("out of memory");
    return at == std::string_view::npos ? text : text.substr(at, 200);
  };
  const std::string_view x = core(a);
  const std::string_view y = core(b);
  const size_t common = std::min(x.size(), y.size());
  return a == b || (common >= 60 && x.substr(0, common) == y.substr(0, common));
}

}  // namespace plimsoll::explain
