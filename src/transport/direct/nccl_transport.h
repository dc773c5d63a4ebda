// Transfers between the memory of two GPUs by NCCL: two-sided, so that both processes act in each step, at the
// same time, under turns that the pull protocol takes (transfer/core/region_steps.h). A step is the opening of
// a channel, which both sides ask for, or one transfer: pull() here, serve() there. One step at a time on a
// device; a second one is refused. One transport for each device of the process. What fails or is stopped
// costs the channel, and where that cannot even be ended, the process. See tensor_transport.h for what is
// promised, docs/decisions/0027-open-gpu-libraries-at-run-time-with-our-own-prototypes.md for why it is so.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gpu/gpu_context.h"
#include "gpu/nccl_library.h"
#include "transport/direct/device_copies.h"
#include "transport/direct/later.h"
#include "transport/direct/limits.h"
#include "transport/direct/nccl_channel.h"
#include "transport/direct/nccl_rendezvous.h"
#include "transport/direct/tensor_transport.h"

namespace mobula::internal {

struct NcclOptions {
  std::string listen = "127.0.0.1:0";  // where peers meet this process
  std::string host;  // as NCCL has it (NCCL_HOSTID): two ranks of one device need two
  DirectLimits limits = {};
  std::size_t max_open = 64;  // communicators: each takes device memory
  Duration patience = 10s;    // for a communicator to end
  CpuList cpus = {};          // as in DeviceCopyOptions
  // Told once: something of NCCL cannot be ended, and the process is to be replaced. From the loop.
  std::function<void(const std::string&)> lost;
};

class NcclTransport final : public TensorTransport {
 public:
  // Whether the library is here, and of which version. Starts nothing.
  static Availability probe();
  static Result<std::unique_ptr<NcclTransport>> create(EventLoop& loop, ProcessId process,
                                                       std::shared_ptr<const GpuContext> context,
                                                       std::shared_ptr<const NcclLibrary> library,
                                                       NcclOptions options);
  // What runs is aborted; waits until it has ended, for at most the patience.
  ~NcclTransport() override;

  std::string_view name() const override { return "nccl"; }
  const TransportCaps& caps() const override { return caps_; }
  const Blob& endpoint() const override { return endpoint_; }
  // unavailable where the fabric is not trusted, versions differ, or NCCL would refuse the two devices.
  Result<PathCost> reach(const Peer& peer, const MemoryPlace& source,
                         const MemoryPlace& target) const override;
  void open(const ChannelKey& key, const Peer& peer, Time deadline, Opened opened) override;
  void close(const ChannelKey& key) override;
  // All of that peer whose epoch is lower.
  void close_below(const ChannelKey& key);
  void offer(Offer offer, Offered offered) override;
  void release(TransferId transfer, Quiet quiet) override;
  void serve(const ChannelKey& channel, TransferId transfer) override;
  // The same, answered when nothing of the offer is read any more.
  void serve(const ChannelKey& channel, TransferId transfer, Ended ended);
  // The ticket of an offer of one region, for a receiver that has agreed with its holder on all of it.
  static Blob ticket_for(ProcessId holder, ProcessId receiver, TransferId transfer, std::uint64_t epoch,
                         std::uint64_t size_bytes);
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
  using ChannelPtr = std::shared_ptr<Channel>;  // of the loop and of the device's thread

  NcclTransport(EventLoop& loop, ProcessId process, std::shared_ptr<const GpuContext> context,
                std::shared_ptr<const NcclLibrary> library, NcclOptions options);
  Result<Endpoint> check_peer(const Peer& peer) const;
  void meet(const ChannelPtr& channel, const Endpoint& there);
  void begin(const ChannelPtr& channel, const nccl_abi::UniqueId& id);
  void on_opened(const ChannelPtr& channel, const Result<void>& result);
  // Ends it, and answers when nothing of it reads or writes any more.
  void take_down(const ChannelPtr& channel, const Failure& why, const Quiet& quiet);
  Result<ChannelPtr> ready_channel(const ChannelKey& key);
  int peer_rank(const Channel& channel) const;
  Result<std::vector<std::span<std::byte>>> targets_of(const Pull& pull) const;
  void start_step(const ChannelPtr& channel, TransferId transfer, Step step, NcclMove move);
  void end_step(const Result<void>& result);
  void end_released();
  void finish_shutdown();

  const ProcessId process_;
  const std::shared_ptr<const GpuContext> context_;   // shared with all that lies there
  const std::shared_ptr<const NcclLibrary> library_;  // shared with reapers
  const NcclOptions options_;
  TransportCaps caps_;
  Blob endpoint_;
  TransportStats stats_;
  std::unique_ptr<NcclRendezvous> rendezvous_;
  std::map<ChannelKey, ChannelPtr> channels_;
  std::map<TransferId, Offer> offers_;
  std::unique_ptr<Step> step_;  // that is under way
  Later later_;
  Timer release_timer_;
  Timer shutdown_timer_;
  std::function<void(std::vector<TransferId>)> shut_down_;
  std::unique_ptr<DeviceCopies> thread_;  // ends first
};

}  // namespace mobula::internal
