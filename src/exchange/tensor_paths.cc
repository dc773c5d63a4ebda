#include "exchange/tensor_paths.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "exchange/machine.h"
#include "transport/direct/blob.h"
#include "transport/direct/shm_transport.h"
#include "transport/direct/tcp_transport.h"

namespace mobula::internal::exchange {
namespace {

constexpr std::size_t id_bytes = sizeof(Hash128);
constexpr Duration open_within = 5s;

// A process numbers nothing anew: each incarnation has an id of its own, and a ticket a token.
ChannelKey channel_to(ProcessId peer) { return {peer, 1}; }

Result<std::unique_ptr<TensorTransport>> make_shm(EventLoop& loop, const PathOptions& options,
                                                  std::shared_ptr<Arena>& arena) {
  if (options.socket.empty()) return failure(ErrorCode::unavailable, "this process has no place for its sockets");
  auto made = ShmTransport::create(loop, options.process, {.socket = options.socket});
  if (!made) return made.error();
  arena = (*made)->arena();
  return std::unique_ptr<TensorTransport>(std::move(*made));
}

Result<std::unique_ptr<TensorTransport>> make_tcp(EventLoop& loop, const PathOptions& options) {
  TcpOptions tcp;
  if (!options.host_bind.empty()) tcp.listen = options.host_bind;
  auto made = TcpTransport::create(loop, options.process, std::move(tcp));
  if (!made) return made.error();
  return std::unique_ptr<TensorTransport>(std::move(*made));
}

std::string text_of(TransferId transfer, const Blob& blob) {
  std::string text(id_bytes + blob.size(), '\0');
  const Hash128 bits = transfer.bits();
  std::memcpy(text.data(), &bits, id_bytes);
  std::ranges::transform(blob, text.begin() + id_bytes, [](std::byte each) { return static_cast<char>(each); });
  return text;
}

}  // namespace

// One fetch on its way: its channel is opened, then the bytes are mapped or pulled.
struct TensorPaths::Fetching {
  TensorTransport* way = nullptr;
  TransferId transfer;
  ChannelKey from;
  Blob ticket;
  std::uint64_t size_bytes = 0;
  bool in_place = false;
  Fetched fetched;
  std::shared_ptr<ReceiveBuffer> buffer;  // shared with the tensors that will lie in it
  bool cancelled = false;
};

TensorPaths::TensorPaths(EventLoop& loop, PathOptions options) : options_(std::move(options)) {
  reach_.machine = machine_identity();
  reach_.fabric = options_.fabric;
  add(DirectPath::shm, make_shm(loop, options_, arena_));
  add(DirectPath::tcp, make_tcp(loop, options_));
}

TensorPaths::~TensorPaths() = default;

void TensorPaths::add(DirectPath path, Result<std::unique_ptr<TensorTransport>> made) {
  RegionPath& said = reach_.paths.emplace_back();
  said.path = path;
  if (!made) {
    said.why_not = made.error().text;
    return;
  }
  said.endpoint = (*made)->endpoint();
  transports_[path] = std::move(*made);
}

TensorTransport* TensorPaths::transport(DirectPath path) const {
  const auto at = transports_.find(path);
  return at == transports_.end() ? nullptr : at->second.get();
}

void TensorPaths::gone(ProcessId peer) {
  if (peers_.erase(peer) == 0) return;
  for (const auto& [path, way] : transports_) way->peer_down(peer, [] {});
}

// ---- choosing ----------------------------------------------------------------------------------

transfer::ProcessReach TensorPaths::reach_of(ProcessId process, const RegionReach& reach) const {
  transfer::ProcessReach out;
  out.process = process;
  out.machine = reach.machine;
  for (const auto& each : reach.paths) out.paths[each.path] = {each.why_not, each.version};
  return out;
}

// Both say it.
bool TensorPaths::is_trusted(const RegionReach& peer) const {
  return !reach_.fabric.empty() && reach_.fabric == peer.fabric;
}

transfer::PathChoice TensorPaths::choose(ProcessId holder, const DirectWish& wish) const {
  const RegionReach& there = peers_.at(holder);
  transfer::PathQuestion question;
  question.from = reach_of(holder, there);
  question.to = reach_of(options_.process, reach_);
  question.trusted = is_trusted(there);
  question.named = wish.named;
  question.allow_fallback = wish.allow_fallback;
  return transfer::choose_paths(question);
}

Peer TensorPaths::peer_of(ProcessId process, DirectPath path) const {
  Peer peer{.process = process, .endpoint = {}};
  const auto known = peers_.find(process);
  if (known == peers_.end()) return peer;
  peer.trusted_fabric = is_trusted(known->second);
  for (const auto& each : known->second.paths) {
    if (each.path == path) peer.endpoint = each.endpoint;
  }
  return peer;
}

// ---- as a holder -------------------------------------------------------------------------------

Result<TransferId> TensorPaths::offer(DirectPath path, ProcessId peer, const SourceRegion& region, Offered offered) {
  TensorTransport* way = transport(path);
  if (way == nullptr) return failure(ErrorCode::unavailable, "this process does not have that path");
  const auto transfer = TransferId::random();
  Offer offer{.transfer = transfer, .to = channel_to(peer), .regions = {region}, .peer = peer_of(peer, path)};
  way->offer(std::move(offer), [transfer, offered = std::move(offered)](const Result<Blob>& ticket) {
    if (!ticket) return offered(ticket.error());
    offered(text_of(transfer, *ticket));
  });
  return transfer;
}

void TensorPaths::release(DirectPath path, TransferId transfer, std::function<void()> quiet) {
  transports_.at(path)->release(transfer, std::move(quiet));
}

// ---- as a receiver -----------------------------------------------------------------------------

Result<TransferId> TensorPaths::fetch(const Fetch& wanted, Fetched fetched) {
  TensorTransport* way = transport(wanted.path);
  if (way == nullptr) return failure(ErrorCode::unavailable, "this process does not have that path");
  if (wanted.ticket.size() < id_bytes) return failure(ErrorCode::corrupt, "its holder gave a ticket that is none");
  Hash128 bits;
  std::memcpy(&bits, wanted.ticket.data(), id_bytes);
  const auto fetching = std::make_shared<Fetching>();
  fetching->way = way;
  fetching->transfer = TransferId(bits);
  fetching->from = channel_to(wanted.holder);
  fetching->size_bytes = wanted.size_bytes;
  fetching->in_place = wanted.in_place && way->caps().maps;
  fetching->fetched = std::move(fetched);
  const auto blob = std::as_bytes(std::span(wanted.ticket.substr(id_bytes)));
  fetching->ticket.assign(blob.begin(), blob.end());
  if (!fetching_.emplace(fetching->transfer, fetching).second) {
    return failure(ErrorCode::corrupt, "its holder gave the ticket of another transfer");
  }
  way->open(fetching->from, peer_of(wanted.holder, wanted.path), monotonic_now() + open_within,
            [this, fetching](const Result<void>& opened) {
              if (!opened) return answer(fetching, opened.error());
              begin(fetching);
            });
  return fetching->transfer;
}

void TensorPaths::begin(const std::shared_ptr<Fetching>& fetching) {
  if (!fetching->in_place) return pull(fetching);
  fetching->way->map(fetching->transfer, fetching->from, fetching->ticket,
                     [this, fetching](Result<std::shared_ptr<const MappedRegions>> mapped) {
                       if (!mapped) return pull(fetching);
                       const auto regions = (*mapped)->regions();
                       if (regions.size() != 1 || regions[0].size() != fetching->size_bytes) {
                         return answer(fetching, failure(ErrorCode::corrupt, "it has another size than was said"));
                       }
                       MappedFile file = (*mapped)->file();
                       answer(fetching, Elements{regions[0], std::move(*mapped), true, false, std::move(file)});
                     });
}

void TensorPaths::pull(const std::shared_ptr<Fetching>& fetching) {
  if (fetching->cancelled) return answer(fetching, failure(ErrorCode::cancelled, "nobody wants it any more"));
  auto buffer = pool_.take(fetching->size_bytes);
  if (!buffer) return answer(fetching, buffer.error());
  fetching->buffer = std::make_shared<ReceiveBuffer>(std::move(*buffer));
  Pull pull{.transfer = fetching->transfer, .from = fetching->from, .ticket = fetching->ticket,
            .targets = {TargetRegion{fetching->buffer->bytes()}}};
  fetching->way->pull(std::move(pull), [this, fetching](const TransferEnd& end) {
    if (!end.result) return answer(fetching, end.result.error());
    const auto bytes = fetching->buffer->bytes();
    answer(fetching, Elements{bytes, std::move(fetching->buffer), false, end.encrypted, {}});
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
  at->second->way->cancel(transfer, [] {});
}

}  // namespace mobula::internal::exchange
