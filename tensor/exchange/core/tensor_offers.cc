#include "tensor/exchange/core/tensor_offers.h"

#include <algorithm>

#include "base/coverage_mark.h"
#include "tensor/exchange/core/tensor_chunks.h"

namespace mobula::internal::transfer {
namespace {

const CoverageMark mark_redirected("regions.reader_sent_to_a_copy");
const CoverageMark mark_wait("regions.reader_waits");
const CoverageMark mark_deferred("regions.free_deferred");
const CoverageMark mark_slow_reader("regions.slow_reader_yields");
const CoverageMark mark_greedy_reader("regions.reader_has_as_many_as_it_may");
const CoverageMark mark_part_kept("regions.part_given_on");
const CoverageMark mark_evacuated("regions.evacuated");
const CoverageMark mark_evacuation_failed("regions.evacuation_failed");

}  // namespace

void TensorOffers::register_tensor(ObjectId object, std::uint64_t size_bytes,
                                   std::uint32_t device_ordinal) {
  stored_.erase(object);
  auto& row = rows_[object];
  row.size_bytes = size_bytes;
  row.device_ordinal = device_ordinal;
}

bool TensorOffers::keep(ObjectId object, std::uint64_t size_bytes, std::uint32_t part,
                        ProcessId from) {
  auto* known = rows_.find(object);
  if (known != nullptr && (!known->is_copy || known->retired || known->size_bytes != size_bytes))
    return false;
  auto& row = known == nullptr ? rows_[object] : *known;
  row.size_bytes = size_bytes;
  row.is_copy = true;
  row.kept.insert(part);
  row.notified.insert(from);
  mark_part_kept.hit();
  return true;
}

void TensorOffers::unregister(ObjectId object) {
  stored_.erase(object);
  auto* row = rows_.find(object);
  if (row == nullptr || row->retired) return;
  row->retired = true;
  refuse_waiting(*row, RegionRefusal::gone, {}, [](const Serve&) { return true; });
  for (const auto each : row->notified) context_.send(each, ReplicaEvicted{object});
  if (!row->active.empty()) mark_deferred.hit();
  settle(object);
}

void TensorOffers::evacuate(ObjectId object) {
  auto* row = rows_.find(object);
  if (row == nullptr) return;
  if (row->is_copy) return unregister(object);  // its producer has all bytes
  row->leaving = true;
  settle(object);
}

void TensorOffers::stored(ObjectId object, const std::optional<Failure>& failure) {
  auto* row = rows_.find(object);
  if (row == nullptr || !row->storing) return;
  row->storing = row->leaving = false;
  if (failure) {
    mark_evacuation_failed.hit();
    refuse_waiting(*row, RegionRefusal::failed, failure->text,
                   [](const Serve& serve) { return serve.path == DirectPath::store; });
    settle(object);
    return go_on(object);
  }
  mark_evacuated.hit();
  refuse_waiting(*row, RegionRefusal::stored, {}, [](const Serve&) { return true; });
  if (!row->retired) stored_.insert(object);
  row->retired = true;
  settle(object);
}

// ---- readers ------------------------------------------------------------------------------------

std::size_t TensorOffers::most_at_once(const Row& row, const Serve& serve) const {
  if (serve.part != 0) return context_.options.max_serves_of_chunk;
  if (row.size_bytes < context_.options.redirect_from_bytes) return context_.options.max_serves;
  const bool by_network = serve.path == DirectPath::tcp || is_of_plugin(serve.path);
  return by_network ? context_.options.max_serves_over_network
                    : context_.options.max_serves_of_object;
}

bool TensorOffers::may_start(const Row& row, const Serve& serve) const {
  if (row.leaving || counted_ >= context_.options.max_serves) return false;
  const auto use = peers_.find(serve.peer);
  if (use != peers_.end() && use->second.active >= context_.options.max_serves_of_peer)
    return false;
  if (use != peers_.end() && serve.part != 0 &&
      use->second.parts >= context_.options.max_parts_of_peer)
    return false;
  const auto part = row.parts.find(serve.part);
  return part == row.parts.end() || part->second.counted < most_at_once(row, serve);
}

bool TensorOffers::is_better_elsewhere(const Row& row, const Serve& serve) const {
  const auto part = row.parts.find(serve.part);
  return serve.part != 0 && counted_ > 0 && part != row.parts.end() && !part->second.copies.empty();
}

bool TensorOffers::is_part(const Row& row, std::uint32_t part) const {
  if (row.is_copy) return row.kept.contains(part);
  if (context_.options.chunk_bytes == 0) return part == 0;
  return part <= parts_of(row.size_bytes, context_.options.chunk_bytes);
}

void TensorOffers::discount(ServeId id, Serve& serve, Row& row) {
  if (serve.due) due_.erase({*serve.due, id});
  serve.due.reset();
  if (!std::exchange(serve.counted, false)) return;
  --counted_;
  --row.parts.at(serve.part).counted;
}

template <class Which>
void TensorOffers::refuse_waiting(Row& row, RegionRefusal why, const std::string& text,
                                  Which which) {
  for (auto& [number, part] : row.parts) {
    for (const auto id : std::vector<ServeId>(part.waiting.begin(), part.waiting.end())) {
      const auto& serve = serves_.at(id);
      if (!which(serve)) continue;
      refuse(serve, why, text);
      std::erase(part.waiting, id);
      leave_line(serve, row);
      gone(id);
    }
  }
}

void TensorOffers::leave_line(const Serve& serve, Row& row) {
  --waiting_;
  --row.waiting;
  const auto use = peers_.find(serve.peer);
  if (--use->second.waiting == 0 && use->second.active == 0) peers_.erase(use);
}

void TensorOffers::refuse(const Serve& serve, RegionRefusal why, std::string text,
                          std::vector<ProcessId> others) {
  const auto epoch = serve.stage == Stage::ready ? steps_.epoch(serve.channel) : 0;
  context_.send(
      serve.peer,
      PullTensorRejected{serve.transfer, why, std::move(text), epoch, std::move(others), {}});
}

void TensorOffers::on(ProcessId from, const PullTensorRequest& message) {
  if (const auto known = by_transfer_.find({from, message.transfer}); known != by_transfer_.end()) {
    const auto& serve = serves_.at(known->second);
    if (serve.stage == Stage::ready) return report_ready(serve);
    return context_.send(from, PullTensorQueued{serve.transfer});
  }
  Serve serve;
  serve.peer = from;
  serve.transfer = message.transfer;
  serve.object = message.object;
  serve.part = message.part;
  serve.path = message.path;
  serve.may_redirect = message.may_redirect;
  auto* row = rows_.find(message.object);
  if (row == nullptr || row->retired) {
    return refuse(serve,
                  stored_.contains(message.object) ? RegionRefusal::stored : RegionRefusal::gone);
  }
  if (row->size_bytes != message.size_bytes) {
    return refuse(serve, RegionRefusal::wrong_size,
                  "it has " + std::to_string(row->size_bytes) + " bytes");
  }
  if (!is_part(*row, message.part)) {
    return refuse(serve, row->is_copy ? RegionRefusal::gone : RegionRefusal::wrong_size,
                  "it has no such part");
  }
  const bool to_store = message.path == DirectPath::store;
  if (message.part != 0 && (is_two_sided(message.path) || (to_store && row->is_copy))) {
    return refuse(serve, RegionRefusal::no_path);
  }
  serve.channel = {from, message.path, row->device_ordinal, message.device_ordinal};
  if (!to_store && is_better_elsewhere(*row, serve) && redirect(serve, *row)) return;
  if (!to_store && may_start(*row, serve)) {
    const ServeId id = ++last_;
    by_transfer_[{from, message.transfer}] = id;
    return start(id, serves_[id] = std::move(serve), *row);
  }
  if (!to_store && redirect(serve, *row)) return;
  if (waiting_ >= context_.options.max_serves_waiting) {
    return refuse(serve, RegionRefusal::too_many, std::to_string(waiting_) + " wait there");
  }
  auto& use = peers_[from];
  if (use.waiting >= context_.options.max_waiting_of_peer) {
    return refuse(serve, RegionRefusal::too_many,
                  std::to_string(use.waiting) + " pulls of this process wait there");
  }
  mark_wait.hit();
  if (use.active >= context_.options.max_serves_of_peer) mark_greedy_reader.hit();
  ++use.waiting;
  const ServeId id = ++last_;
  by_transfer_[{from, message.transfer}] = id;
  row->parts[message.part].waiting.push_back(id);
  ++row->waiting;
  ++waiting_;
  context_.send(from, PullTensorQueued{message.transfer});
  serves_[id] = std::move(serve);
  if (to_store) evacuate(message.object);
}

bool TensorOffers::redirect(const Serve& serve, Row& row) {
  const auto at = row.parts.find(serve.part);
  if (serve.part == 0 || !serve.may_redirect || at == row.parts.end()) return false;
  auto& part = at->second;
  for (std::size_t i = 0; i < part.copies.size(); ++i) {
    const auto copy = part.copies[(part.next_copy + i) % part.copies.size()];
    if (copy == serve.peer) continue;
    part.next_copy = (part.next_copy + i + 1) % part.copies.size();
    mark_redirected.hit();
    refuse(serve, RegionRefusal::redirected, {}, {copy});
    return true;
  }
  return false;
}

void TensorOffers::start(ServeId id, Serve& serve, Row& row) {
  row.active.push_back(id);
  ++counted_;
  ++row.parts[serve.part].counted;
  auto& use = peers_[serve.peer];
  ++use.active;
  if (serve.part != 0) ++use.parts;
  serve.counted = true;
  serve.due = context_.now + (serve.part != 0 ? context_.options.chunk_offer_quantum
                                              : context_.options.offer_quantum);
  due_.emplace(*serve.due, id);
  serve.stage = Stage::exporting;
  serve.operation = ++context_.last_operation;
  operations_[serve.operation] = id;
  context_.out->push_back(OfferTensor{serve.operation, serve.object, serve.path, serve.peer,
                                      serve.channel.peer_ordinal, serve.part});
}

bool TensorOffers::exported(OperationId operation, const Result<std::string>& ticket) {
  const auto at = operations_.find(operation);
  if (at == operations_.end()) return false;
  const ServeId id = at->second;
  auto& serve = serves_.at(id);
  if (!ticket) {
    operations_.erase(at);
    if (!serve.over) refuse(serve, RegionRefusal::failed, ticket.error().text);
    gone(id);
    return true;
  }
  if (serve.over) {
    unexport(id, serve);
    return true;
  }
  serve.stage = Stage::ready;
  serve.ticket = *ticket;
  report_ready(serve);
  if (is_two_sided(serve.path)) {
    steps_.begin({serve.peer, serve.transfer, false},
                 {serve.channel, serve.object, 0, rows_.at(serve.object).size_bytes});
  }
  return true;
}

void TensorOffers::report_ready(const Serve& serve) {
  const auto epoch = is_two_sided(serve.path) ? steps_.epoch(serve.channel) : 0;
  context_.send(serve.peer,
                PullTensorReply{serve.transfer, serve.ticket, serve.channel.device_ordinal, epoch});
}

void TensorOffers::on(ProcessId from, const PullTensorComplete& message) {
  const auto at = by_transfer_.find({from, message.transfer});
  if (at == by_transfer_.end()) return;
  const auto object = serves_.at(at->second).object;
  const auto number = serves_.at(at->second).part;
  end(at->second, true);
  auto* row = rows_.find(object);
  if (row == nullptr || row->retired || !message.keeps || number == 0) return;
  auto& part = row->parts[number];
  const bool is_new = std::ranges::find(part.copies, from) == part.copies.end();
  if (!is_new || part.copies.size() >= context_.options.max_copies_known) return;
  part.copies.push_back(from);
  // Waiting readers can be redirected now: all of them if this process is busy with other offers,
  // otherwise every second one.
  const bool is_busy = counted_ > part.counted;
  bool goes = false;
  for (const auto id : std::vector<ServeId>(part.waiting.begin(), part.waiting.end())) {
    const auto& serve = serves_.at(id);
    goes = is_busy || !goes;
    if (!goes) continue;
    if (row->leaving || serve.path == DirectPath::store || !redirect(serve, *row)) continue;
    std::erase(part.waiting, id);
    leave_line(serve, *row);
    gone(id);
  }
}

void TensorOffers::on(ProcessId from, const PullTensorCancelled& message) {
  const auto at = by_transfer_.find({from, message.transfer});
  if (at == by_transfer_.end()) return;
  const auto& serve = serves_.at(at->second);
  if (is_two_sided(serve.path)) steps_.raise_epoch(serve.channel, message.epoch);
  end(at->second);
}

void TensorOffers::on(ProcessId from, const ReplicaEvicted& message) {
  auto* row = rows_.find(message.object);
  if (row == nullptr) return;
  for (auto& [number, part] : row->parts) std::erase(part.copies, from);
}

// The reader reports that it has no pull in progress.
void TensorOffers::on(ProcessId from, const CloseConnectionRequest& message) {
  end_all_of(from);
  for (auto& [object, row] : rows_) {
    for (auto& [number, part] : row.parts) std::erase(part.copies, from);
  }
  context_.send(from, CloseConnectionReply{message.round});
}

bool TensorOffers::keeps_of(ProcessId holder) const {
  for (const auto& [object, row] : rows_) {
    if (row.notified.contains(holder)) return true;
  }
  return false;
}

void TensorOffers::end(ServeId id, bool taken) {
  auto& serve = serves_.at(id);
  switch (serve.stage) {
    case Stage::waiting: {
      auto& row = rows_.at(serve.object);
      std::erase(row.parts.at(serve.part).waiting, id);
      leave_line(serve, row);
      return gone(id);
    }
    case Stage::exporting: serve.over = true; return;
    case Stage::ready: {
      const SideKey side{serve.peer, serve.transfer, false};
      if (!steps_.has(side)) return unexport(id, serve);
      serve.stage = Stage::stopping;
      return taken ? steps_.finish(side) : steps_.stop(side);  // `side_news` continues
    }
    case Stage::stopping:
    case Stage::unexporting: return;
  }
}

void TensorOffers::side_news(const SideNews& news) {
  const auto at = by_transfer_.find({news.key.peer, news.key.transfer});
  if (at == by_transfer_.end()) return;
  auto& serve = serves_.at(at->second);
  if (serve.stage == Stage::ready && news.failure)
    refuse(serve, RegionRefusal::failed, news.failure->text);
  unexport(at->second, serve);
}

void TensorOffers::unexport(ServeId id, Serve& serve) {
  if (serve.stage == Stage::unexporting) return;
  serve.stage = Stage::unexporting;
  operations_[serve.operation] = id;
  context_.out->push_back(WithdrawOffer{serve.operation});
}

bool TensorOffers::ended(OperationId operation) {
  const auto at = operations_.find(operation);
  if (at == operations_.end()) return false;
  const ServeId id = at->second;
  if (serves_.at(id).stage != Stage::unexporting) return true;
  operations_.erase(at);
  gone(id);
  return true;
}

// Removes the offer from all tables; other readers of the object continue.
void TensorOffers::gone(ServeId id) {
  const auto at = serves_.find(id);
  const auto object = at->second.object;
  const bool was_active = at->second.stage != Stage::waiting;
  const auto peer = at->second.peer;
  const bool is_part = at->second.part != 0;
  if (was_active) discount(id, at->second, rows_.at(object));
  by_transfer_.erase({peer, at->second.transfer});
  serves_.erase(at);
  if (!was_active) return;
  const auto use = peers_.find(peer);
  if (is_part) --use->second.parts;
  if (--use->second.active == 0 && use->second.waiting == 0) peers_.erase(use);
  std::erase(rows_.at(object).active, id);
  settle(object);
  go_on_all();
}

void TensorOffers::end_all_of(ProcessId peer) {
  std::vector<ServeId> ids;
  for (const auto& [key, id] : by_transfer_) {
    if (key.first == peer) ids.push_back(id);
  }
  for (const auto id : ids) {
    if (serves_.contains(id)) end(id);
  }
}

void TensorOffers::peer_gone(ProcessId peer) {
  end_all_of(peer);
  for (auto& [object, row] : rows_) {
    row.notified.erase(peer);
    for (auto& [number, part] : row.parts) std::erase(part.copies, peer);
  }
}

void TensorOffers::go_on(ObjectId object) {
  auto* row = rows_.find(object);
  if (row == nullptr) return;
  for (auto& [number, part] : row->parts) {
    while (!part.waiting.empty() && counted_ < context_.options.max_serves) {
      if (number != 0 && part.counted >= context_.options.max_serves_of_chunk) break;
      const auto next = std::ranges::find_if(part.waiting, [&](ServeId id) {
        const Serve& serve = serves_.at(id);
        return serve.path != DirectPath::store && may_start(*row, serve);
      });
      if (next == part.waiting.end()) break;
      const ServeId id = *next;
      part.waiting.erase(next);
      auto& serve = serves_.at(id);
      leave_line(serve, *row);
      start(id, serve, *row);
    }
  }
}

void TensorOffers::go_on_all() {
  if (waiting_ == 0) return;
  for (const auto& [object, row] : rows_) {
    if (row.waiting > 0) go_on(object);
  }
}

void TensorOffers::tick() {
  bool has_space = false;
  while (!due_.empty() && due_.begin()->first <= context_.now) {
    const ServeId id = due_.begin()->second;
    auto& serve = serves_.at(id);
    mark_slow_reader.hit();
    discount(id, serve, rows_.at(serve.object));
    has_space = true;
  }
  if (has_space) go_on_all();
}

std::optional<Time> TensorOffers::next_deadline() const {
  return due_.empty() ? std::nullopt : std::optional(due_.begin()->first);
}

// Readers may continue during the copy to the store; the bytes are freed when no offer is active.
void TensorOffers::settle(ObjectId object) {
  auto* row = rows_.find(object);
  if (row == nullptr || row->storing) return;
  if (row->retired) {
    if (!row->active.empty()) return;
    rows_.erase(object);
    context_.out->push_back(FreeRegions{object});
    return;
  }
  if (!row->leaving) return;
  row->storing = true;
  context_.out->push_back(StoreRegions{object});
}

}  // namespace mobula::internal::transfer
