#include "head/core/records/journal.h"

#include <algorithm>
#include <iterator>

namespace mobula::internal::head {
namespace {

// Row for a test of free space. It has as many bytes as failed and is erased after the write.
constexpr const char* space_table = "room";
constexpr const char* space_key = "tried";
constexpr std::size_t max_space_bytes = 1 << 20;

std::size_t size_of(const JournalChange& change) {
  return change.table.size() + change.key.size() + change.value.size();
}

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
  // Written alone, so that no other change fails with it.
  const bool tests_space =
      space_test_at_ && *space_test_at_ <= now && changes_.empty() && gates_.empty();
  if (tests_space) {
    put(space_table, space_key, Bytes(std::min(fault_bytes_, max_space_bytes)));
    space_batch_ = sealed_ + 1;
  }
  if (space_test_at_ && *space_test_at_ <= now) space_test_at_ = now + persist_again_;
  if (changes_.empty() && gates_.empty()) return std::nullopt;
  Persist command{++sealed_, {}};
  for (const auto& [change, gated] : changes_) command.changes.push_back(change);
  in_flight_.push_back(Batch{sealed_, std::move(changes_), std::move(gates_)});
  changes_.clear();
  gates_.clear();
  return command;
}

std::vector<Gate> Journal::persisted(std::uint64_t upto) {
  std::vector<Gate> passed;
  while (!in_flight_.empty() && in_flight_.front().n <= upto) {
    if (in_flight_.front().n == space_batch_) space_found();
    auto& gates = in_flight_.front().gates;
    passed.insert(passed.end(), std::make_move_iterator(gates.begin()),
                  std::make_move_iterator(gates.end()));
    in_flight_.pop_front();
  }
  return passed;
}

void Journal::space_found() {
  fault_.clear();
  fault_bytes_ = 0;
  space_test_at_.reset();
  space_batch_ = 0;
  erase(space_table, space_key);
}

std::vector<Gate> Journal::failed(Time now, const PersistFailed& event) {
  std::vector<Gate> refused;
  while (!in_flight_.empty() && in_flight_.front().n <= event.upto) {
    Batch& batch = in_flight_.front();
    fault_ = event.text.empty() ? "the journal cannot be written" : event.text;
    std::size_t bytes = 0;
    for (const auto& [change, gated] : batch.changes) bytes += size_of(change);
    fault_bytes_ = std::max(fault_bytes_, bytes);
    if (batch.n == space_batch_) batch.changes.clear();  // the test is repeated separately
    for (auto& [change, gated] : batch.changes) {
      const Key key{change.table, change.key};
      if (!gated) {
        unsaved_.insert_or_assign(key, std::move(change));
      } else {
        // The waiting request is rejected although the row may be on disk, so the row is erased.
        unsaved_.insert_or_assign(key, JournalChange{change.table, change.key, {}, true});
      }
    }
    refused.insert(refused.end(), std::make_move_iterator(batch.gates.begin()),
                   std::make_move_iterator(batch.gates.end()));
    in_flight_.pop_front();
  }
  if (!space_test_at_) space_test_at_ = now + persist_again_;
  // Later batches and pending changes are newer than the failed rows.
  for (const auto& batch : in_flight_) {
    for (const auto& [change, gated] : batch.changes) unsaved_.erase({change.table, change.key});
  }
  for (const auto& [change, gated] : changes_) unsaved_.erase({change.table, change.key});
  if (!unsaved_.empty() && !again_at_) again_at_ = now + persist_again_;
  return refused;
}

}  // namespace mobula::internal::head
