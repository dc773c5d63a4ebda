#include "client/executor/core/item_windows.h"

#include <algorithm>

#include "base/coverage_mark.h"

namespace mobula::internal::executor {
namespace {

const CoverageMark mark_full("executor.window_of_items_full");
const CoverageMark mark_has("executor.item_that_the_caller_has");

}  // namespace

void ItemWindows::open(std::uint64_t token, ProcessId caller, std::uint64_t number,
                       const StreamTerms& terms) {
  rows_.insert(token, Row{caller, number, terms, {}, 0});
}

bool ItemWindows::is_needed(std::uint64_t token, std::uint64_t index) const {
  const auto* row = rows_.find(token);
  if (row == nullptr) return true;
  const auto& missing = row->terms.missing;
  const bool needed =
      index >= row->terms.known || std::ranges::find(missing, index) != missing.end();
  if (!needed) mark_has.hit();
  return needed;
}

bool ItemWindows::has_space(std::uint64_t token, std::uint64_t index) const {
  const auto* row = rows_.find(token);
  // A lost item replaces one that consumers had before.
  if (row == nullptr || index < row->terms.known) return true;
  const bool space = index < row->terms.taken + row->terms.window &&
                     (row->waiting.empty() || row->waiting_bytes < stream_window_bytes);
  if (!space) mark_full.hit();
  return space;
}

void ItemWindows::sent(std::uint64_t token, std::uint64_t index, std::int64_t size_bytes) {
  auto* row = rows_.find(token);
  if (row == nullptr || index < std::max(row->terms.known, row->terms.taken)) return;
  row->waiting.push_back({index, size_bytes});
  row->waiting_bytes += size_bytes;
}

std::optional<std::uint64_t> ItemWindows::taken(ProcessId caller, std::uint64_t number,
                                                std::uint64_t taken) {
  for (auto& [token, row] : rows_) {
    if (row.caller != caller || row.number != number) continue;
    row.terms.taken = taken;
    while (!row.waiting.empty() && row.waiting.front().index < taken) {
      row.waiting_bytes -= row.waiting.front().size_bytes;
      row.waiting.pop_front();
    }
    return token;
  }
  return std::nullopt;
}

}  // namespace mobula::internal::executor
