// Part of one process in a collective group: connections to all other members, and the operations
// with them, one at a time. The core (`core/member_core.h`) decides; this class executes. The
// calling thread moves the bytes, and nothing runs between operations.
// Thread: any; a second operation waits for the first.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/model/direct_path.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/time.h"
#include "tensor/collective/acceptor.h"
#include "tensor/collective/carrier.h"
#include "tensor/collective/communicator.h"
#include "tensor/collective/core/member_core.h"
#include "tensor/collective/core/plan_progress.h"
#include "tensor/collective/membership.h"

namespace mobula::internal::collective {

struct Limits {
  std::optional<Time> deadline;
  std::function<bool()> cancelled;  // polled during the operation
};

// Turns of the devices of this process, which serialize the work of several processes on their
// devices. `taken` is called later on any thread, unless the claim is returned first.
struct TurnsOfDevices {
  std::function<Result<std::uint64_t>(std::uint32_t device_ordinal, std::function<void()> taken)>
      claim = nullptr;
  std::function<void(std::uint64_t claim)> give_back = nullptr;
};

// Resources of a member whose group has a communicator.
struct DeviceSide {
  std::shared_ptr<DeviceThread> thread;       // shared by all groups on the device
  std::shared_ptr<const NcclLibrary> nccl;    // shared by the process
  std::shared_ptr<const GpuContext> context;  // shared with all allocations on the device
  std::uint32_t device_ordinal = 0;
  TurnsOfDevices turns = {};
  Duration shutdown_timeout = 10s;                         // time for the communicator to shut down
  std::function<void(const std::string&)> lost = nullptr;  // the communicator cannot be ended
};

// Whether the group uses a communicator of its members' devices, and the source of this member's
// part.
struct DeviceTerms {
  Communication communication = Communication::never;
  std::optional<DeviceSide> side = {};  // set with `always`
  // with `useful`: called when the communicator is begun
  std::function<Result<DeviceSide>(std::uint32_t device_ordinal)> find = nullptr;
  std::size_t communicated_from = 256 * 1024;
};

// Provides memory for an agreed operation, on the communicator's device or on the host. It is
// called a second time for the host if the communicator fails; the operands must then have their
// original values.
using Prepare = std::function<Result<Memory>(const Operation& agreed, bool on_device)>;

struct Passage {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t staged_bytes = 0;  // bytes copied between devices and the host
  std::uint64_t operations = 0;    // completed operations
};

// Report of one operation.
struct Journey {
  DirectPath path = DirectPath::shm;  // path of bytes in host memory
  bool encrypted = false;
  std::string others{};  // participants in addition to this member: "ranks 1, 2"
  MemberCore::Way way = MemberCore::Way::plan;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  Duration queued{};  // time before its bytes moved
  Duration moved{};
  std::string no_communicator{};  // reason why device tensors went through the host
};

class Member {
 public:
  Member(Acceptor& acceptor, Membership group, PlanOptions plans = {}, DeviceTerms devices = {});
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // Connects to the members of higher rank, using `endpoints` by rank. Members of lower rank
  // connect to this process as soon as this object exists.
  Result<void> connect(std::vector<MemberEndpoint> endpoints, Time deadline);
  // Moves payload through this plugin. Must be called before the other members learn this member's
  // endpoint. Returns the endpoint in the plugin.
  Result<std::string> carry_by(const mobula_transport_plugin& plugin, const std::string& listen);
  // Called when all members are connected: begins the communicator of the group, or establishes the
  // links of the plugin.
  std::optional<Refusal> open(Time deadline);
  // True if all members are connected and a required communicator is open.
  bool complete() const;
  Communication communication() const { return devices_.communication; }
  // Smallest size at which device tensors may use a communicator; empty: never.
  std::optional<std::size_t> communicated_from() const;
  // Ordinal and name of the device of the communicator; empty without one.
  std::optional<std::uint32_t> device() const;
  std::string device_name() const;
  // With `useful`: reason why the last device tensors went through the host.
  std::string no_communicator() const;
  // True if no operation is possible any more; also reads pending messages. False during an
  // operation.
  bool over();
  const Membership& group() const { return group_; }
  bool shares_memory_with(std::uint32_t rank) const;
  // "shm", "tcp, sealed", or "tcp" by rank; empty for this member.
  std::vector<std::string> paths() const;
  Passage passage() const;
  void staged(std::uint64_t bytes) { staged_ += bytes; }

  // `operand`: input of this member if it is small enough for the control message; read within the
  // call. `device_ordinal`: device ordinal for a communicator that the operation may begin.
  struct Given {
    std::span<const std::byte> operand = {};
    std::uint32_t device_ordinal = 0;
  };
  std::optional<Refusal> run(const Operation& own, const Given& given, const Prepare& prepare,
                             const Limits& limits, Journey* journey = nullptr);
  std::optional<Refusal> send(std::uint32_t to, const Operation& operation, const Prepare& prepare,
                              const Limits& limits, Journey* journey = nullptr);
  std::optional<Refusal> receive(std::uint32_t from, const Prepare& prepare, const Limits& limits,
                                 Journey* journey = nullptr);
  // Aborts the operation in progress, here and at the other members. Any thread; does not block.
  void leave();

 private:
  struct Peer {
    Link link;
    bool talks = false;                 // its control messages are still read
    std::optional<std::string> deaf{};  // reason why it receives no more control messages
  };
  struct Task;
  using Begin = std::function<void(Time now, MemberCore::Commands& out)>;

  std::uint32_t size() const { return group_.size(); }
  bool connected() const MOBULA_REQUIRES(mutex_) { return met_ && connected_ + 1 == size(); }
  std::optional<Refusal> enter(const Limits& limits, const std::string& what, const Task& task,
                               Time began);
  std::optional<Refusal> alone(const Limits& limits, const std::string& what, const Begin& begin,
                               Task& task);
  void carry_out(Task& task);
  // Returns true if there was progress.
  bool act(Task& task);
  bool prepare(Task& task);
  bool make_beginning(Task& task);
  bool claim(Task& task);
  bool begin_communicator(Task& task);
  bool close_communicator(Task& task);
  bool meet_in_carrier(Task& task);
  bool move(Task& task);
  bool move_by_words(Task& task);
  bool move_by_plan(Task& task);
  bool move_by_device(Task& task);
  void return_turn_of_device();
  void tell(const Task& task, Time began) const;

  void say(const MemberCore::Commands& commands);
  bool hear();
  void hear(std::uint32_t rank, bool& something);
  void cut_off(std::uint32_t rank, const std::string& why);
  void check_limits(const Task& task);
  void pause(Task& task);
  std::vector<std::uint32_t> moves_with(const Task& task) const;
  std::function<void()> waker() const;
  Result<DeviceSide*> side();
  void wait_until_quiet();

  Acceptor& acceptor_;
  Membership group_;  // endpoints are set by `connect`
  const PlanOptions plans_;
  const DeviceTerms devices_;
  Fd wakes_;                          // eventfd, written by `leave` and by peers that share memory
  std::shared_ptr<Carrier> carrier_;  // shared with its wires; null: the wires are connections

  mutable Mutex mutex_;  // protects incoming connections and `busy_`
  CondVar changed_;
  // By rank, with an empty row for this member. Protected by `mutex_`; while `busy_` is true, only
  // the thread of the operation uses it.
  std::vector<Peer> peers_;
  std::uint32_t connected_ MOBULA_GUARDED_BY(mutex_) = 0;
  // this member knows all endpoints; others may know them earlier
  bool met_ MOBULA_GUARDED_BY(mutex_) = false;
  bool busy_ MOBULA_GUARDED_BY(mutex_) = false;
  bool open_ MOBULA_GUARDED_BY(mutex_) = true;                     // the required library is open
  std::optional<std::uint32_t> device_ MOBULA_GUARDED_BY(mutex_);  // device of the communicator
  std::string device_name_ MOBULA_GUARDED_BY(mutex_);
  std::string no_communicator_ MOBULA_GUARDED_BY(mutex_);
  std::atomic<bool> left_{false};

  // State of the thread with the current operation:
  MemberCore core_;
  Limits limits_;
  std::uint32_t device_ordinal_ = 0;
  std::optional<DeviceSide> side_;
  // shared with the device thread; null without a communicator
  std::shared_ptr<Communicator> communicator_;
  std::uint64_t claim_ = 0;
  bool staging_reported_ = false;   // the fallback was logged
  std::vector<std::byte> scratch_;  // reused allocation
  std::atomic<std::uint64_t> sent_{0};
  std::atomic<std::uint64_t> received_{0};
  std::atomic<std::uint64_t> staged_{0};
  std::atomic<std::uint64_t> operations_{0};
};

}  // namespace mobula::internal::collective
