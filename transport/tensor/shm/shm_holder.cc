#include "transport/tensor/shm/shm_holder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace mobula::internal {
namespace {

constexpr Duration hello_timeout = 5s;
constexpr Duration holder_check_interval = 250ms;
constexpr std::size_t max_unused_files = 256;

Result<FileKey> key_of(const MemoryFile& file) {
  return file.chunk != 0 ? chunk_key(file.chunk) : file_key(file.fd);
}

LocalLinkOptions holder_link_options() {
  return {.limits = {.max_bytes = shm_message_bytes, .max_fds = 1}, .max_queued_bytes = 1u << 20};
}

}  // namespace

ShmHolder::ShmHolder(ShmShared shared, Arena* arena)
    : shared_(shared),
      arena_(arena),
      ticket_key_(random_bits()),
      proof_(std::make_unique<Hash128>(random_bits())),
      ledger_ref_{ledger_number, DirectToken::random()},
      check_timer_(shared.loop, [this] { check(); }) {}

ShmHolder::~ShmHolder() = default;

Result<std::unique_ptr<ShmHolder>> ShmHolder::create(ShmShared shared, Arena* arena) {
  std::unique_ptr<ShmHolder> made(new ShmHolder(shared, arena));
  if (auto opened = made->open(); !opened) return opened.error();
  return made;
}

Result<void> ShmHolder::open() {
  auto ledger = OfferVersions::create(shared_.limits.max_offers);
  if (!ledger) return ledger.error();
  ledger_ = std::move(ledger).value();
  auto listener = LocalListener::open(shared_.loop, shared_.self.socket,
                                      [this](Fd socket) { accept(std::move(socket)); });
  if (!listener) return listener.error();
  listener_ = std::move(listener).value();
  return {};
}

Result<void> ShmHolder::check(const Offer& offer) const {
  const auto bytes = checked_bytes(offer.regions, shared_.limits, shared_.medium.source_kinds);
  if (!bytes) return bytes.error();
  if (offers_.contains(offer.transfer)) {
    return failure(ErrorCode::already_exists, "the transfer is offered already");
  }
  if (offers_.size() >= shared_.limits.max_offers || ledger_.full()) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("{} offers stand, which is the limit", offers_.size()));
  }
  const auto seen = epochs_.find(offer.to.peer);
  if (seen == epochs_.end() || offer.to.epoch >= seen->second) return {};
  return failure(ErrorCode::permission_denied,
                 fmt::format("an offer of epoch {} to process {}, which is at {}", offer.to.epoch,
                             offer.to.peer.brief(), seen->second));
}

void ShmHolder::offer(Offer offer, TensorTransport::Offered offered) {
  const auto refuse = [&](const Failure& why) {
    shared_.later.call([offered = std::move(offered), why] { offered(why); });
  };
  if (auto good = check(offer); !good) return refuse(good.error());
  Row row;
  row.to = offer.to;
  auto copy = prepare(offer, row);
  if (!copy) {
    drop(row);
    return refuse(copy.error());
  }
  std::uint64_t bytes = 0;
  for (const CopyPiece& piece : copy->pieces) bytes += piece.size;
  if (bytes > copied_at_once) {
    copy->ended = [this, id = offer.transfer](const CopyEnd& end) { finish_copy(id, end); };
    const auto started = shared_.copies.start(std::move(copy).value());
    if (!started) {
      drop(row);
      return refuse(started.error());
    }
    row.copy = *started;
    row.offered = std::move(offered);
  } else {
    (void)copy_now(*copy);  // memory of this process: cannot fail
    shared_.later.call([offered = std::move(offered), ticket = row.ticket] { offered(ticket); });
  }
  std::uint64_t& epoch = epochs_[offer.to.peer];
  epoch = std::max(epoch, offer.to.epoch);
  ++shared_.stats.offered;
  offers_.emplace(offer.transfer, std::move(row));
}

// Encodes the offer handle. The returned copy must be complete before the handle is sent.
Result<Copy> ShmHolder::prepare(const Offer& offer, Row& row) {
  const auto peer = ShmEndpoint::decode(offer.peer.endpoint, shared_.medium.kind);
  if (!peer) return peer.error();
  const bool reads = !offer.copy && peer->domain.reads_processes &&
                     shared_.self.domain.reads_processes &&
                     peer->domain.pid_space == shared_.self.domain.pid_space;
  ShmTicket ticket;
  ticket.kind = shared_.medium.kind;
  ticket.holder = shared_.self.process;
  ticket.receiver = offer.to.peer;
  ticket.transfer = offer.transfer;
  ticket.epoch = offer.to.epoch;
  ticket.ledger = ledger_ref_;
  Copy copy;
  for (const SourceRegion& region : offer.regions) {
    ShmPiece piece{.file = std::nullopt, .at = 0, .size = region.bytes.size()};
    std::optional<MemoryFile> file = region.file;
    if (!file && piece.size > 0 && arena_ == nullptr) {
      return failure(ErrorCode::invalid_argument,
                     "a region of a device in memory that no other process can open: tensors of "
                     "other libraries have to be copied to one of Mobula's first");
    }
    if (!file && piece.size > 0 && !reads) {
      auto memory = arena_->take(piece.size);
      if (!memory) return memory.error();
      copy.pieces.push_back({memory->bytes().data(), region.bytes.data(), region.bytes.size()});
      file = memory->file();
      row.copied.push_back(std::move(memory).value());
    }
    if (file && piece.size > 0) {
      const auto exported = export_file(*file, piece.size, row);
      if (!exported) return exported.error();
      piece.file = *exported;
      piece.at = file->offset;
    } else {
      piece.at = reinterpret_cast<std::uintptr_t>(region.bytes.data());
    }
    ticket.pieces.push_back(piece);
  }
  row.mark = ticket.mark = ledger_.take();
  row.ticket = ticket.encode(ticket_key_);
  return copy;
}

Result<ShmFileRef> ShmHolder::export_file(const MemoryFile& file, std::uint64_t size, Row& row) {
  const auto key = key_of(file);
  if (!key) return key.error();
  auto at = files_.find(*key);
  if (at == files_.end()) {
    const auto whole =
        file.chunk != 0 ? Result<std::uint64_t>(file.chunk_bytes) : sealed_size(file.fd);
    if (!whole) return whole.error();
    if (files_.size() >= max_unused_files) {
      const auto unused = std::find_if(files_.begin(), files_.end(),
                                       [](const auto& each) { return each.second.offers == 0; });
      if (unused != files_.end()) forget(FileKey(unused->first));
    }
    Fd copy(::fcntl(file.fd, F_DUPFD_CLOEXEC, 0));
    if (!copy) return errno_failure("keep a file that is offered", errno);
    Exported fresh{{next_file_++, DirectToken::random()}, std::move(copy), *whole};
    at = files_.emplace(*key, std::move(fresh)).first;
  }
  Exported& exported = at->second;
  if (file.offset > exported.size || size > exported.size - file.offset || exported.forgotten) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("a region at {}+{} of a file of {} bytes", file.offset, size, exported.size));
  }
  ++exported.offers;
  row.files.push_back(*key);
  return exported.ref;
}

void ShmHolder::finish_copy(TransferId transfer, const CopyEnd& end) {
  const auto at = offers_.find(transfer);
  Row& row = at->second;
  row.copy = 0;
  if (end.result && !row.released) {
    shared_.later.call(
        [offered = std::exchange(row.offered, {}), ticket = row.ticket] { offered(ticket); });
    return;
  }
  shared_.later.call([offered = std::exchange(row.offered, {})] { offered(ended_by_owner()); });
  drop(row);
  auto node = offers_.extract(at);
  for (auto& quiet : node.mapped().quiet) shared_.later.call(std::move(quiet));
}

void ShmHolder::release(TransferId transfer, TensorTransport::Quiet quiet) {
  const auto at = offers_.find(transfer);
  if (at == offers_.end()) return shared_.later.call(std::move(quiet));
  Row& row = at->second;
  if (row.copy != 0) {
    row.released = true;
    row.quiet.push_back(std::move(quiet));
    return shared_.copies.stop(row.copy);
  }
  drop(row);
  offers_.erase(at);
  shared_.later.call(std::move(quiet));
}

void ShmHolder::release_all(const ProcessId* peer, const QuietGate& gate) {
  std::vector<TransferId> ended;
  for (const auto& [transfer, row] : offers_) {
    if (peer == nullptr || row.to.peer == *peer) ended.push_back(transfer);
  }
  for (const TransferId transfer : ended) release(transfer, gate.add());
  if (peer != nullptr) epochs_.erase(*peer);
  std::erase_if(sessions_,
                [&](const auto& each) { return peer == nullptr || each.second.peer == *peer; });
}

void ShmHolder::drop(Row& row) {
  // A row without an offer handle has no slot.
  if (!row.ticket.empty()) ledger_.end(row.mark);
  for (const FileKey& file : row.files) unuse(file);
  row.files.clear();
  row.copied.clear();
}

void ShmHolder::unuse(FileKey file) {
  const auto at = files_.find(file);
  if (at == files_.end()) return;
  if (--at->second.offers == 0 && at->second.forgotten) files_.erase(at);
}

void ShmHolder::forget(FileKey file) {
  const auto at = files_.find(file);
  if (at == files_.end() || at->second.forgotten) return;
  const Blob frame = encode(ShmForget{at->second.ref.number});
  for (auto& [number, session] : sessions_) (void)session.link->send(frame);
  at->second.forgotten = true;
  if (at->second.offers == 0) files_.erase(at);
}

void ShmHolder::accept(Fd socket) {
  const auto who = credentials_of(socket);
  if (!who || who->uid != ::geteuid() || sessions_.size() >= shared_.limits.max_channels) return;
  const std::uint64_t number = next_session_++;
  auto link = LocalLink::open(
      shared_.loop, std::move(socket),
      {.on_frame = [this, number](const LocalFrame& frame) { on_frame(number, frame); },
       .on_closed = [this, number](const Failure&) { sessions_.erase(number); }},
      holder_link_options());
  if (!link) return;
  sessions_.emplace(number, Session{std::move(link).value(), {}, 0, monotonic_now()});
  if (!check_timer_.armed()) check_timer_.arm(monotonic_now() + holder_check_interval);
}

// Closes connections without a hello. A stop of this process does not count as their silence.
void ShmHolder::check() {
  const Time now = monotonic_now();
  const Duration gap = shared_.loop.last_turn().gap;
  std::vector<std::uint64_t> late;
  bool silent = false;
  for (auto& [number, session] : sessions_) {
    if (!session.peer.empty()) continue;
    if (gap > peer_gap_threshold) session.since = session.since + gap;
    silent = true;
    if (now - session.since > hello_timeout) late.push_back(number);
  }
  for (const std::uint64_t number : late) sessions_.erase(number);
  if (silent) check_timer_.arm(now + holder_check_interval);
}

void ShmHolder::on_frame(std::uint64_t number, const LocalFrame& frame) {
  Session& session = sessions_.at(number);
  const auto message = decode_shm_message(frame.bytes, shared_.medium.kind);
  Result<void> done;
  if (!message) {
    done = message.error();
  } else if (const auto* hello = std::get_if<ShmHello>(&*message)) {
    done = on_hello(session, *hello);
  } else if (const auto* request = std::get_if<ShmFileRequest>(&*message)) {
    done = on_request(session, *request);
  } else {
    done = failure(ErrorCode::corrupt, "a frame that only holders send");
  }
  if (!done) sessions_.erase(number);
}

Result<void> ShmHolder::on_hello(Session& session, const ShmHello& hello) {
  std::optional<Failure> why;
  const auto seen = epochs_.find(hello.from);
  if (!session.peer.empty() || hello.from.empty()) {
    return failure(ErrorCode::corrupt, "unexpected hello");
  }
  if (hello.to != shared_.self.process) {
    why = failure(
        ErrorCode::unavailable,
        fmt::format("process {} has exited; another one listens at its address", hello.to.brief()));
  } else if (seen != epochs_.end() && hello.epoch < seen->second) {
    why = failure(
        ErrorCode::permission_denied,
        fmt::format("a channel of epoch {}, where the holder is at {}", hello.epoch, seen->second));
  } else if (seen == epochs_.end() && epochs_.size() >= 8 * shared_.limits.max_channels) {
    why = failure(ErrorCode::resource_exhausted, "a holder with too many receivers");
  }
  if (why) {
    // A frame that the kernel accepts now is delivered before the end of the connection.
    (void)session.link->send(encode(ShmRefusal{std::nullopt, *why}));
    return *why;
  }
  // One session per receiver: an older one belongs to a channel that the receiver has closed.
  std::erase_if(sessions_, [&](const auto& each) { return each.second.peer == hello.from; });
  epochs_[hello.from] = hello.epoch;
  session.peer = hello.from;
  session.epoch = hello.epoch;
  return session.link->send(
      encode(ShmWelcome{ticket_key_, reinterpret_cast<std::uintptr_t>(proof_.get()), *proof_}));
}

Result<void> ShmHolder::on_request(Session& session, const ShmFileRequest& request) {
  if (session.peer.empty()) return failure(ErrorCode::corrupt, "a question before the hello");
  int fd = -1;
  std::uint64_t size = 0;
  if (request.file.number == ledger_ref_.number && request.file.token.matches(ledger_ref_.token)) {
    fd = ledger_.fd();
    size = ledger_.size_bytes();
  }
  for (const auto& [key, each] : files_) {
    if (each.ref.number == request.file.number && each.ref.token.matches(request.file.token)) {
      fd = each.fd.get();
      size = each.size;
    }
  }
  if (fd < 0) {
    return session.link->send(encode(ShmRefusal{
        request.file.number,
        failure(ErrorCode::not_found, "the holder has no such file any more, or never had it")}));
  }
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) {
    return session.link->send(
        encode(ShmRefusal{request.file.number, errno_failure("pass a file to a receiver", errno)}));
  }
  std::vector<Fd> fds;
  fds.push_back(std::move(copy));
  return session.link->send(encode(ShmFile{request.file.number, size}), std::move(fds));
}

}  // namespace mobula::internal
