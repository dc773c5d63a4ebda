// A communicator between two or more devices, as one of its processes drives it: begun, used for one group of
// calls at a time, taken down. Everything here is for the device's thread, which never blocks in it; what
// may block (destroy, abort) is for a reaper thread. All sides do the same at the same time, under turns that
// others take; what fails, or is ended, costs the channel.
//
// Taking down: revoke and look, then destroy; where revoke cannot be had, or a communicator is in progress,
// abort. What has not ended after `patience` never will: the process is to be replaced.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "gpu/gpu_context.h"
#include "gpu/nccl_library.h"

namespace mobula::internal {

// One call of the library, as it takes it.
struct NcclCall {
  enum class Kind : std::uint8_t { send, receive, broadcast, all_reduce, reduce, all_gather, reduce_scatter };
  Kind kind = Kind::send;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t count = 0;  // of elements
  int type = nccl_abi::type_bytes;
  int reduction = nccl_abi::op_sum;
  int peer = 0;  // or the root
};

struct NcclMove {
  // In order, in groups of 256: both ends of a send have it in the same one. Without any there is nothing to do.
  std::vector<NcclCall> calls = {};
  Duration limit = 10s;
  // Once, when nothing of the regions is read or written any more.
  std::function<void(const Result<void>&)> ended;
};

class NcclChannel {
 public:
  struct Terms {
    std::shared_ptr<const NcclLibrary> nccl;    // shared by all channels
    std::shared_ptr<const GpuContext> context;  // shared with all that lies there
    nccl_abi::UniqueId id{};
    int rank = 0;
    int ranks = 2;
    Time deadline;  // of the beginning
    Duration patience = 10s;
    std::function<void(const Result<void>&)> opened;
    // Told once, where it cannot be taken down.
    std::function<void(const std::string&)> lost;
  };

  explicit NcclChannel(Terms terms);
  ~NcclChannel();
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  void begin();
  // Refused, by its answer, unless the channel is open and does nothing.
  void move(NcclMove move);
  // `quiet` once nothing is read or written; `why` for those who are still waiting.
  void take_down(const Failure& why, std::function<void()> quiet);
  // Looks, and goes on. True when there is nothing to look at until the next call.
  bool step();

 private:
  enum class State : std::uint8_t {
    fresh,
    opening,
    open,
    launching,
    running,
    revoking,
    reaping,
    closed,
    lost
  };

  nccl_abi::Status state_of_library() const;
  Result<void> issue();
  nccl_abi::Status add(const NcclCall& each) const;
  void finish(const Result<void>& result);
  void fail(const Failure& why);
  void begin_reaping(bool aborts);
  void be_quiet();
  void be_lost(const char* at);

  const Terms terms_;
  State state_ = State::fresh;
  nccl_abi::Communicator communicator_ = nullptr;
  std::optional<GpuStream> stream_;
  std::optional<GpuEvent> event_;
  std::optional<NcclMove> move_;
  std::size_t issued_ = 0;  // calls of it
  Time since_;
  std::optional<Failure> why_;
  std::vector<std::function<void()>> quiet_;
  std::shared_ptr<std::atomic<bool>> reaped_;  // shared with the reaper
};

}  // namespace mobula::internal
