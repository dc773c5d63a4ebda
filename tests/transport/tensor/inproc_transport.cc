#include "transport/tensor/inproc_transport.h"

#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "transport/tensor/blob.h"

namespace mobula::internal {

struct InprocTransport::Row {
  Offer offer;
  DirectToken token;
  // Read by every user of a mapping of the regions.
  std::atomic<bool> stands{true};
};

namespace {

constexpr PathCost inproc_cost{10us, 10e9};

class AliasedRegions final : public MappedRegions {
 public:
  AliasedRegions(std::shared_ptr<const std::atomic<bool>> stands,
                 std::span<const SourceRegion> regions)
      : stands_(std::move(stands)) {
    for (const SourceRegion& each : regions) regions_.push_back(each.bytes);
  }
  std::span<const std::span<const std::byte>> regions() const override { return regions_; }
  bool offered() const override { return *stands_; }

 private:
  std::shared_ptr<const std::atomic<bool>> stands_;  // shared with the offer, which may end first
  std::vector<std::span<const std::byte>> regions_;
};

}  // namespace

Result<std::unique_ptr<InprocTransport>> InprocTransport::create(EventLoop& loop, ProcessId process,
                                                                 CopyOptions copying,
                                                                 DirectLimits limits) {
  std::unique_ptr<InprocTransport> made(new InprocTransport(loop, process, limits));
  auto copies = CopyThreads::create(loop, copying);
  if (!copies) return copies.error();
  made->copies_ = std::move(copies).value();
  return made;
}

InprocTransport::InprocTransport(EventLoop& loop, ProcessId process, DirectLimits limits)
    : process_(process), limits_(limits), later_(loop) {
  caps_.scope = TransportScope::process;
  caps_.source_kinds = caps_.target_kinds = host_kinds;
  caps_.maps = true;
  BlobWriter blob;
  put_direct_head(blob, DirectKind::inproc);
  endpoint_ = blob.id(process).take();
}

InprocTransport::~InprocTransport() = default;

Result<PathCost> InprocTransport::reach(const Peer& peer, const MemoryLocation& source,
                                        const MemoryLocation& target) const {
  if (!source.on_host() || !target.on_host()) return not_for_device("inproc");
  BlobReader reader(peer.endpoint);
  if (auto good = take_direct_head(reader, DirectKind::inproc, "an endpoint"); !good) {
    return good.error();
  }
  const auto process = reader.id<ProcessId>();
  if (auto good = reader.finish("an endpoint"); !good) return good.error();
  if (process == process_ && peer.process == process_) return inproc_cost;
  return failure(ErrorCode::unavailable, "inproc: another process");
}

void InprocTransport::open(const ChannelKey& key, const Peer& peer, Time, Opened opened) {
  Result<void> result;
  if (const auto cost = reach(peer, {}, {}); !cost) {
    result = cost.error();
  } else if (key.peer != process_) {
    result = failure(ErrorCode::invalid_argument, "inproc: a channel to another process");
  } else if (key.epoch < highest_epoch_) {
    result = failure(ErrorCode::already_exists,
                     fmt::format("a channel of epoch {} is there", highest_epoch_));
  } else if (channels_.emplace(key, monotonic_now()).second) {
    highest_epoch_ = key.epoch;
    ++stats_.opened;
  }
  later_.call([opened = std::move(opened), result] { opened(result); });
}

void InprocTransport::close(const ChannelKey& key) {
  if (channels_.erase(key) == 0) return;
  for (auto& [transfer, running] : pulls_) {
    if (running.row->offer.to == key) copies_->stop(running.copy);
  }
}

void InprocTransport::offer(Offer offer, Offered offered) {
  const auto refuse = [&](Failure why) {
    later_.call([offered = std::move(offered), why = std::move(why)] { offered(why); });
  };
  if (const auto bytes = checked_bytes(offer.regions, limits_); !bytes) {
    return refuse(bytes.error());
  }
  if (offer.to.peer != process_) {
    return refuse(failure(ErrorCode::invalid_argument, "inproc: an offer to another process"));
  }
  if (offers_.contains(offer.transfer)) {
    return refuse(failure(ErrorCode::already_exists, "the transfer is offered already"));
  }
  if (offers_.size() >= limits_.max_offers) {
    return refuse(failure(ErrorCode::resource_exhausted,
                          fmt::format("{} offers stand, which is the limit", offers_.size())));
  }
  auto row = std::make_shared<Row>();
  row->token = DirectToken::random();
  row->offer = std::move(offer);
  row->offer.peer.endpoint = {};  // valid only during the call
  BlobWriter ticket;
  put_direct_head(ticket, DirectKind::inproc);
  ticket.id(process_).id(row->offer.transfer).number(row->offer.to.epoch).token(row->token);
  offers_.emplace(row->offer.transfer, row);
  ++stats_.offered;
  later_.call([offered = std::move(offered), blob = ticket.take()] { offered(blob); });
}

void InprocTransport::release(TransferId transfer, Quiet quiet) {
  const auto at = offers_.find(transfer);
  if (at == offers_.end()) return later_.call(std::move(quiet));
  const std::shared_ptr<Row> row = at->second;
  row->stands = false;
  offers_.erase(at);
  end_pulls_of(row.get(), quiet);
}

// Calls `quiet` when the copies of this offer, or all copies, have ended.
void InprocTransport::end_pulls_of(const Row* row, const Quiet& quiet) {
  const QuietGate gate(quiet);
  for (auto& [transfer, running] : pulls_) {
    if (row != nullptr && running.row.get() != row) continue;
    copies_->stop(running.copy);
    running.quiet.push_back(gate.add());
  }
  later_.call(gate.add());
}

Result<std::shared_ptr<InprocTransport::Row>> InprocTransport::row_of(
    TransferId transfer, const ChannelKey& from, std::span<const std::byte> ticket) const {
  BlobReader reader(ticket);
  if (auto good = take_direct_head(reader, DirectKind::inproc, "a ticket"); !good) {
    return good.error();
  }
  const auto process = reader.id<ProcessId>();
  const auto of = reader.id<TransferId>();
  const std::uint64_t epoch = reader.number();
  const DirectToken token = reader.token();
  if (auto good = reader.finish("a ticket"); !good) return good.error();
  if (!channels_.contains(from)) return unknown_channel(from);
  if (process != process_ || of != transfer) {
    return failure(ErrorCode::invalid_argument, "a ticket of another transfer");
  }
  if (epoch != from.epoch || epoch < highest_epoch_) {
    return failure(
        ErrorCode::permission_denied,
        fmt::format("a ticket of epoch {}, where {} is the current one", epoch, highest_epoch_));
  }
  const auto at = offers_.find(of);
  if (at == offers_.end()) return failure(ErrorCode::not_found, "the offer has been released");
  if (!at->second->token.matches(token)) {
    return failure(ErrorCode::permission_denied,
                   "the token of the ticket does not match the offer");
  }
  return at->second;
}

Result<Copy> InprocTransport::copy_of(const Pull& pull, const Row& row) const {
  const auto& regions = row.offer.regions;
  if (pull.targets.size() != regions.size()) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{} regions are offered, and {} are requested", regions.size(),
                               pull.targets.size()));
  }
  Copy copy;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (auto good = check_target(i, regions[i].bytes.size(), pull.targets[i]); !good) {
      return good.error();
    }
    copy.pieces.push_back(
        {pull.targets[i].bytes.data(), regions[i].bytes.data(), regions[i].bytes.size()});
  }
  return copy;
}

void InprocTransport::pull(Pull pull, Ended ended) {
  if (pulls_.contains(pull.transfer)) {
    return answer(std::move(ended),
                  failure(ErrorCode::already_exists, "the transfer is pulled already"));
  }
  const auto row = row_of(pull.transfer, pull.from, pull.ticket);
  if (!row) return answer(std::move(ended), row.error());
  auto copy = copy_of(pull, **row);
  if (!copy) return answer(std::move(ended), copy.error());
  Running running{.row = *row, .ended = std::move(ended), .quiet = {}, .since = monotonic_now()};
  for (const CopyPiece& piece : copy->pieces) running.bytes += piece.size;
  const TransferId transfer = pull.transfer;
  if (running.bytes <= copied_at_once) {
    const auto done = copy_now(*copy);
    ++stats_.pulled;
    stats_.pulled_bytes += running.bytes;
    return later_.call([ended = std::move(running.ended), done, bytes = running.bytes] {
      ended({.result = done, .bytes = bytes});
    });
  }
  copy->ended = [this, transfer](const CopyEnd& end) { finish(transfer, end); };
  auto started = copies_->start(std::move(copy).value());
  if (!started) return answer(std::move(running.ended), started.error());
  running.copy = *started;
  pulls_.emplace(transfer, std::move(running));
}

void InprocTransport::finish(TransferId transfer, const CopyEnd& end) {
  auto node = pulls_.extract(transfer);
  Running& running = node.mapped();
  TransferEnd report{.result = end.result, .queued = end.began - running.since};
  report.moving = end.ended - end.began;
  if (end.result) {
    report.bytes = running.bytes;
    stats_.pulled_bytes += running.bytes;
    ++stats_.pulled;
  } else {
    ++stats_.cancelled;
    report.result = ended_by_owner();
  }
  later_.call([ended = std::move(running.ended), report] { ended(report); });
  for (Quiet& quiet : running.quiet) later_.call(std::move(quiet));
}

void InprocTransport::answer(Ended ended, Result<void> result) {
  ++stats_.failed;
  later_.call(
      [ended = std::move(ended), result = std::move(result)] { ended({.result = result}); });
}

void InprocTransport::map(TransferId transfer, const ChannelKey& from,
                          std::span<const std::byte> ticket, Mapped mapped) {
  const auto row = row_of(transfer, from, ticket);
  Result<std::shared_ptr<const MappedRegions>> result =
      row ? Result<std::shared_ptr<const MappedRegions>>(std::make_shared<const AliasedRegions>(
                std::shared_ptr<const std::atomic<bool>>(*row, &(*row)->stands),
                (*row)->offer.regions))
          : Result<std::shared_ptr<const MappedRegions>>(row.error());
  later_.call([mapped = std::move(mapped), result = std::move(result)] { mapped(result); });
}

void InprocTransport::cancel(TransferId transfer, Quiet quiet) {
  const auto at = pulls_.find(transfer);
  if (at == pulls_.end()) return later_.call(std::move(quiet));
  copies_->stop(at->second.copy);
  at->second.quiet.push_back(std::move(quiet));
}

void InprocTransport::peer_down(ProcessId peer, Quiet quiet) {
  if (peer != process_) return later_.call(std::move(quiet));
  for (const auto& [transfer, row] : offers_) row->stands = false;
  offers_.clear();
  channels_.clear();
  end_pulls_of(nullptr, quiet);
}

void InprocTransport::shutdown(Time, std::function<void(std::vector<TransferId>)> done) {
  // Slices are short, so the deadline is not needed.
  peer_down(process_, [done = std::move(done)] { done({}); });
}

TransportStats InprocTransport::stats() const {
  TransportStats now = stats_;
  now.offers = offers_.size();
  now.pulls = pulls_.size();
  now.channels = channels_.size();
  return now;
}

}  // namespace mobula::internal
