// What the parts of the simulated driver share: the process's devices, contexts, streams, memory. Any thread
// may call; each table has a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gpu/cuda_abi.h"

namespace simulated_gpu {

namespace abi = mobula::internal::cuda_abi;

// A device as this process sees it.
struct Device {
  int machine_index = 0;  // which GPU of the machine
  int slice = -1;         // of it, in MIG mode
};

// Begins every call: the process's own end for CUDA before cuInit is a status, after fork it is misuse.
// A status other than 0 is to be returned.
abi::Status enter(const char* call);
// The same of a call that needs a current context.
abi::Status enter_context(const char* call);
const std::vector<Device>& devices();
// Ordinal of the current context; -1 without one.
int current_device();
// The context of this device is lost from now on.
void lose_context(int device, abi::Status why);
abi::Status lost(int device);

// ---- memory --------------------------------------------------------------------------------------

// Host addresses of a stretch of device memory, piece by piece, kept mapped as long as this lives; found
// false if nothing is mapped there. Ends the process where the device has no access of that kind.
struct Seen {
  bool found = false;
  std::vector<std::span<std::byte>> pieces;
  std::vector<std::shared_ptr<void>> keeps;  // shared with the tables of memory
};
Seen see(abi::Address at, std::size_t size, int device, bool writes);
// Whether an address is of a device at all.
bool is_device_address(abi::Address at);
// The pinned host memory around an address, kept as long as this lives; null for other memory.
std::shared_ptr<void> pinned_at(abi::Address at);

// ---- streams -------------------------------------------------------------------------------------

struct Stream;
// Runs `operation` when what was issued on the stream before has ended. 0 or invalid_handle.
abi::Status issue(abi::Stream stream, int device, std::function<void()> operation);
// Everything that was issued on the device has ended.
void drain(int device);
// Made without CU_STREAM_NON_BLOCKING.
bool is_blocking(abi::Stream stream);

// ---- captures of work into graphs -----------------------------------------------------------------

// Of the calling thread; what it was before.
int exchange_thread_mode(int mode);
// As cuStreamIsCapturing answers: 0, 1, or 2 for one that is broken.
int capture_state(const void* stream);
// Whether a stream that the legacy one waits for is being captured.
bool implicit_capture(int device);
// True: the stream is being captured, and the operation is now part of the graph.
bool captured(const void* stream, const std::function<void()>& operation);
// What may not be done while a stream, or any of a device, is captured: breaks the capture, and says so.
abi::Status break_capture(const void* stream);
abi::Status break_captures_of(int device);
// The same for what is not safe beside a capture of global mode, by threads that are not in relaxed mode.
abi::Status unsafe_call();
void capture_event(const void* event, bool within);
bool is_captured_event(const void* event);

}  // namespace simulated_gpu

namespace simulated_gpu {

// For the simulated NCCL: on a stream that others may not use while they are forbidden to, by so many. The
// operation runs also where the context is lost.
void issue_kernel(abi::Stream stream, int device, std::function<void()> operation);
void forbid(abi::Stream stream, int device, int by);

}  // namespace simulated_gpu

// By dlsym, for tests too.
extern "C" {
int simulatedGpuCurrent();
// Which GPU of the machine a device of this process is, with its slice: machine * 16 + slice + 1.
int simulatedGpuPlace(int device);
// A kernel that runs for so long and then writes `value` to memory: on a stream of the current device.
int simulatedGpuKernel(void* stream, unsigned long long at, std::size_t size, int value,
                       unsigned milliseconds);
// A failure that loses the current context.
void simulatedGpuBreak(int status);
}
