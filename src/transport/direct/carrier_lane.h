// A lane that fetches chunks by messages of a carrier, which a plug-in brings (mobula/
// transport_plugin.h). Each chunk is asked for by a message and answered by one; so many of a holder
// are under way at once. The carrier's memory is its own: what is read of a source is copied before a
// call returns, and what is written into a target is copied here, so that both are quiet at once,
// whatever the carrier's library does. A link without an answer for too long is dropped, and the next
// pull makes another.
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
#include "transport/direct/lane.h"
#include "transport/direct/task_box.h"
#include "transport/direct/tcp_offers.h"
#include "transport/loop_thread.h"

namespace mobula::internal {

class CarrierLane final : public Lane {
 public:
  // `plugin` lives as long as the program. Fails with what the plug-in refuses with.
  static Result<std::unique_ptr<CarrierLane>> start(TcpOffers& offers,
                                                    const mobula_transport_plugin& plugin,
                                                    const std::string& listen);
  ~CarrierLane() override;
  CarrierLane(const CarrierLane&) = delete;
  CarrierLane& operator=(const CarrierLane&) = delete;

  // What connect() of other processes' carriers takes.
  const std::string& address() const { return address_; }

  void begin(LaneShare share) override;
  void cancel(TransferId transfer) override;
  void forget(const ChannelKey& channel) override;

 private:
  struct Asked {
    TransferId transfer;
    std::uint64_t serial = 0;  // of its share: a transfer may be pulled again
    std::size_t chunk = 0;
  };
  // To a holder.
  struct Link {
    std::uint64_t number = 0;
    std::deque<TransferId> turns;          // of shares with chunks to ask for
    std::map<std::uint64_t, Asked> asked;  // and not answered, also for shares that have ended
    Time heard;
  };
  struct Row {
    LaneShare share;
    std::uint64_t serial = 0;
    std::size_t next = 0;  // chunk to ask for
    std::size_t left = 0;  // chunks that are not there
    Time began;
    Time moved;
  };

  CarrierLane(TcpOffers& offers, const mobula_transport_plugin& plugin,
              std::unique_ptr<LoopThread> thread);
  Result<void> open(const std::string& listen);
  void close();
  void poll();
  // Calls the plug-in; what it throws ends the carrier. False when there is none any more.
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
  // What was asked on this link, if it was, and not answered.
  std::optional<Asked> take_question(std::uint64_t number, std::uint64_t question);
  // The share that asked, unless it has ended.
  Row* row_of(const Asked& asked);
  bool send(std::uint64_t number, std::span<const std::byte> head, std::span<const std::byte> body);
  void end(TransferId transfer, const Result<void>& result);
  void drop_link(const ChannelKey& key, const Failure& why);
  void look();

  TcpOffers& offers_;
  const mobula_transport_plugin& plugin_;
  std::unique_ptr<LoopThread> thread_;
  std::shared_ptr<TaskBox> box_;  // shared with what is posted
  std::string address_;

  // The lane's thread.
  mobula_carrier_host host_{};
  mobula_carrier* carrier_ = nullptr;
  std::string broken_;  // why there is no carrier any more
  Watch watch_;
  std::unique_ptr<Timer> look_timer_;
  std::map<ChannelKey, Link> links_;
  std::map<std::uint64_t, ChannelKey> channels_;  // by link
  std::map<TransferId, Row> rows_;
  std::uint64_t next_question_ = 1;
  std::uint64_t next_serial_ = 1;
};

}  // namespace mobula::internal
