// The ways by which this process can exchange tensors, and what others can: transports with the channels
// that are open to peers, and the choice among them. For the loop's thread, which never calls CUDA.
//
// Each device of a process is a party of its own to the transports of devices: a lane. Ways of host memory
// bring device memory, too, by way of the host's at both ends ("staged"): those that move chunks, chunk by chunk
// through a few slices of pinned memory, so that no side has all of it in host memory; the others by a copy.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "exchange/gpu_devices.h"
#include "model/task.h"
#include "protocol/region_messages.h"
#include "transfer/core/path_choice.h"
#include "transport/direct/arena.h"
#include "transport/direct/device_stage.h"
#include "transport/direct/nccl_transport.h"
#include "transport/direct/receive_pool.h"
#include "transport/direct/tensor_transport.h"

namespace mobula::internal::exchange {

struct PathOptions {
  ProcessId process;
  std::string socket;     // of shared memory, and of devices; empty: none
  std::string host_bind;  // of connections from other machines; empty: the loopback
  bool may_choose = false;  // at another of this machine's addresses on that network, if it is nearer to the GPUs
  std::string fabric;     // trusted network of its node; empty: none
  std::string own_host;   // not empty: what shares this name alone is of one machine with it
  std::string plugins;    // "gloo:ucx:/path/to/one.so": what carries bytes besides
  std::shared_ptr<GpuDevices> gpus;  // open, or have failed to; null: no lease
  std::function<void(const std::string&)> lost;  // this process has to be replaced, and why
};

// Elements that have come: readable as long as the owner lives.
struct Elements {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  // shared by the tensors over them
  bool in_place = false;              // where the holder has them
  bool encrypted = false;             // on their way
  MappedFile file = {};               // in place: what they lie in
  int device = on_host;               // of this process
};

class TensorPaths {
 public:
  using Key = std::pair<DirectPath, std::uint32_t>;  // a way, and for which lane

  TensorPaths(EventLoop& loop, PathOptions options);
  // Ends transfers without an answer.
  ~TensorPaths();

  const RegionReach& reach() const { return reach_; }
  // Opens the plugin of a path if it is installed and was not opened before. Returns whether reach() has changed.
  bool open_installed(DirectPath path);
  // Memory that processes of this machine can read in place; null where there is none.
  const std::shared_ptr<Arena>& arena() const { return arena_; }

  void met(ProcessId peer, const RegionReach& reach) { peers_[peer] = reach; }
  void gone(ProcessId peer);
  // Nothing has come from it for a while: what carries it is closed, and opened again by what comes next.
  void close_ways(ProcessId holder);
  // There is no connection to it any more, until it is met again; and nothing goes on with it.
  void parted(ProcessId peer);
  bool knows(ProcessId peer) const { return peers_.contains(peer); }
  // What a peer that is known has said of itself; else null.
  const RegionReach* said(ProcessId peer) const {
    const auto at = peers_.find(peer);
    return at == peers_.end() ? nullptr : &at->second;
  }
  // Of what lies in a device: onto which of this process it comes, or on_host.
  int landing(const TensorRecord& record) const;
  // To `device`, or on_host.
  transfer::PathChoice choose(ProcessId holder, const TensorRecord& record, int device) const;

  // ---- as a holder ----
  using Offered = std::function<void(Result<std::string> ticket)>;
  struct Give {
    DirectPath path = DirectPath::shm;
    ProcessId peer;
    std::uint32_t peer_lane = 0;
  };
  // Fails at once, without an answer, for a path that is not there.
  Result<TransferId> offer(const Give& give, const SourceRegion& region, Offered offered);
  void release(TransferId transfer, std::function<void()> quiet);

  // ---- as a receiver ----
  using Fetched = std::function<void(Result<Elements>)>;
  struct Fetch {
    DirectPath path = DirectPath::shm;
    ProcessId holder;
    std::uint32_t peer_lane = 0;
    std::string_view ticket;  // read within the call
    std::uint64_t size_bytes = 0;
    bool in_place = false;    // where they can be had so
    bool of_device = false;   // the holder has them in one
    int device = on_host;     // where they are wanted
    std::span<std::byte> target = {};  // of a part, of its size: where on the host it comes to lie, not seen in place
    std::shared_ptr<const void> target_owner = nullptr;  // keeps it until fetch() is answered
  };
  // Memory for what comes in parts.
  Result<ReceiveBuffer> room(std::uint64_t size_bytes) { return pool_.take(size_bytes); }
  // Fails at once, without an answer, for a path or a ticket that is none.
  Result<TransferId> fetch(const Fetch& wanted, Fetched fetched);
  // fetch() is still answered.
  void cancel(TransferId transfer);

  // ---- both at the same time, under turns ----
  using Done = std::function<void(Result<void>)>;
  using Taken = std::function<void(Result<DeviceAllocation>)>;
  struct Pairing {
    ProcessId peer;
    std::uint32_t lane = 0, peer_lane = 0;
    std::uint64_t epoch = 0;
  };
  void open_pair(const Pairing& pair, Done done);
  // What the other side does with the same number: `bytes` of a device of this process go there, or come.
  void move_pair(const Pairing& pair, TransferId transfer, std::span<std::byte> bytes, bool sends, Done done);
  // What goes on by it ends with a failure, when it is quiet.
  void break_pair(const Pairing& pair, TransferId transfer);
  // Everything of a lower epoch is taken down.
  void drop_pair(const Pairing& pair);
  // By the device's thread.
  void take(int device, std::uint64_t size_bytes, Taken taken);

 private:
  struct Fetching;
  struct Giving {
    TensorTransport* way = nullptr;
    std::shared_ptr<const void> stage;  // shared with the copy into it: until nobody can read it
  };

  void add(Key key, Result<std::unique_ptr<TensorTransport>> transport, std::string version = {});
  void add_devices();
  void add_plugins();
  void end_ways(ProcessId peer, bool with_communicators);
  TensorTransport* transport(DirectPath path, std::uint32_t lane) const;
  NcclTransport* nccl(std::uint32_t lane) const;
  DeviceCopies* copies_of(int device) const;
  std::shared_ptr<ChunkStage> stage_of(int device) const;
  bool is_trusted(const RegionReach& peer) const;
  bool is_near(const RegionReach& there) const;
  Peer peer_of(ProcessId process, Key key) const;
  transfer::ProcessReach reach_of(ProcessId process, const RegionReach& reach, std::uint32_t lane) const;
  Result<TransferId> offer_staged(const Give& give, const SourceRegion& region, int device, Offered offered);
  Result<TransferId> offer_chunks(const Give& give, DirectPath path, const SourceRegion& region, int device, Offered offered);
  Result<TransferId> offer_copy(const Give& give, DirectPath path, const SourceRegion& region, int device, Offered offered);
  Result<DirectPath> carrier_to(ProcessId peer) const;
  void begin(const std::shared_ptr<Fetching>& fetching);
  void pull(const std::shared_ptr<Fetching>& fetching);
  void pull_to_device(const std::shared_ptr<Fetching>& fetching);
  void bring_in(const std::shared_ptr<Fetching>& fetching, std::span<const std::byte> from, std::shared_ptr<const void> keeps,
                bool encrypted);
  void answer(const std::shared_ptr<Fetching>& fetching, Result<Elements> result);

  EventLoop& loop_;
  const PathOptions options_;
  std::set<DirectPath> installed_;  // plugins that no transfer has needed
  RegionReach reach_;
  std::shared_ptr<Arena> arena_;  // shared with tensors that lie in it
  ReceivePool pool_;
  std::map<ProcessId, RegionReach> peers_;
  std::map<TransferId, Giving> giving_;
  std::map<TransferId, std::shared_ptr<Fetching>> fetching_;  // shared with the answers that are due
  std::map<Key, std::unique_ptr<TensorTransport>> transports_;
  std::map<int, DeviceCopies*> copies_;  // of the transports' threads
  std::map<int, std::unique_ptr<DeviceStage>> stages_;  // by them: they end first
};

}  // namespace mobula::internal::exchange
