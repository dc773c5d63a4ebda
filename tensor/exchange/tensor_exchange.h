// Moves tensors between processes: a thread that carries out the decisions of
// `tensor/exchange/core` over connections and transports. The owner registers local tensors,
// requests remote ones, and receives completions.
// Thread: any for member functions. Callbacks run on the exchange's thread without its lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/model/task.h"
#include "base/mutex.h"
#include "protocol/tickets/revocation_list.h"
#include "tensor/exchange/buffer_release.h"
#include "tensor/exchange/core/reconnects.h"
#include "tensor/exchange/core/tensor_exchange_core.h"
#include "tensor/exchange/tensor_connections.h"
#include "tensor/exchange/tensor_paths.h"
#include "tensor/exchange/tensor_progress.h"

namespace mobula::internal::exchange {

struct ExchangeOptions {
  Endpoint self;  // process and node; the rest is filled in
  JobId job;
  std::string ticket;
  RevocationList revoked_keys{};  // revoked keys
  std::string head_signing_key;
  CurveKeys keys;
  std::string sockets;      // path prefix of its sockets; empty: no shared memory
  std::string host_bind;    // HOST:0, listen address for other machines; empty: none
  bool may_choose = false;  // as in `PathOptions`
  std::string fabric;       // trusted network of the node; empty: none
  // not empty: this process counts as on another host than processes with another value
  std::string own_host;
  std::string plugins;               // as in `MOBULA_TRANSPORT_PLUGINS`
  std::shared_ptr<GpuDevices> gpus;  // leased GPUs after `open()`; null: no lease
  // Called once, on the exchange's thread, with the reason, when this process must be replaced.
  std::function<void(const std::string&)> lost;
  transfer::RegionOptions regions = {};
  Duration handshake_timeout = 5s;  // of connections over a network
};

// Part of a large tensor that one process sent in chunks.
struct Share {
  ProcessId holder;
  DirectPath path = DirectPath::tcp;
  std::uint64_t bytes = 0;
  bool encrypted = true;  // true only if every chunk was encrypted
};

// Result of the pull of one tensor.
// read the tensor from the store: the holder has no elements, or cannot be reached
struct InStore {};
struct PullResult {
  std::uint64_t request = 0;
  ObjectId object;
  std::variant<Elements, InStore, Failure> outcome;
  std::optional<DirectPath> path;  // set with `Elements`
  ProcessId holder;
  std::vector<std::string> refusals;  // reasons against better paths, and of failed attempts
  std::vector<DirectPath> failed_tries;
  bool fell_back = false;  // true if another path was named, or an earlier attempt failed
  Duration queued{};
  Duration moved{};
  std::vector<Share> shares = {};  // one entry per sender, if the tensor arrived in chunks
};

class TensorExchange {
 public:
  struct Callbacks {
    std::function<void(PullResult)> completed;
    // Requests a copy of these elements in the node's store. The owner keeps `owner` alive and
    // calls `stored` at the end.
    std::function<void(ObjectId, const SourceRegion&, std::shared_ptr<const void> owner)> store;
    // Called after `wake()`.
    std::function<void()> woken = {};
  };

  static Result<std::unique_ptr<TensorExchange>> start(ExchangeOptions options,
                                                       Callbacks callbacks);
  // Ends all activity immediately. Must not run on the exchange's thread.
  ~TensorExchange();

  // Endpoint of this process for pull requests.
  const CopyOnWrite<Endpoint>& self() const { return self_; }
  // Memory that processes of this machine read in place; null without shared memory.
  const std::shared_ptr<Arena>& arena() const { return arena_; }

  // Registers elements that other processes may pull until `retire`; `owner` keeps them alive. Does
  // not wake the thread, which picks them up with the first message of a peer.
  void register_tensor(ObjectId object, SourceRegion elements, std::shared_ptr<const void> owner);
  // Registers elements again after their copy was removed from the store.
  void register_again(ObjectId object);
  // Ends the registration. Returns the owner if the thread never saw the registration. Otherwise
  // returns null, and the exchange drops the owner when no offer uses it.
  std::shared_ptr<const void> unregister(ObjectId object);
  // Requests tensors; space for all of them is reserved together, and each one completes
  // separately. `preference` is a number of the caller that is never reused. Device tensors go to
  // `device` or `on_host`, or to their default device if `device` is empty.
  void pull(std::uint64_t request, RefRecords tensors, bool arguments,
            std::optional<int> device = {});
  // Cancels a request; no further completion follows.
  void cancel(std::uint64_t request);
  // Requested tensors that have neither completed nor failed.
  std::vector<TensorProgress::Row> under_way() const { return progress_.rows(); }
  // Copies all registered tensors to the store.
  void evacuate();
  void stored(ObjectId object, std::optional<Failure> failure);
  // Calls `woken` after this delay. Calls before then are merged into one.
  void wake(Duration after);
  // Requests the turn of a local device (by ordinal) for NCCL work outside of tensor transfers.
  // Processes take turns in the order of their ids, which prevents deadlock. `taken` runs on the
  // exchange's thread, unless the claim is returned first. `claim` is a number of the caller that
  // is never reused.
  void claim_turn(std::uint32_t device_ordinal, std::uint64_t claim, std::function<void()> taken);
  void return_turn(std::uint64_t claim);
  // Reports processes that have exited.
  void dead(std::vector<ProcessId> processes);
  // Sets the ticket that this process shows, and adds revoked keys. Peers that used such a key are
  // disconnected.
  void trust(std::string ticket, std::vector<std::string> revoked_keys);

 private:
  struct RegisteredTensor {
    SourceRegion elements;
    std::shared_ptr<const void> owner;  // shared with local readers
    bool retired = false;
    bool let_go = false;  // released by the core
    // Set for a tensor that was received in chunks and is relayed:
    std::uint64_t copy = 0;  // number of the chunked pull; 0: a local tensor
    std::weak_ptr<const ReceiveBuffer> memory = {};
  };
  struct Wanted {
    RefRecord ref;
    int device = on_host;  // destination
    std::vector<transfer::PathRefusal> refusals = {};
    std::uint64_t gathering = 0;  // chunked pull that this chunk belongs to; 0: pulled whole
    std::uint32_t part = 0;
  };
  // A tensor whose chunks are in transit.
  struct Gathering {
    std::uint64_t request = 0;
    Wanted whole;
    std::map<transfer::RegionPullId, std::uint32_t> parts = {};  // outstanding chunks
    bool keeps = false;
    // memory of the whole tensor; shared with writers and readers of it
    std::shared_ptr<const ReceiveBuffer> memory = nullptr;
    std::optional<transfer::RegionOutcome> failed = {};
    std::map<std::pair<ProcessId, DirectPath>, Share> shares = {};
    std::map<transfer::RegionPullId, bool> encrypted = {};  // fetched chunks
    // failed attempts
    std::vector<std::pair<DirectPath, std::string>> tries = {}, replica_holders_tried = {};
    Time began{};
    std::optional<Duration> queued = {};
  };
  static constexpr std::size_t max_tries_reported = 16;
  // Purpose of a pull.
  struct Purpose {
    std::uint64_t request = 0;
    std::uint64_t gathering = 0;
  };
  struct PullRequest {
    RefRecords tensors;
    bool arguments = false;
    std::optional<int> device;
    std::map<transfer::RegionPullId, Wanted> pulls;
    std::size_t due = 0;  // outstanding completions
  };
  struct Operation {
    DirectPath path = DirectPath::shm;
    TransferId transfer;
    transfer::RegionPullId pull = 0;                // set for a pull
    std::optional<TensorPaths::Pairing> pair = {};  // set for a two-sided step
    std::shared_ptr<const void> keeps = nullptr;    // staging copy during the offer
  };
  // Device memory that receives a two-sided transfer.
  struct Arriving {
    std::shared_ptr<const DeviceAllocation> memory;  // shared with the step in progress
  };

  TensorExchange(ExchangeOptions options, Callbacks callbacks);
  Result<void> open();
  void post(std::function<void()> task);
  void take_up();
  // Steps the core and carries out its commands.
  template <class Step>
  void step(Step step);
  void carry_out_all();
  void register_in_core(ObjectId object, const RegisteredTensor& published);
  void carry_out(transfer::RegionCommand& command);
  void carry_out(const transfer::SendRegions& command);
  void carry_out(const transfer::OfferTensor& command);
  void carry_out(const transfer::WithdrawOffer& command);
  void carry_out(const transfer::PullChunk& command);
  void carry_out(const transfer::IssueStep& command);
  void carry_out(const transfer::Cancel& command);
  void carry_out(const transfer::DropChannel& command);
  void issue(const transfer::IssueStep& command, const TensorPaths::Pairing& pair,
             std::span<std::byte> bytes, bool sends);
  void issue_next(const transfer::IssueStep& command, const TensorPaths::Pairing& pair,
                  std::byte* first);
  void issued(transfer::OperationId operation, const Result<void>& result);
  void carry_out(const transfer::FreeRegions& command);
  void carry_out(const transfer::StoreRegions& command);
  void carry_out(const transfer::ResolveHolder& command);
  void carry_out(const transfer::Reach& command);
  void carry_out(const transfer::Part& command);
  void carry_out(transfer::PullEnded& command);
  void carry_out(const transfer::TurnTaken& command);
  void met(ProcessId peer, const TransportCapabilities& reach);
  void gone(ProcessId peer, const Failure& why, bool may_return);
  // ---- tensor_exchange_reconnect.cc ----
  // The record of a ref that an unfinished request needs from this holder; null: none does.
  const RefRecord* needed_from(ProcessId holder) const;
  void reconnect_due();
  void arm_reconnects();
  // Answers the lookups that wait for the holder.
  void answer_lookups(ProcessId holder, bool connected);
  void begin_requests();
  void begin(std::uint64_t number, PullRequest& request);
  // Opens the plugin of a path that a transfer names.
  void open_plugin_of(std::optional<DirectPath> path);
  void arrive(PullResult arrival);
  static std::string text_of(DirectPath path, std::string_view why);
  // Adds the reasons against paths that are better than the path used.
  void report_rejections(const Wanted& wanted, PullResult& arrival);

  // ---- tensor_exchange_parts.cc ----
  bool is_chunked(const Wanted& wanted, const std::vector<DirectPath>& paths) const;
  // Returns false if the request would exceed the limit on chunks.
  bool add_parts(std::uint64_t request, const Wanted& whole, const transfer::TensorRequest& one,
                 std::vector<transfer::TensorRequest>& together, std::vector<Wanted>& wanted);
  Result<std::span<std::byte>> memory_of(const Wanted& wanted);
  void chunk_ended(const transfer::PullEnded& command, std::uint64_t gathering);
  void gathered(std::uint64_t number, const Gathering& gathering);
  void withdraw(ObjectId object, std::uint64_t copy);
  RegionMessage with_locations(RegionMessage message) const;
  void learn_locations(const RegionMessage& message);
  void answer_reach(const transfer::Reach& command);
  void reached_or_not(ProcessId replica_holder);

  const ExchangeOptions options_;
  const Callbacks callbacks_;
  TensorProgress progress_;
  CopyOnWrite<Endpoint> self_;
  std::shared_ptr<Arena> arena_;  // shared with the tensors in it

  Mutex mutex_;
  std::vector<std::function<void()>> inbox_ MOBULA_GUARDED_BY(mutex_);  // requests for the thread
  bool notified_ MOBULA_GUARDED_BY(mutex_) = false;                     // a wake-up is pending
  // registered since the last `take_up`
  std::map<ObjectId, RegisteredTensor> fresh_ MOBULA_GUARDED_BY(mutex_);

  // State of the exchange's thread:
  transfer::TensorExchangeCore core_;
  std::vector<transfer::RegionCommand> commands_;  // to be carried out in order
  bool carrying_out_ = false;
  PooledMap<ObjectId, RegisteredTensor> registered_;
  std::map<std::uint64_t, PullRequest> requests_;
  std::vector<std::uint64_t> waiting_;  // requests that wait for the capabilities of holders
  std::map<ProcessId, std::string> unreachable_;  // by holder: the reason
  transfer::Reconnects reconnects_;
  std::map<ProcessId, std::set<ObjectId>> lookups_;  // by the holder that they wait for
  std::map<transfer::RegionPullId, Purpose> pulls_;
  std::map<std::uint64_t, Gathering> gatherings_;
  std::uint64_t last_gathering_ = 0;
  std::map<ProcessId, Endpoint> where_;    // endpoints of replica holders, as holders reported them
  std::vector<transfer::Reach> reaching_;  // waiting for a result
  const std::shared_ptr<ReleaseNotifier> withdrawals_;  // shared with tensors in receive buffers
  std::map<transfer::RegionPullId, Elements> fetched_;  // not yet reported
  std::map<transfer::RegionPullId, Arriving> arriving_;
  std::map<transfer::OperationId, Operation> operations_;
  std::map<std::uint64_t, std::function<void()>> claims_;  // callbacks of pending claims
  std::unique_ptr<Timer> timer_, alarm_, reconnect_timer_;
  std::unique_ptr<TensorPaths> paths_;
  std::unique_ptr<TensorConnections> links_;

  // last: its thread ends before the members that it uses
  std::unique_ptr<ProcessSockets> sockets_;
};

template <class Step>
void TensorExchange::step(Step step) {
  if (!paths_) return;  // shutdown has begun
  step(monotonic_now(), commands_);
  carry_out_all();
}

}  // namespace mobula::internal::exchange
