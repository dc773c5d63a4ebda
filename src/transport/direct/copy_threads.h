// Threads that copy for a loop: what takes longer than the loop may be away. A copy goes in slices,
// so that it can be stopped between two of them, copies take turns, and idle threads help with one.
// Threads start with the first copy. The face is for the loop's thread; a lock guards what the threads share with it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "transport/event_loop.h"

namespace mobula::internal {

struct CopyPiece {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t size = 0;
};

struct CopyEnd {
  Result<void> result;  // cancelled, or why another process could not be read
  Time began;
  Time ended;
};

struct Copy {
  std::vector<CopyPiece> pieces;
  // Whose addresses `from` are: 0 this process's. Another's are read by process_vm_readv;
  // unavailable when it is gone, permission_denied, corrupt for addresses that it does not have.
  pid_t process = 0;
  bool mapped = false;  // `from` lies in a mapped file whose pages may not be there yet
  std::shared_ptr<const void> keeps = nullptr;  // shared: lives as long as it is read
  std::function<void(const CopyEnd&)> ended;    // from the loop; nothing is touched any more
};

struct CopyOptions {
  std::size_t threads = 0;  // 0: one for every two cores, two to four
  std::size_t slice_bytes = 2u << 20;
  std::size_t max_copies = 4'096;  // that wait or run
};

// Up to so many bytes are copied by who wants them copied: waking a thread costs more.
inline constexpr std::size_t copied_at_once = 256u << 10;

// Copies here and now. For a few bytes.
Result<void> copy_now(const Copy& copy);

// Who copies for a loop.
class Copies {
 public:
  virtual ~Copies() = default;
  // resource_exhausted at a limit, or when there can be no thread; `ended` is then not called.
  virtual Result<std::uint64_t> start(Copy copy) = 0;
  // The copy ends with cancelled after the slice in progress, unless it has come to its end.
  virtual void stop(std::uint64_t copy) = 0;
};

class CopyThreads final : public Copies {
 public:
  // Fails with resource_exhausted without descriptors.
  static Result<std::unique_ptr<CopyThreads>> create(EventLoop& loop, CopyOptions options = {});
  // Waits for the slices in progress; nobody is answered.
  ~CopyThreads() override;
  CopyThreads(const CopyThreads&) = delete;
  CopyThreads& operator=(const CopyThreads&) = delete;

  Result<std::uint64_t> start(Copy copy) override;
  void stop(std::uint64_t copy) override;

 private:
  class Impl;
  explicit CopyThreads(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;  // shared with the call in progress, so that it may destroy this
};

}  // namespace mobula::internal
