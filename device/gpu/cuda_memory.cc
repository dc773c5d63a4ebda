#include "device/gpu/cuda_memory.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/mutex.h"

namespace mobula::internal {
namespace {

cuda_abi::Address address_of(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

Result<void> issue(const GpuContext& on, const DeviceRows& rows, cuda_abi::Stream stream) {
  const GpuContext::Current current(on);
  if (!current.made()) return current.made();
  if (rows.height == 1) {
    return on.driver().check(
        "cuMemcpyAsync",
        on.call().copy_async(address_of(rows.to), address_of(rows.from), rows.width, stream));
  }
  cuda_abi::Copy2D wanted{};
  wanted.source_type = wanted.target_type = cuda_abi::memory_unified;
  wanted.source_device = address_of(rows.from);
  wanted.source_pitch = rows.from_pitch;
  wanted.target_device = address_of(rows.to);
  wanted.target_pitch = rows.to_pitch;
  wanted.width_bytes = rows.width;
  wanted.height = rows.height;
  return on.driver().check("cuMemcpy2DAsync", on.call().copy_2d_async(&wanted, stream));
}

Result<void> check_no_capture(const GpuContext& on, cuda_abi::Stream stream) {
  const GpuContext::Current current(on);
  if (!current.made()) return current.made();
  int capturing = cuda_abi::capture_none;
  auto result =
      on.driver().check("cuStreamIsCapturing", on.call().stream_is_capturing(stream, &capturing));
  if (!result || capturing == cuda_abi::capture_none) return result;
  return failure(ErrorCode::invalid_argument,
                 "cannot wait for a stream whose work is being captured into a graph; copy before "
                 "the capture begins, or after it has ended");
}

// Makes `stream` of `on` wait for the work issued so far on the streams `producers` of `source`.
Result<void> wait_for(const std::shared_ptr<const GpuContext>& source,
                      const std::vector<void*>& producers, const GpuContext& on,
                      cuda_abi::Stream stream) {
  for (void* const each : producers) {
    if (auto may = check_no_capture(*source, static_cast<cuda_abi::Stream>(each)); !may) return may;
    const auto event = GpuEvent::create(source);
    if (!event) return event.error();
    if (auto recorded = event->record(static_cast<cuda_abi::Stream>(each)); !recorded)
      return recorded;
    const GpuContext::Current current(on);
    if (!current.made()) return current.made();
    if (auto waits = on.driver().check("cuStreamWaitEvent",
                                       on.call().stream_wait_event(stream, event->get(), 0));
        !waits) {
      return waits;
    }
  }
  return {};
}

}  // namespace

Result<DeviceArena*> CudaMemory::arena_of(int device) const {
  const auto index = static_cast<std::size_t>(device);
  if (device >= 0 && index < arenas_.size() && arenas_[index]) return arenas_[index].get();
  return failure(
      ErrorCode::not_found,
      fmt::format(
          "the process has no lease on a device of index {}; its task requests one with num_gpus",
          device));
}

Result<DeviceAllocation> CudaMemory::take(int device, std::size_t size_bytes) {
  const auto arena = arena_of(device);
  if (!arena) return arena.error();
  auto taken = (*arena)->take(size_bytes);
  if (!taken) return taken.error();
  auto owner = std::make_shared<const DeviceBytes>(std::move(taken).value());
  std::byte* const bytes = owner->bytes().data();
  return DeviceAllocation{bytes, std::move(owner)};
}

Result<void> CudaMemory::clear(int device, std::byte* bytes, std::size_t size_bytes) {
  const auto arena = arena_of(device);
  if (!arena) return arena.error();
  const auto& on = (*arena)->context();
  const auto stream = GpuStream::create(on);
  if (!stream) return stream.error();
  {
    const GpuContext::Current current(*on);
    if (!current.made()) return current.made();
    if (auto issued = on->driver().check(
            "cuMemsetD8Async",
            on->call().fill_async(address_of(bytes), 0, size_bytes, stream->get()));
        !issued) {
      return issued;
    }
  }
  return stream->synchronize();
}

Result<void> CudaMemory::copy(const DeviceCopy& copy) {
  // The destination device runs the copy; the source device does if the destination is the host.
  const auto arena = arena_of(copy.to != on_host ? copy.to : copy.from);
  if (!arena) return arena.error();
  const auto& on = (*arena)->context();
  if (copy.to != on_host && copy.from != on_host) {
    const auto source = arena_of(copy.from);
    if (!source) return source.error();
    if (!on->reaches((*source)->context()->uuid())) return copy_by_host(copy);
  }
  std::optional<GpuStream> own;
  auto stream = static_cast<cuda_abi::Stream>(copy.stream);
  if (stream == nullptr) {
    auto made = GpuStream::create(on);
    if (!made) return made.error();
    own.emplace(std::move(made).value());
    stream = own->get();
  }
  if (auto may = check_no_capture(*on, stream); !may) return may;
  if (copy.from != on_host && !copy.settled) {
    const auto source = arena_of(copy.from);
    if (!source) return source.error();
    const auto& context = (*source)->context();
    auto ready =
        copy.after.empty() ? context->synchronize() : wait_for(context, copy.after, *on, stream);
    if (!ready) return ready;
  }
  Result<void> issued;
  for (const DeviceRows& rows : copy.rows) {
    issued = issue(*on, rows, stream);
    if (!issued) break;
  }
  // Issued copies use the memory even if a later call failed, so the wait is unconditional.
  const GpuContext::Current current(*on);
  if (!current.made()) return current.made();
  const auto waited =
      on->driver().check("cuStreamSynchronize", on->call().stream_synchronize(stream));
  return issued ? waited : issued;
}

Result<void> CudaMemory::finish(int device, const std::vector<void*>& streams) {
  const auto arena = arena_of(device);
  if (!arena) return arena.error();
  const auto& on = (*arena)->context();
  if (streams.empty()) return on->synchronize();
  for (void* const each : streams) {
    const auto stream = static_cast<cuda_abi::Stream>(each);
    if (auto may = check_no_capture(*on, stream); !may) return may;
    const GpuContext::Current current(*on);
    if (!current.made()) return current.made();
    auto waited = on->driver().check("cuStreamSynchronize", on->call().stream_synchronize(stream));
    if (!waited) return waited;
  }
  return {};
}

std::string CudaMemory::uuid_of(int device) {
  const auto arena = arena_of(device);
  return arena ? to_string((*arena)->context()->uuid()) : std::string();
}

int CudaMemory::landing(const std::string& uuid) {
  int first = on_host;
  for (std::size_t i = 0; i < arenas_.size(); ++i) {
    if (!arenas_[i]) continue;
    const int index = static_cast<int>(i);
    if (to_string(arenas_[i]->context()->uuid()) == uuid) return index;
    if (first == on_host) first = index;
  }
  return first;
}

bool CudaMemory::is_shareable(int device, const std::byte* bytes) {
  const auto arena = arena_of(device);
  return arena && (*arena)->file_of(bytes).has_value();
}

void* CudaMemory::thread_stream() {
  const int first = landing({});
  if (first == on_host) return nullptr;
  const MutexLock lock(mutex_);
  const auto known = streams_.find(std::this_thread::get_id());
  if (known != streams_.end()) return known->second.get();
  auto made = GpuStream::create(arenas_[static_cast<std::size_t>(first)]->context());
  if (!made) return nullptr;
  return streams_.emplace(std::this_thread::get_id(), std::move(*made)).first->second.get();
}

// Copies between devices without peer access.
Result<void> CudaMemory::copy_by_host(const DeviceCopy& copy) {
  std::size_t size = 0;
  for (const DeviceRows& rows : copy.rows) size += rows.width * rows.height;
  std::vector<std::byte> between(size);
  DeviceCopy out = copy, in = copy;
  out.to = in.from = on_host;
  out.stream = nullptr;
  std::byte* at = between.data();
  for (std::size_t i = 0; i < copy.rows.size(); ++i) {
    out.rows[i].to = at;
    in.rows[i].from = at;
    out.rows[i].to_pitch = in.rows[i].from_pitch = copy.rows[i].width;
    at += copy.rows[i].width * copy.rows[i].height;
  }
  if (auto done = this->copy(out); !done) return done;
  return this->copy(in);
}

}  // namespace mobula::internal
