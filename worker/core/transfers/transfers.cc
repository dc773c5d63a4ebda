#include "worker/core/transfers/transfers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"

namespace mobula::internal::worker {
namespace {

const CoverageMark mark_partial_offer("worker.offer_of_an_incomplete_object");
const CoverageMark mark_withheld("worker.failed_pull_waits_for_its_readers");
const CoverageMark mark_plain_refused("worker.plain_bytes_refused");

transfer::PullOptions pull_options(const WorkerOptions& options) {
  transfer::PullOptions out;
  out.chunk_bytes = std::max<std::uint64_t>(1, options.bulk_chunk_bytes);
  out.max_bytes = options.bulk_bytes_in_flight;
  out.chunks_per_source = std::max<std::size_t>(1, options.bulk_chunks_per_source);
  return out;
}

}  // namespace

Transfers::Transfers(Outbox& outbox, const WorkerOptions& options, Peers& peers)
    : outbox_(outbox), options_(options), peers_(peers), queue_(pull_options(options)) {}

// ---- to this node -------------------------------------------------------------------------------

Result<transfer::PullId> Transfers::pull_object(ObjectId object, std::uint64_t size_bytes,
                                                const std::vector<NodeId>& sources, bool argument) {
  std::vector<transfer::PullCommand> commands;
  transfer::ObjectRequest request{.key = {object, {}},
                                  .size_bytes = size_bytes,
                                  .sources = sources,
                                  .argument = argument,
                                  .spread = peers_.self().bits().low};
  auto pull = queue_.want(outbox_.now(), std::move(request), commands);
  carry_out(std::move(commands));
  return pull;
}

Result<transfer::PullId> Transfers::pull_file(const ProgramFile& file, NodeId source) {
  std::vector<transfer::PullCommand> commands;
  // All calls of the program wait for it.
  transfer::ObjectRequest request{.key = {{}, file.hash},
                                  .size_bytes = static_cast<std::uint64_t>(file.size_bytes),
                                  .sources = {source},
                                  .argument = true};
  auto pull = queue_.want(outbox_.now(), std::move(request), commands);
  carry_out(std::move(commands));
  return pull;
}

void Transfers::placed(transfer::PullId pull, const ObjectLocation& location) {
  locations_[pull] = location;
  std::vector<transfer::PullCommand> commands;
  queue_.placed(outbox_.now(), pull, commands);
  carry_out(std::move(commands));
}

void Transfers::waits_for_space(transfer::PullId pull) {
  std::vector<transfer::PullCommand> commands;
  queue_.waits_for_space(outbox_.now(), pull, commands);
  carry_out(std::move(commands));
}

void Transfers::refused(transfer::PullId pull, Failure why) {
  std::vector<transfer::PullCommand> commands;
  queue_.refused(outbox_.now(), pull, std::move(why), commands);
  carry_out(std::move(commands));
}

void Transfers::unwant(transfer::PullId pull) {
  std::vector<transfer::PullCommand> commands;
  queue_.unwant(outbox_.now(), pull, commands);
  carry_out(std::move(commands));
}

void Transfers::cancel(transfer::PullId pull) {
  std::vector<transfer::PullCommand> commands;
  queue_.cancel(outbox_.now(), pull, commands);
  carry_out(std::move(commands));
}

void Transfers::add_source(transfer::PullId pull, NodeId node) {
  std::vector<transfer::PullCommand> commands;
  queue_.add_source(outbox_.now(), pull, node, commands);
  carry_out(std::move(commands));
}

void Transfers::answered(NodeId from, PullReply ready) {
  if (!ready.failure && ready.key.empty() && !trusted_) {
    mark_plain_refused.hit();
    peers_.send(from, PullComplete{ready.pull, {}});
    ready.failure = failure(ErrorCode::permission_denied,
                            fmt::format("node {} would send bytes unencrypted, and the fabric "
                                        "is not declared trusted",
                                        from.brief()));
  }
  std::vector<transfer::PullCommand> commands;
  queue_.answered(outbox_.now(), from, ready, commands);
  carry_out(std::move(commands));
}

void Transfers::more_there(NodeId from, const ChunksAvailable& news) {
  std::vector<transfer::PullCommand> commands;
  queue_.more_there(outbox_.now(), from, news, commands);
  carry_out(std::move(commands));
}

void Transfers::fetched(const ChunkFetched& fetched) {
  std::vector<transfer::PullCommand> commands;
  queue_.fetched(outbox_.now(), fetched.chunk, fetched.failure, commands);
  carry_out(std::move(commands));
}

void Transfers::finished(const PullFinished& finished) {
  std::vector<transfer::PullCommand> commands;
  queue_.completed(outbox_.now(), finished.pull, finished.failure, commands);
  carry_out(std::move(commands));
}

void Transfers::carry_out(std::vector<transfer::PullCommand> commands) {
  for (auto& command : commands) {
    std::visit([this](auto& each) { carry_out(each); }, command);
  }
}

// A file needs no reserved memory.
void Transfers::carry_out(transfer::BeginPull& begin) {
  if (!begin.key.object.empty()) {
    begun_.push_back(begin);
    return;
  }
  outbox_.emit(StartFilePull{begin.pull, begin.key.file, begin.size_bytes});
  std::vector<transfer::PullCommand> commands;
  queue_.placed(outbox_.now(), begin.pull, commands);
  carry_out(std::move(commands));
}

void Transfers::carry_out(transfer::RequestSource& source) {
  peers_.send(source.from, PullRequest{source.request, source.key.object, source.key.file});
}

void Transfers::carry_out(transfer::ReleaseSource& release) {
  peers_.send(release.from, PullComplete{release.request, release.key.object});
}

void Transfers::carry_out(transfer::FetchChunk& fetch) {
  FetchBulk command;
  command.chunk = fetch.chunk;
  command.from = peers_.address(fetch.from);
  command.token = std::move(fetch.right.token);
  command.key = std::move(fetch.right.secret);
  command.offer = fetch.right.offer;
  command.pull = fetch.pull;
  command.offset = fetch.offset;
  command.size_bytes = fetch.size_bytes;
  if (const auto at = locations_.find(fetch.pull); at != locations_.end()) {
    command.slab = at->second.slab;
    command.slab_offset = at->second.offset;
  }
  outbox_.emit(std::move(command));
}

void Transfers::carry_out(transfer::CutChunk& cut) { outbox_.emit(CancelBulk{cut.chunk}); }

void Transfers::carry_out(transfer::ChunkThere& there) {
  if (there.key.object.empty()) return;
  for (const auto& [id, offer] : offers_) {
    const bool reads =
        offer.pull == there.pull && offer.answered && !offer.recalled && !offer.withdrawn;
    if (reads) peers_.send(offer.reader, ChunksAvailable{offer.request, {there.number}});
  }
}

void Transfers::carry_out(transfer::CompletePull& complete) {
  outbox_.emit(FinishFilePull{complete.pull});
}

void Transfers::carry_out(transfer::PullDone& done) {
  if (done.key.object.empty()) {
    outbox_.emit(DropFilePull{done.pull});
    done_.push_back(std::move(done));
    return;
  }
  bool read = false;
  for (auto& [id, offer] : offers_) {
    if (offer.pull != done.pull) continue;
    if (!done.failure) {
      offer.pull = 0;
      continue;
    }
    read = true;
    recall(offer, id);
  }
  locations_.erase(done.pull);
  if (read) {
    mark_withheld.hit();
    withheld_.emplace(done.pull, std::move(done));
  } else {
    done_.push_back(std::move(done));
  }
}

// ---- from this node -----------------------------------------------------------------------------

void Transfers::refuse(NodeId reader, std::uint64_t request, Failure why) {
  PullReply answer;
  answer.pull = request;
  answer.failure = std::move(why);
  peers_.send(reader, std::move(answer));
}

bool Transfers::has_slot(NodeId reader, std::uint64_t request) {
  if (offers_.size() < options_.max_offers) return true;
  refuse(reader, request,
         failure(ErrorCode::resource_exhausted,
                 fmt::format("{} other pulls read from this node", offers_.size())));
  return false;
}

bool Transfers::offer_object(NodeId reader, std::uint64_t request, ObjectId object,
                             const ObjectLocation& location, transfer::PullId pull) {
  if (!has_slot(reader, request)) return false;
  if (pull != 0) mark_partial_offer.hit();
  const std::uint64_t id = next_offer_++;
  offers_.insert(id, Offer{.reader = reader, .request = request, .object = object, .pull = pull});
  outbox_.emit(OfferObject{id, peers_.address(reader).incarnation, location.slab, location.offset,
                           location.size_bytes, trusted_});
  return true;
}

void Transfers::offer_file(NodeId reader, std::uint64_t request, Hash128 file) {
  if (!has_slot(reader, request)) return;
  const std::uint64_t id = next_offer_++;
  offers_.insert(id, Offer{.reader = reader, .request = request});
  outbox_.emit(OfferFile{id, peers_.address(reader).incarnation, file, trusted_});
}

void Transfers::offered(const BulkOffered& offered) {
  Offer* offer = offers_.find(offered.offer);
  if (offer == nullptr || offer->answered) return;
  offer->answered = true;
  if (offered.failure) {
    if (!offer->withdrawn) refuse(offer->reader, offer->request, *offered.failure);
    return served(offered.offer);
  }
  if (offer->withdrawn) return;  // the shell ends it next
  PullReply ready;
  ready.pull = offer->request;
  ready.size_bytes = offered.size_bytes;
  ready.token = offered.token;
  ready.key = offered.key;
  ready.offer = offered.offer;
  if (const auto chunks = queue_.chunks_of(offer->pull)) {
    ready.partial = true;
    ready.chunks = *chunks;
    ready.chunk_bytes = queue_.chunk_bytes();
  }
  peers_.send(offer->reader, std::move(ready));
}

// The reader's present read fails or completes; it then sends PullComplete.
void Transfers::recall(Offer& offer, std::uint64_t id) {
  if (std::exchange(offer.recalled, true) || offer.withdrawn) return;
  refuse(offer.reader, offer.request,
         failure(ErrorCode::unavailable, "the node does not get the rest of it itself"));
  if (!offer.answered) withdraw(id, offer);
}

// A dead reader and its successor on the same node may use the same number. The offer of the first
// one is withdrawn by then, but may not have ended.
void Transfers::over(NodeId reader, std::uint64_t request) {
  for (auto& [id, offer] : offers_) {
    if (offer.reader == reader && offer.request == request && !offer.withdrawn)
      return withdraw(id, offer);
  }
}

void Transfers::served(std::uint64_t id) {
  const Offer* found = offers_.find(id);
  if (found == nullptr) return;
  const Offer offer = *found;
  offers_.erase(id);
  if (!offer.object.empty()) unread_.push_back(offer.object);
  const auto withheld = withheld_.find(offer.pull);
  if (withheld == withheld_.end()) return;
  for (const auto& [other, row] : offers_) {
    if (row.pull == offer.pull) return;
  }
  done_.push_back(std::move(withheld->second));
  withheld_.erase(withheld);
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

}  // namespace mobula::internal::worker
