// Transfers within one process: a copy, or the same memory. Holder and receiver are the same
// object.
// Thread: the event loop. See tensor_transport.h for the guarantees.
#pragma once

#include <map>
#include <memory>

#include "transport/tensor/copy_threads.h"
#include "transport/tensor/deferred_calls.h"
#include "transport/tensor/limits.h"
#include "transport/tensor/tensor_transport.h"

namespace mobula::internal {

class InprocTransport final : public TensorTransport {
 public:
  // Always available.
  static Availability probe() { return {true, "within the process"}; }
  // `process` is this process.
  static Result<std::unique_ptr<InprocTransport>> create(EventLoop& loop, ProcessId process,
                                                         CopyOptions copying = {},
                                                         DirectLimits limits = {});
  ~InprocTransport() override;

  std::string_view name() const override { return "inproc"; }
  const TransportCaps& caps() const override { return caps_; }
  const Blob& endpoint() const override { return endpoint_; }
  Result<PathCost> reach(const Peer& peer, const MemoryLocation& source,
                         const MemoryLocation& target) const override;
  void open(const ChannelKey& key, const Peer& peer, Time deadline, Opened opened) override;
  void close(const ChannelKey& key) override;
  void offer(Offer offer, Offered offered) override;
  void release(TransferId transfer, Quiet quiet) override;
  void pull(Pull pull, Ended ended) override;
  void map(TransferId transfer, const ChannelKey& from, std::span<const std::byte> ticket,
           Mapped mapped) override;
  void cancel(TransferId transfer, Quiet quiet) override;
  void peer_down(ProcessId peer, Quiet quiet) override;
  void shutdown(Time deadline, std::function<void(std::vector<TransferId>)> done) override;
  TransportStats stats() const override;

 private:
  struct Row;  // an offer: its regions, its token, and whether it is valid
  struct Running {
    std::uint64_t copy = 0;
    std::shared_ptr<Row> row;  // shared by the offer, its pulls, and its maps
    Ended ended;
    std::vector<Quiet> quiet;  // callbacks for its end
    Time since;
    std::uint64_t bytes = 0;
  };

  InprocTransport(EventLoop& loop, ProcessId process, DirectLimits limits);
  Result<std::shared_ptr<Row>> row_of(TransferId transfer, const ChannelKey& from,
                                      std::span<const std::byte> ticket) const;
  Result<Copy> copy_of(const Pull& pull, const Row& row) const;
  void finish(TransferId transfer, const CopyEnd& end);
  void answer(Ended ended, Result<void> result);
  void end_pulls_of(const Row* row, const Quiet& quiet);

  const ProcessId process_;
  const DirectLimits limits_;
  TransportCaps caps_;
  Blob endpoint_;
  std::uint64_t highest_epoch_ = 0;
  std::map<ChannelKey, Time> channels_;
  std::map<TransferId, std::shared_ptr<Row>> offers_;  // shared with pulls and maps
  std::map<TransferId, Running> pulls_;
  TransportStats stats_;
  DeferredCalls later_;
  // The last member, so it is destroyed first, while the memory that it reads exists.
  std::unique_ptr<CopyThreads> copies_;
};

}  // namespace mobula::internal
