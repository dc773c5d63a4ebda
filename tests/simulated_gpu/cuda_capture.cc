// Graph captures of the simulated driver. A captured stream executes nothing. Calls that would
// break the capture on a GPU break it here: the caller gets an error, and the end of the capture
// reports it.
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "simulated_gpu/cuda_state.h"
#include "simulated_gpu/settings.h"

namespace simulated_gpu {
namespace {

constexpr int invalidated = 901;

struct Capture {
  int device = 0;
  int mode = 0;
  bool blocking = false;  // its stream and the legacy stream wait for each other
  bool broken = false;
  std::vector<std::function<void()>> operations;
};
using Graph = std::vector<std::function<void()>>;

struct Tables {
  std::mutex mutex;
  std::map<const void*, Capture> captures;  // by stream
  std::map<const void*, std::shared_ptr<Graph>> graphs, executables;
  std::set<const void*> events;  // recorded within a capture
};
Tables& capture_tables() {
  static auto* const made = new Tables;  // leaked: threads of user code may outlive main
  return *made;
}

thread_local int thread_mode = 0;  // default mode of CUDA

}  // namespace

int exchange_thread_mode(int mode) { return std::exchange(thread_mode, mode); }

int capture_state(const void* stream) {
  const std::scoped_lock lock(capture_tables().mutex);
  const auto at = capture_tables().captures.find(stream);
  return at == capture_tables().captures.end() ? abi::capture_none : at->second.broken ? 2 : 1;
}

bool implicit_capture(int device) {
  const std::scoped_lock lock(capture_tables().mutex);
  for (const auto& [stream, each] : capture_tables().captures) {
    if (each.device == device && each.blocking) return true;
  }
  return false;
}

bool captured(const void* stream, const std::function<void()>& operation) {
  const std::scoped_lock lock(capture_tables().mutex);
  const auto at = capture_tables().captures.find(stream);
  if (at == capture_tables().captures.end()) return false;
  at->second.operations.push_back(operation);
  return true;
}

abi::Status break_capture(const void* stream) {
  const std::scoped_lock lock(capture_tables().mutex);
  const auto at = capture_tables().captures.find(stream);
  if (at == capture_tables().captures.end()) return abi::success;
  at->second.broken = true;
  return abi::stream_capture_unsupported;
}

abi::Status break_captures_of(int device) {
  const std::scoped_lock lock(capture_tables().mutex);
  abi::Status status = abi::success;
  for (auto& [stream, each] : capture_tables().captures) {
    if (each.device != device) continue;
    each.broken = true;
    status = abi::stream_capture_unsupported;
  }
  return status;
}

abi::Status unsafe_call() {
  if (thread_mode == abi::capture_mode_relaxed) return abi::success;
  const std::scoped_lock lock(capture_tables().mutex);
  abi::Status status = abi::success;
  for (auto& [stream, each] : capture_tables().captures) {
    if (each.mode != 0) continue;
    each.broken = true;
    status = abi::stream_capture_unsupported;
  }
  return status;
}

void capture_event(const void* event, bool within) {
  const std::scoped_lock lock(capture_tables().mutex);
  if (within) {
    capture_tables().events.insert(event);
  } else {
    capture_tables().events.erase(event);
  }
}

bool is_captured_event(const void* event) {
  const std::scoped_lock lock(capture_tables().mutex);
  return capture_tables().events.contains(event);
}

}  // namespace simulated_gpu

using namespace simulated_gpu;

extern "C" {

int cuStreamBeginCapture_v2(abi::Stream stream, int mode) {
  if (const auto status = enter_context("cuStreamBeginCapture")) return status;
  if (stream == nullptr) return abi::stream_capture_unsupported;
  const std::scoped_lock lock(capture_tables().mutex);
  Capture made;
  made.device = current_device();
  made.mode = mode;
  made.blocking = is_blocking(stream);
  return capture_tables().captures.emplace(stream, std::move(made)).second ? abi::success
                                                                           : abi::invalid_value;
}

int cuStreamEndCapture(abi::Stream stream, void** graph) {
  if (const auto status = enter_context("cuStreamEndCapture")) return status;
  *graph = nullptr;
  const std::scoped_lock lock(capture_tables().mutex);
  const auto node = capture_tables().captures.extract(stream);
  if (node.empty()) return abi::invalid_value;
  if (node.mapped().broken) return invalidated;
  auto made = std::make_shared<Graph>(std::move(node.mapped().operations));
  *graph = made.get();
  capture_tables().graphs.emplace(*graph, std::move(made));
  return abi::success;
}

int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  if (const auto status = enter_context("cuGraphInstantiateWithFlags")) return status;
  const std::scoped_lock lock(capture_tables().mutex);
  const auto at = capture_tables().graphs.find(graph);
  if (at == capture_tables().graphs.end()) return abi::invalid_value;
  auto made = std::make_shared<Graph>(*at->second);
  *executable = made.get();
  capture_tables().executables.emplace(*executable, std::move(made));
  return abi::success;
}

int cuGraphLaunch(void* executable, abi::Stream stream) {
  if (const auto status = enter_context("cuGraphLaunch")) return status;
  std::shared_ptr<Graph> graph;
  {
    const std::scoped_lock lock(capture_tables().mutex);
    const auto at = capture_tables().executables.find(executable);
    if (at == capture_tables().executables.end()) return abi::invalid_value;
    graph = at->second;
  }
  return issue(stream, current_device(), [graph] {
    for (const auto& each : *graph) each();
  });
}

int cuGraphDestroy(void* graph) {
  const std::scoped_lock lock(capture_tables().mutex);
  return capture_tables().graphs.erase(graph) == 1 ? abi::success : abi::invalid_value;
}

int cuGraphExecDestroy(void* executable) {
  const std::scoped_lock lock(capture_tables().mutex);
  return capture_tables().executables.erase(executable) == 1 ? abi::success : abi::invalid_value;
}

}  // extern "C"
