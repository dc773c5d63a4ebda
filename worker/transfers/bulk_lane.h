// Connections of one I/O thread for bytes between nodes: one connection for reading from each node,
// and those on which it serves other nodes. Moves, encrypts, and decrypts as requested.
// Thread: the lane's own thread, which also delivers the events. Units: bytes. Not: what to read or
// to retry.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/bulk/bulk_client.h"
#include "transport/bulk/bulk_server.h"
#include "worker/event_delivery.h"
#include "worker/transfers/bulk_offers.h"

namespace mobula::internal::worker {

struct BulkSpace {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> keeps;
};

// A chunk of an offer and its destination.
struct BulkChunk {
  std::uint64_t chunk = 0;
  BulkTarget from;
  std::uint64_t offer = 0;
  std::uint64_t offset = 0;
  BulkSpace space;
};

class BulkLane {
 public:
  // `deliver` takes ChunkFetched, PullFinished and BulkServed. Accepted connections are passed to
  // `hand_over` first.
  BulkLane(EventLoop& loop, std::shared_ptr<BulkOffers> offers, DeliverEvents deliver,
           std::function<bool(Fd&)> hand_over);

  Result<std::string> listen(const std::string& address) { return server_.listen(address); }
  void adopt(Fd socket) { server_.adopt(std::move(socket)); }
  void withdraw(std::uint64_t offer);

  void fetch(BulkChunk part);
  void cancel(std::uint64_t chunk);
  void tell(Event event);

 private:
  using PeerKey = std::pair<std::string, BulkToken>;
  struct Peer {
    std::unique_ptr<BulkClient> client;
    Time last_used;
  };
  struct Flight {
    BulkSpace space;
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
  std::vector<Event> undelivered_;  // not delivered yet, because the agent's mailbox is full
  Timer again_;
  Timer idle_;
  BulkServer server_;
};

}  // namespace mobula::internal::worker
