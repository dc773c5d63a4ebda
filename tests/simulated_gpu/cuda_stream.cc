// Streams and events of the simulated driver. Each stream is a thread that runs its operations in
// order with small delays, so the seed determines the order across streams.
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "simulated_gpu/cuda_state.h"
#include "simulated_gpu/settings.h"

namespace simulated_gpu {

struct Stream {
  explicit Stream(int on, bool blocks = true)
      : device(on), blocking(blocks), thread([this] { run(); }) {}
  ~Stream() {
    {
      const std::scoped_lock lock(mutex);
      ending = true;
    }
    changed.notify_all();
    thread.join();
  }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return ending || !waiting.empty(); });
      if (waiting.empty()) return;
      auto operation = std::move(waiting.front());
      waiting.pop_front();
      lock.unlock();
      if (const auto late = chance_below(settings().late_us + 1);
          late > 0 && chance_below(4) == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(late));
      }
      operation();
      operation = nullptr;
      lock.lock();
      --left;
      changed.notify_all();
    }
  }
  void add(std::function<void()> operation) {
    const std::scoped_lock lock(mutex);
    ++left;
    waiting.push_back(std::move(operation));
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return left == 0; });
  }
  bool idle() {
    const std::scoped_lock lock(mutex);
    return left == 0;
  }

  const int device;
  const bool blocking;
  int forbidden = 0;  // guarded by the table's lock
  std::mutex mutex;   // guards the following members
  std::condition_variable changed;
  std::deque<std::function<void()>> waiting;
  std::size_t left = 0;
  bool ending = false;
  std::thread thread;
};

struct Event {
  std::mutex mutex;  // guards the following members
  std::condition_variable changed;
  std::uint64_t recorded = 0;
  std::uint64_t over = 0;
};

namespace {

constexpr abi::Status captured_event = 907;

// Leaked: threads of user code may outlive main.
struct Tables {
  std::mutex mutex;
  std::map<const void*, std::shared_ptr<Stream>> streams;
  std::map<int, std::shared_ptr<Stream>> defaults;  // by device
  std::map<const void*, std::shared_ptr<Event>> events;
};
Tables& tables() {
  static auto* const made = new Tables;
  return *made;
}

// Resolves a stream handle; null if it is invalid. With `issues`, use of a forbidden stream is
// misuse.
std::shared_ptr<Stream> stream_of(abi::Stream handle, int device, bool issues) {
  Tables& all = tables();
  const std::scoped_lock lock(all.mutex);
  std::shared_ptr<Stream> found;
  if (handle == nullptr) {
    auto& made = all.defaults[device];
    if (!made) made = std::make_shared<Stream>(device);
    found = made;
  } else if (const auto at = all.streams.find(handle); at != all.streams.end()) {
    found = at->second;
  }
  if (found && issues && found->forbidden > 0) {
    misuse("something is issued on a stream while a communicator on it is in progress");
  }
  return found;
}

std::shared_ptr<Event> event_of(abi::Event handle) {
  const std::scoped_lock lock(tables().mutex);
  const auto at = tables().events.find(handle);
  return at == tables().events.end() ? nullptr : at->second;
}

std::vector<std::shared_ptr<Stream>> streams_of(int device) {
  std::vector<std::shared_ptr<Stream>> all;
  const std::scoped_lock lock(tables().mutex);
  for (const auto& [handle, each] : tables().streams) {
    if (each->device == device) all.push_back(each);
  }
  if (const auto at = tables().defaults.find(device); at != tables().defaults.end())
    all.push_back(at->second);
  return all;
}

}  // namespace

abi::Status issue(abi::Stream stream, int device, std::function<void()> operation) {
  const auto found = stream_of(stream, device, true);
  if (!found) return abi::invalid_handle;
  if (found->device != device)
    misuse("a stream of one device is used while another one is current");
  const std::function<void()> unless_lost = [operation = std::move(operation), device] {
    if (lost(device) == abi::success) operation();
  };
  if (stream == nullptr && implicit_capture(device)) return abi::stream_capture_implicit;
  if (!captured(stream, unless_lost)) found->add(unless_lost);
  return abi::success;
}

bool is_blocking(abi::Stream stream) {
  const std::scoped_lock lock(tables().mutex);
  const auto at = tables().streams.find(stream);
  return at == tables().streams.end() || at->second->blocking;
}

void issue_kernel(abi::Stream stream, int device, std::function<void()> operation) {
  const auto found = stream_of(stream, device, false);
  if (!found) misuse("a communicator is used on a stream that is gone");
  found->add(std::move(operation));
}

void forbid(abi::Stream stream, int device, int by) {
  const auto found = stream_of(stream, device, false);
  if (!found) misuse("a communicator is used on a stream that is gone");
  const std::scoped_lock lock(tables().mutex);
  found->forbidden += by;
}

void drain(int device) {
  for (const auto& each : streams_of(device)) each->wait();
}

}  // namespace simulated_gpu

using namespace simulated_gpu;

extern "C" {

int cuStreamCreateWithPriority(abi::Stream* stream, unsigned flags, int) {
  if (const auto status = enter_context("cuStreamCreateWithPriority")) return status;
  auto made = std::make_shared<Stream>(current_device(), flags != abi::stream_non_blocking);
  *stream = reinterpret_cast<abi::Stream>(made.get());
  const std::scoped_lock lock(tables().mutex);
  tables().streams.emplace(*stream, std::move(made));
  return abi::success;
}

int cuStreamDestroy_v2(abi::Stream stream) {
  if (const auto status = enter("cuStreamDestroy")) return status;
  std::shared_ptr<Stream> gone;
  {
    const std::scoped_lock lock(tables().mutex);
    const auto at = tables().streams.find(stream);
    if (at == tables().streams.end()) return abi::invalid_handle;
    if (at->second->forbidden > 0)
      misuse("a stream is destroyed while a communicator on it is in progress");
    gone = std::move(at->second);
    tables().streams.erase(at);
  }
  return abi::success;  // issued work completes first
}

int cuStreamQuery(abi::Stream stream) {
  if (const auto status = enter_context("cuStreamQuery")) return status;
  const auto found = stream_of(stream, current_device(), false);
  if (!found) return abi::invalid_handle;
  if (const auto broken = break_capture(stream)) return broken;
  if (const auto broken = unsafe_call()) return broken;
  return found->idle() ? abi::success : abi::not_ready;
}

int cuStreamSynchronize(abi::Stream stream) {
  if (const auto status = enter_context("cuStreamSynchronize")) return status;
  const auto found = stream_of(stream, current_device(), false);
  if (!found) return abi::invalid_handle;
  if (const auto broken = break_capture(stream)) return broken;
  if (const auto broken = unsafe_call()) return broken;
  found->wait();
  return lost(found->device);
}

int cuStreamIsCapturing(abi::Stream stream, int* capturing) {
  if (const auto status = enter_context("cuStreamIsCapturing")) return status;
  const auto found = stream_of(stream, current_device(), false);
  if (!found) return abi::invalid_handle;
  if (stream == nullptr && implicit_capture(current_device())) return abi::stream_capture_implicit;
  *capturing = capture_state(stream);
  return abi::success;
}

int cuThreadExchangeStreamCaptureMode(int* mode) {
  if (const auto status = enter("cuThreadExchangeStreamCaptureMode")) return status;
  *mode = exchange_thread_mode(*mode);
  return abi::success;
}

int cuStreamWaitEvent(abi::Stream stream, abi::Event event, unsigned) {
  if (const auto status = enter_context("cuStreamWaitEvent")) return status;
  const auto found = event_of(event);
  if (!found) return abi::invalid_handle;
  if (is_captured_event(event) && capture_state(stream) == abi::capture_none) {
    misuse("cuStreamWaitEvent draws a stream into the capture of another one");
  }
  std::uint64_t until = 0;
  {
    const std::scoped_lock lock(found->mutex);
    until = found->recorded;
  }
  return issue(stream, current_device(), [found, until] {
    std::unique_lock lock(found->mutex);
    found->changed.wait(lock, [&] { return found->over >= until; });
  });
}

int cuCtxSynchronize() {
  if (const auto status = enter_context("cuCtxSynchronize")) return status;
  if (const auto broken = break_captures_of(current_device())) return broken;
  drain(current_device());
  return lost(current_device());
}

int cuEventCreate(abi::Event* event, unsigned) {
  if (const auto status = enter_context("cuEventCreate")) return status;
  auto made = std::make_shared<Event>();
  *event = reinterpret_cast<abi::Event>(made.get());
  const std::scoped_lock lock(tables().mutex);
  tables().events.emplace(*event, std::move(made));
  return abi::success;
}

int cuEventDestroy_v2(abi::Event event) {
  if (const auto status = enter("cuEventDestroy")) return status;
  const std::scoped_lock lock(tables().mutex);
  return tables().events.erase(event) == 1 ? abi::success : abi::invalid_handle;
}

int cuEventRecord(abi::Event event, abi::Stream stream) {
  if (const auto status = enter_context("cuEventRecord")) return status;
  const auto found = event_of(event);
  if (!found) return abi::invalid_handle;
  capture_event(event, capture_state(stream) != abi::capture_none);
  std::uint64_t number = 0;
  {
    const std::scoped_lock lock(found->mutex);
    number = ++found->recorded;
  }
  // Records on different streams may complete in any order; each completes after all earlier work
  // of its stream.
  return issue(stream, current_device(), [found, number] {
    const std::scoped_lock lock(found->mutex);
    found->over = std::max(found->over, number);
    found->changed.notify_all();
  });
}

int cuEventQuery(abi::Event event) {
  if (const auto status = enter_context("cuEventQuery")) return status;
  const auto found = event_of(event);
  if (!found) return abi::invalid_handle;
  if (const auto broken = unsafe_call()) return broken;
  if (is_captured_event(event)) return captured_event;
  const std::scoped_lock lock(found->mutex);
  return found->over >= found->recorded ? abi::success : abi::not_ready;
}

int cuEventSynchronize(abi::Event event) {
  if (const auto status = enter_context("cuEventSynchronize")) return status;
  const auto found = event_of(event);
  if (!found) return abi::invalid_handle;
  if (const auto broken = unsafe_call()) return broken;
  std::unique_lock lock(found->mutex);
  const auto until = found->recorded;
  const int device = current_device();
  while (!found->changed.wait_for(lock, std::chrono::milliseconds(20),
                                  [&] { return found->over >= until; })) {
    if (const auto why = lost(device)) return why;
  }
  return abi::success;
}

}  // extern "C"
