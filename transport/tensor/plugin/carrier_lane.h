// Lane that pulls chunks through messages of a carrier, the connection object of a transport plugin
// (mobula/transport_plugin.h). Each chunk has one request and one reply; their number per holder is
// limited.
// Thread: the transport's thread for public functions; the lane's thread makes all plugin calls.
// Owner: sources and targets are copied during a call, so the plugin never keeps them. Errors: a
// connection without a reply within the silence limit is dropped. The next pull opens a new one.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mobula/transport_plugin.h"
#include "transport/loop/loop_thread.h"
#include "transport/tensor/lane.h"
#include "transport/tensor/mailbox.h"
#include "transport/tensor/tcp/tcp_offers.h"

namespace mobula::internal {

class CarrierLane final : public Lane {
 public:
  // `plugin` lives as long as the program. Fails with the error of the plugin.
  static Result<std::unique_ptr<CarrierLane>> start(TcpOffers& offers,
                                                    const mobula_transport_plugin& plugin,
                                                    const std::string& listen);
  ~CarrierLane() override;
  CarrierLane(const CarrierLane&) = delete;
  CarrierLane& operator=(const CarrierLane&) = delete;

  // The endpoint for connect() of the carriers of other processes.
  const std::string& address() const { return address_; }

  void begin(LaneShare share) override;
  void cancel(TransferId transfer) override;
  void forget(const ChannelKey& channel) override;

 private:
  struct PendingRequest {
    TransferId transfer;
    std::uint64_t serial = 0;  // serial of the share: a transfer may be pulled more than once
    std::size_t chunk = 0;
  };
  // A connection to a holder.
  struct Link {
    std::uint64_t number = 0;
    std::deque<TransferId> turns;                     // transfers with chunks to request
    std::map<std::uint64_t, PendingRequest> pending;  // pending requests, also of ended shares
    Time last_received;
  };
  struct Row {
    LaneShare share;
    std::uint64_t serial = 0;
    std::size_t next = 0;  // next chunk to request
    std::size_t left = 0;  // chunks not yet received
    Time began;
    Time moved;
  };

  CarrierLane(TcpOffers& offers, const mobula_transport_plugin& plugin,
              std::unique_ptr<LoopThread> thread);
  Result<void> open(const std::string& listen);
  void close();
  void poll();
  // Calls the plugin. An exception ends the carrier. Returns false if no carrier exists any more.
  template <class Call>
  bool guarded(const Call& call);
  void break_down(const std::string& why);

  void add(LaneShare share);
  Result<Link*> link_of(const LaneShare& share);
  void fill(const ChannelKey& key);
  void on_message(std::uint64_t number, std::span<const std::byte> bytes);
  void serve(std::uint64_t number, std::uint64_t question, std::span<const std::byte> rest);
  void on_answer(std::uint64_t number, std::uint64_t question, std::span<const std::byte> body);
  void on_refusal(std::uint64_t number, std::uint64_t question, std::span<const std::byte> rest);
  // Removes and returns the pending request with this number on this connection, if it exists.
  std::optional<PendingRequest> take_question(std::uint64_t number, std::uint64_t question);
  // Returns the share of the request, unless it has ended.
  Row* row_of(const PendingRequest& pending);
  bool send(std::uint64_t number, std::span<const std::byte> head, std::span<const std::byte> body);
  void end(TransferId transfer, const Result<void>& result);
  void drop_link(const ChannelKey& key, const Failure& why);
  void check();

  TcpOffers& offers_;
  const mobula_transport_plugin& plugin_;
  std::unique_ptr<LoopThread> thread_;
  std::shared_ptr<Mailbox> box_;  // shared with posted tasks
  std::string address_;

  // Lane's thread.
  mobula_carrier_host host_{};
  mobula_carrier* carrier_ = nullptr;
  std::string broken_;  // the reason if the carrier has ended
  Watch watch_;
  std::unique_ptr<Timer> check_timer_;
  std::map<ChannelKey, Link> links_;
  std::map<std::uint64_t, ChannelKey> channels_;  // by connection
  std::map<TransferId, Row> rows_;
  std::uint64_t next_question_ = 1;
  std::uint64_t next_serial_ = 1;
};

}  // namespace mobula::internal
