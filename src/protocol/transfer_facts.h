// What a process says of the tensors that have come to it, and of the operations of collective groups that it took
// part in: the latest ones, when asked, and counts by path for as long as it lives. And what an agent says of the
// objects that have come into its node's store from other nodes: the latest ones, when asked. Both tell as well what
// is still on its way to them, to who asks for that. Plain structs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/id.h"
#include "base/time.h"
#include "model/direct_path.h"

namespace mobula::internal {

// How far it is. A teller that knows nothing of this tells what has ended alone, which is the default.
enum class TransferState : std::uint8_t {
  ended = 0,    // it has come, or failed
  pending = 1,  // waits for its turn, for room, or for a word from who has it
  running = 2,  // bytes of it are asked for
};

// One tensor's way to the process that tells of it; or its part in one operation of a group, of no object and no holder;
// or what one other node gave of an object to the agent that tells of it.
struct TransferFact {
  ObjectId object;
  ProcessId holder;
  DirectPath path = DirectPath::store;  // by which it came; of one that failed: the last that was tried
  bool failed = false;
  std::int64_t size_bytes = 0;  // that came
  Duration queued{};  // until there was room for it
  Duration moved{};
  Duration ago{};     // from its end to the answer; of what is on its way: from when it was wanted
  bool in_place = false;
  bool encrypted = false;
  std::vector<std::string> refusals;  // of other paths, and of tries that failed; at most `max_refusals`
  static constexpr std::size_t max_refusals = 16;
  std::string group;      // its name, else its id; empty: none
  std::string operation;  // of the group, and with whom
  std::int64_t sent_bytes = 0;  // by this process, in it
  NodeId holder_node;  // of an object in a store: who gave it; there is no holder then
  JobId job;           // likewise: whose it is
  TransferState state = TransferState::ended;
  std::int64_t whole_bytes = 0;  // of what is on its way: all that is to come
  std::vector<NodeId> sources;   // likewise, of an object in a store: who is read from; at most `max_sources`
  static constexpr std::size_t max_sources = 16;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &TransferFact::object), field("holder", &TransferFact::holder),
                 field("path", &TransferFact::path), field("failed", &TransferFact::failed),
                 field("size_bytes", &TransferFact::size_bytes), field("queued", &TransferFact::queued),
                 field("moved", &TransferFact::moved), field("ago", &TransferFact::ago),
                 field("in_place", &TransferFact::in_place), field("encrypted", &TransferFact::encrypted),
                 field("refusals", &TransferFact::refusals), field("group", &TransferFact::group),
                 field("operation", &TransferFact::operation), field("sent_bytes", &TransferFact::sent_bytes),
                 field("holder_node", &TransferFact::holder_node), field("job", &TransferFact::job),
                 field("state", &TransferFact::state), field("whole_bytes", &TransferFact::whole_bytes),
                 field("sources", &TransferFact::sources));
  }
  friend bool operator==(const TransferFact&, const TransferFact&) = default;
};

// What came to a process by one path, since the process started.
struct TransferCount {
  DirectPath path = DirectPath::store;
  std::uint64_t transfers = 0;  // that arrived
  std::uint64_t bytes = 0;      // of these
  std::uint64_t failures = 0;   // tries that failed, whatever came of the transfer
  std::uint64_t fallbacks = 0;  // of the transfers: another path had been tried before
  std::uint64_t encrypted = 0;  // of the transfers
  std::uint64_t in_place = 0;   // of the transfers: nothing was copied
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("path", &TransferCount::path), field("transfers", &TransferCount::transfers),
                 field("bytes", &TransferCount::bytes), field("failures", &TransferCount::failures),
                 field("fallbacks", &TransferCount::fallbacks), field("encrypted", &TransferCount::encrypted),
                 field("in_place", &TransferCount::in_place));
  }
  friend bool operator==(const TransferCount&, const TransferCount&) = default;
};

// Head to process, and to agents: what has come to you, and what is on its way? Answered by TransfersTold. Who asks for
// failed ones alone and for arrived ones alone asks for nothing that has ended.
struct AskTransfers {
  std::uint64_t request = 0;
  std::vector<DirectPath> paths;  // not empty: by one of these alone
  bool failed_only = false;
  bool arrived_only = false;
  std::uint64_t limit = 0;        // of the latest ones
  JobId job;                      // not empty, to agents: of it alone
  std::vector<TransferState> under_way;  // what is on its way, in one of these states; empty: nothing of that
  ObjectId object;                // not empty: of it alone
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &AskTransfers::request), field("paths", &AskTransfers::paths),
                 field("failed_only", &AskTransfers::failed_only),
                 field("arrived_only", &AskTransfers::arrived_only), field("limit", &AskTransfers::limit),
                 field("job", &AskTransfers::job), field("under_way", &AskTransfers::under_way),
                 field("object", &AskTransfers::object));
  }
  friend bool operator==(const AskTransfers&, const AskTransfers&) = default;
};

// Process or agent to head.
struct TransfersTold {
  std::uint64_t request = 0;
  std::vector<TransferFact> transfers;  // what is on its way, then the latest first
  std::uint64_t left_out = 0;           // that were asked for as well, forgotten ones included
  bool knows_under_way = false;         // it would have told what is on its way
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &TransfersTold::request), field("transfers", &TransfersTold::transfers),
                 field("left_out", &TransfersTold::left_out),
                 field("knows_under_way", &TransfersTold::knows_under_way));
  }
  friend bool operator==(const TransfersTold&, const TransfersTold&) = default;
};

// Process to head, now and then while they change, before a planned end, and after a restart of the head:
// whole counts, so that saying them twice changes nothing.
struct TransfersCounted {
  std::vector<TransferCount> counts;  // each path once
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("counts", &TransfersCounted::counts));
  }
  friend bool operator==(const TransfersCounted&, const TransfersCounted&) = default;
};

}  // namespace mobula::internal
