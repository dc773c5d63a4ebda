#include "tensor/collective/core/member_core.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/coverage_mark.h"

namespace mobula::internal::collective {
namespace {

const CoverageMark mark_mismatch("collective.members_want_different_things");
const CoverageMark mark_later_end("collective.end_of_a_later_operation");
const CoverageMark mark_crossing("collective.two_send_to_each_other");
const CoverageMark mark_explained("collective.library_failed_and_words_say_why");
const CoverageMark mark_unexplained("collective.library_failed_and_nobody_says_why");

// A member is at most one operation ahead; further messages are invalid.
constexpr std::size_t max_received = 8;
// Suffix of the announced library version. It shows that this release reports the completion of
// operations.
constexpr std::string_view agreed_upon = " (agreed)";
// Delay of a member's last messages after the library reports its end.
constexpr Duration control_timeout = 500ms;

double seconds(Duration span) { return std::chrono::duration<double>(span).count(); }

}  // namespace

bool goes_with_words(const Operation& operation, std::size_t members) {
  const bool kind =
      operation.kind == OperationKind::all_reduce || operation.kind == OperationKind::reduce ||
      operation.kind == OperationKind::broadcast || operation.kind == OperationKind::all_gather;
  return kind && static_cast<std::size_t>(operation.bytes()) <= inline_limit(members);
}

MemberCore::MemberCore(MemberTerms terms) : terms_(std::move(terms)), peers_(terms_.names.size()) {}

std::string MemberCore::names(const Ranks& ranks) const {
  std::vector<std::string> each;
  for (const auto rank : ranks) each.push_back(terms_.names[rank]);
  return fmt::format("{}", fmt::join(each, ", "));
}

// ---- requests of the owner ----------------------------------------------------------------------

bool MemberCore::starts(Time now, std::string doing, std::optional<Time> deadline) {
  MOBULA_CHECK(stage_ == Stage::idle, "a member does one thing at a time");
  refused_ = over_;
  doing_ = std::move(doing);
  began_ = now;
  deadline_ = deadline;
  other_.reset();
  said_.clear();
  released_before_.clear();
  return !over_;
}

void MemberCore::open(Time now, std::optional<Time> deadline, Commands& out) {
  if (!starts(now, "the beginning of the group's library", deadline)) return;
  if (terms_.communication != Communication::never) return open_communicator(now, out);
  line_.clear();
  stage_ = Stage::opening;
}

void MemberCore::meet(Time now, const Operation& own, std::span<const std::byte> operand,
                      std::optional<Time> deadline, Commands& out) {
  if (!starts(now, own.text(), deadline)) return;
  auto sound = check(own, size());
  if (sound && terms_.communication == Communication::always && !own.open)
    sound = check_for_library(own);
  if (!sound) return refuse({Refusal::Kind::invalid, {terms_.rank}, sound.error().text});
  note_releases(out);
  own_ = own;
  if (!own_.library.empty() && terms_.communication == Communication::useful)
    own_.library += agreed_upon;
  together_ = true;
  ControlMessage message;
  message.number = ++number_;
  message.operation = own_;
  const bool gives = own.kind != OperationKind::broadcast || own.root == terms_.rank;
  if (!own.open && gives && terms_.communication != Communication::always &&
      goes_with_words(own, size())) {
    message.operand.assign(operand.begin(), operand.end());
  }
  say(std::nullopt, message, out);
  said_.assign(size(), {});
  said_[terms_.rank] = std::move(message);
  wait(Wait::handshakes, now, out);
}

bool MemberCore::names_another(std::uint32_t rank, const char* what) {
  if (rank < size() && rank != terms_.rank) return true;
  refuse({Refusal::Kind::invalid,
          {terms_.rank},
          fmt::format("{}: the other members are 0 to {}, without {}", what, size() - 1,
                      terms_.rank)});
  return false;
}

void MemberCore::send(Time now, std::uint32_t to, const Operation& operation,
                      std::optional<Time> deadline, Commands& out) {
  const std::string whom = to < size() ? terms_.names[to] : fmt::format("rank {}", to);
  if (!starts(now, fmt::format("send to {}", whom), deadline) || !names_another(to, doing_.c_str()))
    return;
  note_releases(out);
  own_ = agreed_ = operation;
  other_ = to;
  sends_ = true;
  peers_[to].accepted = false;
  ControlMessage offer;
  offer.kind = ControlKind::offer;
  offer.operation = operation;
  say(to, offer, out);
  wait(Wait::accept, now, out);
}

void MemberCore::receive(Time now, std::uint32_t from, std::optional<Time> deadline,
                         Commands& out) {
  const std::string whom = from < size() ? terms_.names[from] : fmt::format("rank {}", from);
  if (!starts(now, fmt::format("receive from {}", whom), deadline) ||
      !names_another(from, doing_.c_str()))
    return;
  note_releases(out);
  other_ = from;
  sends_ = false;
  wait(Wait::offer, now, out);
}

// ---- messages -----------------------------------------------------------------------------------

void MemberCore::say(std::optional<std::uint32_t> to, const ControlMessage& message,
                     Commands& out) {
  out.push_back(SendControl{to, message});
}

const ControlMessage* MemberCore::next_of(std::uint32_t rank, ControlKind kind) const {
  const auto& received = peers_[rank].received;
  const auto at = std::ranges::find(received, kind, &ControlMessage::kind);
  return at == received.end() ? nullptr : &*at;
}

ControlMessage MemberCore::take(std::uint32_t rank, ControlKind kind) {
  auto& received = peers_[rank].received;
  const auto at = std::ranges::find(received, kind, &ControlMessage::kind);
  ControlMessage message = std::move(*at);
  received.erase(at);
  return message;
}

void MemberCore::on(Time now, std::uint32_t rank, ControlMessage message, Commands& out) {
  if (over_ || rank >= size() || rank == terms_.rank || peers_[rank].gave_up) return;
  Peer& peer = peers_[rank];
  if (message.kind == ControlKind::broken) {
    if (message.text.empty()) message.text = fmt::format("{} has given up", terms_.names[rank]);
    std::erase_if(message.ranks, [&](std::uint32_t each) { return each >= size(); });
    peer.gave_up = std::move(message);
  } else if (message.kind == ControlKind::accept) {
    const ControlMessage* const before = next_of(rank, ControlKind::let_go);
    peer.accepted = true;
    peer.accepted_without = before == nullptr ? std::string() : before->text;
  } else if (message.kind == ControlKind::let_go && communicator_ == Communicator::failed &&
             !answers_) {
    // This member has no communicator either.
  } else if (peer.received.size() >= max_received) {
    return give_up(
        {Refusal::Kind::broken,
         {rank},
         fmt::format("{} failed: it is further ahead than a member can be", terms_.names[rank])},
        out);
  } else {
    peer.received.push_back(std::move(message));
  }
  if (!received_end(out)) go_on(now, out);
}

void MemberCore::cut_off(Time, std::uint32_t rank, const std::string& why, Commands& out) {
  if (over_ || rank >= size() || rank == terms_.rank || peers_[rank].gave_up) return;
  give_up({Refusal::Kind::broken, {rank}, fmt::format("{} failed: {}", terms_.names[rank], why)},
          out);
}

MemberCore::Ranks MemberCore::missing() const {
  Ranks ranks;
  const auto without = [&](ControlKind kind) {
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      if (rank != terms_.rank && next_of(rank, kind) == nullptr) ranks.push_back(rank);
    }
  };
  switch (stage_) {
    case Stage::hearing: break;
    case Stage::opening:
    case Stage::moving:
      // The local part makes progress by itself and waits only for the other members.
      ranks = line_;
      std::erase(ranks, terms_.rank);
      return ranks;
    case Stage::idle:
    case Stage::explaining: return ranks;
    default: return {terms_.rank};
  }
  const auto position = std::ranges::find(line_, terms_.rank) - line_.begin();
  switch (wait_) {
    case Wait::handshakes: without(ControlKind::handshake); break;
    case Wait::opened: without(ControlKind::opened); break;
    case Wait::came:
      for (const auto rank : line_) {
        if (rank != terms_.rank && answer_of(rank) == nullptr) ranks.push_back(rank);
      }
      break;
    case Wait::accept:
      if (!peers_[*other_].accepted && next_of(*other_, ControlKind::offer) == nullptr)
        ranks.push_back(*other_);
      break;
    case Wait::offer:
      if (next_of(*other_, ControlKind::offer) == nullptr) ranks.push_back(*other_);
      break;
    case Wait::begin:
      if (next_of(0, ControlKind::begin) == nullptr) ranks.push_back(0);
      break;
    case Wait::turn: {
      const std::uint32_t before = line_[static_cast<std::size_t>(position) - 1];
      if (next_of(before, ControlKind::turn) == nullptr) ranks.push_back(before);
      break;
    }
  }
  return ranks;
}

void MemberCore::wait(Wait wait, Time now, Commands& out) {
  stage_ = Stage::hearing;
  wait_ = wait;
  go_on(now, out);
}

void MemberCore::go_on(Time now, Commands& out) {
  if (communicator_ == Communicator::opening && !own_opening_ && stage_ != Stage::closing) {
    if (const ControlMessage* failed = failed_opening())
      return stop_opening(now, failed->text, out);
  }
  if (stops_moving(now, out)) return;
  if (stage_ != Stage::hearing || !missing().empty()) return;
  switch (wait_) {
    case Wait::handshakes: return conclude(now, out);
    case Wait::accept: return accepted(now, out);
    case Wait::offer: return offered(now, out);
    case Wait::begin: {
      beginning_ = take(0, ControlKind::begin).operand;
      return take_turns(now, out);
    }
    case Wait::turn:
      (void)take(
          line_[static_cast<std::size_t>(std::ranges::find(line_, terms_.rank) - line_.begin()) -
                1],
          ControlKind::turn);
      return turn_comes(now, out);
    case Wait::opened: return conclude_opening(now, out);
    case Wait::came: return conclude_moving(now, out);
  }
}

// ---- verdicts -----------------------------------------------------------------------------------

void MemberCore::conclude(Time now, Commands& out) {
  std::vector<Operation> said;
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    if (const ControlMessage* const before = released_before(rank, ControlKind::handshake);
        before != nullptr && released_before_.empty())
      released_before_ = before->text;
    if (rank != terms_.rank) said_[rank] = take(rank, ControlKind::handshake);
    if (said_[rank].number != number_) {
      return give_up(
          {Refusal::Kind::broken,
           {rank},
           fmt::format("{} failed: it counts its operations differently", terms_.names[rank])},
          out);
    }
    said.push_back(said_[rank].operation);
  }
  if (auto found = difference(said)) {
    mark_mismatch.hit();
    refuse({Refusal::Kind::mismatch, std::move(found->ranks),
            found->text + ": nothing was done, and the group is as it was"});
    (void)received_end(out);
    return;
  }
  agreed_ = collective::agreed(said);
  const bool gives_all = agreed_.kind != OperationKind::broadcast;
  for (std::uint32_t rank = 0; rank < size() && terms_.communication != Communication::always;
       ++rank) {
    const bool comes = goes_with_words(agreed_, size()) && (gives_all || rank == agreed_.root);
    if (!comes || said_[rank].operand.size() == static_cast<std::size_t>(agreed_.bytes())) continue;
    return give_up({Refusal::Kind::broken,
                    {rank},
                    fmt::format("{} failed: the size of its operand is not the announced size",
                                terms_.names[rank])},
                   out);
  }
  settle_path(now, out);
}

void MemberCore::settle_path(Time now, Commands& out) {
  switch (terms_.communication) {
    case Communication::always: return prepare(Way::device);
    case Communication::never: break;
    case Communication::useful: {
      if (communicator_ == Communicator::open && !released_before_.empty())
        let_go(released_before_, out);
      if (communicator_ == Communicator::failed && std::exchange(is_begun_, false)) {
        forget({ControlKind::let_go});
        stage_ = Stage::closing;  // this function runs again after `closed`
        return;
      }
      auto why = why_not_by_device();
      if (why.empty() && communicator_ == Communicator::none) return open_communicator(now, out);
      if (why.empty()) return prepare(Way::device);
      no_communicator_ = std::move(why);
      break;
    }
  }
  prepare(!other_ && goes_with_words(agreed_, size()) ? Way::words : Way::plan);
}

void MemberCore::prepare(Way way) {
  way_ = way;
  stage_ = Stage::preparing;
}

void MemberCore::prepared(Time now, const std::optional<Failure>& failure, Commands& out) {
  if (stage_ != Stage::preparing) return;
  if (failure) {
    return give_up({Refusal::Kind::broken,
                    {terms_.rank},
                    fmt::format("{} has no memory for {}: {}", own_name(),
                                other_ ? doing_ : agreed_.text(), failure->text)},
                   out);
  }
  if (other_ && !sends_) {
    ControlMessage accept;
    accept.kind = ControlKind::accept;
    say(*other_, accept, out);
  }
  line_ = other_ ? Ranks{terms_.rank, *other_} : Ranks{};
  for (std::uint32_t rank = 0; rank < size() && !other_; ++rank) line_.push_back(rank);
  if (way_ == Way::device && agreed_.bytes() > 0) {
    answers_ = terms_.communication == Communication::useful;
    own_answer_.reset();
    if (stops_moving(now, out)) return;
    return take_turns(now, out);
  }
  stage_ = Stage::moving;
}

void MemberCore::moved(Time now, const std::optional<Failure>& failure, Commands& out) {
  if (stage_ != Stage::moving) return;
  if (answers_ && failure) return stop_moving(now, own_name() + ": " + failure->text, out);
  if (answers_) return report_arrival(now, out);
  if (!failure) return done(out);
  Refusal own{Refusal::Kind::broken, {terms_.rank}, own_name() + ": " + failure->text};
  // the library reports only a failure; messages name the member
  if (way_ == Way::device) return explain(now, std::move(own));
  give_up(std::move(own), out);
}

// ---- send and receive ---------------------------------------------------------------------------

void MemberCore::accepted(Time now, Commands& out) {
  if (peers_[*other_].accepted) {
    released_before_ = peers_[*other_].accepted_without;
    return settle_path(now, out);
  }
  // Both members send and neither receives. Both see it and drop both offers.
  mark_crossing.hit();
  (void)take(*other_, ControlKind::offer);
  refuse({Refusal::Kind::mismatch,
          {terms_.rank, *other_},
          fmt::format(
              "{} and {} send to each other and neither receives; let one of them receive first",
              own_name(), terms_.names[*other_])});
}

void MemberCore::offered(Time now, Commands& out) {
  if (const ControlMessage* const before = released_before(*other_, ControlKind::offer))
    released_before_ = before->text;
  agreed_ = take(*other_, ControlKind::offer).operation;
  settle_path(now, out);
}

// ---- failures and ends --------------------------------------------------------------------------

void MemberCore::explain(Time now, Refusal unexplained) {
  unexplained_ = std::move(unexplained);
  for (const Peer& peer : peers_) {
    // Also for a later operation that did not affect this one before.
    if (peer.gave_up)
      unexplained_ = {Refusal::Kind::broken, peer.gave_up->ranks, peer.gave_up->text};
  }
  explained_by_ = now + control_timeout;
  stage_ = Stage::explaining;
}

// Connections close in any order, and the control message with the reason precedes the close.
void MemberCore::wire_failed(Time now, std::uint32_t rank, const std::string& why) {
  if (rank >= size() || (stage_ != Stage::moving && stage_ != Stage::opening)) return;
  explain(now,
          {Refusal::Kind::broken, {rank}, fmt::format("{} failed: {}", terms_.names[rank], why)});
}

// A member that gave up after the current operation does not end this one.
bool MemberCore::received_end(Commands& out) {
  if (over_) return true;
  for (const Peer& peer : peers_) {
    if (!peer.gave_up) continue;
    if (together_ && peer.gave_up->number > number_) {
      mark_later_end.hit();
      continue;
    }
    if (stage_ == Stage::explaining) mark_explained.hit();
    give_up({Refusal::Kind::broken, peer.gave_up->ranks, peer.gave_up->text}, out);
    return true;
  }
  return false;
}

void MemberCore::done(Commands& out) {
  refused_.reset();
  stage_ = Stage::idle;
  together_ = false;
  needs_turn_ = false;
  (void)received_end(out);
}

// The group stays usable.
void MemberCore::refuse(Refusal why) {
  refused_ = std::move(why);
  stage_ = Stage::idle;
  together_ = false;
}

// Makes the group unusable: sends the reason, then closes the connections.
void MemberCore::give_up(Refusal why, Commands& out) {
  ControlMessage message;
  message.kind = ControlKind::broken;
  // All operations before this number are complete on this member.
  message.number = number_ + (together_ ? 0 : 1);
  message.ranks = why.ranks;
  message.text = why.text;
  say(std::nullopt, message, out);
  out.push_back(CloseConnections{});
  const bool idle = stage_ == Stage::idle;
  over_ = why;
  // A later call on this member did not time out itself.
  if (why.kind == Refusal::Kind::timed_out || why.kind == Refusal::Kind::cancelled)
    over_->kind = Refusal::Kind::broken;
  stage_ = Stage::idle;
  together_ = false;
  needs_turn_ = false;
  answers_ = false;
  explained_by_.reset();
  if (!idle) refused_ = std::move(why);
}

void MemberCore::cancelled(Time, Commands& out) {
  if (stage_ == Stage::idle) return;
  give_up({Refusal::Kind::cancelled,
           {terms_.rank},
           fmt::format("the call of {} was cancelled in {}", own_name(), doing_)},
          out);
}

void MemberCore::failed(Time, const std::string& why, Commands& out) {
  if (stage_ != Stage::idle)
    give_up({Refusal::Kind::broken, {terms_.rank}, own_name() + ": " + why}, out);
}

void MemberCore::left(Time, Commands& out) {
  if (!over_) give_up({Refusal::Kind::destroyed, {terms_.rank}, "the group was destroyed"}, out);
}

void MemberCore::tick(Time now, const Ranks& moves_with, Commands& out) {
  if (stage_ == Stage::idle) return;
  if (stage_ == Stage::explaining && now >= *explained_by_) {
    mark_unexplained.hit();
    return give_up(std::move(unexplained_), out);
  }
  if (!deadline_ || now < *deadline_) return;
  const bool by_owner = (stage_ == Stage::moving && way_ != Way::device) ||
                        (stage_ == Stage::opening && terms_.communication == Communication::never);
  const Ranks ranks = by_owner ? moves_with : missing();
  give_up({Refusal::Kind::timed_out, ranks,
           fmt::format("{} waited {:.3g} s in {} for {}", own_name(), seconds(now - began_), doing_,
                       names(ranks))},
          out);
}

std::optional<Time> MemberCore::next_deadline() const {
  if (stage_ == Stage::idle) return std::nullopt;
  if (stage_ == Stage::explaining && (!deadline_ || *explained_by_ < *deadline_))
    return explained_by_;
  return deadline_;
}

}  // namespace mobula::internal::collective
