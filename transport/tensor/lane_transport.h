// Base of the transports with lanes: channels, offers and their access tokens, and pulls whose
// chunks are distributed to the lanes.
// Thread: the event loop. See tensor_transport.h for the guarantees. Not: the movement of chunks
// (the lanes), the format of endpoints (the derived class).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/tensor/deferred_calls.h"
#include "transport/tensor/lane.h"
#include "transport/tensor/limits.h"
#include "transport/tensor/mailbox.h"
#include "transport/tensor/tcp/tcp_offers.h"
#include "transport/tensor/tensor_transport.h"

namespace mobula::internal {

struct LaneTransportOptions {
  const char* name = "";  // lives as long as the transport
  DirectKind kind = DirectKind::tcp;
  PathCost cost;
  bool stages = false;  // the lanes support a ChunkStage
  bool plain = false;   // no encryption: only for trusted fabrics
  std::uint64_t chunk_bytes = 4u << 20;
  DirectLimits limits = {};
};

class LaneTransport : public TensorTransport {
 public:
  std::string_view name() const override { return options_.name; }
  const TransportCaps& caps() const override { return caps_; }
  const Blob& endpoint() const override { return endpoint_; }
  Result<PathCost> reach(const Peer& peer, const MemoryLocation& source,
                         const MemoryLocation& target) const override;
  // A channel connects with its first pull.
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

 protected:
  LaneTransport(EventLoop& loop, ProcessId process, LaneTransportOptions options);

  // Returns the address of the holder with the endpoint; its process is `expected`.
  virtual Result<std::string> address_in(std::span<const std::byte> endpoint,
                                         ProcessId expected) const = 0;

  // For the derived class, which fills the following members. It must call end_lanes() before its
  // destructor ends, because the lanes use them.
  ProcessId process() const { return process_; }
  Blob endpoint_;
  TcpOffers offers_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  // Destroys the lanes. They call no callback any more.
  void end_lanes();

 private:
  struct Channel {
    std::string address;
    bool trusted = false;
  };
  struct Row {
    ChannelKey from;
    Ended ended;
    std::size_t shares = 0;  // in progress
    Result<void> result;
    std::optional<Failure> why;  // reason if it was stopped
    bool lost = false;
    TransferEnd report;
    Time since;
    std::vector<Quiet> quiet;
  };

  Failure not_trusted() const;
  Result<TcpTicket> check(const Pull& pull) const;
  void share_out(const Pull& pull, const TcpTicket& ticket, Row& row);
  void on_share(TransferId transfer, const Result<void>& result, Time began, Time ended);
  void stop(TransferId transfer, Row& row, const Failure& why, bool lost);
  void end_all(const ProcessId* peer, const Failure& why, bool lost, const QuietGate& gate);
  void finish_shutdown();
  void check();

  const ProcessId process_;
  const LaneTransportOptions options_;
  TransportCaps caps_;
  TransportStats stats_;
  std::map<ChannelKey, Channel> channels_;
  std::map<TransferId, Row> rows_;
  std::size_t next_lane_ = 0;
  std::size_t owed_ = 0;  // releases that are not complete
  DeferredCalls later_;
  Timer check_timer_;
  Timer shutdown_timer_;
  std::function<void(std::vector<TransferId>)> shut_down_;
  std::shared_ptr<Mailbox> box_;  // mailbox of the lanes; shared with posted tasks
};

}  // namespace mobula::internal
