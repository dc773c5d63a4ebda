#include "worker/core/transfers.h"

#include <fmt/format.h>

namespace mobula::internal::worker {

// ---- to this node ------------------------------------------------------------------------------

Result<transfer::PullId> Transfers::pull_object(ObjectId object, const Place& place,
                                                const std::vector<NodeId>& sources) {
  places_[object] = place;
  std::vector<transfer::PullCommand> commands;
  auto pull = queue_.want(outbox_.now(), {object, {}}, place.size_bytes, sources, commands);
  if (!pull) places_.erase(object);
  carry_out(std::move(commands));
  return pull;
}

Result<transfer::PullId> Transfers::pull_file(const ProgramFile& file, NodeId source) {
  std::vector<transfer::PullCommand> commands;
  auto pull = queue_.want(outbox_.now(), {{}, file.hash},
                          static_cast<std::uint64_t>(file.size_bytes), {source}, commands);
  carry_out(std::move(commands));
  return pull;
}

void Transfers::unwant(transfer::PullId pull) {
  std::vector<transfer::PullCommand> commands;
  queue_.unwant(outbox_.now(), pull, commands);
  carry_out(std::move(commands));
}

void Transfers::answered(NodeId from, const PullReady& ready) {
  std::vector<transfer::PullCommand> commands;
  queue_.answered(outbox_.now(), from, ready, commands);
  carry_out(std::move(commands));
}

void Transfers::finished(const PullFinished& finished) {
  std::vector<transfer::PullCommand> commands;
  queue_.finished(outbox_.now(), finished.pull, finished.failure, commands);
  carry_out(std::move(commands));
}

void Transfers::carry_out(std::vector<transfer::PullCommand> commands) {
  for (auto& command : commands) {
    if (const auto* ask = std::get_if<transfer::AskSource>(&command)) {
      peers_.send(ask->from, PullRequest{ask->pull, ask->key.object, ask->key.file});
    } else if (auto* read = std::get_if<transfer::Transfer>(&command)) {
      const AgentAddress from = peers_.address(read->from);
      if (read->key.object.empty()) {
        outbox_.emit(StartFilePull{read->pull, from, std::move(read->token),
                                   std::move(read->secret), read->key.file, read->size_bytes});
      } else {
        const Place& place = places_.at(read->key.object);
        outbox_.emit(StartPull{read->pull, from, std::move(read->token), std::move(read->secret),
                               place.slab, place.offset, place.size_bytes});
      }
    } else if (const auto* cut = std::get_if<transfer::CutTransfer>(&command)) {
      outbox_.emit(CancelPull{cut->pull});
    } else if (auto* done = std::get_if<transfer::PullDone>(&command)) {
      places_.erase(done->key.object);
      done_.push_back(std::move(*done));
    }
  }
}

// ---- from this node ----------------------------------------------------------------------------

void Transfers::refuse(NodeId reader, std::uint64_t pull, Failure why) {
  PullReady answer;
  answer.pull = pull;
  answer.failure = std::move(why);
  peers_.send(reader, std::move(answer));
}

bool Transfers::has_room(NodeId reader, std::uint64_t pull) {
  if (offers_.size() < options_.max_offers) return true;
  refuse(reader, pull,
         failure(ErrorCode::resource_exhausted,
                 fmt::format("{} other pulls read from this node", offers_.size())));
  return false;
}

bool Transfers::offer_object(NodeId reader, std::uint64_t pull, ObjectId object,
                             const Place& place) {
  if (!has_room(reader, pull)) return false;
  const std::uint64_t id = next_offer_++;
  offers_.insert(id, Offer{.reader = reader, .pull = pull, .object = object});
  outbox_.emit(OfferObject{id, peers_.address(reader).incarnation, place.slab, place.offset,
                           place.size_bytes});
  return true;
}

void Transfers::offer_file(NodeId reader, std::uint64_t pull, Hash128 file) {
  if (!has_room(reader, pull)) return;
  const std::uint64_t id = next_offer_++;
  offers_.insert(id, Offer{.reader = reader, .pull = pull});
  outbox_.emit(OfferFile{id, peers_.address(reader).incarnation, file});
}

void Transfers::offered(const BulkOffered& offered) {
  Offer* offer = offers_.find(offered.offer);
  if (offer == nullptr || offer->answered) return;
  offer->answered = true;
  peers_.send(offer->reader, PullReady{offer->pull, offered.size_bytes, offered.token, offered.key,
                                       offered.failure});
  if (offered.failure) served(offered.offer);
}

void Transfers::served(std::uint64_t id) {
  const Offer* offer = offers_.find(id);
  if (offer == nullptr) return;
  if (!offer->object.empty()) unread_.push_back(offer->object);
  offers_.erase(id);
}

void Transfers::withdraw(std::uint64_t id, Offer& offer) {
  if (std::exchange(offer.withdrawn, true)) return;
  outbox_.emit(WithdrawBulk{id});
}

void Transfers::node_dead(NodeId node) {
  std::vector<transfer::PullCommand> commands;
  queue_.node_dead(outbox_.now(), node, commands);
  carry_out(std::move(commands));
  for (auto& [id, offer] : offers_) {
    if (offer.reader == node) withdraw(id, offer);
  }
}

void Transfers::tick() {
  std::vector<transfer::PullCommand> commands;
  queue_.tick(outbox_.now(), commands);
  carry_out(std::move(commands));
}

std::optional<Time> Transfers::next_deadline() const { return queue_.next_deadline(); }

}  // namespace mobula::internal::worker
