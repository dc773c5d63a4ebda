#include "transport/tensor/shm/shm_receiver.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <utility>

namespace mobula::internal {
namespace {

Failure holder_gone(const ChannelKey& key) {
  return failure(ErrorCode::unavailable,
                 fmt::format("the holder, process {}, has exited", key.peer.brief()));
}

bool has_ended(const Fd& process) {
  pollfd item{process.get(), POLLIN, 0};
  return ::poll(&item, 1, 0) != 0;
}

class MappedFiles final : public MappedRegions {
 public:
  MappedFiles(std::shared_ptr<const ReadMapping> ledger, OfferVersion mark)
      : ledger_(std::move(ledger)), mark_(mark) {}
  void add(std::shared_ptr<const ReadMapping> mapping, std::uint64_t at, std::uint64_t size) {
    regions_.push_back(mapping ? mapping->bytes().subspan(at, size) : std::span<const std::byte>());
    if (mapping) mappings_.push_back(std::move(mapping));
  }
  std::span<const std::span<const std::byte>> regions() const override { return regions_; }
  MappedFile file() const override {
    if (mappings_.size() != 1 || regions_.size() != 1) return {};
    return {mappings_.front(), mappings_.front()->bytes()};
  }
  bool offered() const override {
    const auto stands = offer_stands(*ledger_, mark_);
    return stands && *stands;
  }

 private:
  std::shared_ptr<const ReadMapping> ledger_;  // shared with the channel that mapped it
  OfferVersion mark_;
  std::vector<std::shared_ptr<const ReadMapping>> mappings_;  // shared with the channel
  std::vector<std::span<const std::byte>> regions_;
};

}  // namespace

ShmReceiver::ShmReceiver(ShmShared shared, std::uint64_t max_mapped_bytes)
    : shared_(shared),
      max_mapped_bytes_(max_mapped_bytes),
      check_timer_(shared.loop, [this] { check(); }) {}

ShmReceiver::~ShmReceiver() = default;

Result<ShmReceiver::Row> ShmReceiver::make_row(TransferId transfer, const ChannelKey& from,
                                               std::span<const std::byte> ticket) {
  if (rows_.contains(transfer)) {
    return failure(ErrorCode::already_exists, "the transfer is pulled already");
  }
  if (rows_.size() >= shared_.limits.max_pulls) {
    return failure(ErrorCode::resource_exhausted,
                   fmt::format("{} pulls are under way, which is the limit", rows_.size()));
  }
  const auto channel = channels_.find(from);
  if (channel == channels_.end()) return unknown_channel(from);
  auto read = ShmTicket::decode(ticket, shared_.limits, shared_.medium.kind);
  if (!read) return read.error();
  if (read->holder != from.peer || read->receiver != shared_.self.process ||
      read->transfer != transfer) {
    return failure(ErrorCode::invalid_argument, "a ticket of another transfer");
  }
  if (read->epoch != from.epoch) {
    return failure(
        ErrorCode::permission_denied,
        fmt::format("a ticket of epoch {} on a channel of epoch {}", read->epoch, from.epoch));
  }
  Row row;
  row.channel = channel->second;
  row.ticket = std::move(read).value();
  row.sealed_ticket.assign(ticket.begin(), ticket.end());
  row.since = monotonic_now();
  return row;
}

void ShmReceiver::pull(Pull pull, TensorTransport::Ended ended) {
  const auto refuse = [&](const Failure& why) {
    ++shared_.stats.failed;
    shared_.later.call([ended = std::move(ended), why] { ended({.result = why}); });
  };
  auto row = make_row(pull.transfer, pull.from, pull.ticket);
  if (!row) return refuse(row.error());
  if (row->ticket.pieces.size() != pull.targets.size()) {
    return refuse(failure(ErrorCode::invalid_argument,
                          fmt::format("{} regions are offered, and {} are requested",
                                      row->ticket.pieces.size(), pull.targets.size())));
  }
  for (std::size_t i = 0; i < pull.targets.size(); ++i) {
    const auto good =
        check_target(i, row->ticket.pieces[i].size, pull.targets[i], shared_.medium.target_kinds);
    if (!good) return refuse(good.error());
  }
  row->targets = std::move(pull.targets);
  row->silence_timeout = pull.silence_timeout;
  row->ended = std::move(ended);
  add(pull.transfer, std::move(row).value());
}

void ShmReceiver::map(TransferId transfer, const ChannelKey& from,
                      std::span<const std::byte> ticket, TensorTransport::Mapped mapped) {
  auto row = make_row(transfer, from, ticket);
  std::optional<Failure> why;
  if (!row) {
    why = row.error();
  } else if (std::any_of(row->ticket.pieces.begin(), row->ticket.pieces.end(),
                         [](const ShmPiece& piece) { return !piece.file && piece.size > 0; })) {
    why = failure(ErrorCode::invalid_argument,
                  "a region without a file cannot be mapped; pull it, or have it copied");
  }
  if (why) {
    shared_.later.call([mapped = std::move(mapped), why] { mapped(*why); });
    return;
  }
  row->silence_timeout = 10s;
  row->mapped = std::move(mapped);
  add(transfer, std::move(row).value());
}

void ShmReceiver::add(TransferId transfer, Row row) {
  const auto at = rows_.emplace(transfer, std::move(row)).first;
  if (!check_timer_.armed()) check_timer_.arm(monotonic_now() + receiver_check_interval);
  if (at->second.channel->welcome) gather(at);
}

// Requests the files of the row that are not mapped. Begins when no file is missing.
void ShmReceiver::gather(RowAt at) {
  Row& row = at->second;
  if (auto good = check_ticket_sum(row.sealed_ticket, row.channel->ticket_key); !good) {
    return end(at, good.error(), monotonic_now());
  }
  row.sealed_ticket = {};
  std::vector<ShmFileRef> wanted{row.ticket.ledger};
  for (const ShmPiece& piece : row.ticket.pieces) {
    if (piece.file) wanted.push_back(*piece.file);
  }
  std::sort(wanted.begin(), wanted.end(),
            [](const ShmFileRef& a, const ShmFileRef& b) { return a.number < b.number; });
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (i > 0 && wanted[i].number == wanted[i - 1].number) continue;
    const auto there = has_file(row, wanted[i]);
    if (!there) return end(at, there.error(), monotonic_now());
    if (!*there) ++row.lacks;
  }
  if (row.lacks == 0) begin(at);
}

Result<bool> ShmReceiver::has_file(Row& row, const ShmFileRef& ref) {
  Channel& channel = *row.channel;
  const auto [at, fresh] = channel.files.try_emplace(ref.number);
  at->second.used = ++uses_;
  row.files[ref.number] = at->second.mapping;
  if (at->second.mapping) return true;
  if (fresh) {
    if (auto sent = channel.link->send(encode(ShmFileRequest{ref})); !sent) {
      channel.files.erase(at);
      return sent.error();
    }
  }
  return false;
}

// A file was mapped: rows that waited for it continue.
void ShmReceiver::files_there(Channel& channel, std::uint64_t number) {
  const auto file = channel.files.find(number);
  const bool there = file != channel.files.end() && file->second.mapping;
  for (auto at = rows_.begin(); at != rows_.end();) {
    const auto each = at++;
    Row& row = each->second;
    if (row.channel.get() != &channel || row.lacks == 0) continue;
    const auto wants = row.files.find(number);
    if (wants == row.files.end() || wants->second) continue;
    if (there) {
      wants->second = file->second.mapping;
      if (--row.lacks == 0) begin(each);
    }
  }
}

Result<std::vector<Copy>> ShmReceiver::copies_of(Row& row) {
  Copy here, there;
  for (std::size_t i = 0; i < row.ticket.pieces.size(); ++i) {
    const ShmPiece& piece = row.ticket.pieces[i];
    if (piece.size == 0) continue;
    row.bytes += piece.size;
    std::byte* const to = row.targets[i].bytes.data();
    if (!piece.file) {
      const auto* from = reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(piece.at));
      there.pieces.push_back({to, from, piece.size});
      continue;
    }
    const auto bytes = row.files.at(piece.file->number)->bytes();
    if (piece.at > bytes.size() || piece.size > bytes.size() - piece.at) {
      return failure(ErrorCode::corrupt, fmt::format("a ticket for {}+{} of a file of {} bytes",
                                                     piece.at, piece.size, bytes.size()));
    }
    here.pieces.push_back({to, bytes.data() + piece.at, piece.size});
  }
  row.reads_process = !there.pieces.empty();
  if (row.reads_process && !row.channel->reads) {
    return failure(ErrorCode::permission_denied,
                   "the memory of the holder cannot be read from here; it has to offer a copy");
  }
  std::vector<Copy> made;
  here.mapped = shared_.medium.of_host();
  there.process = row.channel->process;
  if (!here.pieces.empty()) made.push_back(std::move(here));
  if (!there.pieces.empty()) made.push_back(std::move(there));
  return made;
}

void ShmReceiver::begin(RowAt at) {
  Row& row = at->second;
  const TransferId transfer = at->first;
  const Time now = monotonic_now();
  row.began = now;
  const auto stands = offer_stands(*row.files.at(row.ticket.ledger.number), row.ticket.mark);
  if (!stands) return end(at, stands.error(), now);
  if (!*stands) return end(at, failure(ErrorCode::not_found, "the offer has been released"), now);
  if (row.mapped) return give_map(at);
  auto copies = copies_of(row);
  if (!copies) return end(at, copies.error(), now);
  if (row.bytes == 0 || (shared_.medium.of_host() && row.bytes <= copied_at_once)) {
    for (const Copy& copy : *copies) {
      if (auto done = copy_now(copy); !done) row.why = done.error();
    }
    return finish(at);
  }
  for (Copy& copy : *copies) {
    copy.ended = [this, transfer](const CopyEnd& end) { on_copied(transfer, end); };
    const auto started = shared_.copies.start(std::move(copy));
    if (!started) {
      row.why = started.error();
      for (const std::uint64_t other : row.copy) shared_.copies.stop(other);
      break;
    }
    ++row.copies;
    row.copy.push_back(*started);
  }
  if (row.copies == 0) finish(at);
}

void ShmReceiver::on_copied(TransferId transfer, const CopyEnd& end) {
  const auto at = rows_.find(transfer);
  Row& row = at->second;
  row.began = std::max(row.began, end.began);
  if (!end.result && !row.why) row.why = end.result.error();
  if (--row.copies == 0) finish(at);
}

// Returns success if the copied bytes belonged to the offer until the end.
Result<void> ShmReceiver::still_right(const Row& row) const {
  const auto stands = offer_stands(*row.files.at(row.ticket.ledger.number), row.ticket.mark);
  if (!stands || !*stands) {
    return failure(ErrorCode::not_found, "the offer was released while it was read");
  }
  if (row.reads_process && has_ended(row.channel->alive)) return holder_gone(row.channel->key);
  return {};
}

void ShmReceiver::finish(RowAt at) {
  Row& row = at->second;
  Result<void> result = still_right(row);
  // The reason of a stop has priority. Then the state of the offer, which explains most other
  // failures.
  if (row.why && (row.why->code == ErrorCode::cancelled || row.lost || result)) result = *row.why;
  if (row.reads_process && !result && result.error().code == ErrorCode::unavailable)
    row.lost = true;
  end(at, result, monotonic_now());
}

void ShmReceiver::give_map(RowAt at) {
  Row& row = at->second;
  auto made =
      std::make_shared<MappedFiles>(row.files.at(row.ticket.ledger.number), row.ticket.mark);
  for (const ShmPiece& piece : row.ticket.pieces) {
    const auto mapping = piece.file ? row.files.at(piece.file->number) : nullptr;
    const std::size_t size = mapping ? mapping->bytes().size() : 0;
    if (mapping && (piece.at > size || piece.size > size - piece.at)) {
      return end(at, failure(ErrorCode::corrupt, "a ticket for bytes outside its file"), row.began);
    }
    made->add(mapping, piece.at, piece.size);
  }
  shared_.later.call([mapped = std::exchange(row.mapped, {}), made] { mapped({made}); });
  for (auto& quiet : row.quiet) shared_.later.call(std::move(quiet));
  rows_.erase(at);
}

void ShmReceiver::cancel(TransferId transfer, TensorTransport::Quiet quiet) {
  const auto at = rows_.find(transfer);
  if (at == rows_.end()) return shared_.later.call(std::move(quiet));
  at->second.quiet.push_back(std::move(quiet));
  stop(at, ended_by_owner(), false);
}

void ShmReceiver::stop(RowAt at, const Failure& why, bool lost) {
  Row& row = at->second;
  if (!row.why) {
    row.why = why;
    row.lost = lost;
  }
  if (row.copies == 0) return end(at, Failure(*row.why), monotonic_now());
  for (const std::uint64_t copy : row.copy) shared_.copies.stop(copy);
}

void ShmReceiver::end(RowAt at, const Result<void>& result, Time ended) {
  auto node = rows_.extract(at);
  Row& row = node.mapped();
  const bool was_cancelled = !result && result.error().code == ErrorCode::cancelled;
  ++(result          ? shared_.stats.pulled
     : was_cancelled ? shared_.stats.cancelled
                     : shared_.stats.failed);
  if (row.mapped) {
    shared_.later.call([mapped = std::move(row.mapped), why = result.error()] { mapped(why); });
  } else {
    TransferEnd report{.result = result, .peer_lost = row.lost};
    if (result) {
      report.bytes = row.bytes;
      report.queued = row.began - row.since;
      report.moving = ended - row.began;
      shared_.stats.pulled_bytes += row.bytes;
    }
    shared_.later.call([answer = std::move(row.ended), report] { answer(report); });
  }
  for (auto& quiet : row.quiet) shared_.later.call(std::move(quiet));
}

std::vector<TransferId> ShmReceiver::pulls() const {
  std::vector<TransferId> ids;
  for (const auto& [transfer, row] : rows_) ids.push_back(transfer);
  return ids;
}

void ShmReceiver::end_all(const ProcessId* peer, const Failure& why, const QuietGate& gate) {
  std::vector<ChannelPtr> gone;
  for (const auto& [key, channel] : channels_) {
    if (peer == nullptr || key.peer == *peer) gone.push_back(channel);
  }
  for (auto& [transfer, row] : rows_) {
    if (peer == nullptr || row.channel->key.peer == *peer) row.quiet.push_back(gate.add());
  }
  for (auto at = rows_.begin(); at != rows_.end();) {
    const auto each = at++;
    if (peer == nullptr || each->second.channel->key.peer == *peer) {
      stop(each, why, why.code == ErrorCode::unavailable);
    }
  }
  for (const ChannelPtr& channel : gone) drop_channel(channel, why, false);
}

}  // namespace mobula::internal
