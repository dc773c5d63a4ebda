// Bulk transfer between simulated nodes: objects that an agent offers, and chunks that other agents
// read from it.
#include <algorithm>

#include "sim/agent_role.h"

namespace mobula::internal::sim {
namespace {

constexpr std::int64_t file_bytes = 1000;

Failure broken() { return failure(ErrorCode::unavailable, "simulated: the bulk connection broke"); }

}  // namespace

// ---- offers to other agents --------------------------------------------------------------------

void Agent::offer(const worker::OfferObject& object) {
  Offer offer{.location = {object.slab.bits().low, static_cast<std::int64_t>(object.offset)},
              .size_bytes = object.size_bytes};
  offer_bytes(object.offer, offer, object.reader, object.plain);
}

void Agent::offer(const worker::OfferFile& file) {
  Offer offer{.file = true, .size_bytes = file_bytes};
  if (!node_.files.contains(file.file)) offer.size_bytes = 0;
  offer_bytes(file.offer, offer, file.reader, file.plain);
}

void Agent::offer_bytes(std::uint64_t number, const Offer& offer, ProcessId reader, bool plain) {
  worker::BulkOffered offered;
  offered.offer = number;
  offered.size_bytes = static_cast<std::int64_t>(offer.size_bytes);
  if (offer.size_bytes == 0) {
    offered.failure = failure(ErrorCode::not_found, "no such file here");
  } else {
    offered.token = token_for(reader);
    if (!plain) offered.key = "key";
    offers_[number] = offer;
    offers_[number].reader = reader;
  }
  world().kernel().after(Duration(20us), [this, offered] { take(offered); });
}

std::string Agent::token_for(ProcessId reader) const { return name() + " to " + reader.brief(); }

void Agent::withdraw(std::uint64_t number) {
  const auto at = offers_.find(number);
  if (at == offers_.end()) return;
  at->second.withdrawn = true;
  end_offer(number);
}

// An offer ends when it is withdrawn and no requested chunk is still being sent.
void Agent::end_offer(std::uint64_t number) {
  const auto at = offers_.find(number);
  if (at == offers_.end() || !at->second.withdrawn || at->second.reading > 0) return;
  offers_.erase(at);
  world().kernel().after(Duration(50us), [this, number] { take(worker::BulkServed{number}); });
}

Offer* Agent::begin_reading(std::uint64_t number, ProcessId reader, const std::string& token) {
  const auto at = offers_.find(number);
  if (at == offers_.end() || at->second.withdrawn) return nullptr;
  if (at->second.reader != reader || token != token_for(reader)) return nullptr;
  ++at->second.reading;
  return &at->second;
}

void Agent::end_reading(std::uint64_t number) {
  const auto at = offers_.find(number);
  if (at == offers_.end()) return;
  --at->second.reading;
  end_offer(number);
}

// Returns the content of one chunk of a location, or null if its bytes have not arrived yet.
const Content* Agent::part(LocationKey location, std::uint64_t offset) {
  if (const auto at = arriving_.find(location); at != arriving_.end()) {
    return at->second.parts.contains(offset) ? &at->second.content : nullptr;
  }
  const auto at = node_.memory.find(location);
  return at == node_.memory.end() ? nullptr : &at->second;
}

// ---- reads from other agents -------------------------------------------------------------------

void Agent::fetch(const worker::FetchBulk& command) {
  world().checkers().chunk_requested(*this, command, flights_);
  flights_[command.chunk] = command;
  Random& chance = world().bulk_chance();
  const Duration usual = chance.between(Duration(100us), Duration(20ms));
  const Duration slow = chance.between(Duration(100ms), Duration(3s));
  const bool fails = world().weather().bulk_fails > 0 && chance.chance(400);
  const bool corrupt = world().weather().bulk_corrupts > 0 && chance.chance(150);
  Agent* source = world().agent_of(command.from.incarnation);
  const bool served =
      source != nullptr && source->alive() &&
      source->begin_reading(command.offer, address_.incarnation, command.token) != nullptr;
  std::optional<Failure> why;
  if (!served) why = failure(ErrorCode::permission_denied, "simulated: this offer is over");
  if (fails) why = broken();
  if (corrupt) why = failure(ErrorCode::corrupt, "simulated: bytes were changed on their way");
  const Duration wait = world().weather().bulk_slow > 0 ? slow : usual;
  world().kernel().after(
      wait, [this, source, served, command, why] { arrives(source, served, command, why); });
}

// A paused source sends nothing but keeps the connection open.
void Agent::arrives(Agent* source, bool served, const worker::FetchBulk& command,
                    std::optional<Failure> why) {
  if (served && source->alive() && source->paused() && flights_.contains(command.chunk)) {
    world().kernel().after(Duration(20ms), [this, source, served, command, why] {
      arrives(source, served, command, why);
    });
    return;
  }
  const bool cut = source != nullptr && (world().blocked(source->host(), host()) ||
                                         world().blocked(host(), source->host()));
  if ((served && !source->alive()) || cut) why = broken();
  if (alive() && !why && flights_.contains(command.chunk)) write(*source, command);
  if (served && source->alive()) source->end_reading(command.offer);
  chunk_ended(command.chunk, why);
}

void Agent::write(Agent& source, const worker::FetchBulk& command) {
  Offer& offer = source.offers_.at(command.offer);
  if (offer.file) {
    files_[command.pull].parts[command.offset] = command.size_bytes;
    return;
  }
  const Content* content = source.part(offer.location, command.offset);
  world().checkers().chunk_read(*this, source, command, content);
  if (content == nullptr) return;
  const LocationKey location{command.slab.bits().low,
                             static_cast<std::int64_t>(command.slab_offset)};
  Arriving& here = arriving_[location];
  if (here.pull != command.pull) here = {command.pull, *content, {}};
  world().checkers().chunk_written(*this, command, here, *content);
  here.parts[command.offset] = command.size_bytes;
  if (sum_of(here) < offer.size_bytes) return;
  node_.memory[location] = here.content;
  arriving_.erase(location);
}

std::uint64_t Agent::sum_of(const Arriving& arriving) {
  std::uint64_t sum = 0;
  for (const auto& [offset, size] : arriving.parts) sum += size;
  return sum;
}

void Agent::chunk_ended(std::uint64_t chunk, std::optional<Failure> why) {
  if (flights_.erase(chunk) == 0) return;
  take(worker::ChunkFetched{chunk, std::move(why)});
}

// Breaks every outgoing bulk connection of this node. Each is opened again later.
void Agent::break_bulk() {
  const auto flights = std::exchange(flights_, {});
  for (const auto& [chunk, flight] : flights) take(worker::ChunkFetched{chunk, broken()});
}

void Agent::finish_file(std::uint64_t pull) {
  worker::PullFinished finished;
  finished.pull = pull;
  const auto at = files_.find(pull);
  if (at == files_.end() || sum_of(at->second) != file_bytes) {
    finished.failure = failure(ErrorCode::corrupt, "simulated: a program file with another hash");
  } else {
    node_.files.insert(at->second.file);
  }
  world().kernel().after(Duration(50us), [this, finished] { take(finished); });
}

}  // namespace mobula::internal::sim
