// What a process does so that tensors stay where they were made until somebody needs them: a thread that
// carries out the decisions of transfer/core over connections and transports. Its owner says what it has
// and what it wants, and is told what has come. Members are for any thread; what is told comes from the
// thread of the exchange, with no lock of it held.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "exchange/kept_memory.h"
#include "exchange/region_links.h"
#include "exchange/tensor_paths.h"
#include "exchange/tensor_progress.h"
#include "model/task.h"
#include "protocol/void_keys.h"
#include "transfer/core/region_exchange.h"

namespace mobula::internal::exchange {

struct ExchangeOptions {
  Endpoint self;                 // its process and node
  JobId job;
  std::string ticket;
  VoidKeys void_keys{};  // that vouch for nobody
  std::string head_signing_key;
  CurveKeys keys;
  std::string sockets;           // paths of its sockets begin so; empty: it shares no memory
  std::string host_bind;         // HOST:0 for other machines; empty: none connect
  bool may_choose = false;       // as PathOptions have it
  std::string fabric;            // trusted network of its node; empty: none
  std::string own_host;          // not empty: this process shares no machine with those of other names
  std::string plugins;           // as MOBULA_TRANSPORT_PLUGINS has it
  std::shared_ptr<GpuDevices> gpus;  // of the process's lease, open or failed to; null: none
  // Once, from the thread of the exchange: this process has to be replaced, and why.
  std::function<void(const std::string&)> lost;
  transfer::RegionOptions regions = {};
};

// A large tensor comes in parts, from whoever has them.
struct Share {
  ProcessId holder;
  DirectPath path = DirectPath::tcp;
  std::uint64_t bytes = 0;
  bool encrypted = true;  // all of them
};

// What has become of one tensor that was wanted.
struct InStore {};  // its holder has no elements any more, or cannot be asked: look there
struct Arrival {
  std::uint64_t wish = 0;
  ObjectId object;
  std::variant<Elements, InStore, Failure> outcome;
  std::optional<DirectPath> path;  // of Elements
  ProcessId holder;
  std::vector<std::string> refusals;  // of better paths and earlier tries
  std::vector<DirectPath> failed_tries;
  bool fell_back = false;  // another path was named, or tried before
  Duration queued{};
  Duration moved{};
  std::vector<Share> shares = {};  // of what came in parts
};

class TensorExchange {
 public:
  struct Callbacks {
    std::function<void(Arrival)> arrived;
    // These elements have to go into the node's store; `stored` is to be said, with `owner` kept until then.
    std::function<void(ObjectId, const SourceRegion&, std::shared_ptr<const void> owner)> store;
    // What wake() asked for.
    std::function<void()> woken = {};
  };

  static Result<std::unique_ptr<TensorExchange>> start(ExchangeOptions options, Callbacks callbacks);
  // Ends at once what goes on. Not by the exchange's own thread.
  ~TensorExchange();

  // Where others ask for what it has.
  const CopyOnWrite<Endpoint>& self() const { return self_; }
  // Memory that processes of this machine read in place; null where there is none.
  const std::shared_ptr<Arena>& arena() const { return arena_; }

  // Elements that others may have until `retire`; `owner` keeps them. Wakes nobody: it is taken up when
  // somebody asks.
  void publish(ObjectId object, SourceRegion elements, std::shared_ptr<const void> owner);
  // Its elements are not in the store any more, but still here.
  void publish_again(ObjectId object);
  // Returns the owner of what was never taken up, else nothing: the exchange lets go of it, at once or when
  // nobody is given it any more.
  std::shared_ptr<const void> retire(ObjectId object);
  // All of them have room together; each arrives. Numbers are the caller's, and never used again. Those of
  // devices come to `device`, or on_host; without it where each one belongs.
  void want(std::uint64_t wish, RefRecords tensors, bool arguments, std::optional<int> device = {});
  // Nothing arrives any more.
  void unwant(std::uint64_t wish);
  // What has been wanted and has neither come nor failed.
  std::vector<TensorProgress::Row> under_way() const { return progress_.rows(); }
  // Into the store with everything.
  void evacuate();
  void stored(ObjectId object, std::optional<Failure> failure);
  // Later; once, however often it is asked for until then.
  void wake(Duration after);
  // The turn of a device of this process (by its index), for what it does together with others by NCCL: each of
  // them takes its turn in the order of their processes' ids. `taken` is told by the exchange's thread, or never
  // when the claim is returned before. Numbers are the caller's, and never used again.
  void claim_turn(std::uint32_t lane, std::uint64_t claim, std::function<void()> taken);
  void return_turn(std::uint64_t claim);
  // These will never speak again.
  void dead(std::vector<ProcessId> processes);
  // What this process shows from now on, and further keys that vouch for nobody: who came by them is cut.
  void trust(std::string ticket, std::vector<std::string> void_keys);

 private:
  struct Published {
    SourceRegion elements;
    std::shared_ptr<const void> owner;  // shared with whoever reads them here
    bool retired = false;
    bool let_go = false;  // by the core
    // What was received in parts, and is given on:
    std::uint64_t copy = 0;  // the gathering of it; 0: it was made here
    std::weak_ptr<const ReceiveBuffer> memory = {};
  };
  struct Wanted {
    RefRecord ref;
    int device = on_host;  // where it comes to lie
    std::vector<transfer::PathRefusal> refusals = {};
    std::uint64_t gathering = 0;  // that it is a part of; 0: it comes whole
    std::uint32_t part = 0;
  };
  // A tensor whose parts are on their way.
  struct Gathering {
    std::uint64_t wish = 0;
    Wanted whole;
    std::map<transfer::RegionPullId, std::uint32_t> parts = {};  // that are due
    bool keeps = false;
    std::shared_ptr<const ReceiveBuffer> memory = nullptr;  // of all; shared with what writes there, and with who is given it
    std::optional<transfer::RegionOutcome> failed = {};
    std::map<std::pair<ProcessId, DirectPath>, Share> shares = {};
    std::map<transfer::RegionPullId, bool> encrypted = {};  // of what is fetched
    std::vector<std::pair<DirectPath, std::string>> tries = {}, keepers_tried = {};  // that failed
    Time began{};
    std::optional<Duration> queued = {};
  };
  static constexpr std::size_t max_tries_told = 16;
  // What a pull is for.
  struct Place {
    std::uint64_t wish = 0;
    std::uint64_t gathering = 0;
  };
  struct Wish {
    RefRecords tensors;
    bool arguments = false;
    std::optional<int> device;
    std::map<transfer::RegionPullId, Wanted> pulls;
    std::size_t due = 0;  // arrivals
  };
  struct Operation {
    DirectPath path = DirectPath::shm;
    TransferId transfer;
    transfer::RegionPullId pull = 0;  // of a fetch
    std::optional<TensorPaths::Pairing> pair = {};  // of what both sides issue
    std::shared_ptr<const void> keeps = nullptr;    // a copy, while it is given
  };
  // What is received piece by piece.
  struct Arriving {
    std::shared_ptr<const DeviceAllocation> memory;  // shared with the piece in progress
  };

  TensorExchange(ExchangeOptions options, Callbacks callbacks);
  Result<void> open();
  void post(std::function<void()> task);
  void take_up();
  // One step of the core, and what follows from it.
  template <class Step>
  void step(Step step);
  void carry_out_all();
  void publish_to_core(ObjectId object, const Published& published);
  void carry_out(transfer::RegionCommand& command);
  void carry_out(const transfer::SendRegions& command);
  void carry_out(const transfer::Export& command);
  void carry_out(const transfer::Unexport& command);
  void carry_out(const transfer::Fetch& command);
  void carry_out(const transfer::Issue& command);
  void carry_out(const transfer::Cancel& command);
  void carry_out(const transfer::DropChannel& command);
  void issue(const transfer::Issue& command, const TensorPaths::Pairing& pair, std::span<std::byte> bytes, bool sends);
  void issue_next(const transfer::Issue& command, const TensorPaths::Pairing& pair, std::byte* first);
  void issued(transfer::OperationId operation, const Result<void>& result);
  void carry_out(const transfer::FreeRegions& command);
  void carry_out(const transfer::StoreRegions& command);
  void carry_out(const transfer::LookUp& command);
  void carry_out(const transfer::Reach& command);
  void carry_out(const transfer::Part& command);
  void carry_out(transfer::PullEnded& command);
  void carry_out(const transfer::TurnTaken& command);
  void met(ProcessId peer, const RegionReach& reach);
  void gone(ProcessId peer, const Failure& why);
  void begin_wishes();
  void begin(std::uint64_t number, Wish& wish);
  // Opens the plugin of a path that a transfer names.
  void open_plugin_of(std::optional<DirectPath> path);
  void arrive(Arrival arrival);
  static std::string text_of(DirectPath path, std::string_view why);
  // Of better paths than it came by.
  void tell_refusals(const Wanted& wanted, Arrival& arrival);

  // ---- tensor_exchange_parts.cc ----
  bool comes_in_parts(const Wanted& wanted, const std::vector<DirectPath>& paths) const;
  // False: there would be too many.
  bool add_parts(std::uint64_t wish, const Wanted& whole, const transfer::RegionWish& one,
                 std::vector<transfer::RegionWish>& together, std::vector<Wanted>& wanted);
  Result<std::span<std::byte>> place_of(const Wanted& wanted);
  void part_ended(const transfer::PullEnded& command, std::uint64_t gathering);
  void gathered(std::uint64_t number, const Gathering& gathering);
  void withdraw(ObjectId object, std::uint64_t copy);
  RegionMessage with_places(RegionMessage message) const;
  void learn_places(const RegionMessage& message);
  void answer_reach(const transfer::Reach& command);
  void reached_or_not(ProcessId keeper);

  const ExchangeOptions options_;
  const Callbacks callbacks_;
  TensorProgress progress_;
  CopyOnWrite<Endpoint> self_;
  std::shared_ptr<Arena> arena_;  // shared with the tensors in it

  Mutex mutex_;
  std::vector<std::function<void()>> inbox_ MOBULA_GUARDED_BY(mutex_);  // requests that the thread has not taken yet
  bool notified_ MOBULA_GUARDED_BY(mutex_) = false;  // the thread is notified
  std::map<ObjectId, Published> fresh_ MOBULA_GUARDED_BY(mutex_);  // registered, not yet taken by the thread

  // The thread's.
  transfer::RegionExchange core_;
  std::vector<transfer::RegionCommand> commands_;  // to be carried out, in order
  bool carrying_out_ = false;
  RecycledMap<ObjectId, Published> published_;
  std::map<std::uint64_t, Wish> wishes_;
  std::vector<std::uint64_t> waiting_;  // for holders to say what they can
  std::map<ProcessId, std::string> unreachable_;  // of those that wishes wait for
  std::map<transfer::RegionPullId, Place> pulls_;
  std::map<std::uint64_t, Gathering> gatherings_;
  std::uint64_t last_gathering_ = 0;
  std::map<ProcessId, Endpoint> where_;    // keepers are reached, as holders have said
  std::vector<transfer::Reach> reaching_;  // to be answered
  const std::shared_ptr<Withdrawals> withdrawals_;  // shared with tensors over what was received
  std::map<transfer::RegionPullId, Elements> fetched_;      // not told yet
  std::map<transfer::RegionPullId, Arriving> arriving_;
  std::map<transfer::OperationId, Operation> operations_;
  std::map<std::uint64_t, std::function<void()>> claims_;  // who is told of his turn
  std::unique_ptr<Timer> timer_, alarm_;
  std::unique_ptr<TensorPaths> paths_;
  std::unique_ptr<RegionLinks> links_;

  std::unique_ptr<ProcessSockets> sockets_;  // last: its thread ends before what it uses
};

template <class Step>
void TensorExchange::step(Step step) {
  if (!paths_) return;  // it ends
  step(monotonic_now(), commands_);
  carry_out_all();
}

}  // namespace mobula::internal::exchange
