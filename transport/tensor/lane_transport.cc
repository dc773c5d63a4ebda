#include "transport/tensor/lane_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mobula::internal {
namespace {

std::uint8_t kinds_with(const std::shared_ptr<ChunkStage>& stage) {
  return stage ? static_cast<std::uint8_t>(kind_bit(MemoryKind::device) | host_kinds) : host_kinds;
}

constexpr Duration transport_check_interval = 100ms;
constexpr std::uint64_t least_chunk = 256u << 10;

}  // namespace

LaneTransport::LaneTransport(EventLoop& loop, ProcessId process, LaneTransportOptions options)
    : offers_(options.limits),
      process_(process),
      options_(options),
      later_(loop),
      check_timer_(loop, [this] { check(); }),
      shutdown_timer_(loop, [this] { finish_shutdown(); }),
      box_(std::make_shared<Mailbox>(loop)) {
  caps_.scope = TransportScope::network;
  caps_.source_kinds = caps_.target_kinds = host_kinds;
  caps_.needs_holder_progress = true;
  caps_.stages = options_.stages;
}

void LaneTransport::end_lanes() {
  box_->close();
  for (auto& lane : lanes_) lane.reset();
  offers_.end_stages();
}

Failure LaneTransport::not_trusted() const {
  return failure(ErrorCode::permission_denied,
                 fmt::format("{}: fabric not trusted; it sends plain bytes", options_.name));
}

Result<PathCost> LaneTransport::reach(const Peer& peer, const MemoryLocation& source,
                                      const MemoryLocation& target) const {
  if (!source.on_host() || !target.on_host()) return not_for_device(options_.name);
  if (const auto there = address_in(peer.endpoint, peer.process); !there) return there.error();
  if (options_.plain && !peer.trusted_fabric) return not_trusted();
  return options_.cost;
}

void LaneTransport::open(const ChannelKey& key, const Peer& peer, Time, Opened opened) {
  Result<void> result;
  const auto higher = channels_.upper_bound(key);
  if (const auto cost = reach(peer, {}, {}); !cost) {
    result = cost.error();
  } else if (peer.process != key.peer) {
    result = failure(ErrorCode::invalid_argument, "the endpoint of another process");
  } else if (higher != channels_.end() && higher->first.peer == key.peer) {
    result = failure(ErrorCode::already_exists,
                     fmt::format("a channel of epoch {} is there", higher->first.epoch));
  } else if (!channels_.contains(key)) {
    for (auto lower = channels_.lower_bound({key.peer, 0});
         lower != channels_.end() && lower->first.peer == key.peer;
         lower = channels_.lower_bound({key.peer, 0})) {
      close(ChannelKey(lower->first));
    }
    if (channels_.size() >= options_.limits.max_channels) {
      result = failure(ErrorCode::resource_exhausted,
                       fmt::format("{} channels are open, which is the limit", channels_.size()));
    } else {
      channels_[key] = {address_in(peer.endpoint, peer.process).value(), peer.trusted_fabric};
      ++stats_.opened;
    }
  }
  later_.call([opened = std::move(opened), result] { opened(result); });
}

void LaneTransport::close(const ChannelKey& key) {
  if (channels_.erase(key) == 0) return;
  for (auto& [transfer, row] : rows_) {
    if (row.from != key) continue;
    stop(transfer, row, failure(ErrorCode::cancelled, "the channel was closed"), false);
  }
  for (const auto& lane : lanes_) lane->forget(key);
}

void LaneTransport::offer(Offer offer, Offered offered) {
  const auto refuse = [&](const Failure& why) {
    later_.call([offered = std::move(offered), why] { offered(why); });
  };
  if (offer.stage && !caps_.stages) return refuse(not_for_device(options_.name));
  if (const auto bytes = checked_bytes(offer.regions, options_.limits, kinds_with(offer.stage));
      !bytes) {
    return refuse(bytes.error());
  }
  if (options_.plain && !offer.peer.trusted_fabric) return refuse(not_trusted());
  const auto right = offers_.right_of(offer.to, !offer.peer.trusted_fabric);
  if (!right) return refuse(right.error());
  TcpTicket ticket;
  ticket.kind = options_.kind;
  ticket.holder = process_;
  ticket.receiver = offer.to.peer;
  ticket.transfer = offer.transfer;
  ticket.epoch = offer.to.epoch;
  ticket.right = *right;
  ticket.token = DirectToken::random();
  for (const SourceRegion& each : offer.regions) ticket.sizes.push_back(each.bytes.size());
  auto added = offers_.add(offer.transfer, offer.to, ticket.token, std::move(offer.regions),
                           std::move(offer.stage));
  if (!added) return refuse(added.error());
  ++stats_.offered;
  later_.call([offered = std::move(offered), blob = ticket.encode()] { offered(blob); });
}

void LaneTransport::release(TransferId transfer, Quiet quiet) {
  if (!check_timer_.armed()) check_timer_.arm(monotonic_now() + transport_check_interval);
  ++owed_;
  offers_.release(transfer, [this, box = box_, quiet = std::move(quiet)] {
    box->push([this, quiet] {
      --owed_;
      if (quiet) quiet();
    });
  });
}

Result<TcpTicket> LaneTransport::check(const Pull& pull) const {
  if (rows_.contains(pull.transfer)) {
    return failure(ErrorCode::already_exists, "the transfer is pulled already");
  }
  if (rows_.size() >= options_.limits.max_pulls) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("{} pulls are under way, which is the limit", rows_.size()));
  }
  const auto channel = channels_.find(pull.from);
  if (channel == channels_.end()) return unknown_channel(pull.from);
  auto ticket = TcpTicket::decode(pull.ticket, options_.limits, options_.kind);
  if (!ticket) return ticket.error();
  if (ticket->holder != pull.from.peer || ticket->receiver != process_ ||
      ticket->transfer != pull.transfer) {
    return failure(ErrorCode::invalid_argument, "a ticket of another transfer");
  }
  if (ticket->epoch != pull.from.epoch) {
    return failure(ErrorCode::permission_denied,
                   fmt::format("a ticket of epoch {} on a channel of epoch {}", ticket->epoch,
                               pull.from.epoch));
  }
  if (!ticket->right.key && !channel->second.trusted) {
    return failure(ErrorCode::permission_denied,
                   "the holder would send plain bytes over a fabric that is not trusted");
  }
  if (ticket->sizes.size() != pull.targets.size()) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{} regions are offered, and {} are requested", ticket->sizes.size(),
                               pull.targets.size()));
  }
  if (pull.stage && !caps_.stages) return not_for_device(options_.name);
  for (std::size_t i = 0; i < pull.targets.size(); ++i) {
    auto good = check_target(i, ticket->sizes[i], pull.targets[i], kinds_with(pull.stage));
    if (!good) return good.error();
  }
  return ticket;
}

void LaneTransport::pull(Pull pull, Ended ended) {
  const auto ticket = check(pull);
  if (!ticket) {
    ++stats_.failed;
    later_.call([ended = std::move(ended), why = ticket.error()] { ended({.result = why}); });
    return;
  }
  Row& row = rows_[pull.transfer];
  row.from = pull.from;
  row.ended = std::move(ended);
  row.since = monotonic_now();
  row.report.encrypted = ticket->right.key.has_value();
  if (!check_timer_.armed()) check_timer_.arm(row.since + transport_check_interval);
  share_out(pull, *ticket, row);
}

// Distributes the chunks to the lanes in round-robin order. A small pull uses one lane.
void LaneTransport::share_out(const Pull& pull, const TcpTicket& ticket, Row& row) {
  std::uint64_t all = 0;
  for (const std::uint64_t size : ticket.sizes) all += size;
  row.report.bytes = all;
  const std::uint64_t even = all / (4 * lanes_.size()) / least_chunk * least_chunk;
  // The stage of the other side is unknown here, so the size is one that every stage accepts.
  const std::uint64_t largest = std::clamp(options_.chunk_bytes, least_chunk, staged_chunk_bytes);
  const std::uint64_t most = std::clamp(even, least_chunk, largest);
  std::vector<LaneShare> shares(lanes_.size());
  std::size_t lane = next_lane_;
  for (std::size_t region = 0; region < ticket.sizes.size(); ++region) {
    for (std::uint64_t at = 0; at < ticket.sizes[region]; at += most) {
      const std::uint64_t size = std::min(most, ticket.sizes[region] - at);
      shares[lane].chunks.push_back({{region, at, size}, pull.targets[region].bytes.data() + at});
      if (all > least_chunk) lane = (lane + 1) % lanes_.size();
    }
  }
  // An empty transfer has no chunks; one empty request checks that the offer is valid.
  if (all == 0) shares[lane].chunks.push_back({{0, 0, 0}, nullptr});
  next_lane_ = (next_lane_ + 1) % lanes_.size();
  const Channel& channel = channels_.at(pull.from);
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    LaneShare& share = shares[i];
    if (share.chunks.empty()) continue;
    share.transfer = pull.transfer;
    share.from = pull.from;
    share.address = channel.address;
    share.right = ticket.right;
    share.token = ticket.token;
    share.silence_timeout = pull.silence_timeout;
    share.stage = pull.stage;
    share.untouched = std::all_of(pull.targets.begin(), pull.targets.end(),
                                  [](const TargetRegion& each) { return each.untouched; });
    share.ended = [this, box = box_, transfer = pull.transfer](const Result<void>& result,
                                                               Time began) {
      box->push([this, transfer, result, began, ended = monotonic_now()] {
        on_share(transfer, result, began, ended);
      });
    };
    ++row.shares;
    lanes_[i]->begin(std::move(share));
  }
}

void LaneTransport::on_share(TransferId transfer, const Result<void>& result, Time began,
                             Time ended) {
  const auto at = rows_.find(transfer);
  Row& row = at->second;
  row.report.queued = began - row.since;
  row.report.moving = ended - began;
  if (!result && row.result) {
    row.result = result;
    if (!row.why) {
      row.lost = result.error().code == ErrorCode::unavailable;
      for (const auto& lane : lanes_) lane->cancel(transfer);
    }
  }
  if (--row.shares > 0) return;
  auto node = rows_.extract(at);
  Row& over = node.mapped();
  over.report.result = over.result;
  if (over.result) {
    ++stats_.pulled;
    stats_.pulled_bytes += over.report.bytes;
  } else {
    if (over.why) over.report.result = *over.why;
    over.report.bytes = 0;
    over.report.peer_lost = over.lost;
    const bool was_cancelled = over.report.result.error().code == ErrorCode::cancelled;
    ++(was_cancelled ? stats_.cancelled : stats_.failed);
  }
  later_.call([answer = std::move(over.ended), report = over.report] { answer(report); });
  for (Quiet& quiet : over.quiet) later_.call(std::move(quiet));
}

void LaneTransport::map(TransferId, const ChannelKey&, std::span<const std::byte>, Mapped mapped) {
  later_.call([mapped = std::move(mapped)] {
    mapped(
        failure(ErrorCode::invalid_argument, "the bytes arrive over a network: pull, do not map"));
  });
}

void LaneTransport::cancel(TransferId transfer, Quiet quiet) {
  const auto at = rows_.find(transfer);
  if (at == rows_.end()) return later_.call(std::move(quiet));
  at->second.quiet.push_back(std::move(quiet));
  stop(transfer, at->second, ended_by_owner(), false);
}

void LaneTransport::stop(TransferId transfer, Row& row, const Failure& why, bool lost) {
  if (!row.why) {
    row.why = why;
    row.lost = lost;
  }
  for (const auto& lane : lanes_) lane->cancel(transfer);
}

void LaneTransport::end_all(const ProcessId* peer, const Failure& why, bool lost,
                            const QuietGate& gate) {
  for (auto& [transfer, row] : rows_) {
    if (peer != nullptr && row.from.peer != *peer) continue;
    row.quiet.push_back(gate.add());
    stop(transfer, row, why, lost);
  }
  std::vector<ChannelKey> gone;
  for (const auto& [key, channel] : channels_) {
    if (peer == nullptr || key.peer == *peer) gone.push_back(key);
  }
  for (const ChannelKey& key : gone) close(key);
  offers_.end_right(peer);
  for (const TransferId transfer : offers_.of(peer)) release(transfer, gate.add());
  later_.call(gate.add());
}

void LaneTransport::peer_down(ProcessId peer, Quiet quiet) {
  const auto why =
      failure(ErrorCode::unavailable, fmt::format("process {} has exited", peer.brief()));
  end_all(&peer, why, true, QuietGate(std::move(quiet)));
}

void LaneTransport::shutdown(Time deadline, std::function<void(std::vector<TransferId>)> done) {
  shut_down_ = std::move(done);
  shutdown_timer_.arm(deadline);
  end_all(nullptr, ended_by_owner(), false, QuietGate([this] { finish_shutdown(); }));
}

void LaneTransport::finish_shutdown() {
  shutdown_timer_.disarm();
  std::vector<TransferId> left;
  for (const auto& [transfer, row] : rows_) left.push_back(transfer);
  if (const auto done = std::exchange(shut_down_, nullptr)) done(left);
}

// Runs tasks that the lanes left in the mailbox while the loop was full.
void LaneTransport::check() {
  check_timer_.arm(monotonic_now() + transport_check_interval);
  const auto box = box_;  // a task may destroy this object
  if (rows_.empty() && owed_ == 0) check_timer_.disarm();
  box->run();
}

TransportStats LaneTransport::stats() const {
  TransportStats now = stats_;
  now.offers = offers_.size();
  now.pulls = rows_.size();
  now.channels = channels_.size();
  return now;
}

}  // namespace mobula::internal
