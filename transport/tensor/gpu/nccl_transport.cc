#include "transport/tensor/gpu/nccl_transport.h"

#include <fmt/format.h>

#include <utility>

#include "transport/tensor/blob.h"

namespace mobula::internal {
namespace {

constexpr PathCost nccl_cost{500us, 1e10};
// Time that a send continues after the release of its offer. Then its channel is taken down.
constexpr Duration release_timeout = 500ms;

Hash128 sum_of(std::span<const std::byte> bytes) { return siphash128(Hash128{}, bytes); }

Blob ticket_of(ProcessId holder, const Offer& offer) {
  BlobWriter to;
  put_direct_head(to, DirectKind::nccl);
  to.id(holder)
      .id(offer.to.peer)
      .id(offer.transfer)
      .number(offer.to.epoch)
      .number(offer.regions.size());
  for (const SourceRegion& each : offer.regions) to.number(each.bytes.size());
  to.bits(sum_of(to.bytes()));
  return to.take();
}

}  // namespace

// Self-description of a process.
struct NcclTransport::Endpoint {
  ProcessId process;
  std::uint64_t version = 0;
  DeviceUuid device{};
  std::string host;
  std::string address;
  DirectToken token;

  Blob encode() const {
    BlobWriter to;
    put_direct_head(to, DirectKind::nccl);
    return to.id(process).number(version).raw(device).text(host).text(address).token(token).take();
  }
  static Result<Endpoint> decode(std::span<const std::byte> bytes) {
    BlobReader from(bytes);
    if (auto good = take_direct_head(from, DirectKind::nccl, "an endpoint"); !good)
      return good.error();
    Endpoint made;
    made.process = from.id<ProcessId>();
    made.version = from.number();
    const auto device = from.raw(made.device.size());
    if (device.size() == made.device.size())
      std::copy(device.begin(), device.end(), made.device.begin());
    made.host = from.text(256);
    made.address = from.text(256);
    made.token = from.token();
    if (auto good = from.finish("an endpoint"); !good) return good.error();
    return made;
  }
};

struct NcclTransport::Channel {
  ChannelKey key;
  Time since;
  Time deadline;
  bool open = false;
  std::vector<Opened> opening;
  // Created and used by the device's thread.
  std::shared_ptr<NcclChannel> core;
  bool watched = false;

  // Drives the channel on the device's thread.
  static void drive(const ChannelPtr& of, DeviceCopies::Poster& thread) {
    if (std::exchange(of->watched, true)) return;
    thread.watch([of] {
      if (!of->core->step()) return false;
      of->watched = false;
      return true;
    });
  }
};

struct NcclTransport::Step {
  TransferId transfer;
  ChannelPtr channel;
  Ended ended;
  bool sends = false;
  std::uint64_t bytes = 0;
  bool released = false;  // the offer of this send was released
  Time since;
  std::vector<Quiet> quiet;
};

Availability NcclTransport::probe() {
  const auto library = NcclLibrary::open();
  if (!library) return {false, library.error().text};
  return {true,
          "NCCL " + nccl_version_text((*library)->version()) + " of " + (*library)->library()};
}

NcclTransport::NcclTransport(EventLoop& loop, ProcessId process,
                             std::shared_ptr<const GpuContext> context,
                             std::shared_ptr<const NcclLibrary> library, NcclOptions options)
    : process_(process),
      context_(std::move(context)),
      library_(std::move(library)),
      options_(std::move(options)),
      later_(loop),
      release_timer_(loop, [this] { end_released(); }),
      shutdown_timer_(loop, [this] { finish_shutdown(); }) {
  caps_.scope = TransportScope::network;
  caps_.source_kinds = caps_.target_kinds = kind_bit(MemoryKind::device);
  caps_.one_sided = false;
  caps_.needs_holder_progress = true;
}

Result<std::unique_ptr<NcclTransport>> NcclTransport::create(
    EventLoop& loop, ProcessId process, std::shared_ptr<const GpuContext> context,
    std::shared_ptr<const NcclLibrary> library, NcclOptions options) {
  std::unique_ptr<NcclTransport> made(
      new NcclTransport(loop, process, context, std::move(library), std::move(options)));
  DeviceCopyOptions copying;
  copying.cpus = made->options_.cpus;
  auto thread = DeviceCopies::create(loop, std::move(context), std::move(copying));
  if (!thread) return thread.error();
  made->thread_ = std::move(thread).value();
  auto rendezvous = NcclRendezvous::listen(loop, process, made->options_.listen);
  if (!rendezvous) return rendezvous.error();
  made->rendezvous_ = std::move(rendezvous).value();
  made->endpoint_ = Endpoint{process,
                             static_cast<std::uint64_t>(made->library_->version()),
                             made->context_->uuid(),
                             made->options_.host,
                             made->rendezvous_->address(),
                             made->rendezvous_->token()}
                        .encode();
  return made;
}

NcclTransport::~NcclTransport() {
  for (const auto& each : channels_) {
    thread_->poster()->post([channel = each.second, poster = thread_->poster()] {
      if (!channel->core) return;
      channel->core->take_down(ended_by_owner(), nullptr);
      Channel::drive(channel, *poster);
    });
  }
}

Result<NcclTransport::Endpoint> NcclTransport::check_peer(const Peer& peer) const {
  auto there = Endpoint::decode(peer.endpoint);
  if (!there) return there.error();
  if (there->process != peer.process || there->process == process_) {
    return failure(ErrorCode::invalid_argument,
                   "nccl: the endpoint of another process, or of this one");
  }
  if (!peer.trusted_fabric) {
    return failure(ErrorCode::unavailable,
                   "nccl: fabric not trusted: its bytes are not sealed; declare the nodes trusted");
  }
  const auto version = static_cast<int>(there->version);
  if (version != library_->version()) {
    return failure(ErrorCode::unavailable,
                   fmt::format("nccl: NCCL {} here and {} there, which do not speak to each other",
                               nccl_version_text(library_->version()), nccl_version_text(version)));
  }
  if (there->device == context_->uuid() && there->host == options_.host &&
      !(library_->shares_gpu() && peer.shares_gpu)) {
    return failure(ErrorCode::unavailable,
                   "nccl: both processes use " + to_string(there->device) +
                       ", which NCCL refuses unless both have NCCL 2.30 and "
                       "NCCL_MULTI_RANK_GPU_ENABLE=1; cuda_ipc needs neither");
  }
  return there;
}

Result<PathCost> NcclTransport::reach(const Peer& peer, const MemoryLocation& source,
                                      const MemoryLocation& target) const {
  if (source.on_host() || target.on_host()) {
    return failure(ErrorCode::invalid_argument, "nccl: goes from device to device only");
  }
  const auto there = check_peer(peer);
  if (!there) return there.error();
  const DeviceUuid& here = context_->uuid();
  if ((source.device == there->device && target.device == here) ||
      (source.device == here && target.device == there->device)) {
    return nccl_cost;
  }
  return failure(ErrorCode::invalid_argument, "nccl: the device belongs to neither process");
}

void NcclTransport::open(const ChannelKey& key, const Peer& peer, Time deadline, Opened opened) {
  const auto refuse = [&](const Failure& why) {
    later_.call([opened = std::move(opened), why] { opened(why); });
  };
  const auto there = check_peer(peer);
  if (!there) return refuse(there.error());
  if (peer.process != key.peer) {
    return refuse(failure(ErrorCode::invalid_argument, "nccl: the endpoint of another process"));
  }
  if (const auto at = channels_.find(key); at != channels_.end()) {
    if (at->second->open) return later_.call([opened = std::move(opened)] { opened({}); });
    at->second->opening.push_back(std::move(opened));
    return;
  }
  const auto higher = channels_.upper_bound(key);
  if (higher != channels_.end() && higher->first.peer == key.peer) {
    return refuse(failure(ErrorCode::already_exists,
                          fmt::format("a channel of epoch {} is there", higher->first.epoch)));
  }
  close_below(key);
  if (channels_.size() >= options_.max_open) {
    return refuse(
        failure(ErrorCode::resource_exhausted,
                fmt::format("nccl: {} communicators are open, which is the limit; close one",
                            channels_.size())));
  }
  auto channel = std::make_shared<Channel>();
  channel->key = key;
  channel->since = monotonic_now();
  channel->deadline = deadline;
  channel->opening.push_back(std::move(opened));
  channels_.emplace(key, channel);
  meet(channel, *there);
}

// The process with the lower id creates the unique id. NCCL listens for the other process where the
// id is created.
void NcclTransport::meet(const ChannelPtr& channel, const Endpoint& there) {
  if (process_ < channel->key.peer) {
    thread_->run([this, channel, library = library_]() -> std::function<void()> {
      nccl_abi::UniqueId id{};
      const auto status = library->call().unique_id(&id);
      return [this, channel, id, status] {
        if (channels_.find(channel->key) == channels_.end()) return;
        if (status != nccl_abi::success) {
          return on_opened(channel, library_->error("ncclGetUniqueId", status));
        }
        rendezvous_->give(channel->key, id);
        begin(channel, id);
      };
    });
    return;
  }
  rendezvous_->request(channel->key, there.address, there.token, channel->deadline,
                       [this, channel](const Result<nccl_abi::UniqueId>& id) {
                         if (channels_.find(channel->key) == channels_.end()) return;
                         if (!id) {
                           on_opened(channel, id.error());
                         } else {
                           begin(channel, *id);
                         }
                       });
}

int NcclTransport::peer_rank(const Channel& channel) const {
  return process_ < channel.key.peer ? 1 : 0;
}

void NcclTransport::begin(const ChannelPtr& channel, const nccl_abi::UniqueId& id) {
  const auto poster = thread_->poster();
  NcclChannel::Terms terms{.nccl = library_,
                           .context = context_,
                           .id = id,
                           .rank = 1 - peer_rank(*channel),
                           .ranks = 2,
                           .deadline = channel->deadline,
                           .shutdown_timeout = options_.shutdown_timeout,
                           .opened = nullptr,
                           .lost = nullptr};
  // The channel owns these functions, so they hold it weakly.
  terms.opened = [this, weak = std::weak_ptr(channel),
                  raw = poster.get()](const Result<void>& result) {
    raw->tell([this, weak, result] {
      if (const auto of = weak.lock()) on_opened(of, result);
    });
  };
  terms.lost = [this, raw = poster.get()](const std::string& text) {
    raw->tell([this, text] {
      if (options_.lost) options_.lost(text);
    });
  };
  poster->post([channel, poster, terms] {
    channel->core = std::make_shared<NcclChannel>(terms);
    channel->core->begin();
    Channel::drive(channel, *poster);
  });
}

void NcclTransport::on_opened(const ChannelPtr& channel, const Result<void>& result) {
  const auto at = channels_.find(channel->key);
  if (at == channels_.end() || at->second != channel) return;
  if (!result) return take_down(channel, result.error(), nullptr);
  channel->open = true;
  rendezvous_->take_back(channel->key);
  ++stats_.opened;
  stats_.open_ns += static_cast<std::uint64_t>((monotonic_now() - channel->since).count());
  for (auto& opened : std::exchange(channel->opening, {})) {
    later_.call([opened = std::move(opened)] { opened({}); });
  }
}

void NcclTransport::take_down(const ChannelPtr& channel, const Failure& why, const Quiet& quiet) {
  const auto at = channels_.find(channel->key);
  if (at != channels_.end() && at->second == channel) {
    channels_.erase(at);
    rendezvous_->take_back(channel->key);
  }
  channel->open = false;
  for (auto& opened : std::exchange(channel->opening, {})) {
    later_.call([opened = std::move(opened), why = why] { opened(why); });
  }
  const auto poster = thread_->poster();
  poster->post([channel, poster, why = why, quiet] {
    const auto answer = [raw = poster.get(), quiet] {
      if (quiet) raw->tell(quiet);
    };
    if (!channel->core) return answer();
    channel->core->take_down(why, answer);
    Channel::drive(channel, *poster);
  });
}

void NcclTransport::close(const ChannelKey& key) {
  const auto at = channels_.find(key);
  if (at == channels_.end()) return;
  take_down(ChannelPtr(at->second), failure(ErrorCode::cancelled, "the channel was closed"),
            nullptr);
}

void NcclTransport::close_below(const ChannelKey& key) {
  while (true) {
    const auto lower = channels_.lower_bound({key.peer, 0});
    if (lower == channels_.end() || !(lower->first < key) || lower->first.peer != key.peer) return;
    take_down(ChannelPtr(lower->second),
              failure(ErrorCode::cancelled, "a channel of a higher epoch was opened"), nullptr);
  }
}

void NcclTransport::offer(Offer offer, Offered offered) {
  const auto refuse = [&](const Failure& why) {
    later_.call([offered = std::move(offered), why] { offered(why); });
  };
  const auto bytes = checked_bytes(offer.regions, options_.limits, caps_.source_kinds);
  if (!bytes) return refuse(bytes.error());
  for (const SourceRegion& each : offer.regions) {
    if (each.location.device == context_->uuid()) continue;
    return refuse(failure(ErrorCode::invalid_argument, "nccl: a region of another device"));
  }
  if (offers_.contains(offer.transfer)) {
    return refuse(failure(ErrorCode::already_exists, "the transfer is offered already"));
  }
  if (offers_.size() >= options_.limits.max_offers) {
    return refuse(failure(ErrorCode::resource_exhausted,
                          fmt::format("{} offers stand, which is the limit", offers_.size())));
  }
  offer.peer.endpoint = {};  // valid only during the call
  const Blob ticket = ticket_of(process_, offer);
  offers_.emplace(offer.transfer, std::move(offer));
  ++stats_.offered;
  later_.call([offered = std::move(offered), ticket] { offered(ticket); });
}

void NcclTransport::release(TransferId transfer, Quiet quiet) {
  offers_.erase(transfer);
  if (!step_ || step_->transfer != transfer || !step_->sends) return later_.call(std::move(quiet));
  // The receiver may finish shortly before this side observes it.
  if (quiet) step_->quiet.push_back(std::move(quiet));
  step_->released = true;
  release_timer_.arm(monotonic_now() + release_timeout);
}

void NcclTransport::end_released() {
  if (step_ && step_->released) take_down(step_->channel, ended_by_owner(), nullptr);
}

Result<NcclTransport::ChannelPtr> NcclTransport::ready_channel(const ChannelKey& key) {
  const auto at = channels_.find(key);
  if (at == channels_.end()) return unknown_channel(key);
  if (!at->second->open) {
    return failure(ErrorCode::unavailable, "nccl: the channel is not open yet");
  }
  if (!step_) return at->second;
  return failure(ErrorCode::resource_exhausted,
                 "nccl: a step is under way on this device; the next one needs its turn");
}

// If serve() cannot start, the step of the receiver ends by its limit and costs the channel.
void NcclTransport::serve(const ChannelKey& key, TransferId transfer) {
  serve(key, transfer, nullptr);
}

void NcclTransport::serve(const ChannelKey& key, TransferId transfer, Ended ended) {
  const auto refuse = [&](const Failure& why) {
    if (ended) later_.call([ended = std::move(ended), why] { ended({.result = why}); });
  };
  const auto at = offers_.find(transfer);
  if (at == offers_.end() || at->second.to != key) {
    return refuse(failure(ErrorCode::not_found, "nccl: nothing is offered there"));
  }
  const auto channel = ready_channel(key);
  if (!channel) return refuse(channel.error());
  Step step;
  step.sends = true;
  step.ended = std::move(ended);
  NcclMove move;
  for (const SourceRegion& each : at->second.regions) {
    if (!each.bytes.empty()) {
      move.calls.push_back({.kind = NcclCall::Kind::send,
                            .from = each.bytes.data(),
                            .count = each.bytes.size(),
                            .peer = peer_rank(**channel)});
    }
  }
  start_step(*channel, transfer, std::move(step), std::move(move));
}

Blob NcclTransport::ticket_for(ProcessId holder, ProcessId receiver, TransferId transfer,
                               std::uint64_t epoch, std::uint64_t size_bytes) {
  const Offer offer{
      .transfer = transfer,
      .to = {receiver, epoch},
      .regions = {SourceRegion{.bytes = {static_cast<const std::byte*>(nullptr), size_bytes}}},
      .peer = {}};
  return ticket_of(holder, offer);
}

Result<std::vector<std::span<std::byte>>> NcclTransport::targets_of(const Pull& pull) const {
  const auto corrupt =
      failure(ErrorCode::corrupt, "nccl: a ticket that is not as its holder made it");
  if (pull.ticket.size() < 16 || pull.ticket.size() > options_.limits.max_ticket_bytes)
    return corrupt;
  BlobReader from(pull.ticket);
  if (auto good = take_direct_head(from, DirectKind::nccl, "a ticket"); !good) return good.error();
  const auto holder = from.id<ProcessId>(), receiver = from.id<ProcessId>();
  const auto transfer = from.id<TransferId>();
  const std::uint64_t epoch = from.number(), count = from.number();
  if (count > options_.limits.max_regions) return corrupt;
  std::vector<std::uint64_t> sizes(count);
  for (std::uint64_t& each : sizes) each = from.number();
  const Hash128 sum = from.bits();
  if (from.broken() || from.left() != 0 ||
      sum != sum_of(pull.ticket.first(pull.ticket.size() - 16))) {
    return corrupt;
  }
  if (holder != pull.from.peer || receiver != process_ || transfer != pull.transfer) {
    return failure(ErrorCode::invalid_argument, "a ticket of another transfer");
  }
  if (epoch != pull.from.epoch) {
    return failure(
        ErrorCode::permission_denied,
        fmt::format("a ticket of epoch {} on a channel of epoch {}", epoch, pull.from.epoch));
  }
  if (sizes.size() != pull.targets.size()) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{} regions are offered, and {} are requested", sizes.size(),
                               pull.targets.size()));
  }
  std::vector<std::span<std::byte>> targets;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const TargetRegion& target = pull.targets[i];
    if (auto good = check_target(i, sizes[i], target, caps_.target_kinds); !good)
      return good.error();
    if (target.location.device != context_->uuid()) {
      return failure(ErrorCode::invalid_argument, "nccl: a target on another device");
    }
    if (!target.bytes.empty()) targets.push_back(target.bytes);
  }
  return targets;
}

void NcclTransport::pull(Pull pull, Ended ended) {
  const auto refuse = [&](const Failure& why) {
    ++stats_.failed;
    later_.call([ended = std::move(ended), why] { ended({.result = why}); });
  };
  auto targets = targets_of(pull);
  const auto channel = ready_channel(pull.from);
  if (!channel && channel.error().code == ErrorCode::not_found) return refuse(channel.error());
  if (!targets) return refuse(targets.error());
  if (!channel) return refuse(channel.error());
  Step step;
  step.ended = std::move(ended);
  NcclMove move;
  for (const auto& each : *targets) {
    move.calls.push_back({.kind = NcclCall::Kind::receive,
                          .to = each.data(),
                          .count = each.size(),
                          .peer = peer_rank(**channel)});
    step.bytes += each.size();
  }
  move.limit = pull.silence_timeout;
  start_step(*channel, pull.transfer, std::move(step), std::move(move));
}

void NcclTransport::start_step(const ChannelPtr& channel, TransferId transfer, Step step,
                               NcclMove move) {
  step.transfer = transfer;
  step.channel = channel;
  step.since = monotonic_now();
  step_ = std::make_unique<Step>(std::move(step));
  if (move.calls.empty()) {
    // No message is needed, because the other side knows that the transfer is empty.
    later_.call([this, started = step_.get()] {
      if (step_.get() == started) end_step({});
    });
    return;
  }
  const auto poster = thread_->poster();
  move.ended = [this, raw = poster.get()](const Result<void>& result) {
    raw->tell([this, result] { end_step(result); });
  };
  poster->post([channel, poster, move = std::move(move)] {
    channel->core->move(move);
    Channel::drive(channel, *poster);
  });
}

void NcclTransport::end_step(const Result<void>& result) {
  const std::unique_ptr<Step> step = std::move(step_);
  const Time now = monotonic_now();
  if (!result) take_down(step->channel, result.error(), nullptr);
  if (step->ended) {
    const bool was_cancelled = !result && result.error().code == ErrorCode::cancelled;
    if (!step->sends) ++(result ? stats_.pulled : was_cancelled ? stats_.cancelled : stats_.failed);
    TransferEnd report{.result = result};
    if (result) {
      report.bytes = step->bytes;
      report.moving = now - step->since;
      if (!step->sends) stats_.pulled_bytes += step->bytes;
    }
    later_.call([ended = std::move(step->ended), report] { ended(report); });
  }
  for (auto& quiet : step->quiet) later_.call(std::move(quiet));
}

void NcclTransport::map(TransferId, const ChannelKey&, std::span<const std::byte>, Mapped mapped) {
  later_.call([mapped = std::move(mapped)] {
    mapped(failure(ErrorCode::invalid_argument, "nccl: bytes cannot be mapped; pull them"));
  });
}

void NcclTransport::cancel(TransferId transfer, Quiet quiet) {
  if (!step_ || step_->transfer != transfer) return later_.call(std::move(quiet));
  if (quiet) step_->quiet.push_back(std::move(quiet));
  take_down(step_->channel, ended_by_owner(), nullptr);
}

void NcclTransport::peer_down(ProcessId peer, Quiet quiet) {
  const QuietGate gate(std::move(quiet));
  const auto why =
      failure(ErrorCode::unavailable, fmt::format("process {} has exited", peer.brief()));
  std::erase_if(offers_, [&](const auto& each) { return each.second.to.peer == peer; });
  std::vector<ChannelPtr> gone;
  for (const auto& [key, channel] : channels_) {
    if (key.peer == peer) gone.push_back(channel);
  }
  if (step_ && step_->channel->key.peer == peer) step_->quiet.push_back(gate.add());
  for (const ChannelPtr& each : gone) take_down(each, why, gate.add());
  later_.call(gate.add());
}

void NcclTransport::shutdown(Time deadline, std::function<void(std::vector<TransferId>)> done) {
  shut_down_ = std::move(done);
  shutdown_timer_.arm(deadline);
  const QuietGate gate([this] { finish_shutdown(); });
  offers_.clear();
  if (step_) step_->quiet.push_back(gate.add());
  while (!channels_.empty()) {
    take_down(ChannelPtr(channels_.begin()->second), ended_by_owner(), gate.add());
  }
  later_.call(gate.add());
}

void NcclTransport::finish_shutdown() {
  shutdown_timer_.disarm();
  std::vector<TransferId> left;
  if (step_) left.push_back(step_->transfer);
  if (const auto done = std::exchange(shut_down_, nullptr)) done(std::move(left));
}

TransportStats NcclTransport::stats() const {
  TransportStats now = stats_;
  now.offers = offers_.size();
  now.pulls = step_ && !step_->sends ? 1 : 0;
  now.channels = channels_.size();
  return now;
}

}  // namespace mobula::internal
