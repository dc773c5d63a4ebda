// Between two processes: tensors that one has and the other wants. In order, and either all that was said
// arrives or the peer is reported gone. A transfer is numbered by its receiver, who never uses a number
// again; a retry is another transfer. Plain structs; alternatives are wire numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/fields.h"
#include "base/id.h"
#include "model/direct_path.h"
#include "model/principal.h"
#include "protocol/wire.h"

namespace mobula::internal {

// Receiver to holder: I want these bytes by this path. Said again it asks whether you still know of it.
// Answered by RegionsReady, RegionsWait or RegionsRefused; for a two-sided path RegionSteps follow.
struct PullRegions {
  std::uint64_t transfer = 0;
  ObjectId object;
  DirectPath path = DirectPath::shm;
  std::uint64_t size_bytes = 0;  // of all regions together
  std::uint32_t lane = 0;        // two-sided: the receiver's device
  bool may_redirect = true;      // to others that have a copy; of parts alone
  std::uint32_t part = 0;        // of the holder's cut, from 1; 0: all of it
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("transfer", &PullRegions::transfer), field("object", &PullRegions::object),
                 field("path", &PullRegions::path), field("size_bytes", &PullRegions::size_bytes),
                 field("lane", &PullRegions::lane), field("may_redirect", &PullRegions::may_redirect),
                 field("part", &PullRegions::part));
  }
  friend bool operator==(const PullRegions&, const PullRegions&) = default;
};

// The bytes stay where they are until RegionsTaken or RegionsLeft. `ticket`: how to reach them.
struct RegionsReady {
  std::uint64_t transfer = 0;
  std::string ticket;
  std::uint32_t lane = 0;   // two-sided: the holder's device
  std::uint64_t epoch = 0;  // two-sided: of the channel between the two devices, as the holder has it
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("transfer", &RegionsReady::transfer), field("ticket", &RegionsReady::ticket),
                 field("lane", &RegionsReady::lane), field("epoch", &RegionsReady::epoch));
  }
  friend bool operator==(const RegionsReady&, const RegionsReady&) = default;
};

// It is in line, or waits for its producer.
struct RegionsWait {
  std::uint64_t transfer = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("transfer", &RegionsWait::transfer));
  }
  friend bool operator==(const RegionsWait&, const RegionsWait&) = default;
};

enum class RegionRefusal : std::uint8_t {
  gone = 1,         // not here, or not any more
  stored = 2,       // in the object store of the holder's node now
  redirected = 3,   // busy: `others` have copies
  no_path = 4,      // not by this one
  wrong_size = 5,
  too_many = 6,     // wait
  failed = 7,       // here, though the bytes are there
};
std::string_view to_string(RegionRefusal why);

// Instead of the bytes; also after RegionsReady, where the holder's side has failed meanwhile: then what
// has arrived is void, and the receiver says RegionsLeft when it is quiet.
struct RegionsRefused {
  std::uint64_t transfer = 0;
  RegionRefusal why = RegionRefusal::gone;
  std::string text;
  std::uint64_t epoch = 0;  // two-sided, after RegionsReady: the channel's from now on
  std::vector<ProcessId> others;
  std::vector<Endpoint> where;  // they are reached
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("transfer", &RegionsRefused::transfer), field("why", &RegionsRefused::why),
                 field("text", &RegionsRefused::text), field("epoch", &RegionsRefused::epoch),
                 field("others", &RegionsRefused::others), field("where", &RegionsRefused::where));
  }
  friend bool operator==(const RegionsRefused&, const RegionsRefused&) = default;
};

// All bytes are there. `keeps`: of a part; others may be sent here for it until RegionCopyGone.
struct RegionsTaken {
  std::uint64_t transfer = 0;
  bool keeps = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("transfer", &RegionsTaken::transfer), field("keeps", &RegionsTaken::keeps));
  }
  friend bool operator==(const RegionsTaken&, const RegionsTaken&) = default;
};

// The receiver does not want them any more, and nothing of it reads or writes for this transfer.
struct RegionsLeft {
  std::uint64_t transfer = 0;
  std::uint64_t epoch = 0;  // two-sided: the channel's from now on; what is older is void
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("transfer", &RegionsLeft::transfer), field("epoch", &RegionsLeft::epoch));
  }
  friend bool operator==(const RegionsLeft&, const RegionsLeft&) = default;
};

// One operation that both sides issue: the channel's opening, or a chunk. The process with the lower id
// has its device's turn first, then the other one.
struct RegionStep {
  enum class Phase : std::uint8_t {
    wanted = 1,      // receiver to a lower holder
    lower_ready = 2, // the lower one has its turn
    go = 3,          // so has the higher one, which has issued
  };
  std::uint64_t transfer = 0;
  std::uint32_t step = 0;  // from 0
  Phase phase = Phase::wanted;
  bool opens = false;      // as the receiver has decided: it is the channel's opening
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

// Of a copy that was kept no part is kept any longer.
struct RegionCopyGone {
  ObjectId object;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &RegionCopyGone::object));
  }
  friend bool operator==(const RegionCopyGone&, const RegionCopyGone&) = default;
};

// Receiver to holder: nothing has gone this way for a while, and nothing is wanted: the connection may be closed. Until
// RegionsParted comes the receiver says nothing more over it.
struct RegionsParting {
  std::uint64_t round = 0;  // of this receiver's partings
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("round", &RegionsParting::round));
  }
  friend bool operator==(const RegionsParting&, const RegionsParting&) = default;
};

// The last word over that connection: the receiver closes it, and makes another one when it wants something.
struct RegionsParted {
  std::uint64_t round = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("round", &RegionsParted::round));
  }
  friend bool operator==(const RegionsParted&, const RegionsParted&) = default;
};

// What a process can do for the exchange of tensors, as it tells those it exchanges them with.
struct RegionPath {
  DirectPath path = DirectPath::shm;
  std::string why_not;  // empty: it has it
  std::string version;  // that has to be equal on both sides; empty: any
  std::uint32_t lane = 0;  // of device memory: which of the process's devices
  std::vector<std::byte> endpoint;  // where the path's transport is reached; for that transport alone
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("path", &RegionPath::path), field("why_not", &RegionPath::why_not),
                 field("version", &RegionPath::version), field("lane", &RegionPath::lane),
                 field("endpoint", &RegionPath::endpoint));
  }
  friend bool operator==(const RegionPath&, const RegionPath&) = default;
};
// The first word of a connection's accepting side, before any RegionMessage.
struct RegionReach {
  std::string machine;  // what processes with common memory have in common
  std::string fabric;   // the trusted network that its node is on: bytes may go plain where both name the same
  std::vector<std::string> devices;  // UUIDs, by lane; empty: one that is not the process's
  std::vector<RegionPath> paths;
  // What it cuts large tensors by: of those it has, and those it has got from others, it gives parts to who cuts
  // by the same. 0: it does not.
  std::uint64_t part_bytes = 0;
  Endpoint self;  // where others find what it keeps; empty: nowhere
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

// The connection is of no use: its other side is told at once, since over a network it could not see why
// nobody answers.
struct RegionLinkRefused {
  std::string why;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("why", &RegionLinkRefused::why));
  }
  friend bool operator==(const RegionLinkRefused&, const RegionLinkRefused&) = default;
};

// What goes over such a connection: of each side a PeerHello and then its reach, first of the one that
// connected. That one is the receiver of every transfer that is spoken of.
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
