// Streams, captures and events.
#include "tests/device/stand_in/world.h"

using namespace plimsoll::stand_in;

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
  const Guard guard(w.mutex);
  const auto found = w.streams.find(stream);
  if (stream == nullptr || found == w.streams.end()) return kInvalidHandle;
  while (!found->second.queue.empty() && step(w)) {
  }
  w.streams.erase(found);
  delete reinterpret_cast<char*>(stream);
  return kSuccess;
}

Result cuStreamSynchronize(StreamHandle stream) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto found = w.streams.find(stream);
  if (found == w.streams.end()) return kInvalidHandle;
  while (!found->second.queue.empty() && step(w)) {
  }
  return kSuccess;
}

Result cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto found = w.streams.find(stream);
  const auto known = w.events.find(event);
  if (found == w.streams.end() || known == w.events.end()) return kInvalidHandle;
  if (found->second.capturing) return kCaptureUnsupported;
  if (fails(w)) return kUnknown;
  ++w.counts.waits;
  found->second.queue.push_back({Work::Kind::wait, nullptr, 0, 0, known->second.latest});
  return kSuccess;
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

Result cuStreamBeginCapture_v2(StreamHandle stream, int) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto found = w.streams.find(stream);
  if (found == w.streams.end() || stream == nullptr) return kInvalidHandle;
  found->second.capturing = true;
  return kSuccess;
}

Result cuStreamEndCapture(StreamHandle stream, void** graph) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto found = w.streams.find(stream);
  if (found == w.streams.end() || !found->second.capturing) return kInvalidHandle;
  found->second.capturing = false;
  *graph = nullptr;
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
  if (found->second.capturing) return kCaptureUnsupported;
  if (fails(w)) return kUnknown;
  known->second.latest = std::make_shared<bool>(false);
  found->second.queue.push_back({Work::Kind::record, nullptr, 0, 0, known->second.latest});
  return kSuccess;
}

Result cuEventQuery(EventHandle event) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto known = w.events.find(event);
  if (known == w.events.end()) return kInvalidHandle;
  step(w);
  return *known->second.latest ? kSuccess : kErrorNotReady;
}

Result cuEventSynchronize(EventHandle event) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto known = w.events.find(event);
  if (known == w.events.end()) return kInvalidHandle;
  while (!*known->second.latest && step(w)) {
  }
  return kSuccess;
}

}  // extern "C"
