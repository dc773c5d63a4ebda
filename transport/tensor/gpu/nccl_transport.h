// Transfers between the memory of two GPUs through NCCL. They are two-sided: both processes act in
// each step, at the same time, under turns that the pull protocol takes. A step opens a channel, or
// moves one transfer: pull() at the receiver, serve() at the holder. A device runs one step at a
// time and rejects others. Reasons: decision 27.
// Thread: the event loop. Owner: one transport per device of the process.
// Errors: a failed or stopped step costs the channel. If the channel cannot be ended, it costs the
// process.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/gpu/gpu_context.h"
#include "device/gpu/nccl_library.h"
#include "transport/tensor/deferred_calls.h"
#include "transport/tensor/gpu/device_copies.h"
#include "transport/tensor/gpu/nccl_channel.h"
#include "transport/tensor/gpu/nccl_rendezvous.h"
#include "transport/tensor/limits.h"
#include "transport/tensor/tensor_transport.h"

namespace mobula::internal {

struct NcclOptions {
  std::string listen = "127.0.0.1:0";  // address of this process for peers
  // Host name for NCCL (NCCL_HOSTID): two ranks on one device need two, unless both share it.
  std::string host;
  DirectLimits limits = {};
  std::size_t max_open = 64;        // communicators; each one uses device memory
  Duration shutdown_timeout = 10s;  // maximum time until a communicator has ended
  CpuList cpus = {};                // as in DeviceCopyOptions
  // Called once, from the loop, if an NCCL object cannot be ended. The process must be replaced.
  std::function<void(const std::string&)> lost;
};

class NcclTransport final : public TensorTransport {
 public:
  // Reports whether the library is available, and its version. Starts nothing.
  static Availability probe();
  static Result<std::unique_ptr<NcclTransport>> create(EventLoop& loop, ProcessId process,
                                                       std::shared_ptr<const GpuContext> context,
                                                       std::shared_ptr<const NcclLibrary> library,
                                                       NcclOptions options);
  // Aborts running operations, and waits at most `shutdown_timeout` for their end.
  ~NcclTransport() override;

  std::string_view name() const override { return "nccl"; }
  const TransportCaps& caps() const override { return caps_; }
  const Blob& endpoint() const override { return endpoint_; }
  // Errors: unavailable if the fabric is not trusted, the versions differ, or NCCL would reject the
  // two devices.
  Result<PathCost> reach(const Peer& peer, const MemoryLocation& source,
                         const MemoryLocation& target) const override;
  void open(const ChannelKey& key, const Peer& peer, Time deadline, Opened opened) override;
  void close(const ChannelKey& key) override;
  // Closes all channels to this peer with a lower epoch.
  void close_below(const ChannelKey& key);
  void offer(Offer offer, Offered offered) override;
  void release(TransferId transfer, Quiet quiet) override;
  void serve(const ChannelKey& channel, TransferId transfer) override;
  // The same, but calls `ended` when the regions of the offer are not read any more.
  void serve(const ChannelKey& channel, TransferId transfer, Ended ended);
  // Encodes the offer handle of one region, for a receiver that already agreed with its holder on
  // all values.
  static Blob ticket_for(ProcessId holder, ProcessId receiver, TransferId transfer,
                         std::uint64_t epoch, std::uint64_t size_bytes);
  void pull(Pull pull, Ended ended) override;
  void map(TransferId transfer, const ChannelKey& from, std::span<const std::byte> ticket,
           Mapped mapped) override;
  void cancel(TransferId transfer, Quiet quiet) override;
  void peer_down(ProcessId peer, Quiet quiet) override;
  void shutdown(Time deadline, std::function<void(std::vector<TransferId>)> done) override;
  TransportStats stats() const override;

 private:
  struct Endpoint;
  struct Channel;
  struct Step;
  using ChannelPtr = std::shared_ptr<Channel>;  // shared by the loop and the device's thread

  NcclTransport(EventLoop& loop, ProcessId process, std::shared_ptr<const GpuContext> context,
                std::shared_ptr<const NcclLibrary> library, NcclOptions options);
  Result<Endpoint> check_peer(const Peer& peer) const;
  void meet(const ChannelPtr& channel, const Endpoint& there);
  void begin(const ChannelPtr& channel, const nccl_abi::UniqueId& id);
  void on_opened(const ChannelPtr& channel, const Result<void>& result);
  // Ends the channel, and calls `quiet` when no memory is accessed any more.
  void take_down(const ChannelPtr& channel, const Failure& why, const Quiet& quiet);
  Result<ChannelPtr> ready_channel(const ChannelKey& key);
  int peer_rank(const Channel& channel) const;
  Result<std::vector<std::span<std::byte>>> targets_of(const Pull& pull) const;
  void start_step(const ChannelPtr& channel, TransferId transfer, Step step, NcclMove move);
  void end_step(const Result<void>& result);
  void end_released();
  void finish_shutdown();

  const ProcessId process_;
  const std::shared_ptr<const GpuContext> context_;   // shared with all memory of the device
  const std::shared_ptr<const NcclLibrary> library_;  // shared with reapers
  const NcclOptions options_;
  TransportCaps caps_;
  Blob endpoint_;
  TransportStats stats_;
  std::unique_ptr<NcclRendezvous> rendezvous_;
  std::map<ChannelKey, ChannelPtr> channels_;
  std::map<TransferId, Offer> offers_;
  std::unique_ptr<Step> step_;  // the current step
  DeferredCalls later_;
  Timer release_timer_;
  Timer shutdown_timer_;
  std::function<void(std::vector<TransferId>)> shut_down_;
  std::unique_ptr<DeviceCopies> thread_;  // destroyed first
};

}  // namespace mobula::internal
