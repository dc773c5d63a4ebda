// Core of one group member: checks the handshake of each operation, chooses the path of the
// elements, orders device turns, and decides when the group is unusable. One operation at a time.
// Thread: owner (pure).
// Not: messages, memory, payload, and the communicator; the owner executes `stage()` and reports
// the results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "tensor/collective/core/control_message.h"
#include "tensor/collective/core/operation.h"
#include "tensor/collective/core/refusal.h"

namespace mobula::internal::collective {

struct SendControl {
  std::optional<std::uint32_t> to;  // empty: all other members
  ControlMessage message;
};
// After the messages: no further message follows, and the others see the end of the stream. Payload
// in transit is discarded.
struct CloseConnections {};
using MemberCommand = std::variant<SendControl, CloseConnections>;

// Whether device tensors use a communicator of the members' devices.
enum class Communication : std::uint8_t {
  never,
  always,  // begun with the group
  // begun by the first operation that is large enough; without one, or after a failure, tensors use
  // the host
  useful,
};

struct MemberTerms {
  std::uint32_t rank = 0;
  std::vector<std::string> names;  // human-readable, by rank
  Communication communication = Communication::never;
  // with `useful`: smallest part, in bytes, that uses a communicator
  std::size_t communicated_from = 256 * 1024;
};

// Facts about all members, known after the connections are established; by rank.
struct MemberLocations {
  std::vector<std::string> processes;  // process ids, the order of turns
  std::vector<std::string> hosts;      // host identities as NCCL sees them
  std::string no_communicator;         // reason against a communicator; empty: allowed
};

// Each operation starts with a handshake: every member sends its operation to all others. All
// members then have the same messages and reach the same verdict before bytes move. Members of a
// communicator take the turns of their devices in the order of process ids, each notifying the next
// one. Transfers use the same order, so no deadlock is possible.
//
// An operation over a communicator that an operation began (`useful`) is complete when all
// participants have reported completion. If one member reports that it released the communicator,
// all release it. The same operation then uses the host, and so do all later ones. A member reports
// the release before its next message, so all members agree on the state of the communicator for
// each handshake.
//
// A member that gives up names the responsible ranks and closes, and the others report the same
// ranks. A member that gives up after a completed operation does not fail that operation at other
// members.
class MemberCore {
 public:
  using Commands = std::vector<MemberCommand>;
  using Ranks = std::vector<std::uint32_t>;

  // The current action of the owner, which reports its end.
  enum class Stage : std::uint8_t {
    idle,     // none; `refused` has the result of the last operation
    hearing,  // receive messages of `missing`
    // obtain memory for `agreed` on path `way`, then `prepared`; repeated after a fallback
    preparing,
    beginning,   // create the communicator id, then `begun`
    claiming,    // acquire the turn of the device, then `turn_taken`
    opening,     // begin the communicator with `beginning`, or connect the plugin, then `opened`
    closing,     // shut the communicator down, then `closed`
    moving,      // move the bytes, then `moved`
    explaining,  // receive messages that may explain a failed transfer
  };
  enum class Way : std::uint8_t { words, plan, device };

  explicit MemberCore(MemberTerms terms);
  void connected(MemberLocations locations) { locations_ = std::move(locations); }

  // ---- requests of the owner, in stage `idle` ----
  void open(Time now, std::optional<Time> deadline, Commands& out);
  // `operand`: sent with the handshake if it is small.
  void meet(Time now, const Operation& own, std::span<const std::byte> operand,
            std::optional<Time> deadline, Commands& out);
  void send(Time now, std::uint32_t to, const Operation& operation, std::optional<Time> deadline,
            Commands& out);
  void receive(Time now, std::uint32_t from, std::optional<Time> deadline, Commands& out);

  // ---- events; an unexpected event changes nothing ----
  void on(Time now, std::uint32_t rank, ControlMessage message, Commands& out);
  // The control channel of the member ended; all its messages were delivered.
  void cut_off(Time now, std::uint32_t rank, const std::string& why, Commands& out);
  // The payload stream of the member failed; its control messages may still explain the reason.
  void wire_failed(Time now, std::uint32_t rank, const std::string& why);
  void begun(Time now, Result<std::vector<std::byte>> beginning, Commands& out);
  void turn_taken(Time now, const std::optional<Failure>& failure, Commands& out);
  void opened(Time now, const std::optional<Failure>& failure, Commands& out);
  // With `failure`, the library may access the memory forever.
  void closed(Time now, const std::optional<Failure>& failure, Commands& out);
  void prepared(Time now, const std::optional<Failure>& failure, Commands& out);
  void moved(Time now, const std::optional<Failure>& failure, Commands& out);
  // The operation cannot continue on this member.
  void failed(Time now, const std::string& why, Commands& out);
  void cancelled(Time now, Commands& out);
  // The group is destroyed on this member.
  void left(Time now, Commands& out);
  // `moves_with`: members that the owner waits for during a transfer, or while it connects a
  // plugin.
  void tick(Time now, const Ranks& moves_with, Commands& out);
  std::optional<Time> next_deadline() const;

  // ---- queries ----
  Stage stage() const { return stage_; }
  // Result of the last operation in stage `idle`; empty: success.
  const std::optional<Refusal>& refused() const { return refused_; }
  // Reason why no operation is possible any more.
  const std::optional<Refusal>& over() const { return over_; }
  // Members that this member waits for.
  Ranks missing() const;
  const Operation& agreed() const { return agreed_; }
  Way way() const { return way_; }
  // Peer of a send or receive; empty: all members participate.
  std::optional<std::uint32_t> other() const { return other_; }
  // Handshake messages by rank, with their operands.
  const std::vector<ControlMessage>& said() const { return said_; }
  const std::vector<std::byte>& beginning() const { return beginning_; }
  // True while the turn of the device is needed.
  bool needs_turn() const { return needs_turn_; }
  bool has_communicator() const { return communicator_ == Communicator::open; }
  // A communicator failed or was released; no other one follows.
  bool communicator_failed() const { return communicator_ == Communicator::failed; }
  // With `useful`: reason why the last device tensors did not use a communicator.
  const std::string& no_communicator() const { return no_communicator_; }
  // Devices of the communicator, by rank; empty without one.
  const std::vector<std::string>& devices() const { return devices_; }
  // Current operation and its start time.
  const std::string& doing() const { return doing_; }
  Time began() const { return began_; }

 private:
  enum class Wait : std::uint8_t { handshakes, accept, offer, begin, turn, opened, came };
  enum class Communicator : std::uint8_t { none, opening, open, failed };
  struct Peer {
    std::deque<ControlMessage> received;  // messages that are not processed yet
    bool accepted = false;                // it accepted an offer of this member
    std::string accepted_without = {};    // reason why it had released its communicator before
    std::optional<ControlMessage> gave_up = {};  // its last message
  };

  std::uint32_t size() const { return static_cast<std::uint32_t>(terms_.names.size()); }
  const std::string& own_name() const { return terms_.names[terms_.rank]; }
  std::string names(const Ranks& ranks) const;
  bool starts(Time now, std::string doing, std::optional<Time> deadline);
  bool names_another(std::uint32_t rank, const char* what);
  void say(std::optional<std::uint32_t> to, const ControlMessage& message, Commands& out);
  const ControlMessage* next_of(std::uint32_t rank, ControlKind kind) const;
  ControlMessage take(std::uint32_t rank, ControlKind kind);
  void wait(Wait wait, Time now, Commands& out);
  void go_on(Time now, Commands& out);

  // Decisions after the messages have arrived.
  void conclude(Time now, Commands& out);
  void settle_path(Time now, Commands& out);
  std::string why_not_by_device() const;
  void prepare(Way way);
  void accepted(Time now, Commands& out);
  void offered(Time now, Commands& out);

  void open_communicator(Time now, Commands& out);
  void stop_opening(Time now, std::string why, Commands& out);
  void conclude_opening(Time now, Commands& out);
  const ControlMessage* failed_opening() const;
  void take_turns(Time now, Commands& out);
  void turn_comes(Time now, Commands& out);

  const ControlMessage* released_before(std::uint32_t rank, ControlKind kind) const;
  const ControlMessage* answer_of(std::uint32_t rank) const;
  void note_releases(Commands& out);
  void let_go(const std::string& why, Commands& out);
  void forget(std::initializer_list<ControlKind> kinds);
  bool stops_moving(Time now, Commands& out);
  void stop_moving(Time now, std::string why, Commands& out);
  void report_arrival(Time now, Commands& out);
  void conclude_moving(Time now, Commands& out);

  bool received_end(Commands& out);
  void done(Commands& out);
  void refuse(Refusal why);
  void explain(Time now, Refusal unexplained);
  void give_up(Refusal why, Commands& out);

  const MemberTerms terms_;
  MemberLocations locations_;
  std::vector<Peer> peers_;  // by rank; the entry of this member is unused
  std::optional<Refusal> over_;
  std::uint64_t number_ = 0;  // number of the last operation of all members
  bool together_ = false;     // that operation is in progress

  // Current operation:
  Stage stage_ = Stage::idle;
  Wait wait_ = Wait::handshakes;
  std::string doing_;
  Time began_;
  std::optional<Time> deadline_;
  std::optional<Time> explained_by_;
  Refusal unexplained_;
  Operation own_;
  Operation agreed_;
  std::vector<ControlMessage> said_;
  Way way_ = Way::plan;
  std::optional<std::uint32_t> other_;
  Ranks line_;  // order of the device turns
  bool needs_turn_ = false;
  bool sends_ = false;    // send, not receive
  bool answers_ = false;  // over a communicator: all members report their completion
  std::optional<std::string> own_answer_;  // own report: reason of a release, or empty
  std::string released_before_;  // reason why a member had no communicator at its handshake
  std::optional<Refusal> refused_;

  // Communicator:
  Communicator communicator_ = Communicator::none;
  std::vector<std::byte> beginning_;
  bool is_begun_ = false;                   // the owner has begun it
  std::optional<std::string> own_opening_;  // own report: reason of a failure, or empty
  std::string no_communicator_;
  std::vector<std::string> devices_;
};

// Fails with invalid_argument if NCCL does not support this reduction of these elements.
Result<void> check_for_library(const Operation& operation);
// True if the operands are sent with the handshake in a group of this size.
bool goes_with_words(const Operation& operation, std::size_t members);

}  // namespace mobula::internal::collective
