#include "tensor/exchange/tensor_paths.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tensor/exchange/device_endpoints.h"
#include "transport/tensor/blob.h"

namespace mobula::internal::exchange {
namespace {

constexpr std::size_t id_bytes = sizeof(Hash128);
constexpr Duration open_timeout = 5s;
constexpr Duration pair_timeout = 30s;  // includes the creation of the first communicator
// Longest time without a byte. User code can block the driver of a holder for longer than a healthy
// network is silent; the death of a holder is detected separately.
constexpr Duration staged_silence = 60s;

// Epochs are constant, because each incarnation of a process has its own id and each ticket its own
// token.
ChannelKey channel_to(ProcessId peer) { return {peer, 1}; }

std::string text_of(TransferId transfer, const Blob& blob) {
  std::string text(id_bytes + blob.size(), '\0');
  const Hash128 bits = transfer.bits();
  std::memcpy(text.data(), &bits, id_bytes);
  std::ranges::transform(blob, text.begin() + id_bytes,
                         [](std::byte each) { return static_cast<char>(each); });
  return text;
}

Failure not_here() {
  return failure(ErrorCode::unavailable, "the process does not have that path");
}

}  // namespace

// An active pull: open the channel, map or pull the bytes, and copy them to a device if they
// arrived on the host.
struct TensorPaths::Fetching {
  TensorTransport* way = nullptr;
  TransferId transfer;
  ChannelKey from;
  Blob ticket;
  std::uint64_t size_bytes = 0;
  bool in_place = false;
  int device = on_host;
  bool lands_directly = true;  // the transport writes to the final destination
  // copied to the device directly from the holder's mapped host memory
  bool passes_through = false;
  std::shared_ptr<ChunkStage> stage = nullptr;  // used by the transport to write to the device
  Duration silence_timeout = Pull().silence_timeout;
  Fetched fetched;
  std::shared_ptr<ReceiveBuffer> buffer;  // shared with the tensors in it
  std::span<std::byte> target;            // replaces `buffer`
  std::shared_ptr<const void> target_owner;
  DeviceAllocation memory;
  // the mapping that a pass-through copy reads
  std::shared_ptr<const MappedRegions> offered = nullptr;
  std::uint64_t copy = 0;  // active copy
  bool cancelled = false;
};

TensorTransport* TensorPaths::transport(DirectPath path, std::uint32_t device_ordinal) const {
  const auto at = transports_.find({path, device_ordinal});
  return at == transports_.end() ? nullptr : at->second.get();
}

NcclTransport* TensorPaths::nccl(std::uint32_t device_ordinal) const {
  return static_cast<NcclTransport*>(transport(DirectPath::nccl, device_ordinal));
}

std::shared_ptr<ChunkStage> TensorPaths::stage_of(int device) const {
  const auto at = stages_.find(device);
  return at == stages_.end() ? nullptr : at->second->stage();
}

DeviceCopies* TensorPaths::copies_of(int device) const {
  const auto at = copies_.find(device);
  return at == copies_.end() ? nullptr : at->second;
}

void TensorPaths::gone(ProcessId peer) { end_paths(peer, true); }

// Keeps communicators, because they serve both directions and the core closes them by itself.
void TensorPaths::parted(ProcessId peer) { end_paths(peer, false); }

void TensorPaths::end_paths(ProcessId peer, bool with_communicators) {
  const auto known = peers_.find(peer);
  if (known == peers_.end()) return;
  const auto lanes = std::max<std::size_t>(1, known->second.devices.size());
  peers_.erase(known);
  for (const auto& [key, way] : transports_) {
    if (key.first == DirectPath::nccl && !with_communicators) continue;
    way->peer_down(peer, [] {});
    if (!is_of_devices(key.first)) continue;
    for (std::uint32_t device_ordinal = 1; device_ordinal < lanes; ++device_ordinal)
      way->peer_down(device_endpoint_id(peer, device_ordinal), [] {});
  }
}

void TensorPaths::close_paths(ProcessId holder) {
  const auto known = peers_.find(holder);
  if (known == peers_.end()) return;
  const auto lanes =
      static_cast<std::uint32_t>(std::max<std::size_t>(1, known->second.devices.size()));
  for (const auto& [key, way] : transports_) {
    if (key.first == DirectPath::nccl) continue;
    for (std::uint32_t device_ordinal = 0; device_ordinal < (is_of_devices(key.first) ? lanes : 1);
         ++device_ordinal) {
      way->close(channel_to(is_of_devices(key.first) ? device_endpoint_id(holder, device_ordinal)
                                                     : holder));
    }
  }
}

// ---- choice -------------------------------------------------------------------------------------

transfer::ProcessReach TensorPaths::reach_of(ProcessId process, const TransportCapabilities& reach,
                                             std::uint32_t device_ordinal) const {
  transfer::ProcessReach out;
  out.process = process;
  out.machine = reach.machine;
  out.nccl_shares_gpu = reach.nccl_shares_gpu;
  for (const auto& each : reach.paths) {
    if (is_of_devices(each.path) && each.device_ordinal != device_ordinal &&
        !(each.device_ordinal == 0 && reach.devices.empty()))
      continue;
    out.paths[each.path] = {each.why_not, each.version};
  }
  return out;
}

// Trust needs the same fabric name on both sides.
bool TensorPaths::is_trusted(const TransportCapabilities& peer) const {
  return !reach_.fabric.empty() && reach_.fabric == peer.fabric;
}

bool TensorPaths::is_near(const TransportCapabilities& there) const {
  return !reach_.machine.empty() && reach_.machine == there.machine;
}

int TensorPaths::landing(const TensorRecord& record) const {
  return record.device.empty() || !options_.gpus ? on_host : options_.gpus->landing(record.device);
}

transfer::PathChoice TensorPaths::choose(ProcessId holder, const TensorRecord& record,
                                         int device) const {
  const TransportCapabilities& there = peers_.at(holder);
  const auto source = std::ranges::find(there.devices, record.device);
  const auto source_lane =
      record.device.empty() || source == there.devices.end() ? 0 : source - there.devices.begin();
  transfer::PathQuestion question;
  question.from = reach_of(holder, there, static_cast<std::uint32_t>(source_lane));
  question.to = reach_of(options_.process, reach_,
                         device == on_host ? 0 : static_cast<std::uint32_t>(device));
  question.source = {record.device, record.in_shared_memory};
  if (device != on_host) {
    const auto& own = options_.gpus->devices().at(static_cast<std::size_t>(device));
    question.destination.device = own.uuid;
    const auto uuid = device_uuid_from(record.device);
    question.peer_access = uuid && own.peers.contains(*uuid);
  }
  question.trusted = is_trusted(there);
  question.named = record.preference.named;
  question.allow_fallback = record.preference.allow_fallback;
  return transfer::choose_paths(question);
}

Peer TensorPaths::peer_of(ProcessId process, Key key) const {
  const bool of_devices = is_of_devices(key.first);
  Peer peer{.process = of_devices ? device_endpoint_id(process, key.second) : process,
            .endpoint = {}};
  const auto known = peers_.find(process);
  if (known == peers_.end()) return peer;
  // Plain bytes are acceptable within a machine: a reader of them could read the memory of the
  // process, too.
  const bool stays = is_near(known->second) && key.first != DirectPath::tcp;
  peer.trusted_fabric = stays || is_trusted(known->second);
  peer.shares_gpu = known->second.nccl_shares_gpu;
  for (const auto& each : known->second.paths) {
    if (each.path == key.first && each.device_ordinal == key.second) peer.endpoint = each.endpoint;
  }
  return peer;
}

// Host-memory path that carries a staged transfer.
Result<DirectPath> TensorPaths::carrier_to(ProcessId peer) const {
  const auto known = peers_.find(peer);
  if (known == peers_.end())
    return failure(ErrorCode::unavailable,
                   "the other process has "
                   "exited");
  for (const auto path : {DirectPath::shm, DirectPath::tcp}) {
    if (path == DirectPath::shm && !is_near(known->second)) continue;
    const bool there = std::ranges::any_of(known->second.paths, [&](const RegionPath& each) {
      return each.path == path && each.why_not.empty();
    });
    if (there && transport(path, 0) != nullptr) return path;
  }
  return failure(ErrorCode::unavailable, "no shared memory and no connection exists for it");
}

// ---- holder side --------------------------------------------------------------------------------

Result<TransferId> TensorPaths::offer(const Give& give, const SourceRegion& region,
                                      Offered offered) {
  const auto transfer = TransferId::random();
  std::optional<std::uint32_t> device_ordinal;
  if (!region.location.on_host()) {
    if (options_.gpus)
      device_ordinal = options_.gpus->ordinal_of(to_string(region.location.device));
    if (!device_ordinal) return not_here();
    if (!is_of_devices(give.path))
      return offer_staged(give, region, static_cast<int>(*device_ordinal), std::move(offered));
  }
  TensorTransport* way = transport(give.path, device_ordinal.value_or(0));
  if (way == nullptr) return not_here();
  const bool of_devices = is_of_devices(give.path);
  if (is_two_sided(give.path)) {
    // Each step carries its parameters on both sides, so the ticket needs no address.
    offered(text_of(transfer, {}));
    return transfer;
  }
  const ProcessId to = of_devices ? device_endpoint_id(give.peer, give.peer_ordinal) : give.peer;
  Offer offer{.transfer = transfer,
              .to = channel_to(to),
              .regions = {region},
              .peer = peer_of(give.peer, {give.path, of_devices ? give.peer_ordinal : 0})};
  giving_[transfer].way = way;
  way->offer(std::move(offer),
             [this, transfer, offered = std::move(offered)](const Result<Blob>& ticket) {
               if (ticket) return offered(text_of(transfer, *ticket));
               giving_.erase(transfer);
               offered(ticket.error());
             });
  return transfer;
}

// The ticket starts with the carrier path.
Result<TransferId> TensorPaths::offer_staged(const Give& give, const SourceRegion& region,
                                             int device, Offered offered) {
  if (copies_of(device) == nullptr) return not_here();
  const auto path =
      give.path == DirectPath::staged ? carrier_to(give.peer) : Result<DirectPath>(give.path);
  if (!path) return path.error();
  TensorTransport* const way = transport(*path, 0);
  if (way == nullptr) return not_here();
  return way->caps().stages ? offer_chunks(give, *path, region, device, std::move(offered))
                            : offer_copy(give, *path, region, device, std::move(offered));
}

// The tensor stays on the device; each chunk is copied to the host when the receiver requests it.
Result<TransferId> TensorPaths::offer_chunks(const Give& give, DirectPath path,
                                             const SourceRegion& region, int device,
                                             Offered offered) {
  TensorTransport* const way = transport(path, 0);
  const auto transfer = TransferId::random();
  giving_[transfer].way = way;
  Offer offer{.transfer = transfer,
              .to = channel_to(give.peer),
              .regions = {region},
              .peer = peer_of(give.peer, {path, 0}),
              .stage = stage_of(device)};
  way->offer(std::move(offer),
             [this, transfer, path, offered = std::move(offered)](const Result<Blob>& ticket) {
               if (ticket) return offered(static_cast<char>(path) + text_of(transfer, *ticket));
               giving_.erase(transfer);
               offered(ticket.error());
             });
  return transfer;
}

// Copies the whole tensor to host memory first.
Result<TransferId> TensorPaths::offer_copy(const Give& give, DirectPath path,
                                           const SourceRegion& region, int device,
                                           Offered offered) {
  TensorTransport* const way = transport(path, 0);
  const std::size_t size = region.bytes.size();
  SourceRegion staged;
  std::shared_ptr<const void> stage;
  std::byte* at = nullptr;
  if (auto taken =
          arena_ ? arena_->take(std::max<std::size_t>(size, 1)) : Result<ArenaBytes>(not_here())) {
    const auto kept = std::make_shared<ArenaBytes>(std::move(*taken));
    at = kept->bytes().data();
    staged = kept->region();
    staged.bytes = staged.bytes.first(size);
    stage = kept;
  } else {
    auto buffer = pool_.take(std::max<std::size_t>(size, 1));
    if (!buffer) return buffer.error();
    const auto kept = std::make_shared<ReceiveBuffer>(std::move(*buffer));
    at = kept->bytes().data();
    staged.bytes = kept->bytes().first(size);
    stage = kept;
  }
  const auto transfer = TransferId::random();
  Copy copy;
  copy.pieces.push_back({at, region.bytes.data(), size});
  copy.keeps = stage;
  copy.ended = [this, transfer, way, give, staged, path,
                offered = std::move(offered)](const CopyEnd& end) {
    if (!end.result) {
      giving_.erase(transfer);
      return offered(end.result.error());
    }
    Offer offer{.transfer = transfer,
                .to = channel_to(give.peer),
                .regions = {staged},
                .peer = peer_of(give.peer, {path, 0})};
    way->offer(std::move(offer), [this, transfer, path, offered](const Result<Blob>& ticket) {
      if (!ticket) {
        giving_.erase(transfer);
        return offered(ticket.error());
      }
      offered(static_cast<char>(path) + text_of(transfer, *ticket));
    });
  };
  if (auto started = copies_of(device)->start(std::move(copy)); !started) return started.error();
  giving_[transfer] = {way, std::move(stage)};
  return transfer;
}

void TensorPaths::release(TransferId transfer, std::function<void()> quiet) {
  const auto at = giving_.find(transfer);
  if (at == giving_.end()) return quiet();
  TensorTransport* const way = at->second.way;
  way->release(transfer,
               [stage = std::move(at->second.stage), quiet = std::move(quiet)] { quiet(); });
  giving_.erase(transfer);
}

// ---- receiver side ------------------------------------------------------------------------------

Result<TransferId> TensorPaths::fetch(const PullChunk& wanted, Fetched fetched) {
  const bool of_devices = is_of_devices(wanted.path);
  auto text = wanted.ticket;
  auto path = wanted.path;
  // A device tensor on a host path is staged: the holder copies it to the host first.
  const bool is_staged = wanted.of_device && !of_devices;
  if (is_staged && !text.empty()) {
    path = static_cast<DirectPath>(text.front());
    text.remove_prefix(1);
    if (is_of_devices(path) || (path != wanted.path && wanted.path != DirectPath::staged)) {
      return failure(ErrorCode::corrupt, "the holder gave a ticket of another path");
    }
  }
  TensorTransport* way =
      transport(path, of_devices ? static_cast<std::uint32_t>(wanted.device) : 0);
  if (way == nullptr) return not_here();
  if (text.size() < id_bytes)
    return failure(ErrorCode::corrupt, "the holder gave an invalid ticket");
  Hash128 bits;
  std::memcpy(&bits, text.data(), id_bytes);
  const auto fetching = std::make_shared<Fetching>();
  fetching->way = way;
  fetching->transfer = TransferId(bits);
  fetching->from = channel_to(of_devices ? device_endpoint_id(wanted.holder, wanted.peer_ordinal)
                                         : wanted.holder);
  fetching->size_bytes = wanted.size_bytes;
  fetching->device = wanted.device;
  fetching->target = wanted.target;
  fetching->target_owner = wanted.target_owner;
  if (wanted.device != on_host && way->caps().stages) fetching->stage = stage_of(wanted.device);
  fetching->lands_directly = of_devices || wanted.device == on_host || fetching->stage != nullptr;
  // The holder frees its staging copy when the offer ends, so the mapping serves only until then.
  fetching->in_place = wanted.in_place && !is_staged && way->caps().maps;
  fetching->passes_through = !fetching->lands_directly && way->caps().maps;
  if (is_staged || fetching->stage) fetching->silence_timeout = staged_silence;
  fetching->fetched = std::move(fetched);
  const auto blob = std::as_bytes(std::span(text.substr(id_bytes)));
  fetching->ticket.assign(blob.begin(), blob.end());
  if (!fetching_.emplace(fetching->transfer, fetching).second) {
    return failure(ErrorCode::corrupt, "the holder gave the ticket of another transfer");
  }
  way->open(fetching->from, peer_of(wanted.holder, {path, of_devices ? wanted.peer_ordinal : 0}),
            monotonic_now() + open_timeout, [this, fetching](const Result<void>& opened) {
              if (!opened) return answer(fetching, opened.error());
              begin(fetching);
            });
  return fetching->transfer;
}

void TensorPaths::begin(const std::shared_ptr<Fetching>& fetching) {
  if (!fetching->in_place && !fetching->passes_through) return pull(fetching);
  fetching->way->map(fetching->transfer, fetching->from, fetching->ticket,
                     [this, fetching](Result<std::shared_ptr<const MappedRegions>> mapped) {
                       if (!mapped) return pull(fetching);
                       const auto regions = (*mapped)->regions();
                       if (regions.size() != 1 || regions[0].size() != fetching->size_bytes) {
                         return answer(fetching,
                                       failure(ErrorCode::corrupt,
                                               "the tensor has another size than was announced"));
                       }
                       if (fetching->passes_through) {
                         fetching->offered = *mapped;
                         return bring_in(fetching, regions[0], *mapped, false);
                       }
                       MappedFile file = (*mapped)->file();
                       answer(fetching, Elements{regions[0], std::move(*mapped), true, false,
                                                 std::move(file), fetching->device});
                     });
}

void TensorPaths::pull(const std::shared_ptr<Fetching>& fetching) {
  if (fetching->cancelled)
    return answer(fetching, failure(ErrorCode::cancelled, "no request needs the tensor any more"));
  if (fetching->device != on_host && fetching->lands_directly) return pull_to_device(fetching);
  if (!fetching->target_owner) {
    auto buffer = pool_.take(fetching->size_bytes);
    if (!buffer) return answer(fetching, buffer.error());
    fetching->buffer = std::make_shared<ReceiveBuffer>(std::move(*buffer));
    fetching->target = fetching->buffer->bytes();
  }
  Pull pull{.transfer = fetching->transfer,
            .from = fetching->from,
            .ticket = fetching->ticket,
            .targets = {TargetRegion{.bytes = fetching->target,
                                     .untouched = fetching->buffer && !fetching->buffer->warm()}},
            .silence_timeout = fetching->silence_timeout};
  fetching->way->pull(std::move(pull), [this, fetching](const TransferEnd& end) {
    if (!end.result) return answer(fetching, end.result.error());
    if (fetching->device != on_host)
      return bring_in(fetching, fetching->buffer->bytes(), fetching->buffer, end.encrypted);
    std::shared_ptr<const void> owner = fetching->target_owner;
    if (!owner) owner = std::move(fetching->buffer);
    answer(fetching,
           Elements{fetching->target, std::move(owner), false, end.encrypted, {}, on_host});
  });
}

// Takes memory on the destination device for the tensor and passes it to `next`, unless none is
// available or the pull was cancelled.
void TensorPaths::take_memory(const std::shared_ptr<Fetching>& fetching,
                              std::function<void(std::span<std::byte>)> next) {
  take(fetching->device, fetching->size_bytes,
       [this, fetching, next = std::move(next)](Result<DeviceAllocation> taken) {
         if (!taken) return answer(fetching, taken.error());
         if (fetching->cancelled)
           return answer(fetching,
                         failure(ErrorCode::cancelled, "no request needs the tensor any more"));
         fetching->memory = std::move(*taken);
         next({fetching->memory.bytes, static_cast<std::size_t>(fetching->size_bytes)});
       });
}

void TensorPaths::pull_to_device(const std::shared_ptr<Fetching>& fetching) {
  take_memory(fetching, [this, fetching](std::span<std::byte> bytes) {
    const auto& context =
        options_.gpus->devices().at(static_cast<std::size_t>(fetching->device)).context;
    Pull pull{.transfer = fetching->transfer,
              .from = fetching->from,
              .ticket = fetching->ticket,
              .targets = {TargetRegion{bytes, {MemoryKind::device, context->uuid()}}},
              .silence_timeout = fetching->silence_timeout,
              .stage = fetching->stage};
    fetching->way->pull(std::move(pull), [this, fetching, bytes](const TransferEnd& end) {
      if (!end.result) return answer(fetching, end.result.error());
      answer(fetching, Elements{bytes,
                                std::move(fetching->memory.owner),
                                false,
                                end.encrypted,
                                {},
                                fetching->device});
    });
  });
}

// Copies from the host to the destination device.
void TensorPaths::bring_in(const std::shared_ptr<Fetching>& fetching,
                           std::span<const std::byte> from, std::shared_ptr<const void> keeps,
                           bool encrypted) {
  take_memory(fetching, [this, fetching, from, keeps = std::move(keeps),
                         encrypted](std::span<std::byte> bytes) {
    Copy copy;
    copy.pieces.push_back({bytes.data(), from.data(), bytes.size()});
    copy.keeps = keeps;
    copy.ended = [this, fetching, bytes, encrypted,
                  offered = fetching->offered](const CopyEnd& end) {
      if (!end.result) return answer(fetching, end.result.error());
      if (offered && !offered->offered())
        return answer(fetching, failure(ErrorCode::not_found,
                                        "the holder gave the tensor up while it was copied"));
      answer(fetching,
             Elements{
                 bytes, std::move(fetching->memory.owner), false, encrypted, {}, fetching->device});
    };
    const auto started = copies_of(fetching->device)->start(std::move(copy));
    if (!started) return answer(fetching, started.error());
    fetching->copy = *started;
  });
}

void TensorPaths::answer(const std::shared_ptr<Fetching>& fetching, Result<Elements> result) {
  fetching_.erase(fetching->transfer);
  fetching->fetched(std::move(result));
}

void TensorPaths::cancel(TransferId transfer) {
  const auto at = fetching_.find(transfer);
  if (at == fetching_.end()) return;
  at->second->cancelled = true;
  if (at->second->copy != 0) return copies_of(at->second->device)->stop(at->second->copy);
  at->second->way->cancel(transfer, [] {});
}

void TensorPaths::take(int device, std::uint64_t size_bytes, Taken taken) {
  DeviceCopies* const copies = copies_of(device);
  if (copies == nullptr) return taken(not_here());
  copies->run([gpus = options_.gpus, device, size_bytes,
               taken = std::move(taken)]() -> std::function<void()> {
    auto made = gpus->take(device, size_bytes);
    return [taken, made = std::move(made)] { taken(made); };
  });
}

// ---- two-sided transfers ------------------------------------------------------------------------

// Epochs of the transport start at 1.
void TensorPaths::open_pair(const Pairing& pair, Done done) {
  NcclTransport* const way = nccl(pair.device_ordinal);
  if (way == nullptr) return done(not_here());
  way->open({device_endpoint_id(pair.peer, pair.peer_ordinal), pair.epoch + 1},
            peer_of(pair.peer, {DirectPath::nccl, pair.peer_ordinal}),
            monotonic_now() + pair_timeout, std::move(done));
}

void TensorPaths::move_pair(const Pairing& pair, TransferId transfer, std::span<std::byte> bytes,
                            bool sends, Done done) {
  NcclTransport* const way = nccl(pair.device_ordinal);
  if (way == nullptr) return done(not_here());
  const ProcessId self = device_endpoint_id(options_.process, pair.device_ordinal),
                  other = device_endpoint_id(pair.peer, pair.peer_ordinal);
  const ChannelKey channel{other, pair.epoch + 1};
  const MemoryLocation location{MemoryKind::device,
                                options_.gpus->devices().at(pair.device_ordinal).context->uuid()};
  if (!sends) {
    const Blob ticket =
        NcclTransport::ticket_for(other, self, transfer, channel.epoch, bytes.size());
    Pull pull{.transfer = transfer,
              .from = channel,
              .ticket = ticket,
              .targets = {TargetRegion{bytes, location}}};
    way->pull(std::move(pull),
              [done = std::move(done)](const TransferEnd& end) { done(end.result); });
    return;
  }
  Offer offer{
      .transfer = transfer, .to = channel, .regions = {SourceRegion{bytes, location}}, .peer = {}};
  way->offer(std::move(offer),
             [way, channel, transfer, done = std::move(done)](const Result<Blob>& ticket) {
               if (!ticket) return done(ticket.error());
               way->serve(channel, transfer, [way, transfer, done](const TransferEnd& end) {
                 way->release(transfer, nullptr);
                 done(end.result);
               });
             });
}

void TensorPaths::break_pair(const Pairing& pair, TransferId transfer) {
  NcclTransport* const way = nccl(pair.device_ordinal);
  if (way == nullptr) return;
  way->cancel(transfer, nullptr);
  way->close({device_endpoint_id(pair.peer, pair.peer_ordinal), pair.epoch + 1});
}

void TensorPaths::drop_pair(const Pairing& pair) {
  NcclTransport* const way = nccl(pair.device_ordinal);
  if (way == nullptr) return;
  way->close_below({device_endpoint_id(pair.peer, pair.peer_ordinal), pair.epoch + 1});
}

}  // namespace mobula::internal::exchange
