// Transports of this process, its channels to peers, and the choice of a path for each tensor.
// Host-memory paths also carry device memory through the host ("staged"). A transport with chunks
// copies chunk by chunk through a few pinned slices; the others copy the whole tensor. For device
// transports, each device of a process is a separate endpoint, identified by its ordinal.
// Thread: the loop thread; it makes no CUDA call.
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
#include "base/model/task.h"
#include "base/result.h"
#include "device/gpu/gpu_devices.h"
#include "protocol/messages/tensor_messages.h"
#include "tensor/exchange/core/path_choice.h"
#include "transport/tensor/arena.h"
#include "transport/tensor/gpu/device_stage.h"
#include "transport/tensor/gpu/nccl_transport.h"
#include "transport/tensor/receive_pool.h"
#include "transport/tensor/tensor_transport.h"

namespace mobula::internal::exchange {

struct PathOptions {
  ProcessId process;
  std::string socket;     // path prefix for shared memory and device transports; empty: neither
  std::string host_bind;  // listen address for other machines; empty: loopback
  // may listen on another address of the same network that is nearer to the GPUs
  bool may_choose = false;
  std::string fabric;  // trusted network of the node; empty: none
  // not empty: only processes with the same value count as processes of this host
  std::string own_host;
  std::string plugins;  // additional transports, such as `gloo:ucx:/path/to/one.so`
  // `open()` has completed, with or without success; null: no lease
  std::shared_ptr<GpuDevices> gpus;
  // called with the reason when this process must be replaced
  std::function<void(const std::string&)> lost;
};

// Received elements; readable while `owner` lives.
struct Elements {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  // shared by the tensors over the elements
  bool in_place = false;              // mapped from the holder's memory
  bool encrypted = false;             // encrypted on the wire
  MappedFile file = {};               // in place: the mapped file
  int device = on_host;               // device ordinal in this process
};

class TensorPaths {
 public:
  using Key = std::pair<DirectPath, std::uint32_t>;  // path and device ordinal

  TensorPaths(EventLoop& loop, PathOptions options);
  // Ends all transfers without calling their callbacks.
  ~TensorPaths();

  const TransportCapabilities& reach() const { return reach_; }
  // Opens the plugin of a path if it is installed and not yet open. Returns whether `reach()` has
  // changed.
  bool open_installed(DirectPath path);
  // Memory that processes of this machine read in place; null without shared memory.
  const std::shared_ptr<Arena>& arena() const { return arena_; }

  void met(ProcessId peer, const TransportCapabilities& reach) { peers_[peer] = reach; }
  void gone(ProcessId peer);
  // Closes the idle channels to this holder; the next transfer opens them again.
  void close_paths(ProcessId holder);
  // Closes the state of an idle peer. No transfer with it is active, and `met` must precede the
  // next one.
  void parted(ProcessId peer);
  bool knows(ProcessId peer) const { return peers_.contains(peer); }
  // Capabilities that a known peer has sent; otherwise null.
  const TransportCapabilities* capabilities_of(ProcessId peer) const {
    const auto at = peers_.find(peer);
    return at == peers_.end() ? nullptr : &at->second;
  }
  // Device ordinal in this process that receives this device tensor, or `on_host`.
  int landing(const TensorRecord& record) const;
  // Chooses the paths for a tensor whose destination is `device` or `on_host`.
  transfer::PathChoice choose(ProcessId holder, const TensorRecord& record, int device) const;

  // ---- holder side ----
  using Offered = std::function<void(Result<std::string> ticket)>;
  struct Give {
    DirectPath path = DirectPath::shm;
    ProcessId peer;
    std::uint32_t peer_ordinal = 0;
  };
  // Fails immediately, without calling `offered`, if the path is not available.
  Result<TransferId> offer(const Give& give, const SourceRegion& region, Offered offered);
  void release(TransferId transfer, std::function<void()> quiet);

  // ---- receiver side ----
  using Fetched = std::function<void(Result<Elements>)>;
  struct PullChunk {
    DirectPath path = DirectPath::shm;
    ProcessId holder;
    std::uint32_t peer_ordinal = 0;
    std::string_view ticket;  // valid only during the call
    std::uint64_t size_bytes = 0;
    bool in_place = false;   // map instead of copy if the path can
    bool of_device = false;  // the holder has the elements on a device
    int device = on_host;    // destination
    // destination on the host, for one chunk: exactly its size, always copied
    std::span<std::byte> target = {};
    // keeps `target` alive until `fetched` is called
    std::shared_ptr<const void> target_owner = nullptr;
  };
  // Allocates host memory for a tensor that arrives in chunks.
  Result<ReceiveBuffer> receive_buffer(std::uint64_t size_bytes) { return pool_.take(size_bytes); }
  // Fails immediately, without calling `fetched`, if the path is not available or the ticket is
  // malformed.
  Result<TransferId> fetch(const PullChunk& wanted, Fetched fetched);
  // `fetched` is still called.
  void cancel(TransferId transfer);

  // ---- two-sided transfers, under device turns ----
  using Done = std::function<void(Result<void>)>;
  using Taken = std::function<void(Result<DeviceAllocation>)>;
  struct Pairing {
    ProcessId peer;
    std::uint32_t device_ordinal = 0, peer_ordinal = 0;
    std::uint64_t epoch = 0;
  };
  void open_pair(const Pairing& pair, Done done);
  // Sends or receives `bytes` of a local device. The peer issues the operation with the same
  // transfer id.
  void move_pair(const Pairing& pair, TransferId transfer, std::span<std::byte> bytes, bool sends,
                 Done done);
  // Cancels the operation; it ends with a failure once the device no longer accesses the memory.
  void break_pair(const Pairing& pair, TransferId transfer);
  // Destroys communicators of lower epochs.
  void drop_pair(const Pairing& pair);
  // Allocates on the device's thread.
  void take(int device, std::uint64_t size_bytes, Taken taken);

 private:
  struct Fetching;
  struct Giving {
    TensorTransport* way = nullptr;
    // shared with the copy into it, until no reader can access it
    std::shared_ptr<const void> stage;
  };

  void add(Key key, Result<std::unique_ptr<TensorTransport>> transport, std::string version = {});
  void add_devices();
  void add_plugins();
  void end_paths(ProcessId peer, bool with_communicators);
  TensorTransport* transport(DirectPath path, std::uint32_t device_ordinal) const;
  NcclTransport* nccl(std::uint32_t device_ordinal) const;
  DeviceCopies* copies_of(int device) const;
  std::shared_ptr<ChunkStage> stage_of(int device) const;
  bool is_trusted(const TransportCapabilities& peer) const;
  bool is_near(const TransportCapabilities& there) const;
  Peer peer_of(ProcessId process, Key key) const;
  transfer::ProcessReach reach_of(ProcessId process, const TransportCapabilities& reach,
                                  std::uint32_t device_ordinal) const;
  Result<TransferId> offer_staged(const Give& give, const SourceRegion& region, int device,
                                  Offered offered);
  Result<TransferId> offer_chunks(const Give& give, DirectPath path, const SourceRegion& region,
                                  int device, Offered offered);
  Result<TransferId> offer_copy(const Give& give, DirectPath path, const SourceRegion& region,
                                int device, Offered offered);
  Result<DirectPath> carrier_to(ProcessId peer) const;
  void begin(const std::shared_ptr<Fetching>& fetching);
  void pull(const std::shared_ptr<Fetching>& fetching);
  void take_memory(const std::shared_ptr<Fetching>& fetching,
                   std::function<void(std::span<std::byte>)> next);
  void pull_to_device(const std::shared_ptr<Fetching>& fetching);
  void bring_in(const std::shared_ptr<Fetching>& fetching, std::span<const std::byte> from,
                std::shared_ptr<const void> keeps, bool encrypted);
  void answer(const std::shared_ptr<Fetching>& fetching, Result<Elements> result);

  EventLoop& loop_;
  const PathOptions options_;
  std::set<DirectPath> installed_;  // installed plugins that are not open yet
  TransportCapabilities reach_;
  std::shared_ptr<Arena> arena_;  // shared with tensors in it
  ReceivePool pool_;
  std::map<ProcessId, TransportCapabilities> peers_;
  std::map<TransferId, Giving> giving_;
  std::map<TransferId, std::shared_ptr<Fetching>> fetching_;  // shared with pending callbacks
  std::map<Key, std::unique_ptr<TensorTransport>> transports_;
  std::map<int, DeviceCopies*> copies_;  // owned by the transports
  // use `copies_`, so they are destroyed first
  std::map<int, std::unique_ptr<DeviceStage>> stages_;
};

}  // namespace mobula::internal::exchange
