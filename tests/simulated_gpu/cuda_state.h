// Shared state of the simulated driver: devices, contexts, streams, and memory of the process.
// Thread: any; each table has a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "device/gpu/cuda_abi.h"

namespace simulated_gpu {

namespace abi = mobula::internal::cuda_abi;

// A device as this process sees it.
struct Device {
  int machine_index = 0;  // index of the GPU in the machine
  int slice = -1;         // slice number in MIG mode; -1: whole device
};

// Starts every call. A call before cuInit returns a status, and a call after fork is misuse. The
// caller must return a status other than 0.
abi::Status enter(const char* call);
// The same for a call that needs a current context.
abi::Status enter_context(const char* call);
const std::vector<Device>& devices();
// Ordinal of the current context; -1 without one.
int current_device();
// Marks the context of this device as lost.
void lose_context(int device, abi::Status why);
abi::Status lost(int device);

// ---- memory -------------------------------------------------------------------------------------

// Host addresses of a range of device memory, piece by piece, mapped while this object lives.
// `found` is false if nothing is mapped there. Ends the process if the device lacks this kind of
// access.
struct Seen {
  bool found = false;
  std::vector<std::span<std::byte>> pieces;
  std::vector<std::shared_ptr<void>> keeps;  // shared with the tables of memory
};
Seen see(abi::Address at, std::size_t size, int device, bool writes);
// True for device addresses.
bool is_device_address(abi::Address at);
// Pinned host memory that contains the address, kept alive by the result; null for other memory.
std::shared_ptr<void> pinned_at(abi::Address at);

// ---- streams ------------------------------------------------------------------------------------

struct Stream;
// Runs `operation` after the work that was issued on the stream before. Returns 0 or
// invalid_handle.
abi::Status issue(abi::Stream stream, int device, std::function<void()> operation);
// Waits for all work issued on the device.
void drain(int device);
// True if created without CU_STREAM_NON_BLOCKING.
bool is_blocking(abi::Stream stream);

// ---- graph captures -----------------------------------------------------------------------------

// Sets the mode of the calling thread; returns the previous one.
int exchange_thread_mode(int mode);
// Result of cuStreamIsCapturing: 0, 1, or 2 for a broken capture.
int capture_state(const void* stream);
// True if a stream that synchronizes with the legacy stream is being captured.
bool implicit_capture(int device);
// Returns true if the stream is being captured; the operation is then part of the graph.
bool captured(const void* stream, const std::function<void()>& operation);
// Breaks the captures of a stream, or of all streams of a device, because of a forbidden call;
// returns the status.
abi::Status break_capture(const void* stream);
abi::Status break_captures_of(int device);
// The same for calls that are unsafe during a capture in global mode, on threads that are not in
// relaxed mode.
abi::Status unsafe_call();
void capture_event(const void* event, bool within);
bool is_captured_event(const void* event);

}  // namespace simulated_gpu

namespace simulated_gpu {

// For the simulated NCCL: runs the operation also in a lost context. `forbid` changes the number of
// users that forbid other work on the stream.
void issue_kernel(abi::Stream stream, int device, std::function<void()> operation);
void forbid(abi::Stream stream, int device, int by);

}  // namespace simulated_gpu

// Found by dlsym, by tests, too.
extern "C" {
int simulatedGpuCurrent();
// A call that is unsafe during a capture, on the calling thread.
int simulatedGpuUnsafeCall();
// Location of a device of this process in the machine: machine index * 16 + slice + 1.
int simulatedGpuLocation(int device);
// A kernel that runs for `milliseconds` and then writes `value`, on a stream of the current device.
int simulatedGpuKernel(void* stream, unsigned long long at, std::size_t size, int value,
                       unsigned milliseconds);
// A failure after which the current context is lost.
void simulatedGpuBreak(int status);
}
