// Streams and events.
#include <algorithm>

#include "tests/device/stand_in/world.h"

using namespace plimsoll::stand_in;

namespace {

// The capture under way that an event was recorded in; null: none.
std::shared_ptr<Capture> capture_with(const World& w, const Mark& mark) {
  for (const auto& [handle, stream] : w.streams) {
    if (stream.capture && stream.capture->recorded.contains(mark)) return stream.capture;
  }
  return nullptr;
}

// A wait for an event of a capture: the stream's work is the capture's from then on.
Result wait_captured(World& w, void* handle, Stream& stream, const std::shared_ptr<Capture>& capture,
                     const Mark& mark) {
  if (stream.capture && stream.capture != capture) return kCaptureIsolation;
  stream.capturing = true;
  stream.capture = capture;
  stream.only_of = std::this_thread::get_id();
  const auto [recorder, place] = capture->recorded.at(mark);
  if (handle == capture->origin) capture->joined[recorder] = std::max(capture->joined[recorder], place);
  return put(w, handle, {.kind = Work::Kind::wait, .mark = mark});
}

}  // namespace

extern "C" {

Result cuStreamCreate(StreamHandle* stream, unsigned) {
  World& w = world();
  const Guard guard(w.mutex);
  if (fails(w)) return kErrorOutOfMemory;
  *stream = reinterpret_cast<StreamHandle>(new char);
  w.streams[*stream];
  return kSuccess;
}

Result cuStreamDestroy_v2(StreamHandle stream) {
  World& w = world();
  Guard guard(w.mutex);
  const auto found = w.streams.find(stream);
  if (stream == nullptr || found == w.streams.end()) return kInvalidHandle;
  finish(w, guard, found->second);
  w.streams.erase(found);
  delete reinterpret_cast<char*>(stream);
  return kSuccess;
}

Result cuStreamSynchronize(StreamHandle stream) {
  World& w = world();
  Guard guard(w.mutex);
  const auto found = w.streams.find(stream);
  if (found == w.streams.end()) return kInvalidHandle;
  if (found->second.capture) return kCaptureUnsupported;
  return finish(w, guard, found->second);
}

Result cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto found = w.streams.find(stream);
  const auto known = w.events.find(event);
  if (found == w.streams.end() || known == w.events.end()) return kInvalidHandle;
  if (found->second.capturing && !found->second.capture) return kCaptureUnsupported;
  if (fails(w)) return kUnknown;
  ++w.counts.waits;
  const Mark& mark = known->second.latest;
  if (const auto capture = capture_with(w, mark)) return wait_captured(w, stream, found->second, capture, mark);
  if (known->second.captured) return kCapturedEvent;
  if (found->second.capture) return kCaptureIsolation;
  return put(w, stream, {.kind = Work::Kind::wait, .mark = mark});
}

Result cuStreamIsCapturing(StreamHandle stream, int* status) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto found = w.streams.find(stream);
  if (found == w.streams.end()) return kInvalidHandle;
  *status = found->second.capturing ? 1 : kCaptureNone;
  return kSuccess;
}

Result cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(capture_mode, *mode);
  return kSuccess;
}

Result cuEventCreate(EventHandle* event, unsigned) {
  World& w = world();
  const Guard guard(w.mutex);
  if (fails(w)) return kErrorOutOfMemory;
  *event = reinterpret_cast<EventHandle>(w.next_event++);
  w.events[*event];
  return kSuccess;
}

Result cuEventDestroy_v2(EventHandle event) {
  World& w = world();
  const Guard guard(w.mutex);
  return w.events.erase(event) == 1 ? kSuccess : kInvalidHandle;
}

Result cuEventRecord(EventHandle event, StreamHandle stream) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto known = w.events.find(event);
  const auto found = w.streams.find(stream);
  if (known == w.events.end() || found == w.streams.end()) return kInvalidHandle;
  if (found->second.capturing && !found->second.capture) return kCaptureUnsupported;
  if (fails(w)) return kUnknown;
  const auto mark = std::make_shared<bool>(false);
  known->second = {.latest = mark, .captured = found->second.capture != nullptr};
  put(w, stream, {.kind = Work::Kind::record, .mark = mark});
  if (Capture* capture = found->second.capture.get()) capture->recorded[mark] = {stream, capture->last[stream]};
  return kSuccess;
}

Result cuEventQuery(EventHandle event) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto known = w.events.find(event);
  if (known == w.events.end()) return kInvalidHandle;
  if (known->second.captured) return kCapturedEvent;
  step(w);
  return *known->second.latest ? kSuccess : kErrorNotReady;
}

Result cuEventSynchronize(EventHandle event) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto known = w.events.find(event);
  if (known == w.events.end()) return kInvalidHandle;
  if (known->second.captured) return kCapturedEvent;
  while (!*known->second.latest && step(w)) {
  }
  return kSuccess;
}

}  // extern "C"
