#include "client/api/completion/completion_rows.h"

namespace mobula::detail {

CompletionRows::Number CompletionRows::add(std::uint64_t token, RawId object) {
  Slot slot = none;
  if (free_.empty()) {
    slot = static_cast<Slot>(entries_.size());
    entries_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Entry& entry = entries_[slot];
  entry = Entry{.token = token, .object = object, .uses = entry.uses + 1, .used = true};
  if (indexed_) index(slot);
  ++size_;
  return number_of(slot);
}

void CompletionRows::index(Slot slot) {
  Entry& entry = entries_[slot];
  const auto [latest, is_new] = by_token_.ensure(entry.token);
  if (!is_new) {
    entry.after = *latest;
    entries_[*latest].before = slot;
  }
  *latest = slot;
}

void CompletionRows::unindex(const Entry& entry) {
  if (entry.after != none) entries_[entry.after].before = entry.before;
  if (entry.before != none) {
    entries_[entry.before].after = entry.after;
  } else if (entry.after != none) {
    by_token_.at(entry.token) = entry.after;
  } else {
    by_token_.erase(entry.token);
  }
}

CompletionRows::Entry* CompletionRows::find_entry(Number number) {
  const auto slot = static_cast<Slot>(number);
  if (slot >= entries_.size() || !entries_[slot].used || number_of(slot) != number) return nullptr;
  return &entries_[slot];
}

void CompletionRows::set_ready(Number number) {
  Entry* entry = find_entry(number);
  if (entry == nullptr || entry->ready) return;
  const auto slot = static_cast<Slot>(number);
  entry->ready = true;
  entry->ready_before = last_ready_;
  (last_ready_ == none ? first_ready_ : entries_[last_ready_].ready_after) = slot;
  last_ready_ = slot;
}

void CompletionRows::unlist_ready(Entry& entry) {
  (entry.ready_before == none ? first_ready_ : entries_[entry.ready_before].ready_after) =
      entry.ready_after;
  (entry.ready_after == none ? last_ready_ : entries_[entry.ready_after].ready_before) =
      entry.ready_before;
}

void CompletionRows::remove(Slot slot) {
  Entry& entry = entries_[slot];
  if (entry.ready) unlist_ready(entry);
  if (indexed_) unindex(entry);
  entry.used = false;
  free_.push_back(slot);
  --size_;
}

std::size_t CompletionRows::take(std::span<std::uint64_t> tokens) {
  std::size_t count = 0;
  for (; count < tokens.size() && has_ready(); ++count) {
    tokens[count] = entries_[first_ready_].token;
    remove(first_ready_);
  }
  return count;
}

std::optional<CompletionRows::Row> CompletionRows::find(std::uint64_t token) {
  if (!indexed_) {
    indexed_ = true;
    for (Slot slot = 0; slot < entries_.size(); ++slot) {
      if (entries_[slot].used) index(slot);
    }
  }
  const Slot* slot = by_token_.find(token);
  if (slot == nullptr) return std::nullopt;
  return Row{number_of(*slot), entries_[*slot].object, entries_[*slot].ready};
}

void CompletionRows::erase(Number number) {
  if (find_entry(number) != nullptr) remove(static_cast<Slot>(number));
}

std::vector<RawId> CompletionRows::waiting() const {
  std::vector<RawId> objects;
  for (const Entry& each : entries_) {
    if (each.used && !each.ready) objects.push_back(each.object);
  }
  return objects;
}

}  // namespace mobula::detail
