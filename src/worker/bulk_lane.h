// One thread's part of the bytes between nodes: the connections over which it reads from others, one
// for each node, and those over which it serves them. It moves, seals and opens what it is told to;
// what to read, and what again, is decided elsewhere. For its own thread, where it also tells what
// has happened.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/bulk_client.h"
#include "transport/bulk_server.h"
#include "worker/bulk_offers.h"
#include "worker/event_delivery.h"

namespace mobula::internal::worker {

struct BulkRoom {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> keeps;
};

// A part of an offer, and where it goes.
struct BulkPart {
  std::uint64_t chunk = 0;
  BulkTarget from;
  std::uint64_t offer = 0;
  std::uint64_t offset = 0;
  BulkRoom room;
};

class BulkLane {
 public:
  // `deliver` takes ChunkFetched, PullFinished and BulkServed. Connections that this lane's server
  // accepts go to `hand_over` first.
  BulkLane(EventLoop& loop, std::shared_ptr<BulkOffers> offers, DeliverEvents deliver,
           std::function<bool(Fd&)> hand_over);

  Result<std::string> listen(const std::string& address) { return server_.listen(address); }
  void adopt(Fd socket) { server_.adopt(std::move(socket)); }
  void withdraw(std::uint64_t offer);

  void fetch(BulkPart part);
  void cancel(std::uint64_t chunk);
  void tell(Event event);

 private:
  using PeerKey = std::pair<std::string, BulkToken>;
  struct Peer {
    std::unique_ptr<BulkClient> client;
    Time last_used;
  };
  struct Flight {
    BulkRoom room;
    PeerKey peer;
    BulkFetchId fetch;
  };

  BulkServerCallbacks callbacks(std::function<bool(Fd&)> hand_over);
  void serve(BulkExchange exchange, const std::string& principal,
             std::span<const std::byte> request);
  void ended(std::uint64_t chunk, const Result<void>& outcome);
  void forget_idle();
  void flush();

  EventLoop& loop_;
  const std::shared_ptr<BulkOffers> offers_;  // shared by the lanes
  const DeliverEvents deliver_;
  std::map<PeerKey, Peer> peers_;
  std::map<std::uint64_t, Flight> flights_;
  std::vector<Event> untold_;  // while the agent's mailbox is full
  Timer again_;
  Timer idle_;
  BulkServer server_;
};

}  // namespace mobula::internal::worker
