// What transports that fetch chunks by lanes have in common: channels, offers and who may read them,
// and pulls whose chunks are shared out to lanes in turn. How chunks travel is for the lanes, what an
// endpoint says for the transport that derives from this. See tensor_transport.h for what is promised.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/direct/lane.h"
#include "transport/direct/later.h"
#include "transport/direct/limits.h"
#include "transport/direct/task_box.h"
#include "transport/direct/tcp_offers.h"
#include "transport/direct/tensor_transport.h"

namespace mobula::internal {

struct LaneTransportOptions {
  const char* name = "";  // lives as long as the program, or as the transport
  DirectKind kind = DirectKind::tcp;
  PathCost cost;
  bool stages = false;  // its lanes know what to do with a ChunkStage
  bool plain = false;   // bytes cannot be sealed: only between those who trust the fabric
  std::uint64_t chunk_bytes = 4u << 20;
  DirectLimits limits = {};
};

class LaneTransport : public TensorTransport {
 public:
  std::string_view name() const override { return options_.name; }
  const TransportCaps& caps() const override { return caps_; }
  const Blob& endpoint() const override { return endpoint_; }
  Result<PathCost> reach(const Peer& peer, const MemoryPlace& source,
                         const MemoryPlace& target) const override;
  // A channel connects when something is pulled by it.
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

  // Where an endpoint's holder is reached; its process is `expected`.
  virtual Result<std::string> address_in(std::span<const std::byte> endpoint,
                                         ProcessId expected) const = 0;

  // For who derives, to fill when it is made. It empties the lanes before it ends: they use it.
  ProcessId process() const { return process_; }
  Blob endpoint_;
  TcpOffers offers_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  // Lanes answer nobody from here on, and are gone.
  void end_lanes();

 private:
  struct Channel {
    std::string address;
    bool trusted = false;
  };
  struct Row {
    ChannelKey from;
    Ended ended;
    std::size_t shares = 0;  // under way
    Result<void> result;
    std::optional<Failure> why;  // it was stopped
    bool lost = false;
    TransferEnd told;
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
  void look();

  const ProcessId process_;
  const LaneTransportOptions options_;
  TransportCaps caps_;
  TransportStats stats_;
  std::map<ChannelKey, Channel> channels_;
  std::map<TransferId, Row> rows_;
  std::size_t next_lane_ = 0;
  std::size_t owed_ = 0;  // releases that are not quiet yet
  Later later_;
  Timer look_timer_;
  Timer shutdown_timer_;
  std::function<void(std::vector<TransferId>)> shut_down_;
  std::shared_ptr<TaskBox> box_;  // from the lanes; shared with what is posted
};

}  // namespace mobula::internal
