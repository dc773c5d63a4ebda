// Messages between two processes about tensors that one of them pulls from the other. Delivery is
// in order and complete, or the peer is reported lost. The receiver numbers transfers and never
// reuses a number; a retry is a new transfer.
// Thread: owner (plain values).
// Not: order on the wire. The position in a variant is the wire number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/fields.h"
#include "base/id.h"
#include "base/model/direct_path.h"
#include "base/model/principal.h"
#include "protocol/codec/wire.h"

namespace mobula::internal {

// Receiver to holder: requests the bytes over this path. A repeated request checks that the holder
// still knows the transfer. Answered by RegionsReady, RegionsWait, or RegionsRefused. On a
// two-sided path, RegionSteps follow.
struct PullRegions {
  std::uint64_t transfer = 0;
  ObjectId object;
  DirectPath path = DirectPath::shm;
  std::uint64_t size_bytes = 0;  // size of all regions in total
  std::uint32_t lane = 0;  // two-sided: device ordinal of the receiver
  bool may_redirect = true;  // the holder may redirect to peers with a replica; for chunks only
  // number of the chunk in the division of the holder, from 1; 0: the whole tensor
  std::uint32_t part = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("transfer", &PullRegions::transfer), field("object", &PullRegions::object),
                 field("path", &PullRegions::path), field("size_bytes", &PullRegions::size_bytes),
                 field("lane", &PullRegions::lane), field("may_redirect", &PullRegions::may_redirect),
                 field("part", &PullRegions::part));
  }
  friend bool operator==(const PullRegions&, const PullRegions&) = default;
};

// The holder pins the bytes until RegionsTaken or RegionsLeft. `ticket` is the offer handle that
// gives access to them.
struct RegionsReady {
  std::uint64_t transfer = 0;
  std::string ticket;
  std::uint32_t lane = 0;  // two-sided: device ordinal of the holder
  std::uint64_t epoch = 0;  // two-sided: epoch of the channel between the two devices at the holder
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("transfer", &RegionsReady::transfer), field("ticket", &RegionsReady::ticket),
                 field("lane", &RegionsReady::lane), field("epoch", &RegionsReady::epoch));
  }
  friend bool operator==(const RegionsReady&, const RegionsReady&) = default;
};

// The transfer is queued, or waits for its producer.
struct RegionsWait {
  std::uint64_t transfer = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("transfer", &RegionsWait::transfer));
  }
  friend bool operator==(const RegionsWait&, const RegionsWait&) = default;
};

enum class RegionRefusal : std::uint8_t {
  gone = 1,  // not at this holder, or no longer there
  stored = 2,  // now in the object store of the holder's node
  redirected = 3,  // busy: `others` have replicas
  no_path = 4,  // not available over this path
  wrong_size = 5,
  too_many = 6,  // wait
  failed = 7,  // failure at the holder, which has the bytes
};
std::string_view to_string(RegionRefusal why);

// Rejects a pull. It may follow RegionsReady if the holder fails. Then the received bytes are
// invalid, and the receiver sends RegionsLeft once it no longer accesses them.
struct RegionsRefused {
  std::uint64_t transfer = 0;
  RegionRefusal why = RegionRefusal::gone;
  std::string text;
  std::uint64_t epoch = 0;  // two-sided, after RegionsReady: new epoch of the channel
  std::vector<ProcessId> others;
  std::vector<Endpoint> where;  // endpoints of `others`
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("transfer", &RegionsRefused::transfer), field("why", &RegionsRefused::why),
                 field("text", &RegionsRefused::text), field("epoch", &RegionsRefused::epoch),
                 field("others", &RegionsRefused::others), field("where", &RegionsRefused::where));
  }
  friend bool operator==(const RegionsRefused&, const RegionsRefused&) = default;
};

// All bytes have arrived. `keeps`: the receiver keeps the chunk, and the holder may redirect other
// receivers to it until RegionCopyGone.
struct RegionsTaken {
  std::uint64_t transfer = 0;
  bool keeps = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("transfer", &RegionsTaken::transfer), field("keeps", &RegionsTaken::keeps));
  }
  friend bool operator==(const RegionsTaken&, const RegionsTaken&) = default;
};

// The receiver cancels the transfer and no longer reads or writes for it.
struct RegionsLeft {
  std::uint64_t transfer = 0;
  std::uint64_t epoch = 0;  // two-sided: new epoch of the channel; older operations are invalid
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("transfer", &RegionsLeft::transfer), field("epoch", &RegionsLeft::epoch));
  }
  friend bool operator==(const RegionsLeft&, const RegionsLeft&) = default;
};

// One operation that both sides issue: the opening of the channel, or a chunk. The process with the
// lower id takes the turn of its device first, then the other one.
struct RegionStep {
  enum class Phase : std::uint8_t {
    wanted = 1,  // receiver to a holder with the lower id
    lower_ready = 2,  // the lower process has its turn
    go = 3,  // the higher process has its turn and has issued
  };
  std::uint64_t transfer = 0;
  std::uint32_t step = 0;  // from 0
  Phase phase = Phase::wanted;
  bool opens = false;  // decision of the receiver: the step opens the channel
  bool from_receiver = false;
  std::uint64_t epoch = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("transfer", &RegionStep::transfer), field("step", &RegionStep::step),
                 field("phase", &RegionStep::phase), field("opens", &RegionStep::opens),
                 field("from_receiver", &RegionStep::from_receiver), field("epoch", &RegionStep::epoch));
  }
  friend bool operator==(const RegionStep&, const RegionStep&) = default;
};

// The sender evicted its replica and keeps no chunk of it.
struct RegionCopyGone {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &RegionCopyGone::object));
  }
  friend bool operator==(const RegionCopyGone&, const RegionCopyGone&) = default;
};

// Receiver to holder: the connection has been idle and may be closed. The receiver sends nothing
// more over it until RegionsParted.
struct RegionsParting {
  std::uint64_t round = 0;  // number of the close request of this receiver
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("round", &RegionsParting::round));
  }
  friend bool operator==(const RegionsParting&, const RegionsParting&) = default;
};

// The last message on the connection. The receiver closes it and opens a new one for its next pull.
struct RegionsParted {
  std::uint64_t round = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("round", &RegionsParted::round));
  }
  friend bool operator==(const RegionsParted&, const RegionsParted&) = default;
};

// Availability of one path in a process, for its peers in the exchange of tensors.
struct RegionPath {
  DirectPath path = DirectPath::shm;
  std::string why_not;  // reason that the path is unavailable; empty: available
  std::string version;  // must be equal on both sides; empty: any
  std::uint32_t lane = 0;  // device ordinal of the process, for device memory
  std::vector<std::byte> endpoint;  // endpoint of the transport of the path, opaque to others
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("path", &RegionPath::path), field("why_not", &RegionPath::why_not),
                 field("version", &RegionPath::version), field("lane", &RegionPath::lane),
                 field("endpoint", &RegionPath::endpoint));
  }
  friend bool operator==(const RegionPath&, const RegionPath&) = default;
};
// First message of the accepting side of a connection, before any RegionMessage.
struct RegionReach {
  std::string machine;  // identity that processes with shared memory have in common
  // trusted network of its node: bytes may be plain if both sides name the same one
  std::string fabric;
  // UUIDs by device ordinal; empty: a device that the process does not have
  std::vector<std::string> devices;
  std::vector<RegionPath> paths;
  // Chunk size for large tensors. The process serves chunks of tensors that it has or received to
  // peers with the same chunk size. 0: it serves no chunks.
  std::uint64_t part_bytes = 0;
  Endpoint self;  // endpoint for pulls of retained replicas; empty: none
  bool may_part = false;  // it answers RegionsParting
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("machine", &RegionReach::machine),
                 field("fabric", &RegionReach::fabric), field("devices", &RegionReach::devices),
                 field("paths", &RegionReach::paths), field("part_bytes", &RegionReach::part_bytes),
                 field("self", &RegionReach::self),
                 field("may_part", &RegionReach::may_part));
  }
  friend bool operator==(const RegionReach&, const RegionReach&) = default;
};

using RegionMessage = std::variant<PullRegions, RegionsReady, RegionsWait, RegionsRefused, RegionsTaken, RegionsLeft,
                                   RegionStep, RegionCopyGone, RegionsParting, RegionsParted>;

// Rejects a connection. The peer is notified immediately, because it cannot see over a network why
// no reply arrives.
struct RegionLinkRefused {
  std::string why;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("why", &RegionLinkRefused::why));
  }
  friend bool operator==(const RegionLinkRefused&, const RegionLinkRefused&) = default;
};

// A frame of such a connection. Each side first sends PeerHello and then its RegionReach, the
// connecting side first. The connecting side is the receiver of every transfer on the connection.
struct RegionWord {
  RegionMessage message;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("message", &RegionWord::message));
  }
  friend bool operator==(const RegionWord&, const RegionWord&) = default;
};
using RegionLinkMessage = std::variant<PeerHello, RegionReach, RegionWord, RegionLinkRefused>;

}  // namespace mobula::internal
