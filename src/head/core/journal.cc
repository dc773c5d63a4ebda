#include "head/core/journal.h"

#include <iterator>

namespace mobula::internal::head {
namespace {

constexpr Duration fault_is_remembered = 60s;

}  // namespace

void Journal::add(JournalChange change, bool gated) {
  unsaved_.erase({change.table, change.key});
  changes_.emplace_back(std::move(change), gated);
}

void Journal::put(const std::string& table, const std::string& key, Bytes value, bool gated) {
  add(JournalChange{table, key, std::move(value), false}, gated);
}

void Journal::erase(const std::string& table, const std::string& key) {
  add(JournalChange{table, key, {}, true}, false);
}

std::optional<Persist> Journal::seal(Time now) {
  if (again_at_ && *again_at_ <= now) {
    again_at_.reset();
    for (auto& [key, change] : unsaved_) changes_.emplace_back(std::move(change), false);
    unsaved_.clear();
  }
  if (changes_.empty() && gates_.empty()) return std::nullopt;
  Persist command{++sealed_, {}};
  for (const auto& [change, gated] : changes_) command.changes.push_back(change);
  in_flight_.push_back(Batch{sealed_, std::move(changes_), std::move(gates_)});
  changes_.clear();
  gates_.clear();
  return command;
}

std::vector<Gate> Journal::persisted(Time now, std::uint64_t upto) {
  std::vector<Gate> passed;
  bool written = false;  // a batch of nothing but gates says nothing about the disk
  while (!in_flight_.empty() && in_flight_.front().n <= upto) {
    written = written || !in_flight_.front().changes.empty();
    auto& gates = in_flight_.front().gates;
    passed.insert(passed.end(), std::make_move_iterator(gates.begin()),
                  std::make_move_iterator(gates.end()));
    in_flight_.pop_front();
  }
  if (written && now - fault_at_ >= fault_is_remembered) fault_.clear();
  return passed;
}

std::vector<Gate> Journal::failed(Time now, const PersistFailed& event) {
  std::vector<Gate> refused;
  while (!in_flight_.empty() && in_flight_.front().n <= event.upto) {
    Batch& batch = in_flight_.front();
    fault_ = event.text.empty() ? "the journal cannot be written" : event.text;
    for (auto& [change, gated] : batch.changes) {
      const Key key{change.table, change.key};
      if (!gated) {
        unsaved_.insert_or_assign(key, std::move(change));
      } else {
        // Who waited is refused, and the disk may have it all the same: it is to be gone.
        unsaved_.insert_or_assign(key, JournalChange{change.table, change.key, {}, true});
      }
    }
    refused.insert(refused.end(), std::make_move_iterator(batch.gates.begin()),
                   std::make_move_iterator(batch.gates.end()));
    in_flight_.pop_front();
  }
  fault_at_ = now;
  // What was written later, or waits to be, is newer than what failed.
  for (const auto& batch : in_flight_) {
    for (const auto& [change, gated] : batch.changes) unsaved_.erase({change.table, change.key});
  }
  for (const auto& [change, gated] : changes_) unsaved_.erase({change.table, change.key});
  if (!unsaved_.empty() && !again_at_) again_at_ = now + persist_again_;
  return refused;
}

}  // namespace mobula::internal::head
