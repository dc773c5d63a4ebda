// What one member of a collective group decides: whether all have come and want the same, who is missing, which way
// the elements go, whose turn it is, and what ends the group. Pure; not thread-safe. Its owner carries words,
// memory, bytes and the communicator, and does what stage() says; what happens it tells. One operation at a time.
//
// Every operation begins with a meeting: each member says to each what it is about to do. All members have the same
// words, and so come to the same verdict; nothing moves before. Where the group is of a communicator, or makes one,
// members take the turns of their devices in the order of their processes' ids, each telling the next one: the order
// in which transfers of two take theirs, so nobody waits in a circle.
//
// What goes by a communicator that an operation has begun (`useful`) is done when all who take part have said that
// theirs came. Where one says that it lets go of the communicator instead, all do, and the very same operation goes by
// way of the host; so does everything after it. Nobody is ahead of what he has said: whoever lets go says so before
// what he says next, so that all know of each whether he had a communicator when he said what he wants.
//
// Who gives up says because of whom, and closes; the others name those. What a member gave up after an operation
// that it has done does not end that one at others.
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
#include "collective/core/operation.h"
#include "collective/core/refusal.h"
#include "collective/core/word.h"

namespace mobula::internal::collective {

struct SayWord {
  std::optional<std::uint32_t> to;  // none: to all others
  Word word;
};
// After what was said: nothing more is, and the others hear the end. Bytes under way are of no use.
struct CloseConnections {};
using MemberCommand = std::variant<SayWord, CloseConnections>;

// Whether elements go by a communicator of the members' devices.
enum class Communication : std::uint8_t {
  never,
  always,  // it is begun with the group
  useful,  // it is begun by the first operation that is worth it; where it cannot be had, or fails, there is none
};

struct MemberTerms {
  std::uint32_t rank = 0;
  std::vector<std::string> names;  // by rank, for people
  Communication communication = Communication::never;
  std::size_t communicated_from = 256 * 1024;  // `useful`: bytes of one part from which it is worth it
};

// What is known of all members when they are connected. By rank.
struct MemberPlaces {
  std::vector<std::string> processes;  // turns are taken in their order
  std::vector<std::string> hosts;      // what their communicators take for their machines
  std::string no_communicator;         // why there may be none; empty: there may
};

class MemberCore {
 public:
  using Commands = std::vector<MemberCommand>;
  using Ranks = std::vector<std::uint32_t>;

  // What its owner does now, and tells when it has ended.
  enum class Stage : std::uint8_t {
    idle,        // nothing: refused() says how the last operation ended
    hearing,     // hears words of missing()
    preparing,   // takes memory for agreed(), by way(): prepared(); again, where it is to go another way
    beginning,   // makes what a communicator begins with: begun()
    claiming,    // claims the turn of its device: turn_taken()
    opening,     // begins the communicator with beginning(), or what else the group goes by: opened()
    closing,     // takes the communicator down: closed()
    moving,      // moves the bytes: moved()
    explaining,  // hears words: they may say why bytes move no more
  };
  enum class Way : std::uint8_t { words, plan, device };

  explicit MemberCore(MemberTerms terms);
  void connected(MemberPlaces places) { places_ = std::move(places); }

  // ---- what its owner wants: when idle ----
  void open(Time now, std::optional<Time> deadline, Commands& out);
  // `operand`: what goes with the word, where it is small.
  void meet(Time now, const Operation& own, std::span<const std::byte> operand, std::optional<Time> deadline,
            Commands& out);
  void send(Time now, std::uint32_t to, const Operation& operation, std::optional<Time> deadline, Commands& out);
  void receive(Time now, std::uint32_t from, std::optional<Time> deadline, Commands& out);

  // ---- what happens: what is out of place changes nothing ----
  void heard(Time now, std::uint32_t rank, Word word, Commands& out);
  // All that was said is heard.
  void cut_off(Time now, std::uint32_t rank, const std::string& why, Commands& out);
  // Bytes neither come from it nor go there any more; what it says may come later, and say why.
  void wire_failed(Time now, std::uint32_t rank, const std::string& why);
  void begun(Time now, Result<std::vector<std::byte>> beginning, Commands& out);
  void turn_taken(Time now, const std::optional<Failure>& failure, Commands& out);
  void opened(Time now, const std::optional<Failure>& failure, Commands& out);
  // `failure`: the library may read and write for ever.
  void closed(Time now, const std::optional<Failure>& failure, Commands& out);
  void prepared(Time now, const std::optional<Failure>& failure, Commands& out);
  void moved(Time now, const std::optional<Failure>& failure, Commands& out);
  // This member cannot go on with what is under way.
  void failed(Time now, const std::string& why, Commands& out);
  void cancelled(Time now, Commands& out);
  // The group is destroyed, here.
  void left(Time now, Commands& out);
  // `moves_with`: whom its owner waits for while it moves bytes, or begins what is no communicator.
  void tick(Time now, const Ranks& moves_with, Commands& out);
  std::optional<Time> next_deadline() const;

  // ---- views ----
  Stage stage() const { return stage_; }
  // Of the last operation, when idle; nothing: it was done.
  const std::optional<Refusal>& refused() const { return refused_; }
  // Why nothing more can be done.
  const std::optional<Refusal>& over() const { return over_; }
  // Whom it waits for.
  Ranks missing() const;
  const Operation& agreed() const { return agreed_; }
  Way way() const { return way_; }
  // Of a send or a receive; none: all members take part.
  std::optional<std::uint32_t> other() const { return other_; }
  // By rank, of a meeting; what came with them.
  const std::vector<Word>& said() const { return said_; }
  const std::vector<std::byte>& beginning() const { return beginning_; }
  // The turn of its device is claimed, or may be given back.
  bool needs_turn() const { return needs_turn_; }
  bool has_communicator() const { return communicator_ == Communicator::open; }
  // It could not be begun, or was let go of: from now on there is none.
  bool communicator_failed() const { return communicator_ == Communicator::failed; }
  // Of `useful`: why elements of devices did not go by a communicator, the last time.
  const std::string& no_communicator() const { return no_communicator_; }
  // The devices that the communicator is of, by rank; empty without one.
  const std::vector<std::string>& devices() const { return devices_; }
  // What is under way, and since when.
  const std::string& doing() const { return doing_; }
  Time began() const { return began_; }

 private:
  enum class Wait : std::uint8_t { meetings, accept, offer, begin, turn, opened, came };
  enum class Communicator : std::uint8_t { none, opening, open, failed };
  struct Peer {
    std::deque<Word> heard;           // that nothing has been done with
    bool accepted = false;            // an offer of this member
    std::string accepted_without = {};  // it had let go of its communicator by then: why
    std::optional<Word> gave_up = {};  // the last that it said
  };

  std::uint32_t size() const { return static_cast<std::uint32_t>(terms_.names.size()); }
  const std::string& own_name() const { return terms_.names[terms_.rank]; }
  std::string names(const Ranks& ranks) const;
  bool starts(Time now, std::string doing, std::optional<Time> deadline);
  bool names_another(std::uint32_t rank, const char* what);
  void say(std::optional<std::uint32_t> to, const Word& word, Commands& out);
  const Word* next_of(std::uint32_t rank, WordKind kind) const;
  Word take(std::uint32_t rank, WordKind kind);
  void wait(Wait wait, Time now, Commands& out);
  void go_on(Time now, Commands& out);

  // What is decided once the words are there.
  void conclude(Time now, Commands& out);
  void settle_way(Time now, Commands& out);
  std::string why_not_by_device() const;
  void prepare(Way way);
  void accepted(Time now, Commands& out);
  void offered(Time now, Commands& out);

  void open_communicator(Time now, Commands& out);
  void stop_opening(Time now, std::string why, Commands& out);
  void conclude_opening(Time now, Commands& out);
  const Word* failed_opening() const;
  void take_turns(Time now, Commands& out);
  void turn_comes(Time now, Commands& out);

  const Word* let_go_before(std::uint32_t rank, WordKind kind) const;
  const Word* answer_of(std::uint32_t rank) const;
  void notice_who_let_go(Commands& out);
  void let_go(const std::string& why, Commands& out);
  void forget(std::initializer_list<WordKind> kinds);
  bool stops_moving(Time now, Commands& out);
  void stop_moving(Time now, std::string why, Commands& out);
  void say_came(Time now, Commands& out);
  void conclude_moving(Time now, Commands& out);

  bool heard_of_an_end(Commands& out);
  void done(Commands& out);
  void refuse(Refusal why);
  void explain(Time now, Refusal unexplained);
  void give_up(Refusal why, Commands& out);

  const MemberTerms terms_;
  MemberPlaces places_;
  std::vector<Peer> peers_;  // by rank; its own place is empty
  std::optional<Refusal> over_;
  std::uint64_t number_ = 0;  // of the last operation of all members together
  bool together_ = false;     // it is under way

  // Of what is under way.
  Stage stage_ = Stage::idle;
  Wait wait_ = Wait::meetings;
  std::string doing_;
  Time began_;
  std::optional<Time> deadline_;
  std::optional<Time> explained_by_;
  Refusal unexplained_;
  Operation own_;
  Operation agreed_;
  std::vector<Word> said_;
  Way way_ = Way::plan;
  std::optional<std::uint32_t> other_;
  Ranks line_;  // who takes turns, in their order
  bool needs_turn_ = false;
  bool sends_ = false;  // of two
  bool answers_ = false;  // it goes by a communicator, and all say what became of their part
  std::optional<std::string> own_answer_;  // what this member has said: why it let go, or nothing
  std::string let_go_before_;  // why one had no communicator when it said what it wants
  std::optional<Refusal> refused_;

  // Of the communicator.
  Communicator communicator_ = Communicator::none;
  std::vector<std::byte> beginning_;
  bool is_begun_ = false;                   // its owner has begun it
  std::optional<std::string> own_opening_;  // what this member has said of it: why it failed, or nothing
  std::string no_communicator_;
  std::vector<std::string> devices_;
};

// Whether a library of devices reduces such elements so: invalid_argument where it does not.
Result<void> check_for_library(const Operation& operation);
// Whether the operands of a group of so many go with the words.
bool goes_with_words(const Operation& operation, std::size_t members);

}  // namespace mobula::internal::collective
