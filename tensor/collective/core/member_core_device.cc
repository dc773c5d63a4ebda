// The communicator of the members' devices: conditions, creation, and turns.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/coverage_mark.h"
#include "base/model/nccl_rank.h"
#include "tensor/collective/core/member_core.h"

namespace mobula::internal::collective {
namespace {

const CoverageMark mark_opened("collective.communicator_is_begun_by_an_operation");
const CoverageMark mark_not_opened("collective.communicator_could_not_be_begun");

}  // namespace

// All members get the same result, because they have the same messages.
std::string MemberCore::why_not_by_device() const {
  if (communicator_ == Communicator::failed) return no_communicator_;
  if (size() == 1) return "nccl: the group has one member";
  if (!locations_.no_communicator.empty()) return locations_.no_communicator;
  if (static_cast<std::size_t>(agreed_.bytes()) < terms_.communicated_from) {
    return fmt::format("nccl: {} bytes, and it is begun for {}", agreed_.bytes(),
                       terms_.communicated_from);
  }
  if (auto sound = check_for_library(agreed_); !sound) return sound.error().text;
  if (communicator_ == Communicator::open) {
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      // The sender announces the device of its operand; a receiver's result is on the
      // communicator's device.
      if (other_ && (sends_ ? rank != terms_.rank : rank != *other_)) continue;
      const std::string& lies = other_ ? agreed_.device : said_[rank].operation.device;
      if (lies != devices_[rank])
        return fmt::format("nccl: the operand of {} is not on the communicator's GPU",
                           terms_.names[rank]);
    }
    return {};
  }
  if (other_) return "nccl: it is begun by an operation of all members";
  std::vector<NcclRank> ranks;
  const std::string& version = said_[0].operation.library;
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    const Operation& own = said_[rank].operation;
    if (own.device.empty())
      return fmt::format("nccl: the operand of {} is on no GPU", terms_.names[rank]);
    if (own.library.empty()) return fmt::format("nccl: {} has no library", terms_.names[rank]);
    if (own.library != version) {
      return fmt::format("nccl: the library of {} is {}, that of {} {}", terms_.names[rank],
                         own.library, terms_.names[0], version);
    }
    ranks.push_back({terms_.names[rank], locations_.hosts[rank], own.device, own.library});
  }
  // Processes on one GPU wait for each other in its time slices, so NCCL may be slower than host
  // memory: only a group that names NCCL uses it there (decision 185).
  if (const auto pair = ranks_on_one_gpu(ranks)) {
    return fmt::format("nccl: {} and {} share {}; Transport::nccl is for that, with NCCL 2.30",
                       ranks[pair->first].name, ranks[pair->second].name, ranks[pair->second].gpu);
  }
  return {};
}

// ---- communicator -------------------------------------------------------------------------------

void MemberCore::open_communicator(Time now, Commands& out) {
  communicator_ = Communicator::opening;
  own_opening_.reset();
  line_.clear();
  for (std::uint32_t rank = 0; rank < size(); ++rank) line_.push_back(rank);
  if (terms_.rank != 0) return wait(Wait::begin, now, out);
  stage_ = Stage::beginning;
}

void MemberCore::begun(Time now, Result<std::vector<std::byte>> beginning, Commands& out) {
  if (stage_ != Stage::beginning) return;
  if (!beginning) return stop_opening(now, own_name() + ": " + beginning.error().text, out);
  beginning_ = std::move(*beginning);
  ControlMessage message;
  message.kind = ControlKind::begin;
  message.operand = beginning_;
  say(std::nullopt, message, out);
  take_turns(now, out);
}

void MemberCore::opened(Time now, const std::optional<Failure>& failure, Commands& out) {
  if (stage_ != Stage::opening) return;
  if (terms_.communication != Communication::useful) {
    if (!failure) {
      if (terms_.communication == Communication::always) communicator_ = Communicator::open;
      return done(out);
    }
    return explain(now, {Refusal::Kind::broken, {terms_.rank}, own_name() + ": " + failure->text});
  }
  if (failure) return stop_opening(now, own_name() + ": " + failure->text, out);
  needs_turn_ = false;
  own_opening_.emplace();
  ControlMessage message;
  message.kind = ControlKind::opened;
  say(std::nullopt, message, out);
  wait(Wait::opened, now, out);
}

const ControlMessage* MemberCore::failed_opening() const {
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    const ControlMessage* said = rank == terms_.rank ? nullptr : next_of(rank, ControlKind::opened);
    if (said != nullptr && !said->text.empty()) return said;
  }
  return nullptr;
}

// Reports that this member's part failed, and shuts it down before the elements use another path.
void MemberCore::stop_opening(Time now, std::string why, Commands& out) {
  if (terms_.communication == Communication::always)
    return give_up({Refusal::Kind::broken, {terms_.rank}, std::move(why)}, out);
  own_opening_ = std::move(why);
  ControlMessage message;
  message.kind = ControlKind::opened;
  message.text = *own_opening_;
  say(std::nullopt, message, out);
  if (std::exchange(is_begun_, false)) {
    stage_ = Stage::closing;
    return;
  }
  needs_turn_ = false;
  wait(Wait::opened, now, out);
}

void MemberCore::closed(Time now, const std::optional<Failure>& failure, Commands& out) {
  if (stage_ != Stage::closing) return;
  if (answers_ && failure) {
    // The library may still access the operands.
    return give_up({Refusal::Kind::broken,
                    {terms_.rank},
                    fmt::format("{} failed: {}", own_name(), failure->text)},
                   out);
  }
  needs_turn_ = false;
  if (answers_) return wait(Wait::came, now, out);
  if (communicator_ == Communicator::opening) return wait(Wait::opened, now, out);
  settle_path(now, out);
}

// All members have reported.
void MemberCore::conclude_opening(Time now, Commands& out) {
  std::string why = *own_opening_;
  if (const ControlMessage* failed = failed_opening(); failed != nullptr && why.empty())
    why = failed->text;
  if (!why.empty() && std::exchange(is_begun_, false)) {
    stage_ = Stage::closing;  // this function runs again after `closed`
    return;
  }
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    if (rank != terms_.rank) (void)take(rank, ControlKind::opened);
  }
  communicator_ = why.empty() ? Communicator::open : Communicator::failed;
  (why.empty() ? mark_opened : mark_not_opened).hit();
  if (why.empty()) {
    for (const ControlMessage& each : said_) devices_.push_back(each.operation.device);
  } else {
    // Turns of an abandoned attempt are invalid.
    forget({ControlKind::turn, ControlKind::begin});
    no_communicator_ = "nccl: " + why;
  }
  settle_path(now, out);
}

void MemberCore::take_turns(Time now, Commands& out) {
  std::ranges::sort(line_, {}, [&](std::uint32_t rank) { return locations_.processes[rank]; });
  if (line_.front() != terms_.rank) return wait(Wait::turn, now, out);
  turn_comes(now, out);
}

void MemberCore::turn_comes(Time, Commands&) {
  needs_turn_ = true;
  stage_ = Stage::claiming;
}

void MemberCore::turn_taken(Time now, const std::optional<Failure>& failure, Commands& out) {
  if (stage_ != Stage::claiming) return;
  const bool opens = communicator_ == Communicator::opening;
  if (failure && opens) return stop_opening(now, own_name() + ": " + failure->text, out);
  if (failure && answers_) return stop_moving(now, own_name() + ": " + failure->text, out);
  if (failure)
    return give_up({Refusal::Kind::broken,
                    {terms_.rank},
                    fmt::format("{} failed: {}", own_name(), failure->text)},
                   out);
  const auto position =
      static_cast<std::size_t>(std::ranges::find(line_, terms_.rank) - line_.begin());
  if (position + 1 < line_.size()) {
    ControlMessage message;
    message.kind = ControlKind::turn;
    message.number = number_;
    say(line_[position + 1], message, out);
  }
  if (opens) is_begun_ = true;
  stage_ = opens ? Stage::opening : Stage::moving;
}

// ---- limits of the library ----------------------------------------------------------------------

Result<void> check_for_library(const Operation& operation) {
  const bool reduces = operation.kind == OperationKind::all_reduce ||
                       operation.kind == OperationKind::reduce ||
                       operation.kind == OperationKind::reduce_scatter;
  const bool adds = operation.reduce == ReduceKind::sum || operation.reduce == ReduceKind::average;
  const DType dtype = operation.dtype;
  const bool is_complex = dtype == DType::complex64 || dtype == DType::complex128;
  const bool unknown = dtype == DType::int16 || dtype == DType::uint16 || item_bytes(dtype) == 0;
  if (!reduces || !(unknown || (is_complex && !adds))) return {};
  return failure(
      ErrorCode::invalid_argument,
      operation.text() +
          ": NCCL does not reduce such elements so; convert them, or make a group without nccl");
}

}  // namespace mobula::internal::collective
