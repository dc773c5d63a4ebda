// Operations over a communicator that an operation began: reports of completion, and the fallback
// to the host.
#include <algorithm>
#include <utility>

#include "base/coverage_mark.h"
#include "tensor/collective/core/member_core.h"

namespace mobula::internal::collective {
namespace {

const CoverageMark mark_again("collective.operation_goes_again_by_way_of_the_host");
const CoverageMark mark_later("collective.communicator_was_let_go_after_the_operation");
const CoverageMark mark_before("collective.another_had_let_go_of_its_communicator");

bool answers(const ControlMessage& message) {
  return message.kind == ControlKind::came || message.kind == ControlKind::let_go;
}

}  // namespace

// Release message of this member that precedes its message of this kind, if any.
const ControlMessage* MemberCore::released_before(std::uint32_t rank, ControlKind kind) const {
  const auto& received = peers_[rank].received;
  const auto at = std::ranges::find_if(received, [kind](const ControlMessage& message) {
    return message.kind == kind || message.kind == ControlKind::let_go;
  });
  return at == received.end() || at->kind == kind ? nullptr : &*at;
}

// The first report counts: after a report of completion, a member may release the communicator.
const ControlMessage* MemberCore::answer_of(std::uint32_t rank) const {
  const auto& received = peers_[rank].received;
  const auto at = std::ranges::find_if(received, answers);
  return at == received.end() ? nullptr : &*at;
}

void MemberCore::forget(std::initializer_list<ControlKind> kinds) {
  for (Peer& peer : peers_) {
    std::erase_if(peer.received, [&](const ControlMessage& message) {
      return std::ranges::find(kinds, message.kind) != kinds.end();
    });
  }
}

// Runs between operations, before this member's next handshake.
void MemberCore::note_releases(Commands& out) {
  if (communicator_ != Communicator::open) return;
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    const ControlMessage* const message = next_of(rank, ControlKind::let_go);
    if (message == nullptr) continue;
    mark_before.hit();
    let_go(std::string(message->text), out);
    return forget({ControlKind::let_go});
  }
}

// Marks the communicator as failed. It is shut down when the path of the current operation is
// settled or abandoned.
void MemberCore::let_go(const std::string& why, Commands& out) {
  communicator_ = Communicator::failed;
  devices_.clear();
  no_communicator_ = "nccl: " + why;
  ControlMessage message;
  message.kind = ControlKind::let_go;
  message.number = number_;
  message.text = why;
  say(std::nullopt, message, out);
}

// A member that released the communicator no longer participates, so the operation would never end.
bool MemberCore::stops_moving(Time now, Commands& out) {
  if (!answers_ || communicator_ != Communicator::open) return false;
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    const ControlMessage* const message = next_of(rank, ControlKind::let_go);
    if (message == nullptr) continue;
    stop_moving(now, message->text, out);
    return true;
  }
  return false;
}

void MemberCore::stop_moving(Time, std::string why, Commands& out) {
  let_go(why, out);
  if (!own_answer_) own_answer_ = std::move(why);
  is_begun_ = false;
  stage_ = Stage::closing;
}

void MemberCore::report_arrival(Time now, Commands& out) {
  needs_turn_ = false;
  own_answer_.emplace();
  ControlMessage message;
  message.kind = ControlKind::came;
  message.number = number_;
  say(other_, message, out);
  wait(Wait::came, now, out);
}

// All participants have the same reports and reach the same verdict.
void MemberCore::conclude_moving(Time now, Commands& out) {
  std::string why;
  std::ranges::sort(line_);
  for (const auto rank : line_) {
    const std::string& answer = rank == terms_.rank ? *own_answer_ : answer_of(rank)->text;
    if (why.empty()) why = answer;
  }
  answers_ = false;
  for (const auto rank : line_) {
    const ControlMessage* const answer = rank == terms_.rank ? nullptr : answer_of(rank);
    if (answer != nullptr && answer->kind == ControlKind::came) (void)take(rank, ControlKind::came);
  }
  if (communicator_ == Communicator::failed) forget({ControlKind::let_go, ControlKind::turn});
  if (why.empty()) {
    if (communicator_ == Communicator::failed) mark_later.hit();
    return done(out);
  }
  mark_again.hit();
  no_communicator_ = "nccl: " + why;
  settle_path(now, out);
}

}  // namespace mobula::internal::collective
