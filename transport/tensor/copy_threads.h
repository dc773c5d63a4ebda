// Threads that perform long copies for an event loop. A copy is divided into slices: it can be
// stopped between two of them, copies alternate, and idle threads share one copy. The threads start
// with the first copy.
// Thread: the event loop (one lock guards the state shared with the threads).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "transport/loop/event_loop.h"

namespace mobula::internal {

struct CopyPiece {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t size = 0;
};

struct CopyEnd {
  Result<void> result;  // cancelled, or the failure of a read from another process
  Time began;
  Time ended;
};

struct Copy {
  std::vector<CopyPiece> pieces;
  // Process of the addresses `from`; 0: this process. Another process is read by process_vm_readv.
  // Errors: unavailable if it has ended, permission_denied, corrupt for unmapped addresses.
  pid_t process = 0;
  bool mapped = false;  // `from` is in a mapped file; its pages may not be populated
  std::shared_ptr<const void> keeps = nullptr;  // shared: kept until the copy ends
  std::function<void(const CopyEnd&)> ended;    // from the loop; memory is not accessed any more
};

struct CopyOptions {
  std::size_t threads = 0;  // 0: half of the cores, from 2 to 4
  std::size_t slice_bytes = 2u << 20;
  std::size_t max_copies = 4'096;  // queued or running
};

// Size limit below which the caller copies directly, because waking a thread costs more.
inline constexpr std::size_t copied_at_once = 256u << 10;

// Copies synchronously. Meant for few bytes.
Result<void> copy_now(const Copy& copy);

// Interface of a component that copies for an event loop.
class Copies {
 public:
  virtual ~Copies() = default;
  // Errors: resource_exhausted at a limit or if no thread can start; `ended` is then not called.
  virtual Result<std::uint64_t> start(Copy copy) = 0;
  // Ends the copy with cancelled after the current slice, unless it is complete.
  virtual void stop(std::uint64_t copy) = 0;
};

class CopyThreads final : public Copies {
 public:
  // Errors: resource_exhausted without descriptors.
  static Result<std::unique_ptr<CopyThreads>> create(EventLoop& loop, CopyOptions options = {});
  // Waits for the current slices. No callback runs.
  ~CopyThreads() override;
  CopyThreads(const CopyThreads&) = delete;
  CopyThreads& operator=(const CopyThreads&) = delete;

  Result<std::uint64_t> start(Copy copy) override;
  void stop(std::uint64_t copy) override;

 private:
  class Impl;
  explicit CopyThreads(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;  // shared with the call in progress, which may destroy this object
};

}  // namespace mobula::internal
