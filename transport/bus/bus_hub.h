// State of a Bus: its peers, and the events of the libzmq sockets and monitors.
// Thread: the event loop. Not: part of any interface; only the sources of Bus include this header.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "transport/bus/bus.h"
#include "transport/bus/bus_sockets.h"
#include "transport/bus/message_chunks.h"
#include "transport/net/name_resolver.h"

namespace mobula::internal {

// The end of a connection is detected as follows. The DISCONNECTED event of the monitor names the
// descriptor that messages carry as their source. An accepted peer with that descriptor becomes
// *suspect*. It has ended when its routing id is unroutable, which libzmq reports after it closed
// the pipe, and all input was read once more. A connected peer has ended when libzmq announces the
// next attempt, which follows the last message. If libzmq stops retrying, a short timeout applies.
class Bus::Hub : public std::enable_shared_from_this<Bus::Hub> {
 public:
  Hub(EventLoop& loop, BusOptions options, BusCallbacks callbacks);

  Result<void> open();
  Result<std::string> bind(const std::string& address);
  Result<void> adopt(ListeningSocket listening);
  Result<PeerHandle> connect(const std::string& address, const std::string& server_public_key);
  void trust(PeerHandle handle);
  void disconnect(PeerHandle handle);
  Result<void> send(PeerHandle handle, std::span<const std::byte> bytes);
  std::size_t outbox_bytes(PeerHandle handle) const;
  const BusCounters& counters() const { return counters_; }
  void close(Duration linger);

 private:
  enum class Stage { resolving, pausing, connecting, up };
  // Frames of a message in the outbox are shared with the threads of libzmq.
  using SharedMessage = std::shared_ptr<zmq::message_t>;
  struct Outgoing {
    SharedMessage body;
    std::size_t sent = 0;
  };

  struct Peer {
    PeerHandle handle;
    // Shared with the delivery in progress, which may end the peer.
    std::shared_ptr<const PeerOrigin> origin;
    std::string route;
    int fd = -1;
    std::deque<Outgoing> outbox;
    std::size_t outbox_bytes = 0;

    std::uint64_t chunked_messages = 0;  // completely sent in chunks
    bool assembling = false;             // a message of the peer is incomplete

    // Heartbeats, counted in ticks of the bus.
    bool sends_heartbeats = false;
    std::uint64_t last_tick = 0;   // tick of the last received message
    std::uint64_t read_bytes = 0;  // payload

    // Accepted peers only.
    bool announced = false;  // the owner knows the peer
    bool trusted = false;
    bool cut = false;
    bool suspect = false;
    bool unroutable = false;

    // Connected peers only.
    Stage stage = Stage::resolving;
    std::optional<Address> address;
    std::optional<SocketAddress> numeric;
    std::string endpoint;
    Time paused_until;
    std::optional<Failure> lost;
    std::unique_ptr<PortProbe> probe;

    // Time at which the peer became suspect or lost, and time of the next probe of its route.
    Time doubted_since;
    Time next_trial;
  };
  struct PendingEvent {
    bool of_bound = false;
    ZmqEvent event;
  };
  // Backoff before the next connection to an endpoint.
  struct Pause {
    Duration length{0};
    Time until;
  };
  enum class Sent { yes, full, unroutable };

  // Input, in bus.cc.
  void pump();
  void collect_events();
  bool drain(BusSocket& socket, bool bound);
  bool receive_frames(zmq::socket_t& router);
  void deliver(zmq::message_t& route, bool bound, const std::optional<ChunkHeader>& header);
  Peer* admit(std::string_view route, zmq::message_t& body, int fd);
  void flush_blocked();
  Sent try_send(Peer& peer, zmq::message_t& body);
  Result<void> queue(Peer& peer, zmq::message_t body);
  Sent flush(Peer& peer);
  void touch();
  void touch(bool bound);

  // Chunks of large messages, in bus_chunks.cc.
  static ChunkLimits chunk_limits_of(const BusOptions& options);
  Result<void> send_large(Peer& peer, std::span<const std::byte> bytes);
  Sent send_chunks(Peer& peer, Outgoing& message);
  Sent send_chunk(Peer& peer, std::span<const std::byte> message, std::size_t begin,
                  const SharedMessage* owner);
  bool is_proven(const Peer& peer) const;
  // Size of the largest frame that the bus of `peer` accepts from this one.
  std::size_t frame_limit(const Peer& peer) const;
  void take_chunk(PeerHandle handle, const ChunkHeader& header);
  void drop_incomplete(Peer& peer);

  // Heartbeats and limits, in bus_limits.cc.
  static ConnectionLimits limits_of(const BusOptions& options);
  void note_opened(const ZmqEvent& event, bool bound);
  // False if the peer has sent too many bytes without a proven key. Then it has been closed.
  bool read_some(Peer& peer);
  std::optional<std::uint64_t> read_bytes(int fd) const;
  void check_limits();
  void arm_limits();
  void send_heartbeats();
  void arm_heartbeats();
  void close_peer(Peer& peer, const Failure& why);
  void reject(PeerHandle handle, const Failure& why);

  // Connection states of peers, in bus_peers.cc.
  Result<void> start(Peer& peer);
  void resolve(Peer& peer);
  void pause(Peer& peer);
  void start_due();
  Result<void> begin(Peer& peer, const SocketAddress& numeric);
  void apply_events();
  void on_bound_event(const ZmqEvent& event);
  void on_connecting_event(const ZmqEvent& event);
  void suspect_all_of(int fd);
  void judge_doubted();
  bool seems_gone(Peer& peer);
  void set_up(Peer& peer);
  void probe(Peer& peer);
  void lengthen_pause(const Peer& peer);
  void end(Peer& peer, const Failure& why);
  void forget(Peer& peer);
  Peer* find(PeerHandle handle);

  EventLoop& loop_;
  const BusOptions options_;
  const BusCallbacks callbacks_;
  std::unique_ptr<BusSockets> sockets_;
  std::vector<Watch> watches_;  // bound router, connecting router, and their monitors
  bool poll_all_ = false;       // poll both routers and the monitors
  bool poll_bound_ = false;
  bool poll_connecting_ = false;
  Timer judge_timer_;
  Timer pause_timer_;
  Timer limits_timer_;
  Timer heartbeat_timer_;
  ConnectionGuard guard_;
  ChunkAssembler assembler_;
  ChunkAssembler::Frames frames_;     // received frames of a message, without its header
  std::vector<std::byte> assembled_;  // memory of the last message that was assembled
  ConnectionGuard::End end_of_handshake_ = ConnectionGuard::End::unknown;  // last event
  bool all_read_ = true;    // since the last check of limits
  std::uint64_t tick_ = 0;  // heartbeat intervals
  Time ticked_at_;
  std::unique_ptr<NameResolver> resolver_;
  bool closed_ = false;
  BusCounters counters_;

  std::uint64_t next_handle_ = 1;
  std::map<PeerHandle, Peer> peers_;
  std::unordered_map<std::string, PeerHandle> bound_routes_;
  std::unordered_map<std::string, PeerHandle> connected_routes_;
  std::unordered_map<std::string, PeerHandle> endpoints_;
  std::unordered_multimap<int, PeerHandle> accepted_of_fd_;
  std::unordered_map<int, PeerHandle> connected_of_fd_;
  std::set<PeerHandle> blocked_;  // peers with a route and a non-empty outbox
  std::set<PeerHandle> doubted_;  // suspect or lost
  std::unordered_map<std::string, Pause> pauses_;
  std::deque<PendingEvent> events_;
  Time events_since_;
};

}  // namespace mobula::internal
