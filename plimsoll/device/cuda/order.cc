#include "plimsoll/device/cuda/order.h"

#include <fmt/format.h>

namespace plimsoll::cuda {
namespace {

constexpr size_t kMostStreams = 32'000;

}  // namespace

CudaOrder::CudaOrder(const Driver& driver) : driver_(driver), event_(make_event()), streams_(1) {}

CudaOrder::~CudaOrder() {
  for (const Entry& entry : streams_) {
    if (entry.frozen != nullptr) driver_.event_destroy(entry.frozen);
  }
  driver_.event_destroy(event_);
}

EventHandle CudaOrder::make_event() const {
  EventHandle event = nullptr;
  driver_.check(driver_.event_create(&event, kEventDisableTiming), "cuEventCreate");
  return event;
}

CudaOrder::Entry* CudaOrder::find(StreamHandle stream) {
  if (streams_[latest_].handle == stream && !streams_[latest_].gone) return &streams_[latest_];
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].handle != stream || streams_[i].gone) continue;
    latest_ = i;
    return &streams_[i];
  }
  return nullptr;
}

// A number whose stream is gone and whose last work is done: memory that was freed there waits for nothing.
std::optional<size_t> CudaOrder::reusable() const {
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].gone && driver_.event_query(streams_[i].frozen) == kSuccess) return i;
  }
  return std::nullopt;
}

Stream CudaOrder::number(StreamHandle stream) {
  if (const Entry* const known = find(stream)) return static_cast<Stream>(known - streams_.data());
  if (const auto free = reusable()) {
    driver_.event_destroy(streams_[*free].frozen);
    streams_[*free] = {.handle = stream};
    latest_ = *free;
    return static_cast<Stream>(latest_);
  }
  if (streams_.size() >= kMostStreams) {
    throw SystemError(fmt::format("more than {} CUDA streams were used for memory", kMostStreams));
  }
  streams_.push_back({.handle = stream});
  latest_ = streams_.size() - 1;
  return static_cast<Stream>(latest_);
}

void CudaOrder::freeze(StreamHandle stream) {
  Entry* const entry = find(stream);
  if (entry == nullptr || entry->frozen != nullptr) return;
  const EventHandle event = make_event();
  const Result result = driver_.event_record(event, stream);
  if (result != kSuccess) {
    driver_.event_destroy(event);
    driver_.fail(result, "cuEventRecord");
  }
  entry->frozen = event;
}

void CudaOrder::thaw(StreamHandle stream) {
  Entry* const entry = find(stream);
  if (entry == nullptr || entry->frozen == nullptr) return;
  driver_.event_destroy(entry->frozen);
  entry->frozen = nullptr;
}

void CudaOrder::forget(StreamHandle stream) {
  freeze(stream);
  if (Entry* const entry = find(stream)) entry->gone = true;
}

EventHandle CudaOrder::event_of(Entry& entry) {
  if (entry.frozen != nullptr) return entry.frozen;
  driver_.check(driver_.event_record(event_, entry.handle), "recording an event for memory that changes streams");
  return event_;
}

void CudaOrder::wait(Stream waiter, Stream other) {
  const RelaxedCapture relaxed(driver_);
  const EventHandle event = event_of(streams_[static_cast<size_t>(other)]);
  const Result done = driver_.event_query(event);
  if (done == kSuccess) return;
  if (done != kErrorNotReady) driver_.fail(done, "cuEventQuery");
  Entry& waiting = streams_[static_cast<size_t>(waiter)];
  ++waits_;
  if (waiting.frozen != nullptr) {  // nothing can be put on it: the host waits instead
    driver_.check(driver_.event_synchronize(event), "cuEventSynchronize");
    return;
  }
  driver_.check(driver_.stream_wait_event(waiting.handle, event, 0), "cuStreamWaitEvent");
}

void CudaOrder::synchronize() {
  const RelaxedCapture relaxed(driver_);
  const auto await = [&](Entry& entry) {
    if (entry.frozen != nullptr) return driver_.event_synchronize(entry.frozen);
    const Result recorded = driver_.event_record(event_, entry.handle);
    return recorded == kSuccess ? driver_.event_synchronize(event_) : recorded;
  };
  for (Entry& entry : streams_) {
    if (await(entry) == kSuccess) continue;
    driver_.check(driver_.ctx_synchronize(), "waiting for the device before pages are unmapped");
    return;
  }
}

}  // namespace plimsoll::cuda
