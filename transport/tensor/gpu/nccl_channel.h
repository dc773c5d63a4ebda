// A communicator between two or more devices, driven by one of its processes: opened, used for one
// group of calls at a time, taken down. All sides run the same operations under the same device
// turns. A failure costs the channel.
// Thread: the device's thread, which never blocks here. A reaper thread runs destroy and abort,
// which may block.
// Errors: a takedown that does not end within `shutdown_timeout` never will. The process must then
// be replaced.
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
#include "device/gpu/gpu_context.h"
#include "device/gpu/nccl_library.h"

namespace mobula::internal {

// One call of the library, with its arguments.
struct NcclCall {
  enum class Kind : std::uint8_t {
    send,
    receive,
    broadcast,
    all_reduce,
    reduce,
    all_gather,
    reduce_scatter
  };
  Kind kind = Kind::send;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t count = 0;  // elements
  int type = nccl_abi::type_bytes;
  int reduction = nccl_abi::op_sum;
  int peer = 0;  // peer rank, or the root
};

struct NcclMove {
  // Calls in order, in groups of 256. Both ends of a send have it in the same group. An empty list
  // completes at once.
  std::vector<NcclCall> calls = {};
  Duration limit = 10s;
  // Called once, when no region is accessed any more.
  std::function<void(const Result<void>&)> ended;
};

// Takedown: revoke, poll until complete, destroy. If revoke is unavailable or an operation of the
// communicator is in progress: abort.
class NcclChannel {
 public:
  struct Terms {
    std::shared_ptr<const NcclLibrary> nccl;    // shared by all channels
    std::shared_ptr<const GpuContext> context;  // shared with all memory of the device
    nccl_abi::UniqueId id{};
    int rank = 0;
    int ranks = 2;
    Time deadline;  // for the setup
    Duration shutdown_timeout = 10s;
    std::function<void(const Result<void>&)> opened;
    // Called once, if the takedown fails.
    std::function<void(const std::string&)> lost;
  };

  explicit NcclChannel(Terms terms);
  ~NcclChannel();
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  void begin();
  // Fails through its callback unless the channel is open and idle.
  void move(NcclMove move);
  // Calls `quiet` when no memory is accessed any more. `why` is the result of pending operations.
  void take_down(const Failure& why, std::function<void()> quiet);
  // Polls and advances. Returns true if nothing must be polled until the next call.
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
  Failure opening_error(nccl_abi::Status status) const;
  Result<void> issue();
  nccl_abi::Status add(const NcclCall& each) const;
  void finish(const Result<void>& result);
  void fail(const Failure& why);
  void begin_reaping(bool aborts);
  // Parts of step() for one state each, with its result.
  bool step_opening();
  void step_launching();
  bool step_running();
  bool step_revoking();
  bool step_reaping();
  void be_quiet();
  void be_lost(const char* at);

  const Terms terms_;
  State state_ = State::fresh;
  nccl_abi::Communicator communicator_ = nullptr;
  std::optional<GpuStream> stream_;
  std::optional<GpuEvent> event_;
  std::optional<NcclMove> move_;
  std::size_t issued_ = 0;  // calls issued so far
  Time since_;
  std::optional<Failure> why_;
  std::vector<std::function<void()>> quiet_;
  std::shared_ptr<std::atomic<bool>> reaped_;  // shared with the reaper
};

}  // namespace mobula::internal
