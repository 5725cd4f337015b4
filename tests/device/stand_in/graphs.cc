// Captures, and what is launched of them.
#include <algorithm>

#include "tests/device/stand_in/world.h"

using namespace plimsoll::stand_in;

namespace {

// Whether all that other streams did for it is done when its origin is.
bool is_joined(const Capture& capture) {
  return std::all_of(capture.last.begin(), capture.last.end(), [&](const auto& entry) {
    const auto joined = capture.joined.find(entry.first);
    return entry.first == capture.origin || (joined != capture.joined.end() && joined->second == entry.second);
  });
}

void* hidden_stream(World& w) {
  void* const handle = new char;
  w.streams[handle].is_hidden = true;
  return handle;
}

// The work again, with marks of this launch.
Work again(const Work& work, std::map<Mark, Mark>& marks) {
  Work copy = work;
  if (work.call) copy.call = work.call->again();
  if (!work.mark) return copy;
  Mark& mark = marks[work.mark];
  if (!mark) mark = std::make_shared<bool>(false);
  copy.mark = mark;
  return copy;
}

}  // namespace

extern "C" {

Result cuStreamBeginCapture_v2(StreamHandle stream, int mode) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto found = w.streams.find(stream);
  if (found == w.streams.end() || stream == nullptr) return kInvalidHandle;
  if (found->second.capture) return kCaptureUnsupported;
  found->second.capturing = true;
  found->second.only_of = mode == kCaptureThreadLocal ? std::this_thread::get_id() : std::thread::id();
  if (!w.settings.graphs) return kSuccess;
  found->second.capture = std::make_shared<Capture>();
  found->second.capture->origin = stream;
  return kSuccess;
}

Result cuStreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  World& w = world();
  const Guard guard(w.mutex);
  *graph = nullptr;
  const auto found = w.streams.find(stream);
  if (found == w.streams.end() || !found->second.capturing) return kInvalidHandle;
  const std::shared_ptr<Capture> capture = found->second.capture;
  found->second.capturing = false;
  if (!capture) return kSuccess;
  if (capture->origin != stream) return kInvalidValue;
  for (auto& [handle, other] : w.streams) {
    if (other.capture != capture) continue;
    other.capturing = false;
    other.capture = nullptr;
  }
  if (!is_joined(*capture)) return kCaptureUnjoined;
  if (fails(w)) return kErrorOutOfMemory;
  *graph = reinterpret_cast<GraphHandle>(new char);
  w.graphs[*graph] = capture;
  return kSuccess;
}

Result cuGraphInstantiateWithFlags(GraphExecHandle* exec, GraphHandle graph, unsigned long long) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto found = w.graphs.find(graph);
  if (found == w.graphs.end()) return kInvalidHandle;
  if (fails(w)) return kErrorOutOfMemory;
  *exec = reinterpret_cast<GraphExecHandle>(new char);
  Exec& made = w.execs[*exec];
  made.graph = found->second;
  for (const Capture::Node& node : made.graph->nodes) {
    void*& own = made.streams[node.stream];
    if (own == nullptr && node.stream != made.graph->origin) own = hidden_stream(w);
  }
  return kSuccess;
}

Result cuGraphLaunch(GraphExecHandle exec, StreamHandle stream) {
  World& w = world();
  const Guard guard(w.mutex);
  const auto found = w.execs.find(exec);
  if (found == w.execs.end()) return kInvalidHandle;
  if (fails(w)) return kUnknown;
  ++w.launches;
  std::map<Mark, Mark> marks;
  for (const Capture::Node& node : found->second.graph->nodes) {
    void* const on = node.stream == found->second.graph->origin ? stream : found->second.streams.at(node.stream);
    put(w, on, again(node.work, marks));
  }
  return kSuccess;
}

Result cuGraphDestroy(GraphHandle graph) {
  World& w = world();
  const Guard guard(w.mutex);
  if (w.graphs.erase(graph) == 0) return kInvalidHandle;
  delete reinterpret_cast<char*>(graph);
  return kSuccess;
}

Result cuGraphExecDestroy(GraphExecHandle exec) {
  World& w = world();
  Guard guard(w.mutex);
  const auto found = w.execs.find(exec);
  if (found == w.execs.end()) return kInvalidHandle;
  for (const auto& [of, own] : found->second.streams) {
    if (own == nullptr) continue;
    finish(w, guard, w.streams[own]);
    w.streams.erase(own);
    delete static_cast<char*>(own);
  }
  w.execs.erase(found);
  delete reinterpret_cast<char*>(exec);
  return kSuccess;
}

}  // extern "C"
